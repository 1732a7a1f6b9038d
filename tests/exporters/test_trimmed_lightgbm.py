"""Trimmed LightGBM models: nodes really gone, raw scores exact, SHAP and importances at work."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.exporters import export
from pine_boost.model.forest import PrunedForest
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows, integer_margins
from tests.support.trimmed import assert_same_trees, cut_forest, n_remaining

lgb = pytest.importorskip("lightgbm")

from tests.support.lightgbm_models import CONFIGS, raw, rows_for, table, trained  # noqa: E402  (needs lightgbm)


def check(pruned: PrunedForest, exported: Any, X: np.ndarray) -> None:
    np.testing.assert_array_equal(raw(exported, X), integer_margins(pruned, X) / 2.0**pruned.grid)
    for i in range(0, len(X), 71):
        np.testing.assert_array_equal(
            raw(exported, X[i : i + 1]), integer_margins(pruned, X[i : i + 1]) / 2.0**pruned.grid
        )
    written = read_model(exported).forest
    assert assert_same_trees(pruned, written) == n_remaining(pruned)
    assert written.n_nodes == n_remaining(pruned) + written.n_trees - len(pruned.kept)


@pytest.mark.parametrize("weights", ["all", "some"])
@pytest.mark.parametrize("name", CONFIGS)
def test_nodes_are_gone_and_raw_scores_exact(name: str, weights: str) -> None:
    booster = trained(name)
    before = booster.model_to_string()
    model = read_model(booster)
    random = np.random.default_rng(len(name))
    kept = random.choice([0.0, 1.0, 0.7], model.forest.n_trees) if weights == "some" else None
    X = rows_for(model.forest)
    for share in (0.2, 0.5):
        pruned = cut_forest(model.forest, kept, share=share, seed=len(name))
        check(pruned, export(model, pruned), X)
    assert booster.model_to_string() == before


@pytest.mark.parametrize("name", ["binary", "multiclass", "rf", "one_hot"])
def test_text_is_the_text_that_lightgbm_writes(name: str) -> None:
    contents = trained(name).model_to_string().encode()
    model = read_model(contents)
    pruned = cut_forest(model.forest, share=0.3)
    exported = export(model, pruned)
    assert len(exported) < len(contents)
    # LightGBM's own writer gives back the same trees: sizes, numbers and sets are in order
    loaded = lgb.Booster(model_str=exported.decode())
    blocks = exported.split(b"end of trees")[0]
    assert loaded.model_to_string().encode().split(b"end of trees")[0] == blocks


def test_counts_and_weights_of_cut_nodes_are_added_up() -> None:
    model = read_model(trained("binary"))
    pruned = cut_forest(model.forest, share=0.3, seed=2)
    document = read_model(export(model, pruned)).document
    for old, new in zip(model.document.trees, document.trees, strict=True):
        assert new.leaf_count.sum() == old.leaf_count.sum()
        assert set(new.split_gain.tolist()) <= set(old.split_gain.tolist())
        if new.n_leaves > 1:  # LightGBM writes no weight for a tree of one leaf
            assert new.leaf_weight.sum() == pytest.approx(old.leaf_weight.sum())
            assert new.internal_count[0] == old.internal_count[0]
            # a node's data are those of its children
            for side in range(new.n_leaves - 1):
                children = new.left_child[side], new.right_child[side]
                counts = [new.internal_count[c] if c >= 0 else new.leaf_count[~c] for c in children]
                assert sum(counts) == new.internal_count[side]


@pytest.mark.parametrize("name", ["binary", "multiclass", "rf", "dart"])
def test_shap_importances_and_dumps_work(name: str) -> None:
    model = read_model(trained(name))
    pruned = cut_forest(model.forest, share=0.3, seed=1)
    exported = export(model, pruned)
    X = table()[0][:60]
    margins = raw(exported, X)
    shap = exported.predict(X, pred_contrib=True, num_threads=1).reshape(*margins.shape, -1)
    np.testing.assert_allclose(shap.sum(axis=2), margins, rtol=1e-9, atol=1e-9)
    n_splits = (n_remaining(pruned) - model.forest.n_trees) // 2
    assert exported.feature_importance("split").sum() == n_splits
    gains = sum(tree.split_gain.sum() for tree in read_model(exported).document.trees)
    assert exported.feature_importance("gain").sum() == pytest.approx(gains)
    assert len(exported.dump_model()["tree_info"]) == model.forest.n_trees
    if n_splits:
        assert len(exported.trees_to_dataframe()) == n_remaining(pruned)


def test_a_tree_cut_at_its_root_is_a_constant() -> None:
    for name in ("binary", "multiclass", "rf"):
        model = read_model(trained(name))
        pruned = cut_forest(model.forest, share=1.0)
        exported = export(model, pruned)
        assert read_model(exported).forest.n_nodes == model.forest.n_trees
        check(pruned, exported, table()[0][:10])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrappers(n_classes: int) -> None:
    X, y2, y3 = table()
    labels = np.array(["a", "b", "c"])[y2 if n_classes == 2 else y3]
    wrapper = lgb.LGBMClassifier(n_estimators=6, num_leaves=12, n_jobs=1, verbose=-1)
    wrapper.fit(X, labels, categorical_feature=[3])
    model = read_model(wrapper)
    pruned = cut_forest(model.forest, share=0.3)
    exported = export(model, pruned)
    assert type(exported) is lgb.LGBMClassifier
    probe = edge_rows(model.forest, X, limit=30)
    for copied in (exported, pickle.loads(pickle.dumps(exported))):
        np.testing.assert_array_equal(
            copied.predict(probe, raw_score=True).reshape(len(probe), -1),
            integer_margins(pruned, probe) / 2.0**pruned.grid,
        )
        assert set(copied.predict(probe)) <= set(labels)
        n_splits = (n_remaining(pruned) - model.forest.n_trees) // 2
        assert copied.feature_importances_.sum() == n_splits


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    name=st.sampled_from(["binary", "one_hot", "multiclass", "zero_as_missing", "ova_rf"]),
)
def test_any_cut_of_any_booster(seed: int, share: float, name: str) -> None:
    model = read_model(trained(name))
    weights = np.random.default_rng(seed).choice([0.0, 1.0, 0.5], model.forest.n_trees)
    pruned = cut_forest(model.forest, weights, share=share, seed=seed)
    X = edge_rows(model.forest, table()[0][:50], infinite=True, limit=10, seed=seed)
    check(pruned, export(model, pruned), X)
