"""ONNX models against the native ones, run by onnxruntime; refused where it disagrees."""

import numpy as np
import onnxruntime
import pytest
import xgboost
from sklearn import ensemble

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.exporters.onnx import require_agreement, to_onnx
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.synthetic_rows import edge_rows as agreement_rows
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.parsers import read_model
from tests.support import value_models
from tests.support.category_tables import models_of_categories, words_and_codes
from tests.support.grids import edge_rows, integer_margins
from tests.support.native_models import MODELS, built
from tests.support.trimmed import cut_forest

SAYABLE = [name for name in MODELS if name != "lgb zero as missing" and not name.startswith("cat ")]


def run(converted, forest, X):
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    dtype = np.float32 if forest.comparison is Comparison.FLOAT32_LESS else np.float64
    names = [output.name for output in converted.graph.output]
    return dict(zip(names, session.run(names, {"X": X.astype(dtype)}), strict=True))


def rows_of(name, forest, X):
    rows = np.vstack([X, edge_rows(forest, X, limit=80, seed=5)])
    for column, known in enumerate(forest.feature_categories):
        if known is not None:
            rows[:, column] = np.clip(np.floor(rows[:, column]), 0, len(known) - 1)
    if forest.comparison is Comparison.FLOAT32_LESS:  # the input is float32 by itself
        rows = rows.astype(np.float32).astype(np.float64)
    return rows if forest.accepts_missing else np.nan_to_num(rows)


@pytest.mark.parametrize("name", SAYABLE)
def test_classes_margins_and_probabilities(name):
    native, X = built(name)
    model = read_model(native)
    converted = to_onnx(native, X_fit=X)
    rows = rows_of(name, model.forest, X)
    found = run(converted, model.forest, rows)
    classes = np.array(model.forest.classes)[predict_classes(model, rows)]
    np.testing.assert_array_equal(found["label"], classes)
    margins, _ = predict_margins(model, rows)
    assert np.abs(found["margin"] - margins).max() <= 1e-5
    assert found["probability"].sum(axis=1) == pytest.approx(1.0)
    expected = native_probability(native, model.forest, rows)
    if expected is not None:
        assert found["probability"] == pytest.approx(expected, abs=2e-6)


def native_probability(native, forest, rows):
    if hasattr(native, "predict_proba"):
        return native.predict_proba(rows)
    if forest.library == "lightgbm":
        predicted = native.predict(rows)
        return predicted if predicted.ndim == 2 else np.column_stack([1 - predicted, predicted])
    return None


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("name", SAYABLE)
def test_trimmed_models_are_exact(name, share):
    native, X = built(name)
    model = read_model(native)
    weights = np.random.default_rng(1).choice([0.0, 1.0, 0.5], model.forest.n_trees)
    weights[0] = 1.0
    pruned = cut_forest(model.forest, weights, share=share, seed=2)
    exported = read_model(export(model, pruned))
    converted = to_onnx(exported)
    rows = rows_of(name, model.forest, X)
    found = run(converted, model.forest, rows)
    np.testing.assert_array_equal(found["margin"], integer_margins(pruned, rows) / 2.0**pruned.grid)


def test_labels_are_those_of_predict():
    _, X = built("random forest")
    X = np.nan_to_num(X)
    for labels in (np.array(["no", "yes"]), np.array([False, True]), np.array([10, 20])):
        y = labels[(X[:, 0] > 0).astype(int)]
        native = ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, y)
        found = run(to_onnx(native, X_fit=X), read_model(native).forest, X)
        assert np.array_equal(found["label"].astype(labels.dtype), native.predict(X))


@pytest.mark.parametrize("name", [name for name in value_models.VALUES if name != "lightgbm cross_entropy_lambda"])
def test_regressors_return_values(name):
    X = value_models.table()[0].astype(np.float32).astype(np.float64)
    native = value_models.VALUES[name]()
    found = run(to_onnx(native, X_fit=X), read_model(native, decision="value").forest, X)
    assert set(found) == {"value", "margin"}
    rows = xgboost.DMatrix(X, nthread=1) if name.startswith("xgboost") else X
    assert found["value"][:, 0] == pytest.approx(native.predict(rows), rel=2e-6)


def test_category_names_need_codes():
    frame, codes, y = words_and_codes()
    for native in models_of_categories().values():
        native.fit(frame, y)
        with pytest.raises(UnsupportedModelError, match="ONNX takes whole numbers only"):
            to_onnx(native)
        converted = to_onnx(native, X_fit=frame, codes=True)
        found = run(converted, read_model(native).forest, codes)
        np.testing.assert_array_equal(found["label"], native.predict(frame))
    plain = built("random forest")[0]
    with pytest.raises(InvalidInputError, match="no table"):
        to_onnx(plain, codes=True)


def test_zeros_that_are_missing_are_refused():
    with pytest.raises(UnsupportedModelError, match="ONNX would get wrong silently"):
        to_onnx(built("lgb zero as missing")[0])


@pytest.mark.parametrize("name", ["xgb binary", "lgb 3 classes", "random forest"])
def test_an_engine_that_is_off_by_one_ulp_of_a_threshold_is_found_out(name):
    """An engine that compares a single split the wrong way on equality."""
    native, X = built(name)
    model = read_model(native)
    forest = model.forest
    node = int(np.flatnonzero(forest.kind == SplitKind.NUMERIC)[0])
    feature, threshold = int(forest.feature[node]), float(forest.threshold[node])

    def honest(matrix):
        labels = np.array(forest.classes, dtype=object)[predict_classes(model, matrix)]
        return labels, predict_margins(model, matrix)[0]

    def wrong_on_equality(matrix):
        moved = matrix.copy()
        here = moved[:, feature].astype(np.float32) == np.float32(threshold)
        moved[here, feature] = threshold - 10 if name == "xgb binary" else threshold + 10
        return honest(moved)

    require_agreement(model, honest, X, codes=False)
    with pytest.raises(UnsupportedModelError, match=r"onnxruntime gives .* on the input"):
        require_agreement(model, wrong_on_equality, None, codes=False)


def test_every_state_of_every_feature_is_compared():
    from pine_boost.model.states import build_space

    for name in ("xgb binary", "lgb binary", "random forest", "histogram"):
        forest = read_model(built(name)[0]).forest
        space = build_space(forest)
        states = space.states(agreement_rows(forest))
        for feature, axis in enumerate(space.axes):
            reachable = np.flatnonzero(axis.reachable)
            assert set(reachable) <= set(states[:, feature].tolist())
