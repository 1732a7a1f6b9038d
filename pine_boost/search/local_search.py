"""Local search in the region: points near the boundary, and counterexamples without a solver.

What is found is only a proposal; `Constraints` checks it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.routing import StateTrees
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


# Margins and region membership of all points that differ from a batch of points in one feature: only the trees that
# split on the changed feature are walked again.
_CELLS = 3_000_000  # rows x states x trees of one feature, and rows x states x features, held at once


class ChangedTrees:
    """Trees, and for each feature those that split on it."""

    def __init__(self, trees: StateTrees, n_states: IntArray) -> None:
        self.trees, self.n_states = trees, n_states.tolist()
        inner = np.flatnonzero(trees.leaf_of_node < 0)
        tree = np.searchsorted(trees.root, inner, side="right") - 1
        self.users = [np.unique(tree[trees.feature[inner] == feature]) for feature in range(len(n_states))]
        self.nodes = [replace(trees.nodes, root=trees.root[users]) for users in self.users]

    def leaves(self, states: npt.NDArray[np.int32], feature: int) -> npt.NDArray[np.int32]:
        """Leaves of the trees that split on a feature, for each of its states: (n_rows, n_states, n_users)."""
        n_states, n_features = self.n_states[feature], states.shape[1]
        found = np.empty((len(states), n_states, len(self.users[feature])), dtype=np.int32)
        chunk = max(1, _CELLS // (n_states * n_features))
        for start in range(0, len(states), chunk):
            changed = np.repeat(states[start : start + chunk], n_states, axis=0)
            changed[:, feature] = np.resize(np.arange(n_states), len(changed))
            part = found[start : start + chunk]
            part[:] = self.nodes[feature].leaves(changed).reshape(part.shape)
        return found


class _Sums:
    """Sums of values over the leaves of a batch of rows after a change of one feature."""

    def __init__(
        self,
        trees: ChangedTrees,
        values: IntArray,
        states: npt.NDArray[np.int32],
        leaves: npt.NDArray[np.int32] | None = None,
    ) -> None:
        self.trees, self.values, self.states = trees, values, states
        # (n_rows, n_trees, n_columns)
        self.current = values.take(trees.trees.leaves(states) if leaves is None else leaves, axis=0)
        self.total = self.current.sum(axis=1)

    def changed(self, feature: int) -> IntArray:
        """The sums with every state of a feature, (n_rows, n_states, n_columns)."""
        kept = self.total - np.einsum("rtc->rc", self.current.take(self.trees.users[feature], axis=1))
        leaves = self.trees.leaves(self.states, feature)
        sums = [column.take(leaves).sum(axis=2) for column in np.ascontiguousarray(self.values.T)]
        return np.asarray(np.stack(sums, axis=2) + kept[:, None])


@dataclass(frozen=True, eq=False)
class Moves:
    """All changes of one feature in a batch; arrays are (n_rows, n_states of the feature)."""

    feature: int
    original: IntArray  # (n_rows, n_states, n_outputs)
    pruned: IntArray | None
    inside: npt.NDArray[np.bool_]


class SingleFeatureMoves:
    """Evaluates one-feature changes for a problem; holds the prepared trees."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        n_states, extra = problem.space.n_states, problem.region.extra_trees
        self.model_trees = ChangedTrees(problem.trees, n_states)
        self.extra_trees = None if extra is None else ChangedTrees(extra.trees, n_states)
        self.varying = [j for j in range(problem.space.n_features) if problem.region.allowed[j].sum() > 1]
        self.batch = max(1, _CELLS // max(1, int(problem.space.n_states.max()) * problem.trees.n_trees))

    def values(self, pruned_int: IntArray | None = None) -> IntArray:
        """What is summed over leaves: margins of the original and of a pruned model, costs of leaves."""
        cost = self.problem.region.leaf_cost
        parts = [self.problem.original_int, pruned_int, None if cost is None else cost[:, None]]
        return np.concatenate([part for part in parts if part is not None], axis=1)

    def of(
        self, states: npt.NDArray[Any], budget: Budget, values: IntArray, leaves: npt.NDArray[np.int32] | None = None
    ) -> Iterator[Moves]:
        """Yield all single-feature changes of at most ``batch`` rows, feature by feature.

        ``leaves`` are those of the rows, if they are known.
        """
        problem, n_outputs = self.problem, self.problem.forest.n_outputs
        of_model, extra = _Sums(self.model_trees, values, states, leaves), problem.region.extra_trees
        of_extra = None
        if extra is not None and self.extra_trees is not None:
            of_extra = _Sums(self.extra_trees, extra.cost[:, None], states)
        score_parts = _ScoreParts(problem.region, states)
        has_cost = problem.region.leaf_cost is not None
        has_pruned = values.shape[1] - has_cost > n_outputs
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
