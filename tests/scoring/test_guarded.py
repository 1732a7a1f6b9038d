"""A guarded model gives the original's class on every input, whoever evaluates it."""

import json
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import datasets, ensemble

import pine_boost.parsers
from pine_boost import GuardedModel, InvalidInputError, accelerate_booster, load_scorer, prune_booster
from pine_boost.native.predict import predict_classes
from pine_boost.scoring.guarded import BACKENDS
from tests.adversary.attack import adversarial_rows

NAMES = np.array(["benign", "malign"])
SIZE = {"n_estimators": 12, "max_depth": 2}
MODELS = {
    "xgboost": lambda: xgboost.XGBClassifier(**SIZE, learning_rate=0.2, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=12, num_leaves=4, n_jobs=1, verbose=-1, learning_rate=0.2),
    "gradient": lambda: ensemble.GradientBoostingClassifier(**SIZE, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=4, random_state=0),
    "forest": lambda: ensemble.RandomForestClassifier(n_estimators=9, max_depth=3, random_state=0),
    "votes": lambda: ensemble.AdaBoostClassifier(n_estimators=8, random_state=0),
}
CASES = [(name, classes) for name in MODELS for classes in (2, 3) if (name, classes) != ("votes", 3)]


@cache
def tables(n_classes):
    X, y = (datasets.load_breast_cancer if n_classes == 2 else datasets.load_iris)(return_X_y=True)
    X = X[:, :6]
    order = np.random.default_rng(0).permutation(len(X))
    half = len(X) // 2
    return X[order[:half]], y[order[:half]], X[order[half:]]


@cache
def hard_rows_of(name, n_classes, forest):
    """The same rows for every backend, drawn once."""
    return hard_rows(forest, tables(n_classes)[0])


def hard_rows(forest, X, seed=0, n_rows=400):
    return adversarial_rows(np.random.default_rng(seed), forest, X, n_rows)


@pytest.fixture(scope="module")
def results():
    made = {}
    for name, n_classes in CASES:
        X, y, X_cal = tables(n_classes)
        model = MODELS[name]().fit(X, NAMES[y] if (name, n_classes) == ("forest", 2) else y)
        made[name, n_classes] = model, prune_booster(model, X, X_cal, alpha=0.3, time_limit=20)
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_every_row_gets_the_class_of_the_original(results, name, n_classes, backend):
    model, result = results[name, n_classes]
    guarded = GuardedModel(result, backend=backend)
    X = hard_rows_of(name, n_classes, result.original.forest)
    expected = model.predict(X)
    assert (guarded.predict(X) == expected).all()
    assert (np.concatenate([guarded.predict(row[None]) for row in X[:40]]) == expected[:40]).all()
    counts = guarded.counts
    assert (counts.n_rows, counts.n_batches) == (440, 41)
    assert counts.n_guarded + counts.n_fallbacks == 440
    inside = result.region.contains(X)
    assert 0 < inside.sum() < len(X)
    assert (guarded.guarded(X) == inside).all()
    assert counts.n_guarded == inside.sum() + inside[:40].sum()
    assert guarded.claim.startswith("On every input, the guarded model predicts the same class")


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_the_kernel_answers_for_a_folder_without_a_training_library(results, name, tmp_path):
    model, result = results[name, 2]
    X = tables(2)[0]
    GuardedModel(result).save(tmp_path / "region")
    GuardedModel(result, tables(2)[2], fidelity=0.9).save(tmp_path / "margin")
    np.save(tmp_path / "rows.npy", X)
    code = (
        "import sys, json, numpy, pine_boost;"
        f"X = numpy.load({str(tmp_path / 'rows.npy')!r});"
        f"folders = [{str(tmp_path)!r} + '/' + kind for kind in ('region', 'margin')];"
        "print(json.dumps([pine_boost.load_scorer(folder).predict(X).tolist() for folder in folders]));"
        "print([m for m in ('scipy', 'ortools', 'sklearn', 'xgboost', 'lightgbm', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    answers, imported = done.stdout.splitlines()
    by_region, by_margin = json.loads(answers)
    assert by_region == model.predict(X).tolist()
    assert np.mean(np.array(by_margin) == by_region) > 0.85
    assert imported == "[]"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "n_classes"), [("xgboost", 2), ("lightgbm", 3), ("histogram", 2), ("forest", 3), ("votes", 2)]
)
def test_a_guarded_model_is_a_scorer_like_any_other(results, name, n_classes, backend):
    model, result = results[name, n_classes]
    X = tables(n_classes)[0]
    guarded, fast = GuardedModel(result, backend=backend), accelerate_booster(model).scorer
    for name in ("classes_", "n_features_in_", "n_jobs", "predict", "predict_proba", "decision_function"):
        assert hasattr(guarded, name)
        assert hasattr(fast, name)
    assert guarded.n_features_in_ == fast.n_features_in_
    assert hasattr(guarded, "feature_names_in_") == hasattr(fast, "feature_names_in_")
    again = pickle.loads(pickle.dumps(guarded))
    assert (again.counts.n_rows, again.backend) == (0, backend)
    assert (again.predict(X) == model.predict(X)).all()
    margins, inside = guarded.decision_function(X), result.region.contains(X)
    assert margins.shape == fast.decision_function(X).shape
    assert again.counts.n_guarded == inside.sum() < len(X)
    np.testing.assert_allclose(margins[~inside], fast.decision_function(X)[~inside], rtol=1e-12)
    pruned = accelerate_booster(result.model).scorer.decision_function(X)
    np.testing.assert_allclose(margins[inside], pruned[inside], rtol=1e-12)


