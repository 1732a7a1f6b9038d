"""Models without a class decision: read as values, native margins bit for bit, refused by prune."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble, tree

from pine_boost import prune_booster
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.support.grids import edge_rows
from tests.support.xgboost_models import OBJECTIVES_OF_VALUES

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

LIGHTGBM_OBJECTIVES = [
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie"),
    *("cross_entropy", "cross_entropy_lambda", "lambdarank", "rank_xendcg"),
]
REGRESSORS = {
    "gradient": lambda: ensemble.GradientBoostingRegressor(n_estimators=6, random_state=0),
    "huber": lambda: ensemble.GradientBoostingRegressor(loss="huber", n_estimators=6, random_state=0),
    "forest": lambda: ensemble.RandomForestRegressor(6, max_depth=5, random_state=0),
    "extra trees": lambda: ensemble.ExtraTreesRegressor(6, max_depth=5, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=6),
    "histogram poisson": lambda: ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=6),
    "histogram gamma": lambda: ensemble.HistGradientBoostingRegressor(loss="gamma", max_iter=6),
    "tree": lambda: tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    "extra tree": lambda: tree.ExtraTreeRegressor(max_depth=5, random_state=0),
}


def _table(gaps=True):
    random = np.random.default_rng(2)
    X = random.normal(size=(300, 4)).round(2)
    y = np.exp(0.5 * X[:, 0]) + (X[:, 1] > 0) + random.random(300)
    if gaps:
        X[random.random(X.shape) < 0.1] = np.nan
    return X, y


def _rows(forest, X):
    """Rows of the table, and rows on and one ulp beside thresholds, with NaN where accepted."""
    rows = np.vstack([X, edge_rows(forest, X, infinite=False, limit=100)])
    return rows if forest.accepts_missing else np.nan_to_num(rows)


def _booster(objective):
    X, y = _table()
    y = y / y.max() if objective == "reg:logistic" else y
    y = (y > 2).astype(float) if objective == "rank:map" else y
    data = xgboost.DMatrix(X, np.round(y) if objective == "rank:ndcg" else y, nthread=1)
    if objective.startswith("rank:"):
        data.set_group([30] * 10)
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", y)
        data.set_float_info("label_upper_bound", y)
    options = {"quantile_alpha": 0.3} if objective == "reg:quantileerror" else {}
    return xgboost.train({"objective": objective, "max_depth": 3, "nthread": 1, **options}, data, 6)


@pytest.mark.parametrize("objective", OBJECTIVES_OF_VALUES)
def test_xgboost_values(objective):
    booster = _booster(objective)
    for source in (booster, bytes(booster.save_raw("json")), bytes(booster.save_raw("ubj"))):
        model = read_model(source, decision="value")
        _check_value(model)
        rows = _rows(model.forest, _table()[0])
        native, blur = predict_margins(model, rows)
        assert blur == 0.0
        assert np.array_equal(native, native_margins(model.forest, rows))
        assert np.array_equal(native[:, 0], booster.predict(xgboost.DMatrix(rows), output_margin=True))


@pytest.mark.parametrize("name", ["XGBRegressor", "XGBRFRegressor", "XGBRanker"])
def test_xgboost_wrappers(name):
    X, y = _table()
    wrapper = getattr(xgboost, name)(n_estimators=6, max_depth=3, n_jobs=1)
    options = {"group": [30] * 10} if name == "XGBRanker" else {}
    wrapper.fit(X, (y > 2).astype(int) if name == "XGBRanker" else y, **options)
    model = read_model(wrapper, decision="value")
    _check_value(model)
    rows = _rows(model.forest, X)
    assert np.array_equal(predict_margins(model, rows)[0], native_margins(model.forest, rows))


@pytest.mark.parametrize("objective", LIGHTGBM_OBJECTIVES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_lightgbm_values(objective, wrapped):
    X, y = _table()
    y = y / y.max() if objective.startswith("cross") else y
    is_rank = objective.startswith(("lambda", "rank"))
    y = np.minimum(np.round(y), 3) if is_rank else y
    options = {"objective": objective, "verbose": -1, "n_jobs": 1, "min_child_samples": 5}
    if wrapped:
        kind = lightgbm.LGBMRanker if is_rank else lightgbm.LGBMRegressor
        trained = kind(n_estimators=6, num_leaves=7, **options)
        trained.fit(X, y, **({"group": [30] * 10} if is_rank else {}))
    else:
        data = lightgbm.Dataset(X, y, group=[30] * 10 if is_rank else None)
        trained = lightgbm.train({"num_leaves": 7, **options}, data, 6)
    model = read_model(trained, decision="value")
    _check_value(model)
    rows = _rows(model.forest, X)
    native, blur = predict_margins(model, rows)
    assert blur == 0.0
    assert np.array_equal(native, native_margins(model.forest, rows))


@pytest.mark.parametrize("boosting", ["rf", "dart"])
def test_lightgbm_value_is_slope_times_margin(boosting):
    X, y = _table()
    options = {
        "objective": "regression",
        "verbose": -1,
        "num_threads": 1,
        "bagging_freq": 1,
        "boosting": boosting,
        "bagging_fraction": 0.6,
    }
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), 6)
    model = read_model(booster, decision="value")
    rows = _rows(model.forest, X)
    native = predict_margins(model, rows)[0]
    assert np.array_equal(native, native_margins(model.forest, rows))
    assert np.allclose(model.forest.slope * native[:, 0], booster.predict(rows), rtol=1e-14)


@pytest.mark.parametrize("name", REGRESSORS)
def test_scikit_learn_values(name):
    X, y = _table(gaps=name not in ("gradient", "huber"))
    native = REGRESSORS[name]().fit(X, y)
    model = read_model(native, decision="value")
    _check_value(model)
    rows = _rows(model.forest, X)
    expected = native_margins(model.forest, rows)
    found, blur = predict_margins(model, rows)
    if "Forest" in model.kind or "ExtraTrees" in model.kind:
        assert np.array_equal(expected[:, 0] / 6, native.predict(rows))
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
    X, y = _table()
    native = ensemble.HistGradientBoostingClassifier(max_iter=3).fit(X, y > 2)
    for decision in ("class", "value"):
        forest = read_model(native, decision=decision).forest
        assert forest.decides
        assert forest.classes == (False, True)
    with pytest.raises(InvalidInputError, match="'class' and 'value'"):
        read_model(native, decision="both")


def test_prune_refuses_values_and_names_what_takes_them():
    X, y = _table(gaps=False)
    models = [
        _booster("reg:squarederror"),
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

    X, y = _table()
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
    table = as_table(edges[known], schema_of(model.forest))
    found = predict_margins(model, table)[0]
    assert np.array_equal(found, native_margins(model.forest, edges[known]))
