"""Regressors and rankers through Treelite: margins bit for bit, values as natively predicted."""

import numpy as np
import pytest
import xgboost
from sklearn import ensemble

from pine_boost.exporters.treelite import to_treelite
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows
from tests.support.gtil import gtil_margins
from tests.support.value_models import BAGGED, lgb, table, xgb

MODELS = {
    **{
        f"xgboost {objective}": lambda objective=objective: xgb(objective)
        for objective in ("reg:squarederror", "reg:logistic", "count:poisson", "reg:tweedie")
    },
    **{
        f"lightgbm {objective}": lambda objective=objective: lgb(objective)
        for objective in ("regression", "quantile", "poisson", "tweedie", "gamma", "cross_entropy_lambda")
    },
    "lightgbm square root": lambda: lgb("regression", reg_sqrt=True),
    "lightgbm forest": lambda: lgb("regression", **BAGGED),
    "forest": lambda: ensemble.RandomForestRegressor(6, max_depth=5, random_state=0).fit(*table()),
    "gradient": lambda: ensemble.GradientBoostingRegressor(n_estimators=6).fit(*table()),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=6).fit(*table()),
    "histogram poisson": lambda: ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=6).fit(*table()),
}


@pytest.mark.parametrize("name", MODELS)
def test_values(name):
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