def test_threads_are_those_of_the_kernel(results, tmp_path):
    model, result = results["xgboost", 2]
    GuardedModel(result).save(tmp_path / "folder")
    X = np.tile(tables(2)[0], (20, 1))
    guarded = load_scorer(tmp_path / "folder", n_jobs=2)
    assert guarded.n_jobs == 2
    assert (guarded.predict(X) == model.predict(X)).all()
    for set_jobs in (lambda: setattr(guarded, "n_jobs", 0), lambda: GuardedModel(result, n_jobs=0)):
        with pytest.raises(InvalidInputError, match="n_jobs must be a positive integer or -1, got 0"):
            set_jobs()
    assert guarded.n_jobs == 2
    with pytest.raises(InvalidInputError, match="set the threads of the library on the model itself"):
        load_scorer(tmp_path / "folder", n_jobs=2, backend="native")
    with pytest.raises(InvalidInputError, match="set the threads of the library on the model itself"):
        GuardedModel(result, backend="native").n_jobs = -1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_probabilities_are_those_of_the_model_that_answers(results, name, n_classes, backend):
    model, result = results[name, n_classes]
    guarded = GuardedModel(result, backend=backend)
    X = np.concatenate(tables(n_classes)[::2])
    inside = result.region.contains(X)
    expected = np.where(inside[:, None], result.model.predict_proba(X), model.predict_proba(X))
    found = guarded.predict_proba(X)
    assert found.shape == (len(X), n_classes)
    assert (found == expected).all()


def test_a_pruned_model_in_float32_has_exact_margins_in_the_kernel(results):
    from pine_boost.native.predict import predict_margins
    from pine_boost.scoring.guards import margin_test

    for n_classes in (2, 3):
        _, result = results["xgboost", n_classes]
        X = hard_rows(result.original.forest, tables(n_classes)[0], seed=1)
        native = predict_margins(result.pruned, X)[0]
        assert (margin_test(result.pruned, 0.0).margins(X) == native).all()


def test_doubles_that_other_compiled_code_takes_for_missing(results):
    model, result = results["lightgbm", 2]
    X = tables(2)[0][:64].copy()
    X.view(np.uint64)[:, 0] |= 0xFFFFFFFF  # tl2cgen reads these low bits as "missing"
    for backend in BACKENDS:
        assert (GuardedModel(result, backend=backend).predict(X) == model.predict(X)).all()


def test_categories_and_frames():
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"size": rng.normal(size=400), "colour": pd.Categorical(rng.choice(["red", "green", "blue"], 400))}
    )
    y = ((X["size"] > 0) ^ (X["colour"] == "red")).to_numpy().astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=4, n_jobs=1, verbose=-1).fit(X[:200], y[:200])
    result = prune_booster(model, X[:200], X[200:], alpha=0.2)
    strange = pd.DataFrame(
        {"size": [0.1, np.nan, 99.0], "colour": pd.Categorical([None, "red", "mauve"], categories=["red", "mauve"])}
    )
    for backend in BACKENDS:
        guarded = GuardedModel(result, backend=backend)
        for table in (X, strange):
            assert (guarded.predict(table) == model.predict(table)).all()
            assert (guarded.predict(table[:1]) == model.predict(table[:1])).all()


def test_thresholds_of_the_user():
    X, y, X_cal = tables(2)
    model = MODELS["xgboost"]().fit(X, y)
    one = prune_booster(model, X, X_cal, alpha=0.3, threshold=0.3)
    bands = prune_booster(model, X, X_cal, alpha=0.3, threshold=(0.2, 0.7))
    rows = hard_rows(one.original.forest, X)
    probability = model.predict_proba(rows)[:, 1]
    for backend in BACKENDS:
        found = GuardedModel(one, backend=backend).predict(rows)
        assert (found == (probability > 0.3)).all()
        found = GuardedModel(bands, backend=backend).predict(rows)
        assert (found == (probability > 0.2).astype(int) + (probability > 0.7)).all()


def test_every_input_is_inside_where_nothing_was_left_out():
    X, y, X_cal = tables(2)
    model = ensemble.GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0).fit(X, y)
    result = prune_booster(model, X, X_cal, alpha=0)
    guarded = GuardedModel(result)
    assert (guarded.predict(X) == model.predict(X)).all()
    assert guarded.share_guarded == 1.0
    assert guarded.fallbacks == 0


