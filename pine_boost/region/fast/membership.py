"""Membership and scores of many rows, compiled to column operations.

The integers equal those of `RegionTables`; needs numpy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.states import StateSpace
from pine_boost.region.fast.coarse import coarsen
from pine_boost.region.fast.digitize import CHUNK_ROWS, Digitizer, digitizers, read_chunk, small_dtype
from pine_boost.region.fast.tree_codes import TreeSums, compile_sums
from pine_boost.region.score_tables import RegionTables, ScoreTables

# Below this many rows the calls of the compiled form cost more than walking trees.
MANY_ROWS = 4_000
_SMALL_TABLE = 2**16
AnyInts = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Term:
    """A cost of the states of one or two features; ``second`` is -1 for one.

    With ``bins`` the table is one of bins: the table of states would be far larger.
    """

    first: int
    second: int
    width: AnyInts
    table: IntArray
    bins: tuple[IntArray, IntArray] | None = None

    def cost(self, columns: Sequence[AnyInts]) -> IntArray:
        """Cost of every row."""
        if self.second < 0:
            return self.table.take(columns[self.first], mode="clip")
        first, second = columns[self.first], columns[self.second]
        if self.bins is not None:
            first, second = self.bins[0].take(first), self.bins[1].take(second)
        position = np.multiply(first, self.width, dtype=self.width.dtype, casting="unsafe")
        np.add(position, second, out=position, casting="unsafe")
        return self.table.take(position, mode="clip")


@dataclass(frozen=True, eq=False)
class FastScore:
    """A score over columns of states."""

    terms: tuple[Term, ...]
    sums: TreeSums | None

    def score(self, columns: Sequence[AnyInts]) -> IntArray:
        """Integer score of every row."""
        total = np.zeros(len(columns[0]), dtype=np.int64)
        for term in self.terms:
            total += term.cost(columns)
        if self.sums is not None:
            self.sums.add_to(total, columns)
        return total


@dataclass(frozen=True, eq=False)
class Membership:
    """A region over the states that it can tell apart, ready for millions of rows."""

    columns: tuple[Digitizer, ...]
    tables: RegionTables
    fast_score: FastScore | None

    def contains(self, X: FloatArray) -> npt.NDArray[np.bool_]:
        """``tables.contains(space.states(X))`` of the region that was compiled."""
        inside = np.empty(len(X), dtype=bool)
        for start in range(0, len(X), CHUNK_ROWS):
            states = read_chunk(self.columns, X[start : start + CHUNK_ROWS])
            part = self.tables.permits_columns(states, len(states[0]))
            if self.tables.tau is not None and self.fast_score is not None:
                part &= self.fast_score.score(states) <= self.tables.tau
            inside[start : start + CHUNK_ROWS] = part
        return inside

    def score(self, X: FloatArray) -> IntArray:
        """``score.score(space.states(X))`` of the score that was compiled."""
        assert self.fast_score is not None
        total = np.empty(len(X), dtype=np.int64)
        for start in range(0, len(X), CHUNK_ROWS):
            states = read_chunk(self.columns, X[start : start + CHUNK_ROWS])
            total[start : start + CHUNK_ROWS] = self.fast_score.score(states)
        return total


def compile_membership(space: StateSpace, tables: RegionTables, score: ScoreTables | None) -> Membership:
    """Compile a region, and its score also where tau is infinite."""
    space, coarse, _ = coarsen(space, replace(tables, score=score))
    compiled = None if coarse.score is None else compile_score(coarse.score, space)
    return Membership(tuple(digitizers(space)), coarse, compiled)


def compile_score(score: ScoreTables, space: StateSpace) -> FastScore:
    """Tables over states instead of bins; the tree programs."""
    terms = []
    for feature, cost in enumerate(score.unary):
        if cost.any():
            none = np.zeros((), dtype=np.uint8)
            terms.append(Term(feature, -1, none, cost[score.bins[feature]]))
    for pair in score.pairs:
        bins = (score.bins[pair.first], score.bins[pair.second])
        table = pair.cost
        expanded = len(bins[0]) * len(bins[1])
        if expanded <= max(_SMALL_TABLE, 4 * table.size):
            table = table[np.ix_(*bins)]
        n_second = table.shape[1]
        width = np.array(n_second, dtype=small_dtype(max(table.size, n_second + 1)))
        kept = None if table.size == expanded else bins
        terms.append(Term(pair.first, pair.second, width, table.ravel(), kept))
    sums = None
    if score.trees is not None:
        sums = compile_sums(score.trees.trees, score.trees.cost, space)
    return FastScore(tuple(terms), sums)
