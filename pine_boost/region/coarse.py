"""Region tables over merged states.

Thresholds that no table distinguishes are dropped; membership is the same for every input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import Axis, StateSpace
from pine_boost.region.score_tables import RegionTables, ScoreTables, TreeCost


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
    if tables.score is not None and _matters(tables.score, feature):
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


def _matters(score: ScoreTables, feature: int) -> bool:
    in_pair = any(feature in (pair.first, pair.second) for pair in score.pairs)
    return in_pair or bool(np.any(score.unary[feature] != score.unary[feature][0]))


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
    return TreeCost(replace(trees, rank=rank, first_special=first_special), cost.cost, cost.of_model)


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
