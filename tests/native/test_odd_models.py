"""Models that once ended in an internal error: numbers that mean missing, links, categories; what becomes of them."""

import lightgbm
import numpy as np
import pandas
import polars
import pytest
import xgboost
from sklearn import ensemble

from pine_boost import prune_booster
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.reference import native_margins
from pine_boost.model.states import build_space
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.support import value_models
from tests.support.category_tables import models_of_categories
from tests.support.verifying import verify_folder


def _numbers():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4)).round(1)
    X[:, 3] = random.integers(0, 3, 600)
    return X, X[:, 0] + X[:, 1] * (X[:, 3] > 0) + 0.3 * random.normal(size=600)


def _prune(model, X, threshold=None):
    """Prune, and compare both natives on the rows of the region that are not undecided."""
    result = prune_booster(model, X[:300], X[300:], alpha=0.3, threshold=threshold, time_limit=20)
    assert result.status == "CERTIFIED"
    inside = result.region.contains(X[300:])
    assert inside.any()
    before, after = (predict_classes(m, X[300:]) for m in (result.original, result.pruned))
    assert np.array_equal(before[inside], after[inside])
    return result


@pytest.mark.parametrize("missing", [0.0, 1.0, -999.0, np.float64(0.1)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_number_that_means_missing(missing, n_classes):
    X, score = _numbers()
    X[::7, 1] = missing
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1, missing=missing)
    result = _prune(model.fit(X, y), X)
    forest = result.original.forest
    space = build_space(forest)
    every = np.arange(int(space.n_states.max()))[:, None]
    states = np.minimum(every, space.n_states - 1)
    values = space.representative(states)
    reachable = np.column_stack([a.reachable[s] for a, s in zip(space.axes, states.T, strict=True)])
    assert not np.any((values.astype(np.float32) == np.float32(missing)) & reachable)
    usable = values[reachable.all(axis=1)]
    native = model.predict(usable, output_margin=True).reshape(len(usable), -1)
    assert np.array_equal(native, native_margins(forest, usable))


def test_a_state_that_only_the_missing_number_could_reach_is_unreachable():
    X = np.repeat([[0.0], [1.0], [2.0]], 60, axis=0)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1, missing=1.0, tree_method="exact").fit(
        X, np.repeat([0, 1, 0], 60)
    )
    space = build_space(read_model(model).forest)
    for state in np.flatnonzero(space.axes[0].reachable[: space.axes[0].n_intervals]):
        assert space.representative(np.array([[state]]))[0, 0] != 1.0


@pytest.mark.parametrize("missing", [np.inf, -np.inf])
def test_infinity_that_means_missing_is_refused(missing):
    X, score = _numbers()
    model = xgboost.XGBClassifier(n_estimators=2, missing=missing, n_jobs=1).fit(X, score > 0)
    with pytest.raises(UnsupportedModelError, match="set missing="):
        prune_booster(model, X[:300], X[300:])


def _positive():
    X, score = _numbers()
    return X, np.exp(0.5 * score) + np.random.default_rng(1).random(len(X))


