"""Bins of a feature: quantiles at thresholds, odd columns, zero as missing."""

from __future__ import annotations

import numpy as np

from pine_boost.model.rules import MissingRule
from pine_boost.model.states import Axis, StateSpace, build_space
from pine_boost.region.scores.chow_liu import bins_of, count_nearest
from tests.support.forests import LIGHTGBM, XGBOOST, random_forest

MANNER_NAMES = ["xgboost", "lightgbm", "sklearn", "histogram"]


def _numeric_space(edges: list[float], missing: bool = True) -> StateSpace:
    forest = random_forest(np.random.default_rng(0), 1, 0, 1, manner=XGBOOST)
    n_states = len(edges) + 1 + missing
    axis = Axis(np.array(edges), n_states, n_states - 1 if missing else -1)
    return StateSpace((axis,), forest.comparison, forest.category_rule, False)


def _bins(space: StateSpace, x: np.ndarray, n_bins: int) -> np.ndarray:
    return bins_of(space, count_nearest(space, x[:, None]), n_bins)[0]


def test_quantiles_snap_to_the_nearest_edge_and_ties_to_the_larger() -> None:
    x = np.arange(0.0, 101.0)  # quartiles 25, 50, 75
    space = _numeric_space([20.0, 30.0, 49.0, 90.0, 95.0])
    # 25 is as near to 20 as to 30: 30; 50 -> 49; 75 -> 90
    assert _bins(space, x, 4).tolist() == [0, 0, 1, 2, 3, 3, 4]


def test_duplicate_boundaries_are_merged() -> None:
    space = _numeric_space([49.0])
    x = np.arange(0.0, 101.0)
    assert _bins(space, x, 4).tolist() == [0, 1, 2]
    space = _numeric_space([], missing=True)
    assert _bins(space, x, 4).tolist() == [0, 1]


def test_odd_columns_have_bins() -> None:
    space = _numeric_space([-np.inf, 1.0, np.inf])
    for x in (np.full(9, np.nan), np.full(9, 3.0), np.array([np.inf, -np.inf, 1.0, np.nan])):
        bins = _bins(space, x, 4)
        assert bins[-1] == bins.max()
        assert np.all(np.diff(bins) >= 0)


def test_zero_as_missing_is_a_bin_of_its_own() -> None:
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 8, 3, 1, manner=LIGHTGBM, missing_rules=[MissingRule.ZERO_IS_MISSING])
    space = build_space(forest)
    axis = space.axes[0]
    bins = _bins(space, rng.normal(size=100), 4)
    assert axis.zero_state >= 0
    assert np.sum(bins == bins[axis.zero_state]) == 1
    assert np.sum(bins == bins[axis.missing_state]) == 1
