"""Proved scorers against the native ``predict``: classes, probabilities and margins without tolerance."""

import importlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import catboost
import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.kernels.numpy_twin import NumpyTrees
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.parsers import read_model
from pine_boost.scoring.fast_scorer import FastScorer
from tests.support.hard_rows import hard_table
from tests.support.native_models import CATBOOST_QUIET, MODELS, built, has_same_probabilities, make_table
from tests.support.native_tables import KINDS, numeric_tables, probes, trained

BINARY = [name for name in MODELS if "3 classes" not in name and "softmax" not in name]
THRESHOLDED = [name for name in BINARY if "hinge" not in name and "ada" not in name]


def native_labels(model, table):
    return np.asarray(model.forest.classes)[predict_classes(model, table)]


@pytest.mark.parametrize("name", MODELS)
def test_classes_are_the_native_ones(name):
    result = pine_boost.accelerate_booster(built(name)[0])
    model = result.original
    table = hard_table(model.forest)
    expected = native_labels(model, table)
    assert result.status == "CERTIFIED"
    assert np.array_equal(result.scorer.predict(table), expected)
    assert [result.scorer.predict(table[i : i + 1])[0] for i in range(200)] == expected[:200].tolist()
    assert 0 < result.work <= 1
    # the twin exits at the same trees
    parts = result.scorer.parts
    met = np.zeros(len(table), dtype=np.int32)
    matrix = result.scorer._matrix(table)
    classes = NumpyTrees(parts.flat, parts.native, parts.plan).classes(matrix, met=met)
    assert np.array_equal(np.asarray(parts.classes)[classes], expected)
    assert np.array_equal(met, result.scorer.trees_met(table))


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_and_margins_are_the_native_ones_bit_for_bit(name):
    native, _ = built(name)
    result = pine_boost.accelerate_booster(native)
    model = result.original
    table = hard_table(model.forest)
    margins, blur = predict_margins(model, table)
    if blur == 0:  # the library returns its sums as they are
        assert np.array_equal(result.scorer.decision_function(table).reshape(margins.shape), margins)
    if hasattr(native, "decision_function"):
        assert np.array_equal(result.scorer.decision_function(table), native.decision_function(table))
    if hasattr(native, "predict_proba"):
        expected = native.predict_proba(table)
        found = result.scorer.predict_proba(table)
        assert found.dtype == expected.dtype
        assert has_same_probabilities("MultiClass" if name == "cat 3 classes" else name, found, expected)
    elif name in ("xgb hinge", "xgb softmax"):
        with pytest.raises(UnsupportedModelError, match="no prob"):
            result.scorer.predict_proba(table)


@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
@pytest.mark.parametrize("n_classes", [3, 4, 5, 7, 9])
def test_probabilities_of_catboost_are_the_native_ones_for_any_margins(loss, n_classes, tmp_path):
    """Also where an exponential would underflow: CatBoost counts these differently by their place in a register."""
    X, y = make_table(n_classes, n_rows=600)
    native = catboost.CatBoostClassifier(**CATBOOST_QUIET, loss_function=loss, iterations=5).fit(X, y)
    native.save_model(str(tmp_path / "model.json"), format="json")
    document = json.loads((tmp_path / "model.json").read_text())
    leaves = [tree["leaf_values"] for tree in document["oblivious_trees"]]
    for scale in (1.0, 40.0, 400.0, 20000.0):
        for tree, values in zip(document["oblivious_trees"], leaves, strict=True):
            tree["leaf_values"] = [scale * value for value in values]
        (tmp_path / "scaled.json").write_text(json.dumps(document))
        native = catboost.CatBoostClassifier().load_model(str(tmp_path / "scaled.json"), format="json")
        scorer = pine_boost.accelerate_booster(native).scorer
        assert has_same_probabilities(loss, scorer.predict_proba(X), native.predict_proba(X))
        assert has_same_probabilities(loss, scorer.predict_proba(X[:1]), native.predict_proba(X[:1]))


