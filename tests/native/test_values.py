"""Models without a class decision: read as values, native margins bit for bit, refused by prune."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble
from sklearn.base import clone

from pine_boost import prune_booster
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.support.grids import edge_rows
from tests.support.value_models import BAGGED, ESTIMATORS, GROUPS, is_ranking, label_for, lgb, table, xgb
from tests.support.xgboost_models import OBJECTIVES_OF_VALUES

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

LIGHTGBM_OBJECTIVES = [
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie"),
    *("cross_entropy", "cross_entropy_lambda", "lambdarank", "rank_xendcg"),
]


def _rows(forest, X):
    """Rows of the table, and rows on and one ulp beside thresholds, with NaN where accepted."""
    rows = np.vstack([X, edge_rows(forest, X, infinite=False, limit=100)])
    return rows if forest.accepts_missing else np.nan_to_num(rows)


@pytest.mark.parametrize("objective", OBJECTIVES_OF_VALUES)
def test_xgboost_values(objective):
    booster = xgb(objective, gaps=True)
    for source in (booster, bytes(booster.save_raw("json")), bytes(booster.save_raw("ubj"))):
        model = read_model(source, decision="value")
        _check_value(model)
        rows = _rows(model.forest, table(gaps=True)[0])
        native, blur = predict_margins(model, rows)
        assert blur == 0.0
        assert np.array_equal(native, native_margins(model.forest, rows))
        assert np.array_equal(native[:, 0], booster.predict(xgboost.DMatrix(rows), output_margin=True))


@pytest.mark.parametrize("name", ["XGBRegressor", "XGBRFRegressor", "XGBRanker"])
def test_xgboost_wrappers(name):
    X, y = table(gaps=True)
    wrapper = getattr(xgboost, name)(n_estimators=6, max_depth=3, n_jobs=1)
    options = {"group": GROUPS} if name == "XGBRanker" else {}
    wrapper.fit(X, (y > 2).astype(int) if name == "XGBRanker" else y, **options)
    model = read_model(wrapper, decision="value")
    _check_value(model)
    rows = _rows(model.forest, X)
    assert np.array_equal(predict_margins(model, rows)[0], native_margins(model.forest, rows))


@pytest.mark.parametrize("objective", LIGHTGBM_OBJECTIVES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_lightgbm_values(objective, wrapped):
    X, y = table(gaps=True)
    if wrapped:
        kind = lightgbm.LGBMRanker if is_ranking(objective) else lightgbm.LGBMRegressor
        trained = kind(n_estimators=6, num_leaves=7, objective=objective, verbose=-1, n_jobs=1, min_child_samples=5)
        trained.fit(X, label_for(objective, y), **({"group": GROUPS} if is_ranking(objective) else {}))
    else:
        trained = lgb(objective, gaps=True, min_data_in_leaf=5)
    model = read_model(trained, decision="value")
    _check_value(model)
    rows = _rows(model.forest, X)
    native, blur = predict_margins(model, rows)
    assert blur == 0.0
    assert np.array_equal(native, native_margins(model.forest, rows))


@pytest.mark.parametrize("boosting", ["rf", "dart"])
def test_lightgbm_value_is_slope_times_margin(boosting):
    booster = lgb("regression", gaps=True, **{**BAGGED, "boosting": boosting})
    model = read_model(booster, decision="value")
    rows = _rows(model.forest, table(gaps=True)[0])
    native = predict_margins(model, rows)[0]
    assert np.array_equal(native, native_margins(model.forest, rows))
    assert np.allclose(model.forest.slope * native[:, 0], booster.predict(rows), rtol=1e-14)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learn_values(name):
    X, y = table(gaps=not name.startswith("gradient"))
    native = clone(ESTIMATORS[name]).fit(X, y)
    model = read_model(native, decision="value")
    _check_value(model)
    rows = _rows(model.forest, X)
    expected = native_margins(model.forest, rows)
    found, blur = predict_margins(model, rows)
    if "Forest" in model.kind or "ExtraTrees" in model.kind:
        assert np.array_equal(expected[:, 0] / model.forest.n_trees, native.predict(rows))
        assert 0 < blur < 1e-12
        assert np.abs(found - expected).max() <= blur
        assert np.allclose(model.forest.slope * found[:, 0], native.predict(rows), rtol=1e-14)
    else:
        assert blur == 0.0
        assert np.array_equal(found, expected)
        link = np.exp if name.endswith(("poisson", "gamma")) else np.asarray
        assert np.allclose(link(found[:, 0]), native.predict(rows), rtol=1e-14)


def _check_value(model):
    forest = model.forest
    assert not forest.decides
    assert (forest.classes, forest.n_outputs, forest.decision.cuts) == ((), 1, ())


def test_a_classifier_keeps_its_decision():
    X, y = table(gaps=True)
    native = ensemble.HistGradientBoostingClassifier(max_iter=3).fit(X, y > 2)
    for decision in ("class", "value"):
        forest = read_model(native, decision=decision).forest
        assert forest.decides
        assert forest.classes == (False, True)
    with pytest.raises(InvalidInputError, match="'class' and 'value'"):
        read_model(native, decision="both")


def test_prune_refuses_values_and_names_what_takes_them():
    X, y = table()
    models = [
        xgb("reg:squarederror"),
        xgboost.XGBRegressor(n_estimators=2).fit(X, y),
        lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y),
        ensemble.RandomForestRegressor(2, max_depth=2).fit(X, y),
        ensemble.GradientBoostingRegressor(n_estimators=2).fit(X, y),
    ]
    for model in models:
        with pytest.raises(UnsupportedModelError, match=r"threshold=<.*compress_booster"):
            prune_booster(model, X[:200], X[200:])


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "histogram"])
def test_values_of_a_table_with_categories(library):
    import pandas

    X, y = table(gaps=True)
    codes = np.random.default_rng(4).integers(0, 5, len(X))
    names = ["ash", "birch", "cedar", "date", "elm", "fir"]
    frame = pandas.DataFrame({"a": X[:, 0], "wood": pandas.Categorical.from_codes(codes, names)})
    frame.loc[::30, "wood"] = None
    y = y + np.isin(codes, [1, 3])
    native = {
        "xgboost": lambda: xgboost.XGBRegressor(
            n_estimators=6, max_depth=3, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1
        ),
        "lightgbm": lambda: lightgbm.LGBMRegressor(
            n_estimators=6, verbose=-1, n_jobs=1, min_data_per_group=5, cat_smooth=1
        ),
        "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=6, categorical_features="from_dtype"),
    }[library]().fit(frame, y)
    model = read_model(native, decision="value")
    matrix = to_matrix(frame, schema_of(model.forest))
    native_values, blur = predict_margins(model, frame)
    assert blur == 0.0
    assert np.array_equal(native_values, native_margins(model.forest, matrix))
    edges = edge_rows(model.forest, matrix, limit=60)
    known = np.isnan(edges[:, 1]) | np.isin(edges[:, 1], np.arange(len(names)))
    found = predict_margins(model, as_table(edges[known], schema_of(model.forest)))[0]
    assert np.array_equal(found, native_margins(model.forest, edges[known]))
