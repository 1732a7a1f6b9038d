"""Fast membership: the same region over the few thresholds that it can tell apart.

In come a space and the tables of a region; out go a coarser space and tables with the same
verdict on every input. Changes nothing where leaves of trees are scored: they need every edge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.forest import FloatArray, IntArray
from pine_boost.region.tables import ForbiddenPair, RegionTables, ScoreTables
from pine_boost.states import Axis, StateSpace

_CHUNK_CELLS = 2**18  # rows x features at once: the chunk and its states stay in the cache


def chunked_contains(
    space: StateSpace, tables: RegionTables, X: FloatArray
) -> npt.NDArray[np.bool_]:
    """``tables.contains(space.states(X))``, coarsened and in chunks that fit the cache."""
    if len(X) > 1_000:
        space, tables = coarsen(space, tables)
    step = max(1, _CHUNK_CELLS // max(1, space.n_features))
    inside = np.empty(len(X), dtype=bool)
    for start in range(0, len(X), step):
        states = space.states(X[start : start + step])
        inside[start : start + step] = tables.contains(states)
    return inside


def coarsen(space: StateSpace, tables: RegionTables) -> tuple[StateSpace, RegionTables]:
    """Merge neighbouring intervals that no table distinguishes."""
    score = tables.score
    if score is not None and score.trees is not None:
        return space, tables
    axes, kept = [], []
    for feature, axis in enumerate(space.axes):
        coarse, representative = _coarse_axis(axis, _signature(tables, feature, axis.n_states))
        axes.append(coarse)
        kept.append(representative)
    coarse_score = None
    if score is not None:
        bins = tuple(table[kept[j]] for j, table in enumerate(score.bins))
        coarse_score = ScoreTables(bins, score.unary, score.pairs, None, score.scale)
    coarse_tables = RegionTables(
        allowed=tuple(allowed[kept[j]] for j, allowed in enumerate(tables.allowed)),
        forbidden=tuple(
            ForbiddenPair(p.first, p.second, p.forbidden[np.ix_(kept[p.first], kept[p.second])])
            for p in tables.forbidden
        ),
        at_least_one=tuple(
            tuple((j, literal[kept[j]]) for j, literal in clause) for clause in tables.at_least_one
        ),
        score=coarse_score,
        tau=tables.tau,
    )
    return replace(space, axes=tuple(axes)), coarse_tables


def _signature(tables: RegionTables, feature: int, n_states: int) -> npt.NDArray[Any]:
    """All that the tables say of each state of a feature, one row per state."""
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
    return np.concatenate(columns, axis=1).reshape(n_states, -1)


def _matters(score: ScoreTables, feature: int) -> bool:
    in_pair = any(feature in (pair.first, pair.second) for pair in score.pairs)
    return in_pair or bool(np.any(score.unary[feature] != score.unary[feature][0]))


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
