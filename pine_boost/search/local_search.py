"""Local search in the region: points near the boundary, and counterexamples without a solver.

What is found is only a proposal; `Constraints` checks it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.routing import LeafMasks, StateTrees, leaf_masks
from pine_boost.model.states import StateSpace
from pine_boost.proof.problem import Problem
from pine_boost.region.score_tables import RegionTables
from pine_boost.search.constraints import distinct_rows

_ENOUGH = 60  # counterexamples to one question in one climb


def boundary_walks(
    moves: SingleFeatureMoves, starts: npt.NDArray[Any], seed: int, budget: Budget, max_steps: int = 12
) -> npt.NDArray[np.int32]:
    """Walk one feature at a time towards the original's boundary; returns all points passed, on both sides.

    Every step considers a random half of the features, so that walks from similar points differ.
    """
    problem = moves.problem
    random = np.random.default_rng(seed)
    passed: list[npt.NDArray[np.int32]] = []
    values = moves.values()
    for start in range(0, len(starts), moves.batch):
        rows = np.array(starts[start : start + moves.batch], dtype=np.int32)
        decision = problem.forest.decision
        leaves = problem.trees.leaves(rows)
        nearest = decision.distance(_margins(problem, leaves))
        for _ in range(max_steps):
            seen = random.random((len(rows), problem.space.n_features)) < 0.5
            steps = _Best(rows, np.full(len(rows), np.inf))
            across = _Best(rows, np.full(len(rows), np.inf))
            own = decision.classes(_margins(problem, leaves))[:, None]
            for near in moves.of(rows, budget, values, leaves):
                margins = _real(problem, near.original)
                distance = decision.distance(margins)
                usable = near.inside & seen[:, near.feature, None]
                steps.offer(near.feature, np.where(usable, distance, np.inf))
                other = near.inside & (decision.classes(margins) != own)
                across.offer(near.feature, np.where(other, distance, np.inf))
            passed.append(across.moved()[across.cost < np.inf])
            closer = steps.cost < nearest
            if not closer.any():
                break
            rows, nearest = steps.moved()[closer], steps.cost[closer]
            leaves = problem.trees.leaves(rows)
            passed.append(rows)
    if not passed:
        return np.zeros((0, problem.space.n_features), dtype=np.int32)
    return distinct_rows(problem, np.concatenate(passed))


def wander(
    problem: Problem, starts: npt.NDArray[Any], seed: int, n_moves: int, budget: Budget
) -> npt.NDArray[np.int32]:
    """Random one-feature moves within the region: points from all over it."""
    random = np.random.default_rng(seed)
    rows = np.array(starts, dtype=np.int32)
    counts = np.array([np.count_nonzero(allowed) for allowed in problem.region.allowed])
    states = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for feature, allowed in enumerate(problem.region.allowed):
        states[feature, : counts[feature]] = np.flatnonzero(allowed)
    varying = np.flatnonzero(counts > 1)
    for _ in range(n_moves if len(varying) else 0):
        budget.check()
        moved = random.choice(varying, len(rows))
        trial = rows.copy()
        picked = (random.random(len(rows)) * counts[moved]).astype(np.int64)
        trial[np.arange(len(rows)), moved] = states[moved, picked]
        inside = problem.region.contains(trial)
        rows[inside] = trial[inside]
    return rows


def climb(
    moves: SingleFeatureMoves,
    starts: npt.NDArray[Any],
    asked: IntArray,
    pruned_int: IntArray,
    needed: IntArray,
    budget: Budget,
    max_steps: int = 20,
) -> npt.NDArray[np.int32]:
    """Lower the pruned margin step by step while the original keeps its class; returns counterexamples.

    ``asked`` is the index of each start's question, ``needed`` the least margin that keeps each
    question; a question with enough counterexamples is not followed further.
    """
    problem = moves.problem
    found: list[npt.NDArray[np.int32]] = []
    n_found = np.zeros(len(problem.questions), dtype=np.int64)
    values, sides = moves.values(pruned_int), _RowSides(problem)
    for start in range(0, len(starts), moves.batch):
        rows = np.array(starts[start : start + moves.batch], dtype=np.int32)
        own = asked[start : start + moves.batch]
        lowest = np.full(len(rows), exact.WORD_LIMIT, dtype=np.int64)
        for _ in range(max_steps):
            steps = _Best(rows, lowest)
            for near in moves.of(rows, budget, values):
                assert near.pruned is not None
                usable = near.inside & sides.decided(near.original, own)
                side = np.where(usable, sides.of(near.pruned, own), exact.WORD_LIMIT)
                state, cost = steps.offer(near.feature, side)
                lost = np.flatnonzero(cost < needed[own])
                if len(lost):
                    violated = rows[lost]
                    violated[:, near.feature] = state[lost]
                    found.append(violated)
                    n_found += np.bincount(own[lost], minlength=len(n_found))
            lower = (steps.cost < lowest) & (n_found[own] < _ENOUGH)
            if not lower.any():
                break
            rows, lowest, own = steps.moved()[lower], steps.cost[lower], own[lower]
    if not found:
        return np.zeros((0, problem.space.n_features), dtype=np.int32)
    return distinct_rows(problem, np.concatenate(found))


class _RowSides:
    """Sides of changed rows, each for the question of its own row."""

    def __init__(self, problem: Problem) -> None:
        self.least, self.is_single = problem.least, problem.forest.n_outputs == 1
        self.sign = np.array([question.sign for question in problem.questions])
        self.pairs = np.array([[question.plus, question.minus] for question in problem.questions])
        # `least` by class and rival; a class need not beat itself
        self.least_over = np.full((problem.forest.n_outputs,) * 2, -exact.WORD_LIMIT)
        self.least_over[self.pairs[:, 0], self.pairs[:, 1]] = self.least

    def of(self, margins: IntArray, asked: IntArray) -> IntArray:
        """Sides (n_rows, n_changes) of margins (n_rows, n_changes, n_outputs)."""
        if self.is_single:
            return np.asarray(self.sign[asked, None] * margins[..., 0])
        own, rival = np.moveaxis(np.take_along_axis(margins, self.pairs[asked, None], axis=-1), -1, 0)
        return np.asarray(own - rival)

    def decided(self, original: IntArray, asked: IntArray) -> npt.NDArray[np.bool_]:
        """Whether the original certainly decides for the side of each row's question."""
        if self.is_single:
            return np.asarray(self.of(original, asked) >= self.least[asked, None])
        plus = self.pairs[asked, 0]
        own = np.take_along_axis(original, plus[:, None, None], axis=-1)
        return np.asarray((own - original >= self.least_over[plus, None]).all(axis=-1))