AVERAGED = ("random forest", "extra trees")  # they take one threshold
BANDS = [(name, (0.2, 0.5, 0.7)) for name in THRESHOLDED if name not in AVERAGED]


@pytest.mark.parametrize(("name", "threshold"), [*((name, t) for name in THRESHOLDED for t in (0.3, 0.731)), *BANDS])
def test_own_thresholds(name, threshold):
    native, _ = built(name)
    result = pine_boost.accelerate_booster(native, threshold=threshold)
    table = hard_table(result.original.forest)
    assert np.array_equal(result.scorer.predict(table), native_labels(result.original, table))
    if threshold == 0.3:
        assert "the class that the model's own probability gives at the threshold 0.3." in result.claim
    if isinstance(threshold, tuple):
        claim = "the score band that the model's own probability gives at the thresholds 0.2, 0.5, 0.7."
        assert result.claim.endswith(claim)


@pytest.mark.parametrize(
    "model",
    [
        xgboost.XGBRegressor(objective="reg:logistic", n_estimators=3, max_depth=2),
        lightgbm.LGBMRegressor(objective="cross_entropy_lambda", n_estimators=3, min_child_samples=2, verbose=-1),
        ensemble.RandomForestRegressor(n_estimators=3, max_depth=2),
    ],
)
def test_a_threshold_of_a_regressor_is_one_of_raw_values(model):
    X = np.random.default_rng(0).normal(size=(200, 3))
    fitted = model.fit(X, (X[:, 0] > 0).astype(float))
    result = pine_boost.accelerate_booster(fitted, threshold=1.5)
    assert "the class that the model's own raw value gives at the threshold 1.5." in result.claim


