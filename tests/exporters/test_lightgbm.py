"""LightGBM exporter: live objects, wrappers, files and pandas tables, in and out; what is refused."""

import copy
import pickle
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.exporters.lightgbm import keep_average
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.lightgbm.read import read_lightgbm
from pine_boost.parsers.lightgbm.write import write_document
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.lightgbm_texts import leaf, text_of

QUIET = {"num_threads": 1, "verbose": -1, "seed": 3, "deterministic": True, "num_leaves": 8}
WRAPPER = {"n_jobs": 1, "verbose": -1, "random_state": 3, "num_leaves": 8, "n_estimators": 9}


def make_table(n_classes=2, n_rows=300):
    random = np.random.default_rng(5)
    X = random.normal(size=(n_rows, 4))
    score = X[:, 0] + X[:, 1] * X[:, 2]
    X[random.random(X.shape) < 0.05] = np.nan
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def kept_half(forest, seed=0):
    return np.random.default_rng(seed).choice([0.0, 1.3], forest.n_trees)


def classes_of(pruned, X):
    """Class indices by the integers alone."""
    margins = integer_margins(pruned, X)
    return (margins[:, 0] > 0).astype(int) if margins.shape[1] == 1 else margins.argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_classifier_in_classifier_out(n_classes, boosting):
    X, y = make_table(n_classes)
    labels = np.array(["no", "perhaps", "yes"])[:n_classes]
    extra = {"subsample": 0.7, "subsample_freq": 1} if boosting == "rf" else {}
    original = lgb.LGBMClassifier(boosting_type=boosting, **WRAPPER, **extra).fit(X, labels[y])
    before = (original.booster_.model_to_string(), original.get_params(), original.n_estimators_)
    model = read_model(original)
    assert model.kind == "lightgbm.LGBMClassifier"
    assert model.forest.classes == tuple(labels)
    rows = np.vstack([X, edge_rows(model.forest, X, infinite=True, limit=40)])
    margins = native_margins(model.forest, rows)
    np.testing.assert_array_equal(margins, original.predict(rows, raw_score=True).reshape(len(rows), -1))
    index = (margins[:, 0] > model.forest.decision.cuts[0]).astype(int) if n_classes == 2 else margins.argmax(axis=1)
    np.testing.assert_array_equal(labels[index], original.predict(rows))

    pruned = grid_forest(model.forest, kept_half(model.forest))
    written = export(model, pruned)
    assert type(written) is lgb.LGBMClassifier
    np.testing.assert_array_equal(written.classes_, original.classes_)
    assert written.n_estimators_ == written.n_estimators == written.booster_.current_iteration()
    assert written.best_iteration_ == 0
    assert written.evals_result_ == {}
    assert written.n_features_in_ == 4
    expected = labels[classes_of(pruned, rows)]
    for copied in (written, pickle.loads(pickle.dumps(written)), copy.deepcopy(written)):
        np.testing.assert_array_equal(
            copied.predict(rows, raw_score=True).reshape(len(rows), -1),
            integer_margins(pruned, rows) / 2.0**pruned.grid,
        )
        np.testing.assert_array_equal(copied.predict(rows), expected)
        assert copied.predict_proba(rows).shape == (len(rows), n_classes)
    assert before == (original.booster_.model_to_string(), original.get_params(), original.n_estimators_)
    assert written.booster_ is not original.booster_
    again = read_lightgbm(written)
    np.testing.assert_array_equal(native_margins(again.forest, rows), integer_margins(pruned, rows) / 2.0**pruned.grid)