def test_counts_of_many_threads_add_up(results):
    _, result = results["xgboost", 2]
    X = tables(2)[0]
    expected = predict_classes(result.original, X)
    for backend in BACKENDS:
        guarded = GuardedModel(result, backend=backend)
        wrong = []

        def ask(guarded=guarded, wrong=wrong):
            for start in range(0, 200, 10):
                found = guarded.predict(X[start : start + 10])
                if (found != expected[start : start + 10]).any():
                    wrong.append(start)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert (guarded.counts.n_rows, guarded.counts.n_batches) == (1200, 120)
        assert guarded.counts.n_guarded == 6 * int(result.region.contains(X[:200]).sum())
        assert guarded.reset_counts().n_rows == 1200
        assert np.isnan(guarded.share_guarded)


def test_lists_and_no_rows(results):
    model, result = results["gradient", 2]
    X = tables(2)[0]
    guarded = GuardedModel(result)
    assert (guarded.predict(X[:5].tolist()) == model.predict(X[:5])).all()
    assert guarded.predict(X[:0]).shape == (0,)
    assert guarded.predict_proba(X[:0]).shape == (0, 2)
    assert guarded.counts.n_rows == 5
    with pytest.raises(InvalidInputError, match="columns"):
        guarded.predict(X[:, :3])
    assert guarded.counts.n_rows == 5


def test_regions_of_trees_take_the_ordinary_way():
    X, y, X_cal = tables(2)
    model = MODELS["xgboost"]().set_params(n_estimators=4, learning_rate=0.3).fit(X, y)
    for score in ("leaf-support", "isolation-forest"):
        result = prune_booster(model, X, X_cal, alpha=0.3, score=score)
        assert result.certificate.trees_after < 4
        rows = hard_rows(result.original.forest, X)
        guarded = GuardedModel(result)
        assert (guarded.guarded(rows[:9]) == result.region.contains(rows[:9])).all()
        assert (guarded.predict(rows) == model.predict(rows)).all()


def test_a_domain_is_part_of_the_guard():
    X, y, X_cal = tables(2)
    model = MODELS["xgboost"]().fit(X, y)
    forest = pine_boost.parsers.read_model(model).forest
    edges = forest.threshold[forest.feature == 3]
    edge = float(min(edges, key=lambda t: abs((X[:, 3] >= t).mean() - 0.2)))
    domain = pine_boost.Domain(never_missing=True, upper={3: 0.999 * edge})
    with pytest.warns(UserWarning, match="domain excludes"):
        result = prune_booster(model, X, X_cal, alpha=0.4, domain=domain)
    rows = hard_rows(result.original.forest, X)
    guarded = GuardedModel(result)
    single = np.concatenate([guarded.guarded(row[None]) for row in rows])
    assert (single == result.region.contains(rows)).all()
    compiled = GuardedModel(result, backend="kernel")
    assert (compiled.guarded(rows) == result.region.contains(rows)).all()
    assert (guarded.predict(rows) == model.predict(rows)).all()
    assert not guarded.guarded(rows[rows[:, 3] > edge * 1.01]).any()


def test_what_cannot_be_guarded_is_refused_with_the_reason():
    X, y, X_cal = tables(2)
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(X, y)
    with_indifference = prune_booster(model, X, X_cal, alpha=0.3, indifference=0.1, time_limit=2)
    with_indifference = replace(with_indifference, certificate=replace(with_indifference.certificate, serving=None))
    with pytest.raises(InvalidInputError, match="evaluate it for every row and save nothing"):
        GuardedModel(with_indifference)
    out_of_time = prune_booster(model, X, X_cal, alpha=0.01, time_limit=0.01)
    assert out_of_time.status == "NOT_CERTIFIED"
    with pytest.raises(InvalidInputError, match="NOT_CERTIFIED"):
        GuardedModel(out_of_time)
    with pytest.raises(InvalidInputError, match="not an XGBClassifier"):
        GuardedModel(model)
    with pytest.raises(InvalidInputError, match="backend must be one of kernel, native, got 'onnx'"):
        GuardedModel(prune_booster(model, X, X_cal, alpha=0.9), backend="onnx")


def test_without_a_compiler_the_kernel_is_numpy(results, monkeypatch):
    from pine_boost.kernels import library

    model, result = results["xgboost", 2]
    monkeypatch.setenv("PINE_BOOST_KERNEL", "numpy")
    library.load.cache_clear()
    try:
        X = hard_rows(result.original.forest, tables(2)[0], seed=2)
        assert (GuardedModel(result, backend="kernel").predict(X) == model.predict(X)).all()
    finally:
        library.load.cache_clear()


def test_rows_within_the_band_are_summed_as_the_library_sums(results):
    """Of an original that is not on a grid: where no exit decides, its own float32 sum does."""
    from pine_boost.kernels import bind
    from pine_boost.scoring.proved_exits import proved_parts

    model, result = results["xgboost", 2]
    parts = proved_parts(result.original)
    never = np.full_like(parts.plan.low, np.inf)
    X = tables(2)[0]
    found = bind(parts.flat, parts.native, replace(parts.plan, low=-never, high=never)).classes(X)
    assert (np.asarray(parts.classes)[found] == model.predict(X)).all()
