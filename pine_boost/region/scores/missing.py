"""A value that was never missing in X_fit is not expected to be missing later.

In come fitted score tables; out go the same tables with a price on every missing value in a
feature that X_fit never misses. Any score keeps the conformal guarantee, so this only makes the
region fit the data: without it smoothing alone would put gaps nobody ever saw into the region.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import ROW_LIMIT
from pine_boost.model.forest import IntArray
from pine_boost.model.states import StateSpace
from pine_boost.region.score_tables import PairTable, ScoreTables

# e**200 times less likely than its neighbours: above every tau of real data.
UNSEEN_MISSING_NATS = 200


def price_unseen_missing(tables: ScoreTables, space: StateSpace, states: npt.NDArray[Any]) -> ScoreTables:
    """Add UNSEEN_MISSING_NATS to the missing state of features that ``states`` never misses.

    In units of the tables: a score in coarser units asks for a smaller number. Where very many
    features would fill the solver's row, each costs less.
    """
    return price_unseen(tables, space, missing_seen(space, states))


def missing_seen(space: StateSpace, states: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which features are missing in some row of ``states``."""
    return np.array([np.any(states[:, j] == axis.missing_state) for j, axis in enumerate(space.axes)])


def price_unseen(tables: ScoreTables, space: StateSpace, seen: npt.NDArray[np.bool_]) -> ScoreTables:
    """`price_unseen_missing` where it is known which features were seen missing."""
    unseen = [
        feature
        for feature, axis in enumerate(space.axes)
        if axis.missing_state >= axis.n_intervals and not seen[feature]
    ]
    # all prices together leave half of a solver's row to the score itself
    price = min(UNSEEN_MISSING_NATS * tables.scale, ROW_LIMIT // 2 // max(1, len(unseen)))
    bins, unary, pairs = list(tables.bins), list(tables.unary), list(tables.pairs)
    for feature in unseen:
        missing = space.axes[feature].missing_state
        own = int(bins[feature][missing])
        if np.count_nonzero(bins[feature] == own) > 1:
            own = len(unary[feature])
            bins[feature] = _moved(bins[feature], missing, own)
            unary[feature] = np.append(unary[feature], unary[feature][tables.bins[feature][missing]])
            pairs = [_widened(pair, feature, int(tables.bins[feature][missing])) for pair in pairs]
        priced = unary[feature].copy()
        priced[own] += price
        unary[feature] = priced
    return replace(tables, bins=tuple(bins), unary=tuple(unary), pairs=tuple(pairs))


def _moved(bins: IntArray, state: int, own: int) -> IntArray:
    moved = bins.copy()
    moved[state] = own
    return moved


def _widened(pair: PairTable, feature: int, like: int) -> PairTable:
    """The table with one more bin of ``feature``, priced like an existing one."""
    if pair.first == feature:
        return replace(pair, cost=np.vstack([pair.cost, pair.cost[like]]))
    if pair.second == feature:
        return replace(pair, cost=np.hstack([pair.cost, pair.cost[:, [like]]]))
    return pair