def test_subclass_of_the_wrapper():
    class Mine(lgb.LGBMClassifier):
        pass

    X, y = make_table()
    model = read_model(Mine(**WRAPPER).fit(X, y))
    assert model.kind == "lightgbm.LGBMClassifier"
    written = export(model, grid_forest(model.forest))
    assert type(written) is Mine
    assert set(written.predict(X)) <= {0, 1}


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
def test_best_iteration_is_honoured_live_and_not_in_files(boosting, tmp_path):
    X, y = make_table()
    params = {**QUIET, "objective": "binary", "boosting": boosting}
    if boosting == "rf":
        params |= {"bagging_freq": 1, "bagging_fraction": 0.5}
    data = lgb.Dataset(X, y)
    booster = lgb.train(params, data, 12, keep_training_booster=True)
    booster.best_iteration = 5
    live = read_lightgbm(booster)
    assert live.forest.n_trees == 5
    np.testing.assert_array_equal(native_margins(live.forest, X)[:, 0], booster.predict(X, raw_score=True))
    np.testing.assert_array_equal(
        native_margins(live.forest, X)[:, 0] > live.forest.decision.cuts[0], booster.predict(X) > 0.5
    )
    written = export(live, grid_forest(live.forest))
    assert written.current_iteration() == 5
    assert np.abs(written.predict(X) - booster.predict(X)).max() < 2.0**-35
    path = tmp_path / "all.txt"
    booster.save_model(path, num_iteration=-1)
    whole = read_model(path)
    assert whole.forest.n_trees == 12
    reloaded = lgb.Booster(model_file=path)
    np.testing.assert_array_equal(native_margins(whole.forest, X)[:, 0], reloaded.predict(X, raw_score=True))
    pickled = pickle.loads(pickle.dumps(booster))  # keeps best_iteration
    assert read_lightgbm(pickled).forest.n_trees == 5


def test_early_stopped_classifier():
    X, y = make_table()
    original = lgb.LGBMClassifier(**{**WRAPPER, "n_estimators": 200, "learning_rate": 0.5})
    original.fit(X[:200], y[:200], eval_X=X[200:], eval_y=y[200:], callbacks=[lgb.early_stopping(3, verbose=False)])
    assert 0 < original.best_iteration_ < 200
    model = read_lightgbm(original)
    np.testing.assert_array_equal(native_margins(model.forest, X)[:, 0], original.predict(X, raw_score=True))
    pruned = grid_forest(model.forest, kept_half(model.forest))
    written = export(model, pruned)
    assert written.best_iteration_ == 0
    np.testing.assert_array_equal(written.predict(X), classes_of(pruned, X))


def test_file_in_bytes_out(tmp_path):
    X, y = make_table(3)
    params = {**QUIET, "objective": "multiclass", "num_class": 3}
    booster = lgb.train(params, lgb.Dataset(X, y, feature_name=["ä", "b=c", "d d", "e"]), 5)
    contents = booster.model_to_string().encode()
    path = tmp_path / "model.txt"
    path.write_bytes(contents)
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        model = read_model(source)
        assert model.kind == "lightgbm file"
        assert model.forest.feature_names == ("ä", "b=c", "d_d", "e")
        np.testing.assert_array_equal(native_margins(model.forest, X), booster.predict(X, raw_score=True))
    assert write_document(model.document) == contents
    pruned = grid_forest(model.forest, kept_half(model.forest))
    written = export(model, pruned)
    assert isinstance(written, bytes)
    assert b"\r" not in written
    loaded = lgb.Booster(model_str=written.decode())
    np.testing.assert_array_equal(loaded.predict(X, raw_score=True), integer_margins(pruned, X) / 2.0**pruned.grid)
    assert loaded.model_to_string().encode() == written  # sizes, importances: as LightGBM writes
    assert loaded.feature_name() == booster.feature_name()


def test_file_of_the_command_line_has_no_pandas_line():
    text = text_of([leaf(0.5)], "binary sigmoid:1").removesuffix("\npandas_categorical:null\n")
    document = read_lightgbm(text.encode()).document
    assert not document.has_pandas_line
    assert write_document(document).decode() == text


