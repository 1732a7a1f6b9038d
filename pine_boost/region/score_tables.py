"""The region as integer tables over states, the form that the scorer, the boxes and CP-SAT share.

States that no table distinguishes can be merged; membership is the same for every input. Nothing is fitted here, and
no floating-point number takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import SCORE_SCALE
from pine_boost.model.forest import BoolArray, IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import Axis, StateSpace

PSEUDO_COUNT = 1.0  # added to every cell: what X_fit does not contain is implausible, not impossible


@dataclass(frozen=True, eq=False)
class PairTable:
    """Cost of the bins of two features together, ``cost[bin of first, bin of second]``."""

    first: int
    second: int
    cost: IntArray


@dataclass(frozen=True, eq=False)
class TreeCost:
    """A cost for every leaf: an input pays for the leaf it reaches in each tree.

    Attributes
    ----------
    trees : StateTrees
    cost : int64 (n_leaves,)
    of_model : bool
        True for the model's own trees (leaf support), False for trees that the score brings along
        (isolation forest).
    """

    trees: StateTrees
    cost: IntArray
    of_model: bool


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """An integer plausibility score; smaller is more plausible.

    Attributes
    ----------
    bins : tuple of int64 (n_states of the feature,)
        The bin of each state; all zero for a feature that the score ignores.
    unary : tuple of int64 (n_bins of the feature,)
    pairs : tuple of PairTable
    trees : TreeCost or None
    scale : int
        Units per nat (per step of a path in an isolation forest).
    """

    bins: tuple[IntArray, ...]
    unary: tuple[IntArray, ...]
    pairs: tuple[PairTable, ...] = ()
    trees: TreeCost | None = None
    scale: int = SCORE_SCALE

    @cached_property
    def _costly(self) -> tuple[int, ...]:
        """Features with a non-zero unary cost."""
        return tuple(j for j, cost in enumerate(self.unary) if cost.any())

    @cached_property
    def used(self) -> frozenset[int]:
        """Features in a unary or pair cost."""
        return frozenset(self._costly).union(*((pair.first, pair.second) for pair in self.pairs))

    def score(self, states: npt.NDArray[Any]) -> IntArray:
        """Integer score of every state row."""
        total = np.zeros(len(states), dtype=np.int64)
        binned = {j: self.bins[j].take(states[:, j]) for j in self.used}
        for feature in self._costly:
            total += self.unary[feature].take(binned[feature])
        for pair in self.pairs:
            cell = binned[pair.first] * pair.cost.shape[1] + binned[pair.second]
            total += pair.cost.take(cell)
        if self.trees is not None:
            leaves = self.trees.trees.leaves(states)
            total += self.trees.cost[leaves].sum(axis=1)
        return total


def score_of_leaves(space: StateSpace, trees: TreeCost, scale: int) -> ScoreTables:
    """A score that is a sum of leaf costs and ignores the features otherwise."""
    bins = tuple(np.zeros(axis.n_states, dtype=np.int64) for axis in space.axes)
    unary = tuple(np.zeros(1, dtype=np.int64) for _ in space.axes)
    return ScoreTables(bins, unary, (), trees, scale)


@dataclass(frozen=True, eq=False)
class ForbiddenPair:
    """State pairs of two features that cannot occur, ``forbidden[state of first, state of second]``."""

    first: int
    second: int
    forbidden: BoolArray


@dataclass(frozen=True, eq=False)
class RegionTables:
    """The region as the proofs see it.

    A state row belongs to the region if every state is allowed, no forbidden pair occurs, every
    clause of ``at_least_one`` has a feature in one of its states, and ``score <= tau``.

    Attributes
    ----------
    allowed : tuple of bool (n_states of the feature,)
    forbidden : tuple of ForbiddenPair
    at_least_one : tuple of clauses, each a tuple of (feature, bool (n_states,)) literals
    score : ScoreTables or None
        None if ``tau`` is None: the region is then everything that the domain allows.
    tau : int or None
    """

    allowed: tuple[BoolArray, ...]
    forbidden: tuple[ForbiddenPair, ...] = ()
    at_least_one: tuple[tuple[tuple[int, BoolArray], ...], ...] = ()
    score: ScoreTables | None = None
    tau: int | None = None

    @property
    def leaf_cost(self) -> IntArray | None:
        """The cost of every leaf of the model's trees, if the score has such costs (leaf support)."""
        trees = self._tree_cost
        return trees.cost if trees is not None and trees.of_model else None

    @property
    def extra_trees(self) -> TreeCost | None:
        """Trees beside the model's whose leaves have costs (isolation forest); usually None."""
        trees = self._tree_cost
        return trees if trees is not None and not trees.of_model else None

    @property
    def slows_cp_sat(self) -> bool:
        """Whether CP-SAT needs seconds in this region where it usually needs a fraction of one."""
        return self.extra_trees is not None

    @property
    def _tree_cost(self) -> TreeCost | None:
        return self.score.trees if self.score is not None and self.tau is not None else None

    @cached_property
    def _restricted(self) -> tuple[int, ...]:
        """Features with a state that is not allowed."""
        return tuple(j for j, allowed in enumerate(self.allowed) if not allowed.all())

    def over(self, kept: Sequence[IntArray]) -> RegionTables:
        """The tables over other states, for each of which ``kept`` has an old one per feature; trees as they are."""
        score = self.score
        return replace(
            self,
            allowed=tuple(allowed[own] for allowed, own in zip(self.allowed, kept, strict=True)),
            forbidden=tuple(
                replace(pair, forbidden=pair.forbidden[np.ix_(kept[pair.first], kept[pair.second])])
                for pair in self.forbidden
            ),
            at_least_one=tuple(tuple((j, literal[kept[j]]) for j, literal in clause) for clause in self.at_least_one),
            score=score and replace(score, bins=tuple(bins[own] for bins, own in zip(score.bins, kept, strict=True))),
        )

    def permits(self, states: npt.NDArray[Any]) -> BoolArray:
        """Whether the domain allows each row, whatever its score."""
        columns, possible = states.T, np.ones(len(states), dtype=bool)
        for feature in self._restricted:
            possible &= self.allowed[feature].take(columns[feature])
        for pair in self.forbidden:
            possible &= ~pair.forbidden[columns[pair.first], columns[pair.second]]
        for clause in self.at_least_one:
            is_met = np.zeros(len(states), dtype=bool)
            for feature, literal in clause:
                is_met |= literal[columns[feature]]
            possible &= is_met
        return possible

    def contains(self, states: npt.NDArray[Any]) -> BoolArray:
        """Whether each state row lies in the region, apart from the indifference."""
        inside = self.permits(states)
        if self.tau is not None and self.score is not None:
            inside &= self.score.score(states) <= self.tau
        return inside


