"""to_treelite against the native libraries: margins bit for bit, classes exactly, through gtil."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.exporters.treelite import to_treelite
from pine_boost.kernels.library import find_compiler
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.prune import prune_booster
from tests.support import value_models
from tests.support.category_tables import models_of_categories, words_and_codes
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.gtil import gtil_margins
from tests.support.lightgbm_models import CONFIGS, rows_for, trained
from tests.support.sklearn_models import CASES, decide, fitted, probe_rows, table, to_raw
from tests.support.xgboost_models import BOOSTERS, booster_margins, early_stopped, make_rows, train


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_scikit_learn(name, n_classes):
    native = fitted(name, n_classes)
    model = read_model(native)
    codes, raw = probe_rows(model, name, n_classes)
    has_table = bool(model.forest.feature_categories)
    if has_table:
        # a fraction is the category below in Treelite and missing in scikit-learn (documented)
        columns = [j for j, known in enumerate(model.forest.feature_categories) if known]
        part = codes[:, columns]
        whole = np.all(np.isnan(part) | (part == np.floor(part)), axis=1)
        codes, raw = codes[whole], raw[whole]
        with pytest.raises(UnsupportedModelError, match="codes=True"):
            to_treelite(native)
    converted = to_treelite(native, codes=has_table)
    found = gtil_margins(converted, model.forest, codes)
    margins = native_margins(model.forest, codes)
    if model.document.family == "average":
        assert np.array_equal(found, native.predict_proba(raw))
        margins = margins / model.forest.n_trees
    assert np.array_equal(found, margins)
    if not ("AdaBoost" in model.kind and n_classes > 2):
        labels = np.array(model.forest.classes)[decide(model.forest, found)]
        assert np.array_equal(labels, native.predict(raw))
        probability = gtil_margins(converted, model.forest, codes, margin=False)
        expected = native.predict_proba(raw)
        expected = expected[:, 1:] if probability.shape[1] == 1 else expected
        assert probability == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["forest", "adaboost", "gradient", "histogram", "tree"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_an_export_survive(name, n_classes):
    model = read_model(fitted(name, n_classes))
    weights = np.random.default_rng(1).uniform(0.2, 3.0, model.forest.n_trees)
    weights[1::3] = 0.0
    pruned = grid_forest(model.forest, weights)
    exported = export(model, pruned)
    codes, raw = probe_rows(model, name, n_classes)
    found = gtil_margins(to_treelite(exported), model.forest, raw)
    expected = np.ldexp(integer_margins(pruned, codes).astype(float), -pruned.grid)
    if model.document.family == "average":
        assert np.array_equal(found, exported.predict_proba(raw))
        expected = expected / len(pruned.kept)
    assert np.array_equal(found, expected)


def test_exponential_loss_keeps_its_probability():
    X, y = table(2, "")
    X = X.astype(np.float32).astype(np.float64)
    native = GradientBoostingClassifier(n_estimators=6, loss="exponential").fit(X, y)
    model = read_model(native)
    probability = gtil_margins(to_treelite(native), model.forest, X, margin=False)[:, 0]
    assert probability == pytest.approx(native.predict_proba(X)[:, 1], abs=1e-12)


def test_whole_numbered_categories_are_fed_as_they_are():
    X, y = table(3, "")
    X[:, 4] = np.abs(np.round(X[:, 4] * 2)) * 3 + 1
    native = HistGradientBoostingClassifier(max_iter=6, categorical_features=[4], min_samples_leaf=5).fit(X, y)
    model = read_model(native)
    codes = edge_rows(model.forest, X, infinite=False, limit=100)
    codes[:, 4] = np.where(np.isnan(codes[:, 4]), np.nan, np.floor(np.clip(codes[:, 4], -2, 1e7)))
    raw = to_raw(model.forest, codes)
    found = gtil_margins(to_treelite(native), model.forest, raw)
    assert np.array_equal(found, native.decision_function(raw))
    assert np.any(raw[:, 4] >= 1e6)  # unseen categories are among them
    assert np.array_equal(
        gtil_margins(to_treelite(native, codes=True), model.forest, codes), native.decision_function(raw)
    )


@pytest.mark.parametrize("name", BOOSTERS)
def test_xgboost(name):
    booster = train(**BOOSTERS[name])
    model = read_model(booster)
    rows = np.vstack([make_rows(), edge_rows(model.forest, make_rows(), limit=120)])
    native = booster_margins(booster, rows)
    for source in (booster, bytes(booster.save_raw("json")), bytes(booster.save_raw("ubj"))):
        assert np.array_equal(gtil_margins(to_treelite(source), model.forest, rows), native)
    probability = gtil_margins(to_treelite(booster), model.forest, rows, margin=False)
    expected = booster.predict(xgboost.DMatrix(rows, nthread=1))
    if BOOSTERS[name]["objective"] != "multi:softmax":
        assert probability == pytest.approx(expected.reshape(len(rows), -1), abs=1e-6)
    else:
        assert np.array_equal(np.argmax(native, axis=1), expected)


def test_xgboost_wrapper_uses_its_best_iteration():
    native, X = early_stopped(3)
    found = gtil_margins(to_treelite(native), read_model(native).forest, X)
    assert np.array_equal(found, native.predict(X, output_margin=True))
    booster = native.get_booster()
    found = gtil_margins(to_treelite(booster), read_model(booster).forest, X)
    assert np.array_equal(found, booster.predict(xgboost.DMatrix(X), output_margin=True))


def test_xgboost_categories_and_missing_value():
    random = np.random.default_rng(0)
    codes = np.column_stack([random.normal(size=400), random.integers(0, 9, 400)])
    y = (codes[:, 1] % 3 == 0) ^ (codes[:, 0] > 0)
    # one-hot and partition splits over plain codes
    for one_hot in (1, 20):
        booster = xgboost.train(
            {"objective": "binary:logistic", "max_cat_to_onehot": one_hot, "nthread": 1},
            xgboost.DMatrix(codes, y, feature_types=["q", "c"], enable_categorical=True),
            5,
        )
        model = read_model(booster)
        rows = edge_rows(model.forest, codes, limit=200)
        native = booster.predict(
            xgboost.DMatrix(rows, feature_types=["q", "c"], enable_categorical=True), output_margin=True
        )
        assert np.array_equal(gtil_margins(to_treelite(booster), model.forest, rows)[:, 0], native)
    # another missing value
    native = xgboost.XGBClassifier(n_estimators=3, missing=-999.0, n_jobs=1).fit(codes, y)
    with pytest.raises(UnsupportedModelError, match=r"-999\.0 as missing"):
        to_treelite(native)
    native = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(codes, y)
    with pytest.raises(InvalidInputError, match="no table"):
        to_treelite(native, codes=True)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "zero_as_missing"])
def test_lightgbm(name):
    booster = trained(name)
    model = read_model(booster)
    rows = rows_for(model.forest)
    tiny = np.nan_to_num(rows[:60])
    tiny[:, :3] = np.tile([1e-35, -1e-35, 1e-36, -1.0000000180025095e-35, 2e-35, -2e-35], 30)[:180].reshape(60, 3)
    rows = np.vstack([rows, tiny])
    # -0.5 is category 0 in LightGBM and no category in Treelite (documented)
    rows[:, 3] = np.where((rows[:, 3] > -1) & (rows[:, 3] < 0), 0.0, rows[:, 3])
    native = booster.predict(rows, raw_score=True).reshape(len(rows), -1)
    if name == "multiclass_rf":  # Treelite's margins are the means
        native = native / (model.forest.n_trees // 3)
    for source in (booster, booster.model_to_string().encode()):
        assert np.array_equal(gtil_margins(to_treelite(source), model.forest, rows), native)
    probability = gtil_margins(to_treelite(booster), model.forest, rows, margin=False)
    expected = booster.predict(rows).reshape(len(rows), -1)
    if name.startswith("ova"):
        probability = probability / probability.sum(axis=1, keepdims=True)
        expected = expected / expected.sum(axis=1, keepdims=True)
    assert probability == pytest.approx(expected, abs=1e-6)


def test_lightgbm_zero_as_missing_is_refused_or_right():
    X, y = table(2, "")
    X[np.abs(X) < 0.5] = 0.0
    parameters = {"objective": "binary", "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
    messages = []
    for seed in range(6):
        data = np.roll(X, seed, axis=1)[:, :2]
        booster = lightgbm.train({**parameters, "zero_as_missing": True, "num_leaves": 3}, lightgbm.Dataset(data, y), 2)
        try:
            converted = to_treelite(booster)
        except UnsupportedModelError as error:
            messages.append(str(error))
            continue
        rows = np.vstack([data, [[np.nan, np.nan], [0.0, 1e-36], [-1e-36, -0.0]]])
        found = gtil_margins(converted, read_model(booster).forest, rows)[:, 0]
        assert np.array_equal(found, booster.predict(rows, raw_score=True))
    assert 1 <= len(messages) <= 5
    assert all("retrain with zero_as_missing=false" in message for message in messages)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "histogram"])
def test_categories_with_names_need_codes(library):
    frame, codes, y = words_and_codes()
    native = models_of_categories()[library].fit(frame, y)
    with pytest.raises(UnsupportedModelError, match=r"category values of a table for word.*codes=True"):
        to_treelite(native)
    model = read_model(native)
    found = gtil_margins(to_treelite(native, codes=True), model.forest, codes)
    assert np.array_equal(found, predict_margins(model, frame)[0])


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
def test_compiled_by_tl2cgen(tmp_path):
    import tl2cgen

    X, y = table(3, "NaN")
    booster = xgboost.train(
        {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "nthread": 1}, xgboost.DMatrix(X, y), 4
    )
    forest = read_model(fitted("forest fitted with NaN", 3))
    weights = np.array([0.0, 2.5, 1.0, 0.0, 0.7, 1.0, 0.3])
    pruned = grid_forest(forest.forest, weights, grid=30)
    exported = export(forest, pruned)
    rows = X.astype(np.float32)
    for name, native, expected in (
        ("xgboost", booster, booster.predict(xgboost.DMatrix(rows), output_margin=True)),
        ("forest", exported, exported.predict_proba(rows)),
    ):
        library = tmp_path / f"{name}.so"
        tl2cgen.export_lib(to_treelite(native), toolchain="gcc", libpath=library)
        predictor = tl2cgen.Predictor(library, nthread=1, verbose=False)
        dtype = "float32" if name == "xgboost" else "float64"
        found = predictor.predict(tl2cgen.DMatrix(rows.astype(dtype)), pred_margin=True)
        found = found.reshape(len(rows), -1)
        assert np.array_equal(np.argmax(found, axis=1), np.argmax(expected, axis=1))
        if name == "forest":
            assert np.array_equal(found, expected)
        else:
            assert found == pytest.approx(expected, abs=1e-5)


def test_a_result_with_category_names_is_converted_for_codes():
    frame, codes, y = words_and_codes()
    native = xgboost.XGBClassifier(n_estimators=4, max_depth=2, enable_categorical=True, n_jobs=1).fit(frame, y)
    result = prune_booster(native, frame[:200], frame[200:], alpha=0.2, time_limit=20)
    with pytest.raises(UnsupportedModelError, match="codes=True"):
        result.to_treelite()
    found = gtil_margins(result.to_treelite(codes=True), result.pruned.forest, codes)[:, 0]
    assert np.array_equal(found, result.model.predict(frame, output_margin=True))


@pytest.mark.parametrize("name", value_models.VALUES)
def test_values_of_regressors_and_rankers(name):
    native = value_models.VALUES[name]()
    model = read_model(native, decision="value")
    X = np.nan_to_num(np.vstack([value_models.table()[0], edge_rows(model.forest, value_models.table()[0], limit=50)]))
    X = X.astype(np.float32).astype(np.float64)
    converted = to_treelite(native)
    margins, _ = predict_margins(model, X)
    found = gtil_margins(converted, model.forest, X)
    if name in ("forest", "extra trees", "lightgbm averaged"):
        assert found == pytest.approx(margins / model.forest.n_trees, rel=1e-12)
    else:
        np.testing.assert_array_equal(found, margins)
    values = gtil_margins(converted, model.forest, X, margin=False)[:, 0]
    rows = xgboost.DMatrix(X, nthread=1) if name.startswith("xgboost") else X
    assert values == pytest.approx(native.predict(rows), rel=2e-6)