def test_pandas_categories():
    import pandas

    random = np.random.default_rng(0)
    X, y = make_table()
    names = np.array(["oak", "pine", "fir", "ash", "elm"])
    code = random.integers(0, 5, len(y))
    frame = pandas.DataFrame({"size": X[:, 0], "kind": pandas.Categorical(names[code], categories=names)})
    frame["one"] = pandas.Categorical(["same"] * len(y))  # constant: feature_infos says "none"
    target = (y + (code == 1) + (code == 4)) % 2
    original = lgb.LGBMClassifier(**{**WRAPPER, "min_child_samples": 3, "cat_smooth": 1})
    original.fit(frame, target)
    model = read_lightgbm(original)
    assert model.forest.feature_names == ("size", "kind", "one")
    assert model.forest.feature_categories == (None, tuple(names), ("same",))
    coded = np.column_stack([X[:, 0], code, np.zeros(len(y))])
    np.testing.assert_array_equal(native_margins(model.forest, coded)[:, 0], original.predict(frame, raw_score=True))
    pruned = grid_forest(model.forest, kept_half(model.forest, 1))
    written = export(model, pruned)
    shuffled = frame.assign(kind=frame["kind"].cat.reorder_categories(names[::-1]))
    np.testing.assert_array_equal(
        written.predict(shuffled, raw_score=True), integer_margins(pruned, coded)[:, 0] / 2.0**pruned.grid
    )
    ordered = frame.assign(size=pandas.Categorical(np.round(X[:, 0]), ordered=True))
    original.fit(ordered, target)  # three columns, two of them trained as categories
    assert read_lightgbm(original).forest.feature_categories == ()


def test_regression_needs_a_threshold():
    X, y = make_table()
    target = X[:, 0].copy()
    target[np.isnan(target)] = 0
    original = lgb.LGBMRegressor(**WRAPPER).fit(X, target)
    with pytest.raises(UnsupportedModelError, match="regression"):
        read_lightgbm(original)
    model = read_lightgbm(original, threshold=0.3)
    assert model.kind == "lightgbm.LGBMRegressor"
    np.testing.assert_array_equal(native_margins(model.forest, X)[:, 0], original.predict(X))
    pruned = grid_forest(model.forest)
    written = export(model, pruned)
    assert type(written) is lgb.LGBMRegressor
    np.testing.assert_array_equal(written.predict(X), integer_margins(pruned, X)[:, 0] / 2.0**pruned.grid)
    ranker = lgb.LGBMRanker(**WRAPPER).fit(X, y, group=[100, 100, 100])
    with pytest.raises(UnsupportedModelError, match="lambdarank"):
        read_lightgbm(ranker)
    assert read_lightgbm(ranker, threshold=0.0).forest.n_outputs == 1


def test_cross_entropy_is_a_class_only_through_the_classifier():
    X, y = make_table()
    original = lgb.LGBMClassifier(objective="cross_entropy", **WRAPPER).fit(X, y)
    model = read_lightgbm(original)
    np.testing.assert_array_equal(
        native_margins(model.forest, X)[:, 0] > model.forest.decision.cuts[0], original.predict(X)
    )
    with pytest.raises(UnsupportedModelError, match="probability"):
        read_lightgbm(original.booster_)
    forest = read_lightgbm(original.booster_, threshold=0.25).forest
    np.testing.assert_array_equal(
        native_margins(forest, X)[:, 0] > forest.decision.cuts[0], original.predict_proba(X)[:, 1] > 0.25
    )


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_threshold_survives_the_export(boosting, threshold):
    X, y = make_table()
    extra = {"subsample": 0.7, "subsample_freq": 1} if boosting == "rf" else {}
    original = lgb.LGBMClassifier(boosting_type=boosting, **WRAPPER, **extra).fit(X, y)
    model = read_lightgbm(original, threshold=threshold)
    cut, guard = model.forest.decision.cuts[0], model.forest.decision.guard
    margins = native_margins(model.forest, X)[:, 0]
    assert np.all(np.abs(margins - cut) > guard)
    assert 0 < np.count_nonzero(margins > cut) < len(X)
    np.testing.assert_array_equal(margins > cut, original.predict_proba(X)[:, 1] > threshold)
    pruned = grid_forest(model.forest, kept_half(model.forest))
    written = export(model, pruned)
    sums = integer_margins(pruned, X)[:, 0] / 2.0**pruned.grid
    assert np.all(np.abs(sums - cut) > guard)
    for copied in (written, pickle.loads(pickle.dumps(written))):
        np.testing.assert_array_equal(sums > cut, copied.predict_proba(X)[:, 1] > threshold)


