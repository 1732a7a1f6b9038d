"""Trimmed models of every library: nodes really gone, margins exact, SHAP, importances and wrappers at work."""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import ensemble
from sklearn.base import clone
from sklearn.inspection import partial_dependence
from sklearn.tree import export_text

from pine_boost.errors import InvalidInputError
from pine_boost.exporters import export
from pine_boost.exporters.treelite import to_treelite
from pine_boost.model.forest import Forest, Model, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from tests.support import lightgbm_models, native_models, sklearn_models, value_models, xgboost_models
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.trimmed import assert_same_trees, cut, cut_forest, n_remaining, reached
from tests.support.verifying import pruned_model
from tests.support.xgboost_models import BOOSTERS, booster_margins, expected_margins, make_labels, make_rows


@dataclass(frozen=True)
class Library:
    """What differs between libraries: models, rows for them, and what they predict."""

    native: Callable[..., Any]
    contents: Callable[[Any], bytes]
    rows: Callable[..., tuple[np.ndarray, np.ndarray]]  # codes for the Forest, raw rows for the library
    weights: Callable[[Forest, int], np.ndarray]
    check: Callable[[Any, Model, PrunedForest, np.ndarray, np.ndarray], None]


@cache
def _booster(name):
    if name.startswith("categories"):
        return xgboost_models.categorical_booster(int(name.split()[1]))[0]
    return xgboost_models.train(**BOOSTERS[name])


def _booster_rows(forest, name):
    rows = make_rows(500, seed=9)
    if name.startswith("categories"):
        rows = xgboost_models.categorical_booster(int(name.split()[1]))[1]
    rows = np.vstack([rows[:200], edge_rows(forest, rows, limit=60)])
    return rows, rows


def _check_booster(exported, model, pruned, codes, raw):
    """In batch, in place and row by row."""
    xgboost_models.check_margins(pruned, exported, codes, step=61)


def _check_lightgbm(exported, model, pruned, codes, raw):
    expected = integer_margins(pruned, codes) / 2.0**pruned.grid
    np.testing.assert_array_equal(lightgbm_models.raw(exported, raw), expected)
    for i in range(0, len(raw), 71):
        np.testing.assert_array_equal(lightgbm_models.raw(exported, raw[i : i + 1]), expected[i : i + 1])


def _weights(forest, seed):
    random = np.random.default_rng(seed)
    weights = random.choice([0.0, 1.0, 0.6], forest.n_trees)
    weights[random.integers(len(weights))] = 1.25
    return weights


LIBRARIES = {
    "xgboost": Library(
        _booster, lambda b: bytes(b.save_raw("ubj")), _booster_rows, xgboost_models.some_weights, _check_booster
    ),
    "lightgbm": Library(
        lightgbm_models.trained,
        lambda b: b.model_to_string().encode(),
        lambda forest, name: (lightgbm_models.rows_for(forest),) * 2,
        _weights,
        _check_lightgbm,
    ),
    "sklearn": Library(
        sklearn_models.fitted,
        pickle.dumps,
        lambda forest, *case: sklearn_models.probe_rows(read_model(sklearn_models.fitted(*case)), *case),
        _weights,
        sklearn_models.check_exported,
    ),
}
MODELS = [
    *(("xgboost", name) for name in [*BOOSTERS, "categories 1", "categories 100"]),
    *(("lightgbm", name) for name in lightgbm_models.CONFIGS),
    *(("sklearn", *case) for case in sklearn_models.CASES),
]
NAMES = [" ".join(map(str, case)) for case in MODELS]


def check(case, model, pruned, chosen=slice(None)):
    """Margins bit for bit; the nodes read back are those that remain."""
    library = LIBRARIES[case[0]]
    exported = export(model, pruned)
    assert type(exported) is type(model.native)
    codes, raw = library.rows(model.forest, *case[1:])
    library.check(exported, model, pruned, codes[chosen], raw[chosen])
    check_nodes(pruned, read_model(exported).forest)
    return exported


def check_nodes(pruned, written):
    assert assert_same_trees(pruned, written) == n_remaining(pruned)
    assert written.n_nodes == n_remaining(pruned) + written.n_trees - len(pruned.kept)