def _between(values):
    """The middle of the widest gap among the central values: no row is undecided."""
    found = np.unique(values.astype(float))
    central = found[len(found) // 4 : 3 * len(found) // 4]
    widest = int(np.argmax(np.diff(central)))
    return float(central[widest : widest + 2].mean())


@pytest.mark.parametrize("objective", ["count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "reg:logistic"])
def test_xgboost_links_are_cut_on_the_margin(objective):
    X, y = _positive()
    y = y / y.max() if objective == "reg:logistic" else y
    model = xgboost.XGBRegressor(objective=objective, n_estimators=6, max_depth=2, n_jobs=1)
    margins = model.fit(X, y).predict(X, output_margin=True)
    cut = _between(margins)
    for source in (model, model.get_booster()):
        result = _prune(source, X, threshold=cut)
        assert np.array_equal(predict_classes(result.original, X), margins > np.float32(cut))


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "poisson"},
        {"objective": "gamma"},
        {"objective": "tweedie"},
        {"objective": "cross_entropy_lambda"},
        {"objective": "regression", "reg_sqrt": True},
        {"objective": "poisson", "boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    ],
    ids=lambda options: options["objective"],
)
def test_lightgbm_links_are_cut_on_the_raw_score(options):
    X, y = _positive()
    y = y / y.max() if options["objective"].startswith("cross") else y
    model = lightgbm.LGBMRegressor(n_estimators=6, max_depth=2, n_jobs=1, verbose=-1, **options)
    raw = model.fit(X, y).predict(X, raw_score=True) / (6 if "boosting_type" in options else 1)
    cut = _between(raw)
    for source in (model, model.booster_):
        result = _prune(source, X, threshold=cut)
        assert np.array_equal(predict_classes(result.original, X), raw > cut)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_scikit_learn_links_are_cut_on_the_raw_prediction(loss):
    X, y = _positive()
    model = ensemble.HistGradientBoostingRegressor(loss=loss, max_iter=6, max_depth=2).fit(X, y)
    cut = _between(np.log(model.predict(X)))
    result = _prune(model, X, threshold=cut)
    assert np.array_equal(predict_classes(result.original, X), np.log(model.predict(X)) > cut)


def test_logitraw_with_a_probability_threshold():
    X, score = _numbers()
    model = xgboost.XGBClassifier(objective="binary:logitraw", n_estimators=6, max_depth=2, n_jobs=1).fit(
        X, (score > 0).astype(int)
    )
    for source in (model, model.get_booster()):
        result = _prune(source, X, threshold=0.3)
        raw = model.predict(X, output_margin=True)
        expected = 1 / (1 + np.exp(-raw.astype(float))) > 0.3
        assert np.array_equal(predict_classes(result.original, X), expected)


def _categories(n_known):
    """Six categories in the rows, ``n_known`` in the table's type, some gaps."""
    X, _ = _numbers()
    random = np.random.default_rng(3)
    codes = random.integers(0, 6, len(X))
    names = list("abcdefghi")[:n_known]
    frame = pandas.DataFrame({"x": X[:, 0], "c": pandas.Categorical.from_codes(codes, categories=names), "y": X[:, 1]})
    frame.loc[::40, "c"] = None
    label = np.isin(codes, [1, 4]) ^ (X[:, 0] > 0) ^ (random.random(len(X)) < 0.1)
    return frame, label.astype(int)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "histogram"])
@pytest.mark.parametrize("n_known", [6, 9])
def test_categories_of_every_table(library, kind, n_known):
    frame, label = _categories(n_known)
    model = models_of_categories()[library].fit(frame, label)
    table = frame
    if kind == "polars":
        table = polars.from_pandas(frame)
        if library == "xgboost":  # 3.3 and later refuse polars.Categorical by name
            table = table.with_columns(polars.col("c").cast(polars.Enum(list(frame["c"].cat.categories))))
    if kind == "pyarrow":
        import pyarrow as arrow

        if library == "histogram":  # a null of Arrow is no missing category to it
            frame = frame.assign(c=frame["c"].fillna("a"))
        table = arrow.Table.from_pandas(frame, preserve_index=False)
    _prune(model, table)
    if library != "histogram" and kind == "pandas":
        booster = model.get_booster() if library == "xgboost" else model.booster_
        _prune(booster, table)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "histogram"])