class _Best:
    """The cheapest one-feature change of each row seen so far."""

    def __init__(self, rows: npt.NDArray[np.int32], cost: npt.NDArray[Any]) -> None:
        self.rows = rows
        self.cost = cost.copy()
        self.feature: IntArray = np.full(len(rows), -1, dtype=np.int64)
        self.state: IntArray = np.zeros(len(rows), dtype=np.int64)

    def offer(self, feature: int, cost: npt.NDArray[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
        """Consider the changes of a feature; returns its cheapest state per row, and the cost."""
        best = np.argmin(cost, axis=1)
        value = cost[np.arange(len(cost)), best]
        better = value < self.cost
        self.cost[better] = value[better]
        self.feature[better] = feature
        self.state[better] = best[better]
        return best, value

    def moved(self) -> npt.NDArray[np.int32]:
        rows = self.rows.copy()
        changed = np.flatnonzero(self.feature >= 0)
        rows[changed, self.feature[changed]] = self.state[changed]
        return rows


def _margins(problem: Problem, leaves: npt.NDArray[np.int32]) -> FloatArray:
    return _real(problem, problem.original_margins_int(leaves))


def _real(problem: Problem, margins: IntArray) -> FloatArray:
    """Margins as real numbers: only to see how near the boundary a walk is."""
    return np.ldexp(margins.astype(np.float64), -problem.scale)


# Margins and region membership of all points that differ from a batch of points in one feature. Works on integers with
# leaf bitmasks: the AND of all other features' masks is shared by all states of the changed feature.
_TABULATED_LEAVES = 8  # of a tree: 256 sets of leaves
_MOST_TABULATED = 2 * 10**7  # numbers in all tables: 160 MB
_CELLS = 3_000_000  # rows x states x trees of one feature held at once


@dataclass(frozen=True, eq=False)
class MaskedTrees:
    """Trees prepared for one-feature changes."""

    trees: StateTrees
    masks: npt.NDArray[Any]
    state_offset: IntArray
    users: tuple[IntArray, ...]  # per feature the trees that split on it
    bit_leaf: npt.NDArray[np.int32] | None  # leaf of each one-bit word of up to 16 bits
    n_masks: int  # sets of leaves of one tree, if few enough to be tabulated; else 0

    def without(self, states: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """AND of the masks of all features but one: (n_features, n_rows, n_trees, n_words).

        Only for features that some tree splits on.
        """
        shape = (len(states), *self.masks.shape[1:])
        used = [j for j, users in enumerate(self.users) if len(users)]
        own = [self.masks.take(self.state_offset[j] + states[:, j], axis=0) for j in used]
        others = np.empty((states.shape[1], *shape), dtype=self.masks.dtype)
        everything = self.n_masks - 1 if self.n_masks else np.iinfo(self.masks.dtype).max
        running = np.full(shape, everything, dtype=self.masks.dtype)
        for j, mask in zip(used, own, strict=True):
            others[j] = running
            running = running & mask
        running = np.full(shape, everything, dtype=self.masks.dtype)
        for j, mask in zip(reversed(used), reversed(own), strict=True):
            others[j] &= running
            running = running & mask
        return others

    def changed_leaves(self, others: npt.NDArray[Any], feature: int) -> npt.NDArray[np.int32]:
        """Leaves in the trees that use ``feature``, for each of its states: (n, n_states, t)."""
        users = self.users[feature]
        start, stop = self.state_offset[feature], self.state_offset[feature + 1]
        own = self.masks[start:stop, users]
        words = others[feature][:, None, users] & own[None]
        return self._leaf_numbers(words) + self.trees.leaf_offset[users].astype(np.int32)

    def _leaf_numbers(self, words: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        if self.bit_leaf is not None:
            return self.bit_leaf.take(words[..., 0])
        # exactly one bit is set, so the double is a power of two and its exponent the position
        number = np.zeros(words.shape[:-1], dtype=np.int32)
        for word in range(words.shape[-1]):
            exponent = np.frexp(words[..., word].astype(np.float64))[1]
            number += np.where(exponent > 0, exponent - 1 + 64 * word, 0).astype(np.int32)
        return number

    def tables(self, values: IntArray) -> list[IntArray] | None:
        """Per feature what each tree adds for every set of leaves that the other features leave.

        One line of (n_states, n_columns) per (tree, set); None for large trees, or if the tables
        would need too much memory.
        """
        states = np.diff(self.state_offset[: len(self.users) + 1])
        n_lines = self.n_masks * np.array([len(users) for users in self.users])
        if not self.n_masks or n_lines @ states * values.shape[1] > _MOST_TABULATED:
            return None
        n_leaves = self.n_masks.bit_length() - 1
        single = np.zeros((self.trees.n_trees, self.n_masks, values.shape[1]), dtype=np.int64)
        for leaf in range(n_leaves):
            own = np.flatnonzero(np.diff(self.trees.leaf_offset) > leaf)
            single[own, 1 << leaf] = values[self.trees.leaf_offset[own] + leaf]
        sets = np.arange(self.n_masks)
        tables = []
        for feature, users in enumerate(self.users):
            start, stop = self.state_offset[feature], self.state_offset[feature + 1]
            left = self.masks[start:stop, users, 0].T[:, None] & sets[:, None]
            lines = single[users[:, None, None], left]  # (n_users, n_masks, n_states, n_columns)
            tables.append(lines.reshape(len(users) * self.n_masks, *lines.shape[2:]))
        return tables

    def tabulated(self, table: IntArray, others: npt.NDArray[Any], feature: int) -> IntArray:
        """Sums over the trees that use ``feature``, for each of its states: (n, n_states, c)."""
        users = self.users[feature]
        line = others[feature, :, :, 0].take(users, axis=1) + self.n_masks * np.arange(len(users))
        # einsum adds short lines in half the time of sum(axis=1)
        return np.asarray(np.einsum("rtsc->rsc", table.take(line, axis=0)))


def mask_trees(trees: StateTrees, space: StateSpace, masks: LeafMasks | None = None) -> MaskedTrees:
    """Prepare trees for `MaskedTrees.changed_leaves`."""
    masks = masks or leaf_masks(trees, space)
    most_leaves = int(np.diff(trees.leaf_offset).max())
    dtype: type[np.unsignedinteger[Any]] = np.uint64
    bit_leaf = None
    if most_leaves <= 16:
        dtype = np.uint8 if most_leaves <= 8 else np.uint16
        bit_leaf = np.zeros(int(np.iinfo(dtype).max) + 1, dtype=np.int32)
        bit_leaf[2 ** np.arange(np.iinfo(dtype).bits)] = np.arange(np.iinfo(dtype).bits)
    inner = np.flatnonzero(trees.leaf_of_node < 0)
    tree = np.searchsorted(trees.root, inner, side="right") - 1
    users = tuple(np.unique(tree[trees.feature[inner] == feature]) for feature in range(space.n_features))
    n_masks = 1 << most_leaves if most_leaves <= _TABULATED_LEAVES else 0
    return MaskedTrees(trees, masks.mask.astype(dtype), masks.state_offset, users, bit_leaf, n_masks)


@dataclass(frozen=True, eq=False)
class Moves:
    """All changes of one feature in a batch; arrays are (n_rows, n_states of the feature)."""

    feature: int
    original: IntArray  # (n_rows, n_states, n_outputs)
    pruned: IntArray | None
    inside: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LeafValues:
    """Columns to be summed over the leaves of trees, prepared for many batches of rows."""

    trees: MaskedTrees
    stacked: IntArray  # (n_leaves, n_columns)
    tables: list[IntArray] | None  # of `MaskedTrees.tables`


class _Sums:
    """Sums over the leaves of a batch of rows after a change of one feature."""

    def __init__(
        self, values: LeafValues, states: npt.NDArray[Any], leaves: npt.NDArray[np.int32] | None = None
    ) -> None:
        self.values = values
        self.others = values.trees.without(states)
        # (n_rows, n_trees, n_columns)
        self.current = values.stacked.take(values.trees.trees.leaves(states) if leaves is None else leaves, axis=0)
        self.total = self.current.sum(axis=1)

    def changed(self, feature: int) -> IntArray:
        """The sums with every state of a feature, (n_rows, n_states, n_columns)."""
        trees, tables = self.values.trees, self.values.tables
        kept = self.total - np.einsum("rtc->rc", self.current.take(trees.users[feature], axis=1))
        if tables is not None:
            sums = trees.tabulated(tables[feature], self.others, feature)
        else:
            sums = _sum_leaves(self.values.stacked, trees.changed_leaves(self.others, feature))
        return np.asarray(sums + kept[:, None])


class SingleFeatureMoves:
    """Evaluates one-feature changes for a problem; holds the prepared masks."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model_trees = mask_trees(problem.trees, problem.space, problem.masks)
        extra = problem.region.extra_trees
        self.extra_costs: LeafValues | None = None
        if extra is not None:
            trees, cost = mask_trees(extra.trees, problem.space), extra.cost[:, None]
            self.extra_costs = LeafValues(trees, cost, trees.tables(cost))
        self.varying = [j for j in range(problem.space.n_features) if problem.region.allowed[j].sum() > 1]
        self.batch = max(1, _CELLS // max(1, int(problem.space.n_states.max()) * problem.trees.n_trees))

    def values(self, pruned_int: IntArray | None = None) -> LeafValues:
        """What is summed over leaves: margins of the original and of a pruned model, costs of leaves."""
        cost = self.problem.region.leaf_cost
        parts = [self.problem.original_int, pruned_int, None if cost is None else cost[:, None]]
        stacked = np.concatenate([part for part in parts if part is not None], axis=1)
        return LeafValues(self.model_trees, stacked, self.model_trees.tables(stacked))

    def of(
        self, states: npt.NDArray[Any], budget: Budget, values: LeafValues, leaves: npt.NDArray[np.int32] | None = None
    ) -> Iterator[Moves]:
        """Yield all single-feature changes of at most ``batch`` rows, feature by feature.

        ``leaves`` are those of the rows, if they are known.
        """
        problem, n_outputs = self.problem, self.problem.forest.n_outputs
        of_model = _Sums(values, states, leaves)
        of_extra = None if self.extra_costs is None else _Sums(self.extra_costs, states)
        score_parts = _ScoreParts(problem.region, states)
        has_cost = problem.region.leaf_cost is not None
        has_pruned = values.stacked.shape[1] - has_cost > n_outputs
        for feature in self.varying:
            budget.check()
            sums = of_model.changed(feature)
            cost = sums[:, :, -1] if has_cost else None
            if of_extra is not None:
                cost = of_extra.changed(feature)[:, :, 0]
            yield Moves(
                feature=feature,
                original=sums[:, :, :n_outputs] + problem.intercept_int,
                pruned=sums[:, :, n_outputs : 2 * n_outputs] if has_pruned else None,
                inside=score_parts.inside(feature, cost),
            )


def _sum_leaves(values: IntArray, leaves: npt.NDArray[np.int32]) -> IntArray:
    total = np.zeros((*leaves.shape[:2], values.shape[1]), dtype=np.int64)
    for column in range(values.shape[1]):
        total[:, :, column] = values[:, column].take(leaves).sum(axis=2)
    return total


class _ScoreParts:
    """Region membership of one-feature changes, from the score's terms of each feature."""

    def __init__(self, region: RegionTables, states: npt.NDArray[Any]) -> None:
        self.region = region
        self.states = states
        self.score = region.score if region.tau is not None else None
        if self.score is not None:
            self.binned = [bins.take(states[:, j]) for j, bins in enumerate(self.score.bins)]
            self.fixed = self._total()

    def _total(self) -> IntArray:
        assert self.score is not None
        total = sum(cost[self.binned[j]] for j, cost in enumerate(self.score.unary))
        for pair in self.score.pairs:
            total = total + pair.cost[self.binned[pair.first], self.binned[pair.second]]
        return np.asarray(total, dtype=np.int64)

    def inside(self, feature: int, leaf_cost: IntArray | None) -> npt.NDArray[np.bool_]:
        """Membership of every state of ``feature`` with the rest of each row unchanged."""
        region, states = self.region, self.states
        allowed = region.allowed[feature]
        inside = np.broadcast_to(allowed, (len(states), len(allowed))).copy()
        for pair in region.forbidden:
            if pair.first == feature:
                inside &= ~pair.forbidden[:, states[:, pair.second]].T
            elif pair.second == feature:
                inside &= ~pair.forbidden[states[:, pair.first]]
        for clause in region.at_least_one:
            mine = [literal for j, literal in clause if j == feature]
            if mine:
                rest = np.zeros(len(states), dtype=bool)
                for j, literal in clause:
                    if j != feature:
                        rest |= literal[states[:, j]]
                inside &= rest[:, None] | np.logical_or.reduce(mine)
        if self.score is not None and region.tau is not None:
            inside &= self._scores(feature, leaf_cost) <= region.tau
        return inside

    def _scores(self, feature: int, leaf_cost: IntArray | None) -> IntArray:
        assert self.score is not None
        bins = self.score.bins[feature]
        own = self.binned[feature]
        term = self.score.unary[feature][bins][None]
        fixed = self.fixed - self.score.unary[feature][own]
        for pair in self.score.pairs:
            if pair.first == feature:
                second = self.binned[pair.second]
                term = term + pair.cost.T.take(second, axis=0).take(bins, axis=1)
                fixed = fixed - pair.cost[own, second]
            elif pair.second == feature:
                first = self.binned[pair.first]
                term = term + pair.cost.take(first, axis=0).take(bins, axis=1)
                fixed = fixed - pair.cost[first, own]
        scores: IntArray = term + fixed[:, None]
        return scores if leaf_cost is None else scores + leaf_cost
