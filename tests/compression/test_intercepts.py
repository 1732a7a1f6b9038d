"""Intercepts after a refit: against every shift there is, and along a whole path."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import ensemble

from pine_boost.budget import Budget
from pine_boost.compression.fit import best_shift, build_equations
from pine_boost.compression.path import Pace, set_up, walk
from pine_boost.model.shape import margins
from pine_boost.parsers import read_model
from pine_boost.tables.rows import MemoryRows


def _lost(sums, sign, weight, shift):
    return float(weight[sums + sign * shift < 0].sum())


def _difference(values, goal):
    if values.shape[1] == 2:
        return values[:, 1] - values[:, 0]
    return values[:, 0] - goal.forest.decision.cuts[0]


@given(st.integers(0, 10_000))
def test_no_other_shift_wins_more(seed):
    random = np.random.default_rng(seed)
    n_groups = int(random.integers(1, 12))
    group = np.repeat(np.arange(n_groups), random.integers(1, 40, n_groups))
    sums = random.integers(-5, 6, n_groups).astype(float)[group]
    sign = random.choice([-1.0, 1.0], n_groups)[group]
    weight = random.integers(1, 3, len(group)) * 1.0
    found = best_shift(sums, sign, weight)
    before, after = _lost(sums, sign, weight, 0.0), _lost(sums, sign, weight, found)
    at = np.unique(-sums * sign)  # where something changes; the ends, beyond all rows, are no place
    between = (at[:-1] + at[1:]) / 2
    least = min((_lost(sums, sign, weight, shift) for shift in between), default=before)
    assert after in (least, before)
    if after == before:
        assert found == 0.0
        # all rows would have to cross for it to be chance
        assert before - least <= 3 * np.sqrt((weight**2).sum())


def test_a_few_rows_move_nothing():
    sums, sign = np.array([2.0, -0.5, 1.5]), np.array([1.0, 1.0, -1.0])
    assert best_shift(sums, sign, np.ones(3)) == 0.0
    assert best_shift(np.repeat(sums, 10), np.repeat(sign, 10), np.ones(30)) == 1.0


@pytest.mark.parametrize(
    ("name", "size"),
    [("HistGradientBoostingClassifier", {"max_iter": 40}), ("RandomForestClassifier", {"n_estimators": 40})],
)
def test_a_group_of_equal_rows_near_the_decision_keeps_its_class(name, size, monkeypatch):
    """A few categories and hundreds of equal rows, as in COMPAS: no shape of the path gives up
    more rows, beyond chance, than another intercept would."""
    random = np.random.default_rng(1)
    X = random.integers(0, 3, (1500, 6)).astype(float)
    y = random.random(1500) < 1 / (1 + np.exp(1.5 - X[:, 0] - 0.6 * X[:, 1] + 0.4 * X[:, 2]))
    native = getattr(ensemble, name)(random_state=0, **size).fit(X, y)
    monkeypatch.setattr("pine_boost.compression.path_rows._MOST_POINTS", 1000)
    task = set_up(read_model(native), "leaves", MemoryRows(X), 0, Budget.of())
    points, goal = task.sample.fitted, task.goal
    sign = np.where(_difference(points.margins, goal) > 0, 1.0, -1.0)
    for shape in walk(task, build_equations(goal, points), Pace(Budget.of())):
        sums = sign * _difference(margins(shape, goal.forest, points.leaves), goal)
        assert best_shift(sums, sign, points.weight) == 0.0
