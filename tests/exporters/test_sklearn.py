"""The scikit-learn exporter: native margins of the export are the integer sums / 2**grid."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.model import exact
from pine_boost.model.forest import Model
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.parsers.sklearn.read import SklearnDocument, read_sklearn
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.sklearn_models import (
    CASES,
    check_exported,
    fitted,
    native_values,
    probe_rows,
    random_case,
    table,
    to_raw,
)
from tests.support.trimmed import cut, n_remaining


def random_weights(model, seed):
    """About half of the trees, never none."""
    random = np.random.default_rng(seed)
    n_trees = model.forest.n_trees
    weights = random.uniform(0.3, 2.0, n_trees) * (random.random(n_trees) < 0.5)
    weights[random.integers(n_trees)] = 1.37
    return weights


def check_export(model, pruned, codes, raw):
    """Values and classes are those of the integers, weights of votes too."""
    exported = export(model, pruned)
    check_exported(exported, model, pruned, codes, raw)
    if "AdaBoost" in model.kind and len(model.forest.classes) > 2:
        kept_weights = [np.abs(pruned.value_int[node_slice(pruned, t)]).max() for t in pruned.kept]
        weights = np.ldexp(np.array(kept_weights, dtype=float), -pruned.grid)
        assert np.array_equal(exported.estimator_weights_, weights)
    return exported


def node_slice(pruned, tree):
    offset = pruned.forest.tree_offset
    return slice(offset[tree], offset[tree + 1])


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_round_trip_drop_and_reweight(name, n_classes):
    native = fitted(name, n_classes)
    before = pickle.dumps(native)
    model = read_sklearn(native)
    codes, raw = probe_rows(model, name, n_classes)
    check_export(model, grid_forest(model.forest), codes, raw)
    for seed in (0, 1):
        pruned = grid_forest(model.forest, random_weights(model, seed))
        exported = check_export(model, pruned, codes, raw)
        loaded = pickle.loads(pickle.dumps(exported))
        assert np.array_equal(native_values(loaded, model.kind, raw), native_values(exported, model.kind, raw))
    assert pickle.dumps(native) == before
    # read again, it is a model whose every sum is exact, and writing it back moves nothing
    again = read_sklearn(exported)
    if again.forest.slack == 0:
        assert exact.is_exact(again.forest)
    assert np.array_equal(
        native_margins(again.forest, codes), np.ldexp(integer_margins(pruned, codes).astype(float), -pruned.grid)
    )


@pytest.mark.parametrize("name", ["forest", "gradient", "histogram of categories", "stumps"])
def test_export_shares_nothing_with_the_original(name):
    native = fitted(name, 3)
    model = read_sklearn(native)
    codes, raw = probe_rows(model, name, 3)
    values = native_values(native, model.kind, raw)
    exported = export(model, grid_forest(model.forest))
    parts = getattr(exported, "estimators_", None)
    if parts is None:
        for stage in exported._predictors:
            for predictor in stage:
                predictor.nodes["value"] = 7.0
    else:
        for part in np.ravel(parts):
            part.tree_.value[:] = 7.0
    exported.classes_[:] = exported.classes_[::-1].copy()
    exported.n_features_in_ = 99
    assert np.array_equal(native_values(native, model.kind, raw), values)
    assert native.classes_.tolist() == ["ash", "birch", "cedar"]
    assert np.array_equal(native_margins(model.forest, codes), native_margins(read_sklearn(native).forest, codes))


def test_params_describe_the_export_and_clone_refits():
    X, y = table(3, "")
    for name, counter in [
        ("forest", "n_estimators"),
        ("gradient", "n_estimators"),
        ("histogram", "max_iter"),
        ("adaboost", "n_estimators"),
    ]:
        native = fitted(name, 3)
        model = read_sklearn(native)
        weights = np.zeros(model.forest.n_trees)
        weights[np.isin(model.forest.tree_round, [1, 4])] = 1.0
        exported = export(model, grid_forest(model.forest, weights))
        assert exported.get_params()[counter] == 2
        assert native.get_params()[counter] > 2
        assert not hasattr(exported, "train_score_") or len(exported.train_score_) == 0
        assert clone(exported).fit(X, y).predict(X).shape == y.shape
    model = read_sklearn(fitted("gradient", 3))
    staged = export(model, grid_forest(model.forest))
    assert len(list(staged.staged_predict(X[:3]))) == 8


@pytest.mark.parametrize("name", ["gradient", "histogram", "histogram of categories"])
def test_dropped_class_trees_become_constants(name):
    model = read_sklearn(fitted(name, 3))
    forest = model.forest
    codes, raw = probe_rows(model, name, 3)
    for weights in (
        (forest.tree_output != 1) * (forest.tree_round > 2),  # one class keeps its prior only
        (forest.tree_output == 0) & (forest.tree_round == 1),  # a single tree
        (forest.tree_round % 2 == forest.tree_output % 2),  # ragged rounds
        np.zeros(forest.n_trees),  # the prior alone
    ):
        pruned = grid_forest(forest, np.asarray(weights, dtype=float))
        check_export(model, pruned, codes, raw)
    assert np.any(grid_forest(forest, np.zeros(forest.n_trees)).intercept_int)


@pytest.mark.parametrize(
    ("name", "n_classes", "winner"),
    [
        ("forest", 2, "ash"),
        ("tree", 2, "ash"),
        ("gradient", 2, "birch"),
        ("histogram", 2, "ash"),
        ("forest", 3, "ash"),
        ("gradient", 3, "ash"),
        ("histogram", 3, "ash"),
    ],
)
def test_exact_ties_go_where_the_decision_says(name, n_classes, winner):
    model = read_sklearn(fitted(name, n_classes))
    pruned = grid_forest(model.forest, grid=20)
    level = 5 * (model.forest.kind == SplitKind.LEAF)[:, None]
    if model.forest.n_outputs == 1:
        level = level * 0
    equal = replace(pruned, value_int=np.broadcast_to(level, pruned.value_int.shape).astype(np.int64))
    exported = export(model, equal)
    X = np.where(np.isnan(table(n_classes, name)[0]), 0.0, table(n_classes, name)[0])
    assert set(exported.predict(X)) == {winner}


def test_adaboost_tie_goes_to_the_first_class():
    model = read_sklearn(fitted("stumps", 2))
    weights = np.zeros(model.forest.n_trees)
    weights[:2] = 1 / model.forest.value[model.forest.tree_offset[1:3] - 1, 0]
    pruned = grid_forest(model.forest, np.abs(weights))
    X = table(2, "")[0]
    tied = integer_margins(pruned, X)[:, 0] == 0
    assert tied.sum() > 3
    exported = export(model, pruned)
    assert set(exported.predict(X[tied])) == {"ash"}


def test_parallel_forest_is_exact_in_any_order():
    X, y = table(3, "", 600)
    native = RandomForestClassifier(30, max_depth=5, n_jobs=2, random_state=0).fit(X, y)
    model = read_sklearn(native)
    pruned = grid_forest(model.forest, random_weights(model, 4))
    exported = export(model, pruned)
    expected = np.ldexp(integer_margins(pruned, X).astype(float), -pruned.grid) / len(pruned.kept)
    for _ in range(8):
        assert np.array_equal(exported.predict_proba(X), expected)


def test_scaled_weights_give_probabilities():
    model = read_sklearn(fitted("forest", 3))
    weights = random_weights(model, 2)
    weights *= np.count_nonzero(weights) / weights.sum()
    exported = export(model, grid_forest(model.forest, weights))
    assert exported.predict_proba(table(3, "")[0]).sum(axis=1) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("threshold", [0.5, 0.25, 0.3, 0.9])
@pytest.mark.parametrize("name", ["forest", "forest of pure leaves", "tree"])
def test_forest_with_threshold_keeps_it(name, threshold):
    native = fitted(name, 2)
    model = read_sklearn(native, threshold=threshold)
    codes, raw = probe_rows(model, name, 2)
    whole = grid_forest(model.forest, grid=30)
    for pruned in (whole, cut(whole), grid_forest(model.forest, random_weights(model, 1), grid=30)):
        exported = export(model, pruned)
        probabilities = exported.predict_proba(raw)
        above = integer_margins(pruned, codes)[:, 0] > 0
        assert np.array_equal(probabilities[:, 1] > threshold, above)
        assert probabilities.sum(axis=1) == pytest.approx(1.0)
        assert read_sklearn(exported, threshold=threshold).forest.n_nodes == n_remaining(pruned)
    assert 0 < above.sum() < len(above)


def test_forest_threshold_holds_one_grid_unit_and_ties():
    model = read_sklearn(fitted("forest", 2), threshold=0.3)
    pruned = grid_forest(model.forest, grid=36)
    X = table(2, "")[0]
    for units, expected in [(-1, False), (0, False), (1, True)]:
        # every leaf 0 but those of the first tree: the sum is `units` grid units everywhere
        value_int = np.zeros_like(pruned.value_int)
        first = slice(0, model.forest.tree_offset[1])
        value_int[first, 0] = units * (model.forest.kind[first] == SplitKind.LEAF)
        exported = export(model, replace(pruned, value_int=value_int))
        assert set((exported.predict_proba(X)[:, 1] > 0.3).tolist()) == {expected}


def test_refusals():
    adaboost = read_sklearn(fitted("adaboost", 3))
    pruned = grid_forest(adaboost.forest)
    refitted = pruned.value_int.copy()
    refitted[np.flatnonzero(adaboost.forest.kind == SplitKind.LEAF)[0]] += 1
    with pytest.raises(InvalidInputError, match="trees vote"):
        export(adaboost, replace(pruned, value_int=refitted))
    forest = read_sklearn(fitted("forest", 3))
    with pytest.raises(InvalidInputError, match="at least one tree"):
        export(forest, grid_forest(forest.forest, np.zeros(forest.forest.n_trees)))
    huge = grid_forest(forest.forest, np.full(forest.forest.n_trees, 2.0**10), grid=40)
    with pytest.raises(InvalidInputError, match="too fine"):
        export(forest, huge)
    with_threshold = read_sklearn(fitted("forest", 2), threshold=0.3)
    with pytest.raises(InvalidInputError, match="too fine"):
        export(with_threshold, grid_forest(with_threshold.forest, np.full(with_threshold.forest.n_trees, 9.0), grid=45))
    nameless = Model(forest.forest, "sklearn.RandomForestClassifier", None, SklearnDocument("?"))
    with pytest.raises(UnsupportedModelError, match="read_sklearn"):
        export(nameless, grid_forest(forest.forest))


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["forest", "extra", "tree", "gradient", "histogram", "adaboost"]),
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 4),
    data=st.data(),
)
def test_random_exports(kind, seed, n_classes, data):
    native, X, y = random_case(kind, seed, n_classes)
    if kind == "histogram":
        native.set_params(categorical_features=[1]).fit(np.abs(np.round(X)), y)
    else:
        native.fit(X, y)
    model = read_sklearn(native)
    n_trees = model.forest.n_trees
    weights = np.array(
        data.draw(
            st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.3, 3.0]), min_size=n_trees, max_size=n_trees).filter(any)
        )
    )
    codes = edge_rows(model.forest, np.abs(np.round(X)), limit=60, seed=seed)
    if kind in ("gradient", "adaboost"):
        codes = np.where(np.isnan(codes), 0.0, codes)
    check_export(model, grid_forest(model.forest, weights), codes, to_raw(model.forest, codes))
