"""Trimmed regressors and rankers: nodes really gone, native values exact."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.exporters import export
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.trimmed import assert_same_trees, cut, n_remaining

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")
tree = pytest.importorskip("sklearn.tree")

from tests.support.value_models import BAGGED, lgb, table, xgb  # noqa: E402  (needs the libraries)

MODELS = {
    "xgboost squared error": lambda: xgb("reg:squarederror"),
    "xgboost poisson": lambda: xgb("count:poisson"),
    "xgboost tweedie": lambda: xgb("reg:tweedie"),
    "xgboost ranker": lambda: xgb("rank:ndcg"),
    "lightgbm regression": lambda: lgb("regression"),
    "lightgbm l1": lambda: lgb("regression_l1"),
    "lightgbm poisson": lambda: lgb("poisson"),
    "lightgbm ranker": lambda: lgb("lambdarank"),
    "lightgbm forest": lambda: lgb("regression", **BAGGED),
    "forest": lambda: ensemble.RandomForestRegressor(7, max_depth=5, random_state=0),
    "extra trees": lambda: ensemble.ExtraTreesRegressor(7, max_depth=5, random_state=0),
    "tree": lambda: tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    "gradient": lambda: ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=8),
    "histogram gamma": lambda: ensemble.HistGradientBoostingRegressor(loss="gamma", max_iter=8),
}


@pytest.mark.parametrize("weights", ["all", "some"])
@pytest.mark.parametrize("name", MODELS)
def test_values_are_exact(name: str, weights: str) -> None:
    X, y = table()
    native = MODELS[name]()
    if hasattr(native, "fit"):
        native.fit(X, y)
    model = read_model(native, decision="value")
    forest = model.forest
    random = np.random.default_rng(len(name))
    kept = np.ones(forest.n_trees)
    if weights == "some" and forest.n_trees > 1:
        kept = random.choice([0.0, 1.0, 0.5], forest.n_trees)
        kept[0] = 1.0
    pruned = cut(grid_forest(forest, kept), share=0.3, seed=3)
    exported = export(model, pruned)
    assert type(exported) is type(native)
    rows = np.nan_to_num(np.vstack([X, edge_rows(forest, X, limit=60)]))
    margins = integer_margins(pruned, rows) / 2.0**pruned.grid
    again = read_model(exported, decision="value")
    if getattr(model.document, "family", "") == "average":
        # the mean is over as many trees as before, whatever went
        np.testing.assert_array_equal(exported.predict(rows), margins[:, 0] / forest.n_trees)
        assert again.forest.n_trees == forest.n_trees
    else:
        np.testing.assert_array_equal(predict_margins(again, rows)[0], margins)
    assert again.forest.slope == forest.slope
    assert assert_same_trees(pruned, again.forest) == n_remaining(pruned)
    assert again.forest.n_nodes == n_remaining(pruned) + again.forest.n_trees - len(pruned.kept)