@given(
    n_kept=st.integers(1, 60),
    n_rounds=st.integers(1, 60),
    slope=st.sampled_from(["1", "2", "0.7", "0.123457", "1e-05", "31"]),
)
@settings(max_examples=60, deadline=None)
def test_average_keeps_its_divisor(n_kept, n_rounds, slope):
    n_kept = min(n_kept, n_rounds)
    text = text_of([leaf(1.0)] * n_kept, f"binary sigmoid:{slope}", average=True)
    document = keep_average(read_lightgbm(text.encode()).document, n_rounds)
    assert n_kept <= document.n_rounds <= n_rounds
    new_slope = float(document.objective.rpartition(":")[2])
    assert f"{new_slope:g}" == document.objective.rpartition(":")[2]
    assert new_slope / document.n_rounds == pytest.approx(float(slope) / n_rounds, rel=1e-15)


def test_what_is_refused_and_why():
    X, y = make_table(2)
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_lightgbm(lgb.LGBMClassifier())
    with pytest.raises(UnsupportedModelError, match="accepted"):
        read_lightgbm(object())
    linear = lgb.train({**QUIET, "objective": "binary", "linear_tree": True}, lgb.Dataset(X, y), 2)
    with pytest.raises(UnsupportedModelError, match="linear_tree=False"):
        read_lightgbm(linear)
    stopping = lgb.LGBMClassifier(**WRAPPER, pred_early_stop=True).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="pred_early_stop"):
        read_lightgbm(stopping)
    long = {**QUIET, "objective": "binary", "sigmoid": 0.123456789}
    with pytest.raises(UnsupportedModelError, match="six digits"):
        read_lightgbm(lgb.train(long, lgb.Dataset(X, y), 2))
    custom = lgb.train({**QUIET, "objective": lambda p, d: (p - d.get_label(), np.ones_like(p))}, lgb.Dataset(X, y), 2)
    with pytest.raises(UnsupportedModelError, match="custom"):
        read_lightgbm(custom)
    assert read_lightgbm(custom, threshold=0.5).forest.decision.cuts == (0.5,)
    coarse = read_lightgbm(text_of([leaf(1.0)], "binary sigmoid:1e-05").encode())
    with pytest.raises(UnsupportedModelError, match="coarser"):
        export(coarse, grid_forest(coarse.forest, grid=40))


def test_one_against_all_scores_that_grow_too_much_are_refused():
    X, y = make_table(3)
    params = {**QUIET, "objective": "multiclassova", "num_class": 3}
    model = read_lightgbm(lgb.train(params, lgb.Dataset(X, y), 6))
    export(model, grid_forest(model.forest, np.full(18, 2.0)))
    with pytest.raises(UnsupportedModelError, match="smaller weights"):
        export(model, grid_forest(model.forest, np.full(18, 12.0)))
    with pytest.raises(UnsupportedModelError, match="same number"):
        export(model, grid_forest(model.forest, np.full(18, 200.0)))


def test_text_is_read_without_lightgbm(tmp_path):
    path = tmp_path / "model.txt"
    path.write_text(text_of([leaf(0.5)], "binary sigmoid:1"))
    code = (
        "import sys; sys.modules['lightgbm'] = None\n"
        "from pine_boost.parsers import read_model\n"
        "from pine_boost.parsers.lightgbm.write import write_document\n"
        f"model = read_model({str(path)!r})\n"
        "assert write_document(model.document) == open(sys.argv[1], 'rb').read()\n"
        "print(model.forest.n_trees)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
