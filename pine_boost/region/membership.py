"""Membership and scores of rows by the kernel: the integers of `RegionTables`, from real inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost import kernels
from pine_boost.errors import UnsupportedModelError
from pine_boost.kernels.flat_forest import FlatForest, TableSums
from pine_boost.kernels.wellformed_arrays import require_wellformed_region
from pine_boost.model.flatten import flatten_trees
from pine_boost.model.forest import BoolArray, FloatArray, Int32Array, IntArray
from pine_boost.model.routing import StateTrees, make_trees
from pine_boost.model.states import Axis, StateSpace, unique_rows
from pine_boost.region.score_tables import RegionTables, ScoreTables, coarsen, signature

_MOST_CELLS = 2**24  # of the tables of pairs over states, which a short file can make as large as it likes
_NO_LIMIT = np.iinfo(np.int64).max
_Term = tuple[int, int, IntArray]  # two features (-1 for none) and the cost of their states


@dataclass(frozen=True, eq=False)
class Membership:
    """A region bound to the kernel; safe to use from several threads at once.

    The last three are None if a feature has more states than the kernel can number, or if the tables of pairs would be
    too large with a row for every state: the tables of bins answer then.
    """

    space: StateSpace
    tables: RegionTables
    flat: FlatForest | None = None
    sums: TableSums | None = None
    trees: kernels.Trees | None = None

    def contains(self, X: FloatArray) -> BoolArray:
        """``tables.contains(space.states(X))`` of the region that was compiled."""
        if self.trees is None:
            return self.tables.contains(self.space.states(X))
        return self.trees.membership(X)[0]

    def score(self, X: FloatArray) -> IntArray:
        """``score.score(space.states(X))`` of the score that was compiled."""
        assert self.tables.score is not None
        if self.trees is None:
            return self.tables.score.score(self.space.states(X))
        return self.trees.membership(X)[1]


def compile_membership(space: StateSpace, tables: RegionTables, score: ScoreTables | None) -> Membership:
    """Bind a region, and its score also where tau is infinite.

    Raises
    ------
    MalformedModelError
        Trees or tables that do not fit each other.
    """
    space, tables, _ = coarsen(space, replace(tables, score=score))
    cost = None if tables.score is None else tables.score.trees
    merged = [_merged(axis, tables, feature) for feature, axis in enumerate(space.axes)]
    over = tables.over([kept for _, kept in merged])
    if _pair_cells(over) > _MOST_CELLS:
        return Membership(space, tables)
    groups, limits = _groups(over)
    terms = [term for group in groups for term in group]
    used = sorted({feature for i, j, _ in terms for feature in (i, j) if feature >= 0})
    try:
        flat, columns = flatten_trees(
            space, _one_leaf() if cost is None else cost.trees, [(feature, merged[feature][0]) for feature in used]
        )
    except UnsupportedModelError:
        return Membership(space, tables)
    column = dict(zip(used, columns, strict=True)) | {-1: 0}
    sums = TableSums(
        first=_int32(column[i] for i, _, _ in terms),
        second=_int32(column[j] for _, j, _ in terms),
        width=_int32(table.shape[1] for _, _, table in terms),
        offset=np.cumsum([0, *(table.size for _, _, table in terms)])[:-1].astype(np.int64),
        cost=np.concatenate([*(table.ravel() for _, _, table in terms), np.zeros(1, dtype=np.int64)]),
        group_end=_int32(np.cumsum([len(group) for group in groups])),
        limit=np.array(limits, dtype=np.int64),
        leaf_cost=np.zeros(1, dtype=np.int64) if cost is None else cost.cost.astype(np.int64),
    )
    require_wellformed_region(flat, sums)
    return Membership(space, tables, flat, sums, kernels.bind(flat, sums=sums))


def _pair_cells(tables: RegionTables) -> int:
    """How many entries the tables of the pairs of the score have over states."""
    score = tables.score
    pairs = () if score is None else score.pairs
    return sum(len(tables.allowed[pair.first]) * len(tables.allowed[pair.second]) for pair in pairs)


def _groups(tables: RegionTables) -> tuple[list[list[_Term]], list[int]]:
    """Sums of tables, and the most that each may be: the score, the vetoes, and each clause."""
    score = tables.score
    costs: list[_Term] = []
    if score is not None:
        bins = score.bins
        costs += [(j, -1, cost[bins[j]][:, None]) for j, cost in enumerate(score.unary) if cost.any()]
        costs += [(p.first, p.second, p.cost[np.ix_(bins[p.first], bins[p.second])]) for p in score.pairs]
    vetoes = [(j, -1, _column(~states)) for j, states in enumerate(tables.allowed) if not states.all()]
    vetoes += [(pair.first, pair.second, pair.forbidden.astype(np.int64)) for pair in tables.forbidden]
    clauses = [[(j, -1, -_column(literal)) for j, literal in clause] for clause in tables.at_least_one]
    tau = _NO_LIMIT if tables.tau is None else tables.tau
    return [costs, vetoes, *clauses], [tau, 0, *[-1] * len(clauses)]


def _column(flags: BoolArray) -> IntArray:
    return np.asarray(flags[:, None], dtype=np.int64)


def _merged(axis: Axis, tables: RegionTables, feature: int) -> tuple[Axis, IntArray]:
    """A category axis whose states the tables tell apart, with an old state for each new one."""
    if axis.codes is None or axis.code_states is None:
        return axis, np.arange(axis.n_states)
    kept, new = unique_rows(signature(tables, None, feature, axis.n_states))
    other, missing = (int(new[state]) if state >= 0 else -1 for state in (axis.other_state, axis.missing_state))
    states = np.asarray(new[axis.code_states], dtype=np.int64)
    merged = replace(axis, code_states=states, n_states=len(kept), other_state=other, missing_state=missing)
    return merged, kept


def _one_leaf() -> StateTrees:
    none = np.zeros(1, dtype=np.int64)
    splits = dict.fromkeys(("feature", "rank", "first_special", "special_offset", "special_left", "n_states"), none)
    return make_trees(none, none == 0, none, none, **splits)


def _int32(numbers: Iterable[Any]) -> Int32Array:
    return np.array(list(numbers), dtype=np.int32)