def test_a_score_at_the_threshold_is_compared_as_the_library_does():
    """Thresholds that are themselves probabilities of the model: decided in its own float type."""
    native, X = built("xgb binary")
    table = X[:300]
    for probability in np.unique(native.predict_proba(table)[:, 1])[::7]:
        result = pine_boost.accelerate_booster(native, threshold=float(probability))
        expected = native.predict_proba(table)[:, 1] > float(probability)
        assert np.array_equal(result.scorer.predict(table).astype(bool), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table(kind):
    native = trained(kind)
    result = pine_boost.accelerate_booster(native)
    tables = numeric_tables(probes(result.original.forest, 60))
    assert len(result.scorer.predict(tables.pop("no row"))) == 0  # XGBoost warns of it
    for name, table in tables.items():
        try:
            expected = native_labels(result.original, table)
        except PineBoostError:
            continue  # the library refuses it; what we read may be more
        try:
            found = result.scorer.predict(table)
        except InvalidInputError:
            continue  # refused rather than guessed
        assert np.array_equal(found, expected), name


def test_what_the_library_refuses_is_refused():
    gradient = pine_boost.accelerate_booster(built("gradient boosting")[0]).scorer
    row = built("gradient boosting")[1][:1].copy()
    for bad in (np.nan, np.inf, 1e39):
        table = row.copy()
        table[0, 3] = bad
        with pytest.raises(InvalidInputError):
            gradient.predict(table)
        with pytest.raises(InvalidInputError):
            gradient.predict(np.repeat(table, 5, axis=0))
        with pytest.raises(InvalidInputError):
            gradient.decision_function(table)
    for table in (row[:, :3], row[0], np.zeros((0, 3)), "text", None):
        with pytest.raises(InvalidInputError):
            gradient.predict(table)
    assert len(gradient.predict(row[:0])) == 0


@pytest.mark.parametrize("name", ["xgb binary", "lgb 3 classes", "random forest", "histogram"])
def test_a_pickled_scorer_and_threads(name):
    native, X = built(name)
    scorer = pine_boost.accelerate_booster(native).scorer
    many = np.tile(X, (40, 1))
    expected = scorer.predict(many)
    again = pickle.loads(pickle.dumps(scorer))
    assert np.array_equal(again.predict(many), expected)
    again.n_jobs = 2
    assert np.array_equal(again.predict(many), expected)
    assert np.array_equal(again.decision_function(many), scorer.decision_function(many))
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(scorer.predict, [many[i::7] for i in range(7)]):
            assert len(found)
        parts = list(pool.map(lambda row: scorer.predict(row), [X[i : i + 1] for i in range(200)]))
    assert np.concatenate(parts).tolist() == expected[:200].tolist()
    again.n_jobs = -1
    assert np.array_equal(again.predict(many), expected)
    for wrong in (0, -2, 1.5, True, "2"):
        with pytest.raises(InvalidInputError, match="n_jobs must be a positive integer or -1, got"):
            again.n_jobs = wrong
        with pytest.raises(InvalidInputError, match="n_jobs must be a positive integer or -1, got"):
            FastScorer(scorer.parts, wrong)
    assert again.n_jobs == -1


def test_names_and_shape_are_known():
    native, _ = built("xgb binary")
    scorer = pine_boost.accelerate_booster(native).scorer
    assert scorer.n_features_in_ == 4
    assert scorer.classes_.tolist() == [0, 1]
    assert not hasattr(scorer, "feature_names_in_")


def test_text_labels_and_frames():
    from sklearn.ensemble import HistGradientBoostingClassifier

    _, X = built("histogram")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["b"] = pandas.Categorical.from_codes(frame["b"].astype(int) % 6, list("uvwxyz"))
    labels = np.where(X[:, 0] > 0, "yes", "no")
    native = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype").fit(frame, labels)
    scorer = pine_boost.accelerate_booster(native).scorer
    assert np.array_equal(scorer.predict(frame), native.predict(frame))
    assert scorer.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert [scorer.predict(frame.iloc[i : i + 1])[0] for i in range(30)] == native.predict(frame.iloc[:30]).tolist()


def test_a_pipeline_is_accelerated_as_a_whole():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    native, X = built("gradient boosting")
    y = native.predict(X)
    pipeline = make_pipeline(StandardScaler(), type(native)(n_estimators=8, random_state=0)).fit(X, y)
    result = pine_boost.accelerate_booster(pipeline)
    assert np.array_equal(result.scorer.predict(X), pipeline.predict(X))
    with pytest.raises(PineBoostError):
        pine_boost.accelerate_booster(LogisticRegression().fit(X, y))


def test_rows_to_fit_choose_an_order_that_is_proved_too():
    native, X = built("lgb binary")
    plain, fitted = pine_boost.accelerate_booster(native), pine_boost.accelerate_booster(native, X)
    assert fitted.work_rows == "X_fit"
    table = hard_table(plain.original.forest)
    assert np.array_equal(fitted.scorer.predict(table), plain.scorer.predict(table))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"fidelity": 1.5}, "fidelity"), ({"fidelity": 0}, "fidelity"), ({"X_val": np.zeros((3, 4))}, "X_val")],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(InvalidInputError, match=message):
        pine_boost.accelerate_booster(built("xgb binary")[0], **options)


def test_speedup_is_measured_beside_the_native_model():
    result = pine_boost.accelerate_booster(built("xgb binary")[0])
    found = result.speedup(sizes=(1, 64))
    assert set(found) == {1, 64}
    assert min(found.values()) > 0  # how fast depends on the machine: the numpy twin is slower for a row
    assert result.claim in result.summary()
    assert "CERTIFIED" in result._repr_html_()