@pytest.mark.parametrize("weights", ["all", "some"])
@pytest.mark.parametrize("case", MODELS, ids=NAMES)
def test_nodes_are_gone_and_margins_exact(case, weights):
    library = LIBRARIES[case[0]]
    native = library.native(*case[1:])
    before = library.contents(native)
    model = read_model(native)
    kept = library.weights(model.forest, len(case[1])) if weights == "some" else None
    shares = (None, 0.2, 0.6)
    if case[0] == "sklearn":  # whole trees: tests/exporters/test_sklearn.py
        shares = (0.2,) if weights == "all" else (0.6,)
    for share in shares:
        pruned = grid_forest(model.forest, kept)
        exported = check(case, model, pruned if share is None else cut(pruned, share=share, seed=len(case[1])))
    if case[0] == "sklearn":
        raw = library.rows(model.forest, *case[1:])[1]
        copied = (
            sklearn_models.native_values(m, model.kind, raw) for m in (exported, pickle.loads(pickle.dumps(exported)))
        )
        assert np.array_equal(*copied)
    assert library.contents(native) == before


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.0, 1.0),
    case=st.sampled_from(
        [
            *(("xgboost", name) for name in ("logistic", "softmax", "lossguide", "exact_pruned", "parallel")),
            *(("lightgbm", name) for name in ("binary", "one_hot", "multiclass", "zero_as_missing", "ova_rf")),
            ("sklearn", "forest fitted with NaN", 3),
            ("sklearn", "extra trees", 2),
            ("sklearn", "gradient", 4),
            ("sklearn", "histogram of categories", 3),
            ("sklearn", "adaboost", 2),
        ]
    ),
)
def test_any_cut_of_any_model(seed, share, case):
    model = read_model(LIBRARIES[case[0]].native(*case[1:]))
    pruned = cut_forest(model.forest, LIBRARIES[case[0]].weights(model.forest, seed), share=share, seed=seed)
    check(case, model, pruned, np.random.default_rng(seed).choice(200, 80, replace=False))


@pytest.mark.parametrize(
    "case",
    [
        *(("xgboost", name) for name in ("logistic", "softprob")),
        *(("lightgbm", name) for name in ("binary", "multiclass", "rf")),
        *(
            ("sklearn", name, n_classes)
            for name in ("forest", "tree", "gradient", "histogram", "adaboost", "histogram of categories")
            for n_classes in (2, 3)
        ),
    ],
    ids=lambda case: " ".join(map(str, case)),
)
def test_a_tree_cut_at_its_root_is_a_constant(case):
    model = read_model(LIBRARIES[case[0]].native(*case[1:]))
    exported = check(case, model, cut_forest(model.forest, share=1.0), slice(50))
    written = read_model(exported).forest
    # in XGBoost constants of several outputs take back the base_score of 0.5
    n_constants = model.forest.n_outputs if case[0] == "xgboost" and model.forest.n_outputs > 1 else 0
    assert written.n_nodes == written.n_trees == model.forest.n_trees + n_constants
    if case[0] == "xgboost":
        contributions = exported.predict(xgboost.DMatrix(make_rows(20), nthread=1), pred_contribs=True)
        assert not np.any(contributions[..., :-1])