def coarsen(
    space: StateSpace, tables: RegionTables, trees: StateTrees | None = None
) -> tuple[StateSpace, RegionTables, tuple[IntArray, ...]]:
    """Merge neighbouring intervals that no table (and no split of ``trees``) distinguishes.

    The third value has the first old state of each new one, per feature.
    """
    found = [_coarse_axis(axis, signature(tables, trees, j, axis.n_states)) for j, axis in enumerate(space.axes)]
    axes, kept = zip(*found, strict=True)
    coarse = tables.over(kept)
    if coarse.score is not None and coarse.score.trees is not None:
        cost = _coarse_trees(coarse.score.trees, kept, space)
        coarse = replace(coarse, score=replace(coarse.score, trees=cost))
    return replace(space, axes=axes), coarse, kept


def signature(tables: RegionTables, trees: StateTrees | None, feature: int, n_states: int) -> npt.NDArray[Any]:
    """All that tables and trees say of each state of a feature, one row per state."""
    columns = [tables.allowed[feature][:, None].astype(np.int64)]
    if tables.score is not None and feature in tables.score.used:
        columns.append(tables.score.bins[feature][:, None])
    for pair in tables.forbidden:
        if pair.first == feature:
            columns.append(pair.forbidden.astype(np.int64))
        if pair.second == feature:
            columns.append(pair.forbidden.T.astype(np.int64))
    for clause in tables.at_least_one:
        columns += [lit[:, None].astype(np.int64) for j, lit in clause if j == feature]
    asked = [] if trees is None else [trees]
    if tables.score is not None and tables.score.trees is not None:
        asked.append(tables.score.trees.trees)
    for splits in asked:
        # intervals between two ranks in use are on the same side of every split
        ranks = np.unique(_ranks(splits, feature))
        columns.append(np.searchsorted(ranks, np.arange(n_states), side="left")[:, None])
    return np.concatenate(columns, axis=1).reshape(n_states, -1)


def _ranks(trees: StateTrees, feature: int) -> IntArray:
    nodes = (trees.leaf_of_node < 0) & (trees.feature == feature)
    return np.asarray(trees.rank[nodes], dtype=np.int64)


def _coarse_trees(cost: TreeCost, kept: Sequence[IntArray], space: StateSpace) -> TreeCost:
    """The trees over the merged states; ``kept`` has the first old state of each new one."""
    trees = cost.trees
    rank, first_special = trees.rank.copy(), trees.first_special.copy()
    for feature, axis in enumerate(space.axes):
        if axis.codes is not None:
            continue
        nodes = np.flatnonzero((trees.leaf_of_node < 0) & (trees.feature == feature))
        starts = kept[feature][kept[feature] < axis.n_intervals]
        # the last new state that begins at or below the old rank; its last old state is the rank
        rank[nodes] = np.searchsorted(starts, trees.rank[nodes], side="right") - 1
        first_special[nodes] = len(starts)
    n_states = np.array([len(own) for own in kept], dtype=np.int64)
    coarse = replace(trees, rank=rank, first_special=first_special, n_states=n_states)
    return TreeCost(coarse, cost.cost, cost.of_model)


def _coarse_axis(axis: Axis, signature: npt.NDArray[Any]) -> tuple[Axis, IntArray]:
    """The merged axis, and an old state for each new one."""
    if axis.codes is not None:
        return axis, np.arange(axis.n_states)
    n_intervals = axis.n_intervals
    differs = np.any(signature[1:n_intervals] != signature[: n_intervals - 1], axis=1)
    first = np.concatenate([[0], np.flatnonzero(differs) + 1])
    specials = np.arange(n_intervals, axis.n_states)
    shift = n_intervals - len(first)
    missing = axis.missing_state - shift
    if 0 <= axis.missing_state < n_intervals:
        missing = int(np.searchsorted(first, axis.missing_state, side="right")) - 1
    coarse = Axis(
        edges=axis.edges[differs],
        n_states=axis.n_states - shift,
        missing_state=missing if axis.missing_state >= 0 else -1,
        zero_state=axis.zero_state - shift if axis.zero_state >= 0 else -1,
    )
    return coarse, np.concatenate([first, specials])
