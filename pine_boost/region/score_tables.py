"""The region as integer tables over states, the form that the scorer, the boxes and CP-SAT share.

Nothing is fitted here, and no floating-point number takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import SCORE_SCALE
from pine_boost.model.forest import IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import StateSpace

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
    def _used(self) -> tuple[int, ...]:
        """Features in a unary or pair cost."""
        paired = {j for pair in self.pairs for j in (pair.first, pair.second)}
        return tuple(sorted(paired.union(self._costly)))

    def score(self, states: npt.NDArray[Any]) -> IntArray:
        """Integer score of every state row."""
        total = np.zeros(len(states), dtype=np.int64)
        binned = {j: self.bins[j].take(states[:, j]) for j in self._used}
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
    forbidden: npt.NDArray[np.bool_]


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

    allowed: tuple[npt.NDArray[np.bool_], ...]
    forbidden: tuple[ForbiddenPair, ...] = ()
    at_least_one: tuple[tuple[tuple[int, npt.NDArray[np.bool_]], ...], ...] = ()
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

    def permits(self, states: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
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

    def contains(self, states: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each state row lies in the region, apart from the indifference."""
        inside = self.permits(states)
        if self.tau is not None and self.score is not None:
            inside &= self.score.score(states) <= self.tau
        return inside
