"""Regressors and rankers through Treelite: margins bit for bit, values as natively predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.exporters.treelite import to_treelite
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows

pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")

from tests.support.gtil import gtil_margins  # noqa: E402  (needs treelite)


def table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    X = random.normal(size=(250, 3)).round(2)
    return X, np.exp(0.5 * X[:, 0]) + (X[:, 1] > 0) + random.random(250)


def xgb(objective: str) -> Any:
    X, y = table()
    data = xgboost.DMatrix(X, y / y.max() if objective == "reg:logistic" else y, nthread=1)
    return xgboost.train({"objective": objective, "max_depth": 3, "nthread": 1}, data, 6)


def lgb(objective: str, **options: Any) -> Any:
    X, y = table()
    y = y / y.max() if objective.startswith("cross") else y
    parameters = {"objective": objective, "num_leaves": 7, "verbose": -1, "num_threads": 1}
    return lightgbm.train({**parameters, **options}, lightgbm.Dataset(X, y), 6)


RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
MODELS = {
    **{
        f"xgboost {objective}": lambda objective=objective: xgb(objective)
        for objective in ("reg:squarederror", "reg:logistic", "count:poisson", "reg:tweedie")
    },
    **{
        f"lightgbm {objective}": lambda objective=objective: lgb(objective)
        for objective in (
            "regression", "quantile", "poisson", "tweedie", "gamma", "cross_entropy_lambda",
        )
    },
    "lightgbm square root": lambda: lgb("regression", reg_sqrt=True),
    "lightgbm forest": lambda: lgb("regression", **RF),
    "forest": lambda: ensemble.RandomForestRegressor(6, max_depth=5, random_state=0).fit(*table()),
    "gradient": lambda: ensemble.GradientBoostingRegressor(n_estimators=6).fit(*table()),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=6).fit(*table()),
    "histogram poisson": lambda: ensemble.HistGradientBoostingRegressor(
        loss="poisson", max_iter=6
    ).fit(*table()),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_values(name: str) -> None:
    native = MODELS[name]()
    model = read_model(native, decision="value")
    X = np.nan_to_num(np.vstack([table()[0], edge_rows(model.forest, table()[0], limit=50)]))
    X = X.astype(np.float32).astype(np.float64)
    converted = to_treelite(native)
    margins, _ = predict_margins(model, X)
    found = gtil_margins(converted, model.forest, X)
    if name in ("forest", "lightgbm forest"):
        assert found == pytest.approx(margins / model.forest.n_trees, rel=1e-12)
    else:
        np.testing.assert_array_equal(found, margins)
    values = gtil_margins(converted, model.forest, X, margin=False)[:, 0]
    rows = xgboost.DMatrix(X, nthread=1) if name.startswith("xgboost") else X
    assert values == pytest.approx(native.predict(rows), rel=2e-6)