@pytest.mark.parametrize("kind", ["XGBClassifier", "XGBRFClassifier", "LGBMClassifier"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrappers(kind, n_classes):
    if kind == "LGBMClassifier":
        X, y2, y3 = lightgbm_models.table()
        labels = np.array(["a", "b", "c"])[y2 if n_classes == 2 else y3]
        wrapper = lightgbm.LGBMClassifier(n_estimators=6, num_leaves=12, n_jobs=1, verbose=-1)
        wrapper.fit(X, labels, categorical_feature=[3])
    else:
        X = make_rows()
        labels = make_labels(X, n_classes)
        wrapper = getattr(xgboost, kind)(n_estimators=6, max_depth=4, n_jobs=1, subsample=0.8).fit(X, labels)
    model = read_model(wrapper)
    pruned = cut_forest(model.forest, share=0.3)
    exported = export(model, pruned)
    assert type(exported) is type(wrapper)
    probe = edge_rows(model.forest, X, limit=40)
    margin = {"raw_score": True} if kind == "LGBMClassifier" else {"output_margin": True}
    expected = integer_margins(pruned, probe) / 2.0**pruned.grid
    for copied in (exported, pickle.loads(pickle.dumps(exported))):
        np.testing.assert_array_equal(copied.predict(probe, **margin).reshape(len(probe), -1), expected)
        assert copied.predict_proba(probe).shape == (len(probe), n_classes)
        assert set(copied.predict(probe)) <= set(labels)
        if kind == "LGBMClassifier":
            assert copied.feature_importances_.sum() == (n_remaining(pruned) - model.forest.n_trees) // 2
        else:
            assert copied.feature_importances_.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("weights", ["all", "some"])
@pytest.mark.parametrize("name", value_models.VALUES)
def test_values_are_exact(name, weights):
    X, native = value_models.table()[0], value_models.VALUES[name]()
    model = read_model(native, decision="value")
    assert model.kind.endswith(type(native).__name__)
    forest = model.forest
    kept = np.ones(forest.n_trees)
    if weights == "some" and forest.n_trees > 1:
        kept = np.random.default_rng(len(name)).choice([0.0, 1.0, 0.5], forest.n_trees)
        kept[0] = 1.0
    pruned = cut(grid_forest(forest, kept), share=0.3, seed=3)
    exported = export(model, pruned)
    assert type(exported) is type(native)
    rows = np.nan_to_num(np.vstack([X, edge_rows(forest, X, limit=60)]))
    margins = integer_margins(pruned, rows) / 2.0**pruned.grid
    again = read_model(exported, decision="value")
    if getattr(model.document, "family", "") == "average":
        # the mean is over as many trees as before, whatever went
        np.testing.assert_array_equal(exported.predict(rows), margins[:, 0] / forest.n_trees)
        assert again.forest.n_trees == forest.n_trees
    else:
        np.testing.assert_array_equal(predict_margins(again, rows)[0], margins)
    assert again.forest.slope == forest.slope
    check_nodes(pruned, again.forest)


# zeros that count as missing have no Treelite form, with or without trimming
CONVERTIBLE = [name for name in native_models.MODELS if name != "lgb zero as missing" and not name.startswith("cat ")]


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("name", CONVERTIBLE)
def test_treelite_margins_are_exact(name, share):
    from tests.support.gtil import gtil_margins

    native, X = native_models.built(name)
    model = read_model(native)
    forest = model.forest
    weights = np.random.default_rng(2).choice([0.0, 1.0, 0.5], forest.n_trees)
    weights[0] = 1.0
    pruned = cut_forest(forest, weights, share=share, seed=3)
    again = read_model(export(model, pruned))
    rows = np.vstack([X, edge_rows(forest, X, limit=60)])
    for column, known in enumerate(again.forest.feature_categories):
        if known is not None:  # whole known numbers are fed as they are
            rows[:, column] = np.clip(np.floor(rows[:, column]), 0, len(known) - 1)
    converted = to_treelite(again)
    expected = np.ldexp(integer_margins(pruned, rows).astype(np.float64), -pruned.grid)
    if getattr(model.document, "family", "") == "average":
        expected = expected / len(pruned.kept)
    np.testing.assert_array_equal(gtil_margins(converted, forest, rows), expected)
    # intercepts become trees, too, because Treelite adds base scores in another order
    assert converted.num_tree == again.forest.n_trees + np.count_nonzero(again.forest.intercept)
    n_nodes = sum(len(converted.get_tree_accessor(i).get_field("cleft")) for i in range(converted.num_tree))
    assert n_nodes == n_remaining(pruned) + converted.num_tree - len(pruned.kept)


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
@pytest.mark.parametrize("seed", range(4))
def test_xgboost_categories_of_cut_nodes_go_with_them(max_cat_to_onehot, seed):
    case = ("xgboost", f"categories {max_cat_to_onehot}")
    model = read_model(_booster(case[1]))
    exported = check(case, model, cut_forest(model.forest, xgboost_models.some_weights(model.forest), seed=seed))
    assert exported.feature_names == ["x", "c", "d"]
    assert exported.feature_types == ["float", "c", "c"]
    for tree in tree_sections(exported.save_raw("json")):
        n_sets = sum(tree["split_type"])
        assert len(tree["categories_nodes"]) == len(tree["categories_sizes"]) == n_sets
        assert len(tree["categories"]) == sum(tree["categories_sizes"])


def tree_sections(contents):
    return json.loads(contents)["learner"]["gradient_booster"]["model"]["trees"]


@pytest.mark.parametrize("file_format", ["json", "ubj"])
def test_xgboost_files_follow_the_numbering_rules(file_format):
    contents = bytes(xgboost_models.train(objective="binary:logistic", max_depth=5).save_raw(file_format))
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
    assert read_model(exported).forest.n_nodes == n_remaining(pruned)


@pytest.mark.parametrize("name", ["logistic", "softprob", "dart"])
def test_xgboost_shap_importances_and_dumps_work(name):
    model = read_model(_booster(name))
    pruned = cut_forest(model.forest, share=0.3, seed=1)
    exported = export(model, pruned)
    rows = make_rows(60, seed=2)
    data = xgboost.DMatrix(rows, nthread=1)
    margins = booster_margins(exported, rows)
    np.testing.assert_array_equal(margins, expected_margins(pruned, rows))
    for options in ({"pred_contribs": True}, {"pred_contribs": True, "approx_contribs": True}):
        shap = exported.predict(data, **options).reshape(len(rows), margins.shape[1], -1)
        assert np.all(np.isfinite(shap))
        np.testing.assert_allclose(shap.sum(axis=2), margins, atol=2e-5)
    assert np.all(np.isfinite(exported.predict(data, pred_interactions=True)))
    # covers and gains of the kept splits are those of the original, node for node
    forest, trees = model.forest, model.document.trees
    split = (forest.kind != SplitKind.LEAF) & ~pruned.is_leaf & reached(pruned)
    for kind, number in (("total_gain", trees["loss_changes"]), ("total_cover", trees["sum_hessian"])):
        score = exported.get_score(importance_type=kind)
        for feature in range(forest.n_features):
            expected = float(number[split & (forest.feature == feature)].astype(np.float64).sum())
            assert score.get(f"f{feature}", 0.0) == pytest.approx(expected, rel=1e-5)
    assert sum(exported.get_score(importance_type="weight").values()) == split.sum()
    dump = exported.get_dump(with_stats=True)
    assert sum(text.count("leaf=") for text in dump) == read_model(exported).forest.n_leaves
    assert len(exported.trees_to_dataframe()) == read_model(exported).forest.n_nodes


def test_values_that_contradict_the_leaves_are_refused():
    model = read_model(_booster("logistic"))
    pruned = cut_forest(model.forest, share=0.4)
    new_leaf = pruned.is_leaf & (model.forest.kind != SplitKind.LEAF)
    assert np.any(new_leaf)
    wrong = pruned.value_int.copy()
    wrong[new_leaf] += 1
    with pytest.raises(InvalidInputError, match="same number"):
        export(model, replace(pruned, value_int=wrong))
    with pytest.raises(InvalidInputError, match="nodes"):
        export(model, replace(pruned, is_leaf=pruned.is_leaf[:-1]))


@pytest.mark.parametrize("name", ["binary", "multiclass", "rf", "one_hot"])
def test_text_is_the_text_that_lightgbm_writes(name):
    contents = lightgbm_models.trained(name).model_to_string().encode()
    model = read_model(contents)
    exported = export(model, cut_forest(model.forest, share=0.3))
    assert len(exported) < len(contents)
    # LightGBM's own writer gives back the same trees: sizes, numbers and sets are in order
    loaded = lightgbm.Booster(model_str=exported.decode())
    assert loaded.model_to_string().encode().split(b"end of trees")[0] == exported.split(b"end of trees")[0]


def test_lightgbm_counts_and_weights_of_cut_nodes_are_added_up():
    model = read_model(lightgbm_models.trained("binary"))
    document = read_model(export(model, cut_forest(model.forest, share=0.3, seed=2))).document
    old, new = model.document.trees, document.trees
    for tree in range(old.n_trees):
        before, after = (trees.record[trees.offset[tree] : trees.offset[tree + 1]] for trees in (old, new))
        is_old, is_leaf = (trees.is_leaf[trees.offset[tree] : trees.offset[tree + 1]] for trees in (old, new))
        assert after["count"][is_leaf].sum() == before["count"][is_old].sum()
        assert set(after["split_gain"][~is_leaf].tolist()) <= set(before["split_gain"][~is_old].tolist())
        if len(after) > 1:  # LightGBM writes no weight for a tree of one leaf
            assert after["weight"][is_leaf].sum() == pytest.approx(before["weight"][is_old].sum())
            assert after["count"][0] == before["count"][0]
    # a node's data are those of its children
    inner = np.flatnonzero(~new.is_leaf)
    np.testing.assert_array_equal(new["count"][new.left[inner]] + new["count"][new.right[inner]], new["count"][inner])


@pytest.mark.parametrize("name", ["binary", "multiclass", "rf", "dart"])
def test_lightgbm_shap_importances_and_dumps_work(name):
    model = read_model(lightgbm_models.trained(name))
    pruned = cut_forest(model.forest, share=0.3, seed=1)
    exported = export(model, pruned)
    X = lightgbm_models.table()[0][:60]
    margins = lightgbm_models.raw(exported, X)
    shap = exported.predict(X, pred_contrib=True, num_threads=1).reshape(*margins.shape, -1)
    np.testing.assert_allclose(shap.sum(axis=2), margins, rtol=1e-9, atol=1e-9)
    n_splits = (n_remaining(pruned) - model.forest.n_trees) // 2
    assert exported.feature_importance("split").sum() == n_splits
    trees = read_model(exported).document.trees
    gains = trees["split_gain"][~trees.is_leaf].sum()
    assert exported.feature_importance("gain").sum() == pytest.approx(gains)
    assert len(exported.dump_model()["tree_info"]) == model.forest.n_trees
    if n_splits:
        assert len(exported.trees_to_dataframe()) == n_remaining(pruned)


@pytest.mark.parametrize("name", ["forest", "tree", "gradient", "adaboost", "extra trees"])
def test_sklearn_importances_texts_and_paths_work(name):
    native = sklearn_models.fitted(name, 3)
    model = read_model(native)
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
        X = sklearn_models.table(3, name)[0][:20].astype(np.float32)
        assert member.decision_path(X).shape == (20, tree.node_count)
    assert total == n_remaining(pruned)
    assert clone(exported).fit(*sklearn_models.table(3, name)).predict(sklearn_models.table(3, name)[0]).shape == (260,)


def test_histograms_keep_counts_and_sets():
    X, y = sklearn_models.table(2, "")
    X[:, 1] = np.random.default_rng(0).integers(0, 9, len(X))
    native = ensemble.HistGradientBoostingClassifier(max_iter=6, categorical_features=[1], min_samples_leaf=4).fit(
        X, y ^ np.isin(X[:, 1], [2, 3, 7])
    )
    model = read_model(native)
    pruned = cut_forest(model.forest, share=0.15, seed=5)
    codes = edge_rows(model.forest, X, infinite=True, limit=100)
    exported = export(model, pruned)
    sklearn_models.check_exported(exported, model, pruned, codes, sklearn_models.to_raw(model.forest, codes))
    check_nodes(pruned, read_model(exported).forest)
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
    written = read_model(exported).forest
    assert n_sets == np.count_nonzero(written.kind == SplitKind.CATEGORICAL) > 0
    found = partial_dependence(exported, X, [0], method="recursion")["average"]
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("weights", ["all", "some"])
@pytest.mark.parametrize("name", ["forest", "extra trees", "tree", "gradient", "histogram"])
def test_regressors_with_a_threshold(name, weights):
    X, y = sklearn_models.table(4, "")
    native = clone(value_models.ESTIMATORS[name]).fit(X, y + 0.125)
    model = read_model(native, threshold=1.5)
    kept = _weights(model.forest, 0) if weights == "some" else None
    pruned = cut(grid_forest(model.forest, kept, grid=20), share=0.3, seed=1)
    exported = export(model, pruned)
    rows = np.vstack([X, edge_rows(model.forest, X, limit=60)])
    if name == "gradient":
        rows = np.nan_to_num(rows)
    margins = integer_margins(pruned, rows)[:, 0] / 2.0**pruned.grid
    if model.document.family == "average":
        n_trees = len(getattr(exported, "estimators_", [0]))
        above = exported.predict(rows) > 1.5
        assert np.array_equal(above, margins > 0)
        assert 0 < above.sum() < len(rows)
        assert exported.predict(rows) == pytest.approx(margins / n_trees + 1.5, abs=1e-9)
    else:
        assert np.array_equal(exported.predict(rows), margins)
    assert read_model(exported, threshold=1.5).forest.n_nodes == n_remaining(pruned)


def test_a_new_leaf_that_is_no_vote_is_refused():
    model = read_model(sklearn_models.fitted("adaboost", 3))
    pruned = cut_forest(model.forest, share=1.0)
    for value in ([5, 5, 0], [-3, 0, 0], [0, 0, 0]):
        wrong = pruned.value_int.copy()
        wrong[: model.forest.tree_offset[1]] = value
        with pytest.raises(InvalidInputError, match="vote"):
            export(model, replace(pruned, value_int=wrong))


def test_a_smaller_model_is_a_smaller_file():
    """Trees of gradient boosting share one generator; a copy for each made the file grow."""
    model, result = pruned_model("gradient", alpha=0.1, indifference=0.0)
    members = result.model.estimators_.ravel()
    assert 1 < len(members) < model.n_estimators
    assert len({id(member.random_state) for member in members}) == 1
    assert members[0].random_state is not model.estimators_[0, 0].random_state
    assert len(pickle.dumps(result.model)) < len(pickle.dumps(model))