@pytest.mark.parametrize("n_known", [6, 9])
def test_every_state_of_a_category_is_replayed_as_itself(library, n_known):
    frame, label = _categories(n_known)
    model = read_model(models_of_categories()[library].fit(frame, label))
    space = build_space(model.forest)
    axis = space.axes[1]
    assert axis.codes is not None
    states = np.zeros((axis.n_states, 3), dtype=int)
    states[:, 1] = np.arange(axis.n_states)
    matrix = space.representative(states)
    assert np.array_equal(space.states(matrix), states)
    if n_known == 9 and axis.other_state >= 0:  # a known category that no split names
        assert matrix[axis.other_state, 1] < n_known
    native, _ = predict_margins(model, as_table(matrix, schema_of(model.forest)))
    assert np.array_equal(native, native_margins(model.forest, matrix))


def test_infinity_in_the_rows_of_a_booster():
    X, score = _numbers()
    X[3, 0], X[5, 1] = np.inf, -np.inf
    rows = np.where(np.isinf(X), 0.0, X)
    booster = xgboost.train(
        {"max_depth": 2, "objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(rows, score > 0), 6
    )
    _prune(booster, X)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "histogram"])
def test_a_table_that_the_library_refuses_is_an_error_of_ours(library):
    frame, label = _categories(6)
    model = read_model(models_of_categories()[library].fit(frame, label))
    for ask in (predict_classes, predict_margins):
        with pytest.raises(InvalidInputError, match="own predict refuses this table"):
            ask(model, frame.assign(x="text"))


THRESHOLDED = {
    "xgboost poisson": (lambda: xgboost.XGBRegressor(objective="count:poisson", n_estimators=6, max_depth=2), 0.5),
    "lightgbm gamma": (
        lambda: lightgbm.LGBMRegressor(objective="gamma", n_estimators=6, max_depth=2, verbose=-1, n_jobs=1),
        0.5,
    ),
    "histogram poisson": (lambda: ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=6), 0.5),
    "forest": (lambda: ensemble.RandomForestRegressor(6, max_depth=3, random_state=0), 2.0),
    "forest of classes": (lambda: ensemble.RandomForestClassifier(6, max_depth=3, random_state=0), 0.4),
}


@pytest.mark.parametrize("name", THRESHOLDED)
def test_the_region_takes_the_original_itself(name):
    make, threshold = THRESHOLDED[name]
    X, y = value_models.table(n_rows=600)
    model = make().fit(X, (y > 2).astype(int) if "classes" in name else y)
    result = prune_booster(model, X[:300], X[300:], alpha=0.4, indifference=0.05, threshold=threshold, time_limit=20)
    region, rows = result.region, X[300:]
    margins, _ = predict_margins(read_model(model, threshold=threshold), rows)
    expected = region.contains(rows, margins=margins)
    assert 0 < expected.sum() < len(rows)
    # a forest's own margin is its mean times its trees: rows exactly at delta may fall either way
    clear = np.abs(np.abs(margins[:, 0] - region.cuts[0]) - region.delta) > 1e-12
    assert clear.mean() > 0.5
    assert np.array_equal(region.contains(rows, model=model)[clear], expected[clear])
    other = make().fit(X, (y > 1.9).astype(int) if "classes" in name else y + X[:, 2] ** 2)
    with pytest.raises(InvalidInputError, match="not the one"):
        region.contains(rows, model=other)


@pytest.mark.parametrize(
    "options",
    [{"missing": -999.0}, {"missing": 0.0}, {"objective": "binary:logitraw"}],
    ids=["missing -999", "missing 0", "logitraw"],
)
def test_files_of_odd_wrappers_verify(options, tmp_path):
    X, y = value_models.table(n_rows=600)
    X[::7, 1] = options.get("missing", X[::7, 1])
    label = (y > 2).astype(int) ^ (np.random.default_rng(1).random(600) < 0.1)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=1, n_jobs=1, **options).fit(X, label)
    result = prune_booster(model, X[:300], X[300:], alpha=0.3, time_limit=20)
    assert result.certificate.trees_after < result.certificate.trees_before
    model.save_model(tmp_path / "original.json")
    assert verify_folder(tmp_path / "original.json", result.save(tmp_path / "pruned")).agrees is True
