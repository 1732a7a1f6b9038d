"""Trimmed scikit-learn models: nodes really gone, margins exact, importances at work."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import InvalidInputError
from pine_boost.exporters import export
from pine_boost.model.forest import Model, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.parsers.sklearn.read import read_sklearn
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.trimmed import assert_same_trees, cut, cut_forest, n_remaining

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.inspection import partial_dependence
from sklearn.tree import DecisionTreeRegressor, export_text

from tests.support.sklearn_models import CASES, check_exported, fitted, native_values, probe_rows, table, to_raw
from tests.support.verifying import pruned_model


def check(model: Model, pruned: PrunedForest, codes: np.ndarray, raw: np.ndarray) -> Any:
    """Margins bit for bit, classes by the margins, the nodes read back are those that remain."""
    exported = export(model, pruned)
    check_exported(exported, model, pruned, codes, raw)
    written = read_sklearn(exported).forest
    assert assert_same_trees(pruned, written) == n_remaining(pruned)
    assert written.n_nodes == n_remaining(pruned) + written.n_trees - len(pruned.kept)
    return exported


def some_weights(model: Model, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    weights = random.choice([0.0, 1.0, 0.6], model.forest.n_trees)
    weights[random.integers(len(weights))] = 1.25
    return weights


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_nodes_are_gone_and_margins_exact(name: str, n_classes: int) -> None:
    native = fitted(name, n_classes)
    before = pickle.dumps(native)
    model = read_sklearn(native)
    codes, raw = probe_rows(model, name, n_classes)
    for share, weights in ((0.2, None), (0.5, some_weights(model, n_classes))):
        pruned = cut_forest(model.forest, weights, share=share, seed=n_classes)
        exported = check(model, pruned, codes, raw)
        loaded = pickle.loads(pickle.dumps(exported))
        assert np.array_equal(native_values(loaded, model.kind, raw), native_values(exported, model.kind, raw))
    assert pickle.dumps(native) == before


@pytest.mark.parametrize("name", ["forest", "tree", "gradient", "adaboost", "extra trees"])
def test_importances_texts_and_paths_work(name: str) -> None:
    native = fitted(name, 3)
    model = read_sklearn(native)
    pruned = cut_forest(model.forest, share=0.3, seed=4)
    exported = export(model, pruned)
    importances = exported.feature_importances_
    assert importances.shape == (6,)
    if name == "adaboost":  # it counts a member of one leaf as 0 instead of leaving it out
        assert 0.1 < importances.sum() <= 1
    else:
        assert importances.sum() == pytest.approx(1.0)
    members = [exported] if hasattr(exported, "tree_") else list(np.ravel(exported.estimators_))
    originals = [native] if hasattr(native, "tree_") else list(np.ravel(native.estimators_))
    total = 0
    for member, original in zip(members, originals, strict=True):
        tree = member.tree_
        total += tree.node_count
        assert tree.n_leaves == np.count_nonzero(tree.children_left < 0)
        assert tree.max_depth == tree.compute_node_depths().max() - 1
        assert tree.n_node_samples[0] == original.tree_.n_node_samples[0]
        inner = np.flatnonzero(tree.children_left >= 0)
        for side in ("n_node_samples", "weighted_n_node_samples"):
            count = getattr(tree, side)
            children = count[tree.children_left[inner]] + count[tree.children_right[inner]]
            np.testing.assert_allclose(children, count[inner])
        text = export_text(member)
        assert text.count("class: ") + text.count("value: ") == tree.n_leaves
        X = table(3, name)[0][:20].astype(np.float32)
        assert member.decision_path(X).shape == (20, tree.node_count)
    assert total == n_remaining(pruned)
    assert clone(exported).fit(*table(3, name)).predict(table(3, name)[0]).shape == (260,)


def test_histograms_keep_counts_and_sets() -> None:
    X, y = table(2, "")
    X[:, 1] = np.random.default_rng(0).integers(0, 9, len(X))
    native = HistGradientBoostingClassifier(max_iter=6, categorical_features=[1], min_samples_leaf=4).fit(
        X, y ^ np.isin(X[:, 1], [2, 3, 7])
    )
    model = read_sklearn(native)
    pruned = cut_forest(model.forest, share=0.15, seed=5)
    codes = edge_rows(model.forest, X, infinite=True, limit=100)
    exported = check(model, pruned, codes, to_raw(model.forest, codes))
    n_sets = 0
    for stage in exported._predictors:
        for predictor in stage:
            nodes = predictor.nodes
            inner = np.flatnonzero(nodes["is_leaf"] == 0)
            children = nodes["count"][nodes["left"][inner]] + nodes["count"][nodes["right"][inner]]
            assert np.array_equal(children, nodes["count"][inner])
            n_sets += nodes["is_categorical"].sum()
            assert len(predictor.raw_left_cat_bitsets) == nodes["is_categorical"].sum()
            assert predictor.get_max_depth() == nodes["depth"].max()
    written = read_sklearn(exported).forest
    assert n_sets == np.count_nonzero(written.kind == SplitKind.CATEGORICAL) > 0
    found = partial_dependence(exported, X, [0], method="recursion")["average"]
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("name", ["forest", "tree", "gradient", "histogram", "adaboost", "histogram of categories"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_tree_cut_at_its_root_is_a_constant(name: str, n_classes: int) -> None:
    model = read_sklearn(fitted(name, n_classes))
    codes, raw = probe_rows(model, name, n_classes)
    exported = check(model, cut_forest(model.forest, share=1.0), codes[:50], raw[:50])
    assert read_sklearn(exported).forest.n_nodes == model.forest.n_trees


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(6, max_depth=4, random_state=0),
        ExtraTreesRegressor(6, max_depth=4, random_state=0),
        DecisionTreeRegressor(max_depth=4, random_state=0),
        GradientBoostingRegressor(n_estimators=6, random_state=0),
        HistGradientBoostingRegressor(max_iter=6),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_regressors_with_a_threshold(estimator: Any) -> None:
    X, y = table(4, "")
    native = clone(estimator).fit(X, y + 0.125)
    model = read_sklearn(native, threshold=1.5)
    pruned = cut(grid_forest(model.forest, grid=20), share=0.3, seed=1)
    exported = export(model, pruned)
    rows = np.vstack([X, edge_rows(model.forest, X, limit=60)])
    if type(native).__name__ == "GradientBoostingRegressor":
        rows = np.nan_to_num(rows)
    margins = integer_margins(pruned, rows)[:, 0] / 2.0**pruned.grid
    if model.document.family == "average":
        n_trees = len(getattr(exported, "estimators_", [0]))
        above = exported.predict(rows) > 1.5
        assert np.array_equal(above, margins > 0)
        assert exported.predict(rows) == pytest.approx(margins / n_trees + 1.5, abs=1e-9)
    else:
        assert np.array_equal(exported.predict(rows), margins)
    assert read_sklearn(exported, threshold=1.5).forest.n_nodes == n_remaining(pruned)


def test_a_classifier_with_a_threshold() -> None:
    native = fitted("forest", 2)
    model = read_sklearn(native, threshold=0.3)
    pruned = cut(grid_forest(model.forest, grid=24), share=0.3)
    exported = export(model, pruned)
    codes, raw = probe_rows(model, "forest", 2)
    above = exported.predict_proba(raw)[:, 1] > 0.3
    assert np.array_equal(above, integer_margins(pruned, codes)[:, 0] > 0)
    assert read_sklearn(exported, threshold=0.3).forest.n_nodes == n_remaining(pruned)


def test_a_new_leaf_that_is_no_vote_is_refused() -> None:
    model = read_sklearn(fitted("adaboost", 3))
    pruned = cut_forest(model.forest, share=1.0)
    for value in ([5, 5, 0], [-3, 0, 0], [0, 0, 0]):
        wrong = pruned.value_int.copy()
        wrong[: model.forest.tree_offset[1]] = value
        with pytest.raises(InvalidInputError, match="vote"):
            export(model, replace(pruned, value_int=wrong))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    case=st.sampled_from(
        [
            ("forest fitted with NaN", 3),
            ("extra trees", 2),
            ("gradient", 4),
            ("histogram of categories", 3),
            ("adaboost", 2),
        ]
    ),
)
def test_any_cut_of_any_model(seed: int, share: float, case: tuple[str, int]) -> None:
    model = read_sklearn(fitted(*case))
    codes, raw = probe_rows(model, *case)
    rows = np.random.default_rng(seed).choice(len(codes), 80, replace=False)
    pruned = cut_forest(model.forest, some_weights(model, seed), share=share, seed=seed)
    check(model, pruned, codes[rows], raw[rows])


def test_a_smaller_model_is_a_smaller_file() -> None:
    """Trees of gradient boosting share one generator; a copy for each made the file grow."""
    model, result = pruned_model("gradient", alpha=0.1, indifference=0.0)
    members = result.model.estimators_.ravel()
    assert 1 < len(members) < model.n_estimators
    assert len({id(member.random_state) for member in members}) == 1
    assert members[0].random_state is not model.estimators_[0, 0].random_state
    assert len(pickle.dumps(result.model)) < len(pickle.dumps(model))
