"""Thresholds on probabilities and predictions, regressors, and the IsolationForest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.model import exact
from pine_boost.model.reference import native_margins
from pine_boost.parsers.sklearn.read import read_isolation_forest, read_sklearn
from tests.support.grids import edge_rows

pytest.importorskip("sklearn")

from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from tests.support.sklearn_models import fitted, probe_rows, table


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.83])
def test_probability_threshold_of_gradient_boosting(loss: str, threshold: float) -> None:
    X, y = table(2, "")
    native = GradientBoostingClassifier(n_estimators=6, learning_rate=0.5, loss=loss, random_state=0).fit(X, y)
    forest = read_sklearn(native, threshold=threshold).forest
    margins = native_margins(forest, X)[:, 0]
    assert np.array_equal(margins, native.decision_function(X))
    assert forest.decision.thresholds == (threshold,)
    clear = np.abs(margins - forest.decision.cuts[0]) > forest.decision.guard
    above = native.predict_proba(X)[:, 1] > threshold
    assert clear.sum() > 200
    assert 0 < above.sum() < len(X)
    assert np.array_equal(above[clear], margins[clear] > forest.decision.cuts[0])


def test_guard_covers_the_sigmoid_next_to_the_cut() -> None:
    X, y = table(2, "")
    for threshold in (0.01, 0.3, 0.9):
        native = HistGradientBoostingClassifier(max_iter=1).fit(X, y)
        decision = read_sklearn(native, threshold=threshold).forest.decision
        margin = decision.cuts[0] + decision.guard * np.array([-1.0, 1.0])
        native._predictors = []
        for side, expected in zip(margin, [False, True], strict=True):
            native._baseline_prediction = np.array([[side]])
            assert (native.predict_proba(X[:1])[0, 1] > threshold) is np.bool_(expected)


def test_several_thresholds_are_ordered_bands() -> None:
    X, y = table(2, "")
    native = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    forest = read_sklearn(native, threshold=[0.2, 0.7]).forest
    assert forest.decision.thresholds == (0.2, 0.7)
    assert forest.classes == (0, 1, 2)
    bands = np.searchsorted(forest.decision.cuts, native_margins(forest, X)[:, 0])
    native_bands = np.searchsorted([0.2, 0.7], native.predict_proba(X)[:, 1])
    assert np.array_equal(bands, native_bands)


@pytest.mark.parametrize("threshold", [0.5, 0.25, 0.3])
@pytest.mark.parametrize("name", ["forest", "forest of pure leaves", "tree"])
def test_probability_threshold_of_a_forest(name: str, threshold: float) -> None:
    native = fitted(name, 2)
    model = read_sklearn(native, threshold=threshold)
    forest = model.forest
    assert forest.n_outputs == 1
    codes, raw = probe_rows(model, name, 2)
    margins = native_margins(forest, codes)[:, 0]
    above = native.predict_proba(raw)[:, 1] > threshold
    clear = np.abs(margins) > exact.summation_band(forest) + forest.decision.guard
    if exact.is_exact(forest):
        clear[:] = True  # a tie is a tie
    assert clear.mean() > 0.9
    assert np.array_equal(above[clear], margins[clear] > 0)


@pytest.mark.parametrize(
    "native",
    [
        RandomForestRegressor(5, max_depth=4, random_state=0),
        ExtraTreesRegressor(5, max_depth=4, random_state=0),
        DecisionTreeRegressor(max_depth=4, random_state=0),
        GradientBoostingRegressor(n_estimators=5, random_state=0),
        GradientBoostingRegressor(n_estimators=5, loss="huber", random_state=0),
        HistGradientBoostingRegressor(max_iter=5, random_state=0),
    ],
    ids=lambda native: type(native).__name__,
)
def test_regressors_need_a_threshold(native: Any) -> None:
    X, y = table(3, "")
    target = X[:, 0] * 2 + y
    native.fit(X, target)
    forest = read_sklearn(native, threshold=0.7).forest
    margins = native_margins(forest, X)[:, 0]
    above = native.predict(X) > 0.7
    assert 0 < above.sum() < len(X)
    assert forest.classes == (0, 1)
    assert np.array_equal(above, margins > forest.decision.cuts[0])


@pytest.mark.parametrize("max_features", [1.0, 0.5])
@pytest.mark.parametrize("contamination", ["auto", 0.1])
def test_isolation_forest(max_features: float, contamination: Any) -> None:
    X, _ = table(2, "")
    native = IsolationForest(
        n_estimators=12, max_features=max_features, contamination=contamination, random_state=0
    ).fit(X)
    forest = read_isolation_forest(native)
    rows = np.vstack([X, edge_rows(forest, X, limit=60)])
    rows = np.where(np.isnan(rows), 0.0, rows)
    margins = native_margins(forest, rows)[:, 0]
    from sklearn.ensemble._iforest import _average_path_length

    denominator = 12 * _average_path_length([native._max_samples])
    assert np.array_equal(-(2 ** (-margins / denominator)), native.score_samples(rows))
    cut, guard = forest.decision.cuts[0], forest.decision.guard
    clear = np.abs(margins - cut) > guard
    labels = np.where(margins >= cut, 1, -1)
    assert np.array_equal(labels[clear], native.predict(rows)[clear])
    assert set(labels) == {-1, 1}
