"""Trimmed XGBoost models: nodes really gone, margins exact, SHAP and importances at work."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import InvalidInputError
from pine_boost.exporters import export
from pine_boost.model.rules import SplitKind
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows
from tests.support.trimmed import assert_same_trees, cut_forest, n_remaining

xgboost = pytest.importorskip("xgboost")

from tests.support.xgboost_models import (  # noqa: E402  (needs xgboost)
    BOOSTERS,
    booster_margins,
    categorical_booster,
    check_margins,
    expected_margins,
    make_labels,
    make_rows,
    some_weights,
    train,
)


def tree_sections(contents):
    return json.loads(contents)["learner"]["gradient_booster"]["model"]["trees"]


def check(model, pruned, exported, rows):
    """Margins in batch, in place and row by row; the nodes read back are those that remain."""
    check_margins(pruned, exported, rows, step=61)
    written = read_model(exported).forest
    assert assert_same_trees(pruned, written) == n_remaining(pruned)
    n_constants = written.n_trees - len(pruned.kept)
    assert written.n_nodes == n_remaining(pruned) + n_constants


@pytest.mark.parametrize("weights", ["all", "some"])
@pytest.mark.parametrize("name", BOOSTERS)
def test_nodes_are_gone_and_margins_exact(name, weights):
    booster = train(**BOOSTERS[name])
    before = booster.save_raw("ubj")
    model = read_model(booster)
    kept = None if weights == "all" else some_weights(model.forest)
    for share in (0.2, 0.6):
        pruned = cut_forest(model.forest, kept, share=share, seed=len(name))
        exported = export(model, pruned)
        rows = np.vstack([make_rows(200, seed=9), edge_rows(model.forest, make_rows(), limit=40)])
        check(model, pruned, exported, rows)
    assert booster.save_raw("ubj") == before


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
@pytest.mark.parametrize("seed", range(4))
def test_categories_of_cut_nodes_go_with_them(max_cat_to_onehot, seed):
    booster, rows = categorical_booster(max_cat_to_onehot)
    model = read_model(booster)
    pruned = cut_forest(model.forest, some_weights(model.forest), seed=seed)
    exported = export(model, pruned)
    assert exported.feature_types == ["float", "c", "c"]
    probe = np.vstack([rows[:100], edge_rows(model.forest, rows, limit=60)])
    check(model, pruned, exported, probe)
    for tree in tree_sections(exported.save_raw("json")):
        n_sets = sum(tree["split_type"])
        assert len(tree["categories_nodes"]) == len(tree["categories_sizes"]) == n_sets
        assert len(tree["categories"]) == sum(tree["categories_sizes"])


@pytest.mark.parametrize("file_format", ["json", "ubj"])
def test_files_follow_the_numbering_rules(file_format):
    contents = bytes(train(objective="binary:logistic", max_depth=5).save_raw(file_format))
    model = read_model(contents)
    pruned = cut_forest(model.forest, share=0.3)
    exported = export(model, pruned)
    assert len(exported) < len(contents)
    booster = xgboost.Booster(model_file=bytearray(exported))
    for index, tree in enumerate(tree_sections(booster.save_raw("json"))):
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        inner = left >= 0
        assert tree["id"] == index
        assert int(tree["tree_param"]["num_nodes"]) == len(left) == 2 * inner.sum() + 1
        assert tree["tree_param"]["num_deleted"] == "0"
        np.testing.assert_array_equal(right[inner], left[inner] + 1)
        parents = np.full(len(left), 2147483647)
        parents[left[inner]] = parents[right[inner]] = np.flatnonzero(inner)
        np.testing.assert_array_equal(tree["parents"], parents)
        assert not np.any(np.array(tree["loss_changes"])[~inner])
    # bytes that are read again and written again do not change any more
    again = read_model(exported)
    assert read_model(exported).forest.n_nodes == n_remaining(pruned) == again.forest.n_nodes


@pytest.mark.parametrize("name", ["logistic", "softprob", "dart"])
def test_shap_importances_and_dumps_work(name):
    booster = train(**BOOSTERS[name])
    model = read_model(booster)
    pruned = cut_forest(model.forest, share=0.3, seed=1)
    exported = export(model, pruned)
    rows = make_rows(60, seed=2)
    data = xgboost.DMatrix(rows, nthread=1)
    margins = booster_margins(exported, rows)
    for options in ({"pred_contribs": True}, {"pred_contribs": True, "approx_contribs": True}):
        shap = exported.predict(data, **options).reshape(len(rows), margins.shape[1], -1)
        assert np.all(np.isfinite(shap))
        np.testing.assert_allclose(shap.sum(axis=2), margins, atol=2e-5)
    pairs = exported.predict(data, pred_interactions=True)
    assert np.all(np.isfinite(pairs))
    # covers and gains of the kept splits are those of the original, node for node
    forest, trees = model.forest, model.document.trees
    split = (forest.kind != SplitKind.LEAF) & ~pruned.is_leaf
    split &= reached(pruned)
    for kind, number in (("total_gain", trees.loss_change), ("total_cover", trees.sum_hessian)):
        score = exported.get_score(importance_type=kind)
        for feature in range(forest.n_features):
            mine = split & (forest.feature == feature)
            expected = float(number[mine].astype(np.float64).sum())
            assert score.get(f"f{feature}", 0.0) == pytest.approx(expected, rel=1e-5)
    assert sum(exported.get_score(importance_type="weight").values()) == split.sum()
    dump = exported.get_dump(with_stats=True)
    assert sum(text.count("leaf=") for text in dump) == read_model(exported).forest.n_leaves
    assert len(exported.trees_to_dataframe()) == read_model(exported).forest.n_nodes


def reached(pruned):
    """Nodes that no leaf of the smaller forest is above of."""
    forest = pruned.forest
    inside = np.zeros(forest.n_nodes, dtype=bool)
    open_nodes = forest.tree_offset[:-1].tolist()
    while open_nodes:
        node = open_nodes.pop()
        inside[node] = True
        if not pruned.is_leaf[node]:
            open_nodes += [forest.left[node], forest.right[node]]
    return inside


@pytest.mark.parametrize("kind", ["XGBClassifier", "XGBRFClassifier"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrappers(kind, n_classes):
    rows = make_rows()
    labels = np.array(["no", "perhaps", "yes"])[make_labels(rows, n_classes)]
    codes = np.unique(labels, return_inverse=True)[1]
    wrapper = getattr(xgboost, kind)(n_estimators=6, max_depth=4, n_jobs=1, subsample=0.8)
    wrapper.fit(rows, codes)
    model = read_model(wrapper)
    pruned = cut_forest(model.forest, share=0.25)
    exported = export(model, pruned)
    assert type(exported) is type(wrapper)
    for copied in (exported, pickle.loads(pickle.dumps(exported))):
        probe = edge_rows(model.forest, rows, limit=40)
        np.testing.assert_array_equal(
            copied.predict(probe, output_margin=True).reshape(len(probe), -1), expected_margins(pruned, probe)
        )
        assert copied.feature_importances_.sum() == pytest.approx(1.0, abs=1e-5)
        assert copied.predict_proba(probe).shape == (len(probe), n_classes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_tree_cut_at_its_root_is_a_constant(n_classes):
    objective = "multi:softprob" if n_classes == 3 else "binary:logistic"
    booster = train(rounds=3, objective=objective, n_classes=n_classes)
    model = read_model(booster)
    pruned = cut_forest(model.forest, share=1.0)
    exported = export(model, pruned)
    written = read_model(exported).forest
    n_constants = 3 if n_classes == 3 else 0  # they take back the base_score of 0.5
    assert written.n_nodes == written.n_trees == model.forest.n_trees + n_constants
    rows = make_rows(20)
    np.testing.assert_array_equal(booster_margins(exported, rows), expected_margins(pruned, rows))
    contributions = exported.predict(xgboost.DMatrix(rows, nthread=1), pred_contribs=True)
    assert not np.any(contributions[..., :-1])


def test_values_that_contradict_the_leaves_are_refused():
    model = read_model(train(rounds=2, objective="binary:logistic"))
    pruned = cut_forest(model.forest, share=0.4)
    assert np.any(pruned.is_leaf & (model.forest.kind != SplitKind.LEAF))
    wrong = pruned.value_int.copy()
    wrong[pruned.is_leaf & (model.forest.kind != SplitKind.LEAF)] += 1
    with pytest.raises(InvalidInputError, match="same number"):
        export(model, replace(pruned, value_int=wrong))
    with pytest.raises(InvalidInputError, match="nodes"):
        export(model, replace(pruned, is_leaf=pruned.is_leaf[:-1]))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    name=st.sampled_from(["logistic", "softmax", "lossguide", "exact_pruned", "parallel"]),
)
def test_any_cut_of_any_booster(seed, share, name):
    booster = trained(name)
    model = read_model(booster)
    random = np.random.default_rng(seed)
    weights = random.choice([0.0, 1.0, 0.5], model.forest.n_trees)
    pruned = cut_forest(model.forest, weights, share=share, seed=seed)
    rows = edge_rows(model.forest, make_rows(50, seed=seed), limit=10, seed=seed)
    check(model, pruned, export(model, pruned), rows)


_TRAINED = {}


def trained(name):
    if name not in _TRAINED:
        _TRAINED[name] = train(rounds=4, **BOOSTERS[name])
    return _TRAINED[name]
