"""Intercepts after a refit: against every shift there is, and along a whole path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pine_boost.budget import Budget
from pine_boost.compression.goal import Goal
from pine_boost.compression.intercepts import best_shift
from pine_boost.compression.path import walk
from pine_boost.compression.pulls import build_pulls
from pine_boost.compression.rows import FitRows, draw_rows
from pine_boost.compression.shape import leaf_ranges, margins, original_shape
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.parsers import read_model
from pine_boost.tables.rows import MemoryRows

ensemble = pytest.importorskip("sklearn.ensemble")


def _lost(sums: np.ndarray, sign: np.ndarray, weight: np.ndarray, shift: float) -> float:
    return float(weight[sums + sign * shift < 0].sum())


@given(st.integers(0, 10_000))
def test_no_other_shift_loses_less(seed: int) -> None:
    random = np.random.default_rng(seed)
    n_rows = int(random.integers(1, 12))
    sums = random.integers(-5, 6, n_rows).astype(float)
    sign, weight = random.choice([-1.0, 1.0], n_rows), random.integers(1, 9, n_rows) * 1.0
    found = best_shift(sums, sign, weight)
    lost = _lost(sums, sign, weight, found)
    at = np.unique(-sums * sign)  # where something changes; the ends, beyond all rows, are no place
    between = (at[:-1] + at[1:]) / 2
    assert all(lost <= _lost(sums, sign, weight, shift) for shift in between)
    assert lost <= _lost(sums, sign, weight, 0.0)
    if lost == _lost(sums, sign, weight, 0.0):
        assert found == 0.0


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("HistGradientBoostingClassifier", {"max_iter": 40}),
        ("RandomForestClassifier", {"n_estimators": 40}),
    ],
)
def test_a_group_of_equal_rows_near_the_decision_keeps_its_class(
    name: str, size: dict[str, int]
) -> None:
    """A few categories and hundreds of equal rows, as in COMPAS: no shape of the path gives up
    rows that another intercept would keep."""
    random = np.random.default_rng(1)
    X = random.integers(0, 3, (1500, 6)).astype(float)
    y = random.random(1500) < 1 / (1 + np.exp(1.5 - X[:, 0] - 0.6 * X[:, 1] + 0.4 * X[:, 2]))
    native = getattr(ensemble, name)(random_state=0, **size).fit(X, y)
    forest = read_model(native).forest
    goal = Goal(forest, True, None)
    space = build_space(forest)
    trees = route(forest, space)
    ranges = leaf_ranges(forest, trees)
    original, fit = original_shape(forest, ranges), FitRows(MemoryRows(X), space)
    points = draw_rows(goal, trees, original, fit, 0, Budget.of(), n_points=1000).fitted
    for shape in walk(goal, ranges, original, build_pulls(goal, points), False):
        after = margins(shape, forest, points.leaves)
        shifted = np.zeros(forest.n_outputs)
        counts = []
        for shift in [0.0, *np.geomspace(1e-5, 1.0, 16), *-np.geomspace(1e-5, 1.0, 16)]:
            shifted[0] = shift
            changed = goal.changed(points.margins, after + shifted)
            counts.append(float(points.weight[changed].sum()))
        assert counts[0] <= min(counts) + 1.5  # in rows; 1 is not worth a shift