def test_speedup_on_frames_with_and_without_categories():
    import lightgbm

    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"size": rng.normal(size=400), "colour": rng.choice(["red", "green"], 400)})
    frame["colour"] = frame["colour"].astype("category")
    target = (frame["size"] > 0) ^ (frame["colour"] == "red")
    for columns in (["size", "colour"], ["size"]):
        model = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(frame[columns], target)
        for X_fit in (None, frame[columns]):
            result = pine_boost.accelerate_booster(model, X_fit)
            assert set(result.speedup(sizes=(1, 8))) == {1, 8}


def test_the_headline_says_how_many_trees_an_input_visits():
    result = pine_boost.accelerate_booster(built("xgb binary")[0])
    n_trees = result.original.forest.n_trees
    assert (
        replace(result, facts={**result.facts, "work": 0.37})
        .headline()
        .startswith(f"CERTIFIED: {n_trees} trees; a typical input visits ")
    )
    assert (
        replace(result, facts={**result.facts, "work": 1.0}).headline().endswith("visits all of them (synthetic rows).")
    )


def test_a_feature_with_more_thresholds_than_a_bin_has_values():
    """200 000 thresholds of one feature need several columns of 16-bit bins."""
    from sklearn.ensemble import ExtraTreesRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 1))
    native = ExtraTreesRegressor(n_estimators=3, min_samples_leaf=1, random_state=0, n_jobs=1).fit(
        X, rng.normal(size=60_000)
    )
    model = read_model(native, threshold=0.0)
    assert len(np.unique(model.forest.threshold)) > 2**16
    scorer = pine_boost.accelerate_booster(native, threshold=0.0).scorer
    assert len(scorer.parts.flat.column_base) > 2
    rows = np.concatenate([X[:4000], np.nextafter(X[:2000], 9.0), np.quantile(X, [0, 1])[:, None]])
    assert np.array_equal(scorer.predict(rows), predict_classes(model, rows))


def test_wrong_exits_change_a_class_and_are_refused():
    """The exits matter: far too tight ones give another class somewhere, and the check finds them."""
    from pine_boost.kernels import bind
    from pine_boost.proof.exits import faults_of

    result = pine_boost.accelerate_booster(built("xgb binary")[0])
    parts, forest = result.scorer.parts, result.original.forest
    eager = replace(parts.plan, low=np.zeros_like(parts.plan.low), high=np.zeros_like(parts.plan.high))
    assert faults_of(forest, eager)
    table = hard_table(forest, 4000)
    assert (bind(parts.flat, parts.native, eager).classes(table) != predict_classes(result.original, table)).any()


@pytest.mark.parametrize("loss", ["poisson", "gamma", "squared_error"])
def test_values_of_histogram_regressors_are_those_of_predict(loss):
    """Poisson and gamma have a log link: predict gives the exponential of the margin."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    native = HistGradientBoostingRegressor(loss=loss, max_iter=8).fit(X, np.exp(X[:, 0]))
    scorer = pine_boost.accelerate_booster(native).scorer
    assert np.array_equal(scorer.predict(X), native.predict(X))
    assert np.array_equal(scorer.predict(X[:1]), native.predict(X[:1]))


@pytest.mark.parametrize(
    ("library", "wrapper", "objective"),
    [
        ("xgboost", "XGBRegressor", "binary:logistic"),
        ("xgboost", "XGBClassifier", "reg:logistic"),
        ("lightgbm", "LGBMRegressor", "binary"),
        ("lightgbm", "LGBMClassifier", "regression"),
    ],
)
def test_a_wrapper_that_answers_otherwise_than_its_objective_is_refused(library, wrapper, objective):
    """XGBRegressor(objective="binary:logistic").predict gives probabilities, where a scorer would give classes."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    options = {"verbose": -1} if library == "lightgbm" else {}
    native = getattr(importlib.import_module(library), wrapper)(
        objective=objective, n_estimators=3, n_jobs=1, **options
    ).fit(X, X[:, 0] > 0)
    with pytest.raises(UnsupportedModelError, match=f"{wrapper}.predict gives .*{objective}.*Pass"):
        pine_boost.accelerate_booster(native)
