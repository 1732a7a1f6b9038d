"""simplify against the libraries: same kind, margins bit for bit on every edge, nothing more to leave out."""

import pickle
import re
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import ensemble

from pine_boost import simplify
from pine_boost.model.reach import find_reach
from pine_boost.model.rules import SplitKind
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from tests.adversary.natives import native_model
from tests.support.forests import SKLEARN, XGBOOST, random_forest
from tests.support.grids import edge_rows
from tests.support.lightgbm_texts import leaf, split, text_of, tree_text
from tests.support.native_models import MODELS, built, make_table
from tests.support.simplifiable import MANNERS, drawn_model, probe
from tests.support.xgboost_models import (
    INPLACE_DART_DIFFERS,
    booster_margins,
    edit_trees,
    leaves_of,
    make_labels,
    make_rows,
    train,
)


def bits(model, X):
    """Native margins by the library itself, as bit patterns."""
    margins, _ = predict_margins(model, X)
    return np.ascontiguousarray(margins, dtype=np.float64).view(np.uint64)


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 10**6), manner=st.sampled_from(sorted(MANNERS)), n_outputs=st.sampled_from([1, 3]))
def test_drawn_models_keep_every_bit(seed, manner, n_outputs):
    model, category = drawn_model(MANNERS[manner], seed, n_outputs)
    result = simplify(model)
    assert result.exact
    assert result.bound == 0
    rows = probe(model, seed, category)
    np.testing.assert_array_equal(bits(result.simplified, rows), bits(model, rows))
    after = result.simplified.forest
    assert find_reach(after).alive.all()
    assert not has_twins(after)
    assert after.n_nodes <= model.forest.n_nodes
    again = simplify(result.simplified)
    assert again.nodes_after == result.nodes_after
    assert again.simplified is again.original


def has_twins(forest):
    inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
    left, right = forest.left[inner], forest.right[inner]
    both = (forest.kind[left] == SplitKind.LEAF) & (forest.kind[right] == SplitKind.LEAF)
    value = np.ascontiguousarray(forest.value).view(np.uint64)
    return bool(np.any(both & np.all(value[left] == value[right], axis=1)))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), manner=st.sampled_from(sorted(MANNERS)), n_outputs=st.sampled_from([1, 3]))
def test_folded_constants_stay_within_the_bound(seed, manner, n_outputs):
    model, category = drawn_model(MANNERS[manner], seed, n_outputs)
    # leaves off the grid, so that folding a constant really rounds
    scaled = replace(model.forest, value=model.forest.value * 0.3)
    if MANNERS[manner] is XGBOOST:
        scaled = replace(scaled, value=scaled.value.astype(np.float32).astype(np.float64))
    scaled = replace(scaled, intercept=np.zeros(n_outputs))
    model = native_model(scaled, MANNERS[manner], category)
    plain, folded = simplify(model), simplify(model, fold_constants=True)
    rows = probe(model, seed, category)
    before, _ = predict_margins(model, rows)
    after, _ = predict_margins(folded.simplified, rows)
    assert np.abs(after - before).max() <= folded.bound
    assert folded.trees_after <= plain.trees_after
    if folded.exact:
        np.testing.assert_array_equal(bits(folded.simplified, rows), bits(model, rows))
    else:
        assert folded.bound < 1e-4
        assert folded.trees_after < plain.trees_after
    n_constant = count_constant_units(folded.simplified.forest)
    assert n_constant == 0 or folded.trees_after == n_outputs * n_constant


def count_constant_units(forest):
    """Rounds (trees, with one output) in which every tree is a constant."""
    constant = forest.kind[forest.tree_offset[:-1]] == SplitKind.LEAF
    whole = np.ones(int(forest.tree_round.max()) + 1, dtype=bool)
    np.logical_and.at(whole, forest.tree_round, constant)
    return int(whole.sum())


@pytest.mark.parametrize("name", MODELS)
def test_trained_models_keep_every_bit(name):
    native, X = built(name)
    model = read_model(native)
    result = simplify(native)
    assert type(result.model) is type(native)
    assert result.exact
    rows = np.vstack([X, edge_rows(model.forest, X, limit=60)])
    if not model.forest.accepts_missing:
        rows = np.nan_to_num(rows)
    np.testing.assert_array_equal(bits(result.simplified, rows), bits(model, rows))
    np.testing.assert_array_equal(_predict(result.model, rows, model), _predict(native, rows, model))
    assert result.summary()


def _predict(native, rows, model):
    if type(native).__name__ == "Booster" and model.forest.library == "xgboost":
        return np.asarray(native.inplace_predict(rows))
    return np.asarray(native.predict(rows))


def test_reach_is_what_enumeration_finds():
    from pine_boost.model.routing import route
    from pine_boost.model.states import build_space
    from tests.support.bruteforce import all_states

    found_dead = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        manner = list(MANNERS.values())[seed % 4]
        forest = random_forest(
            rng,
            n_trees=3,
            depth=4,
            n_features=3,
            manner=manner,
            n_thresholds=3,
            categorical=(1,) if manner is not SKLEARN else (),
            n_categories=3,
            accepts_missing=manner is not SKLEARN,
        )
        space = build_space(forest)
        states = all_states(space)
        possible = np.ones(len(states), dtype=bool)
        for feature, axis in enumerate(space.axes):
            if axis.reachable is not None:
                possible &= axis.reachable[states[:, feature]]
        trees = route(forest, space)
        reached = np.unique(trees.leaves(states[possible]))
        leaf_of_node = trees.leaf_of_node
        is_leaf = leaf_of_node >= 0
        alive = find_reach(forest).alive
        np.testing.assert_array_equal(alive[is_leaf], np.isin(leaf_of_node[is_leaf], reached))
        found_dead += np.count_nonzero(~alive)
    assert found_dead > 100


def edited(booster, change):
    return xgboost.Booster({"nthread": 1}, model_file=bytearray(edit_trees(booster, change)))


def contradict(trees):
    """Every right child of a root asks again what its root has answered; NaN cannot get there."""
    for tree in trees:
        child = tree["right_children"][0]
        if child < 0 or tree["left_children"][child] < 0:
            continue
        for name in ("split_indices", "split_conditions"):
            tree[name][child] = tree[name][0]
        tree["default_left"][0] = 1


def test_a_contradiction_is_cut_out_and_nan_keeps_its_branch():
    plain = train(rounds=6, objective="binary:logistic")
    rows = make_rows(300, seed=4)
    dead = edited(plain, contradict)
    result = simplify(dead)
    assert result.dead_splits > 0
    assert result.nodes_after < result.nodes_before
    np.testing.assert_array_equal(booster_margins(result.model, rows), booster_margins(dead, rows))

    def let_nan_in(trees):
        contradict(trees)
        for tree in trees:
            tree["default_left"][0] = 0  # NaN goes right, and left again at the next split
            child = tree["right_children"][0]
            if child >= 0:
                tree["default_left"][child] = 1

    only_nan = edited(plain, let_nan_in)
    kept = simplify(only_nan)
    assert kept.dead_splits < result.dead_splits
    np.testing.assert_array_equal(booster_margins(kept.model, rows), booster_margins(only_nan, rows))


@pytest.mark.parametrize("file_format", ["json", "ubj"])
def test_files_and_paths_give_bytes(file_format, tmp_path):
    booster = edited(train(rounds=6, objective="binary:logistic"), contradict)
    booster.set_attr(owner="Ünal", best_iteration="4")
    contents = bytes(booster.save_raw(file_format))
    path = tmp_path / f"model.{file_format}"
    path.write_bytes(contents)
    for source in (contents, path, str(path)):
        result = simplify(source)
        assert isinstance(result.model, bytes)
        assert len(result.model) < len(contents)
        assert read_model(result.model).document.file_format == file_format
        loaded = xgboost.Booster(model_file=bytearray(result.model))
        rows = make_rows(100)
        np.testing.assert_array_equal(booster_margins(loaded, rows), booster_margins(booster, rows))
        # all rounds are still there, so best_iteration means what it meant
        assert loaded.attributes() == {"owner": "Ünal", "best_iteration": "4"}
    assert path.read_bytes() == contents


def test_zero_trees_go_and_a_stale_best_iteration_with_them():
    def zero(trees):
        for tree in trees[1::2]:
            for node in leaves_of(tree):
                tree["split_conditions"][node] = 0.0

    booster = edited(train(rounds=6, objective="binary:logistic", base_score=0.4), zero)
    booster.set_attr(best_iteration="4")
    result = simplify(booster)
    assert (result.trees_before, result.trees_after) == (6, 3)
    assert result.model.num_boosted_rounds() == 3
    assert result.model.attributes() == {}
    rows = make_rows(200)
    np.testing.assert_array_equal(booster_margins(result.model, rows), booster_margins(booster, rows))
    contributions = result.model.predict(xgboost.DMatrix(rows, nthread=1), pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=1), booster_margins(booster, rows)[:, 0], atol=1e-5)


def test_rounds_of_several_classes_go_whole():
    def zero(trees):
        for index in (3, 4, 5, 7):  # round 1, and one tree of round 2
            for node in leaves_of(trees[index]):
                trees[index]["split_conditions"][node] = 0.0

    plain = train(rounds=4, objective="multi:softprob", n_classes=3, base_score=0.3)
    booster = edited(plain, zero)
    result = simplify(booster)
    assert (result.trees_before, result.trees_after) == (12, 9)
    written = read_model(result.model).forest
    assert written.n_nodes < read_model(plain).forest.n_nodes
    rows = make_rows(200)
    np.testing.assert_array_equal(booster_margins(result.model, rows), booster_margins(booster, rows))


def test_wrappers_keep_labels_parameters_and_early_stopping():
    rows = make_rows()
    labels = make_labels(rows, 2)
    native = xgboost.XGBClassifier(
        n_estimators=40, learning_rate=0.9, max_depth=3, gamma=3.0, n_jobs=1, early_stopping_rounds=3
    )
    native.fit(rows[:350], labels[:350], eval_set=[(rows[350:], labels[350:])], verbose=False)
    result = simplify(native, fold_constants=True)
    assert type(result.model) is xgboost.XGBClassifier
    assert result.trees_before == native.best_iteration + 1
    if result.simplified is not result.original:
        assert (
            np.abs(result.model.predict(rows, output_margin=True) - native.predict(rows, output_margin=True)).max()
            <= result.bound
        )
        assert result.model.get_params()["max_depth"] == 3


def test_dart_in_place_is_left_alone_unless_rounding_is_allowed():
    rows = make_rows()
    native = xgboost.XGBClassifier(n_estimators=8, max_depth=3, booster="dart", rate_drop=0.5, gamma=4.0, n_jobs=1).fit(
        rows, make_labels(rows, 2)
    )
    result = simplify(native)
    before = native.predict(rows, output_margin=True)
    assert result.exact
    if INPLACE_DART_DIFFERS:
        assert result.model is native
        assert "fold_constants=True" in result.note
        assert result.note in result.summary()
    np.testing.assert_array_equal(result.model.predict(rows, output_margin=True), before)
    folded = simplify(native, fold_constants=True)
    if folded.simplified is not folded.original and INPLACE_DART_DIFFERS:
        assert not folded.exact
    assert np.abs(folded.model.predict(rows, output_margin=True) - before).max() <= folded.bound
    # Booster.predict adds the leaves times their weights: there the same model is exact
    booster = native.get_booster()
    assert simplify(booster).exact
    np.testing.assert_array_equal(booster_margins(simplify(booster).model, rows), booster_margins(booster, rows))


REGRESSORS = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=3, gamma=2.0, n_jobs=1),
    "xgboost poisson": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=3, objective="count:poisson", n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=8, num_leaves=7, n_jobs=1, verbose=-1),
    "lightgbm rf": lambda: lightgbm.LGBMRegressor(
        boosting_type="rf", n_estimators=8, num_leaves=7, subsample=0.6, subsample_freq=1, n_jobs=1, verbose=-1
    ),
    "forest": lambda: ensemble.RandomForestRegressor(6, random_state=0),
    "extra trees": lambda: ensemble.ExtraTreesRegressor(6, random_state=0),
    "gradient": lambda: ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3),
    "histogram poisson": lambda: ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=8),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_keep_every_bit(name):
    X, y = make_table(3, missing=False, n_rows=200)
    # labels of few values: grown to the end, trees hold leaves that are equal
    native = REGRESSORS[name]().fit(X, y.astype(float) + 1)
    result = simplify(native)
    assert type(result.model) is type(native)
    assert result.exact
    rows = np.nan_to_num(edge_rows(result.original.forest, X, limit=80))
    np.testing.assert_array_equal(result.model.predict(rows), native.predict(rows))
    margins = [predict_margins(m, rows)[0] for m in (result.original, result.simplified)]
    np.testing.assert_array_equal(margins[0].view(np.uint64), margins[1].view(np.uint64))
    loaded = pickle.loads(pickle.dumps(result.model))
    np.testing.assert_array_equal(loaded.predict(rows), native.predict(rows))


def test_twins_of_a_forest_become_a_leaf():
    """Probabilities rounded to halves, as a forest stored in few bits has them."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(400, 3)).astype(float)
    y = (X[:, 0] > 1) ^ (rng.random(400) < 0.3)
    native = ensemble.ExtraTreesClassifier(8, random_state=0).fit(X, y)
    for estimator in native.estimators_:
        estimator.tree_.value[:] = np.round(estimator.tree_.value * 2) / 2
    result = simplify(native)
    assert result.twin_splits > 0
    assert result.trees_after == 8
    grid = np.array(np.meshgrid(*[[-1, 0, 0.5, 1, 1.5, 2, 3]] * 3)).reshape(3, -1).T
    np.testing.assert_array_equal(result.model.predict_proba(grid), native.predict_proba(grid))
    assert result.model.feature_importances_.sum() == pytest.approx(1.0)


def test_unused_codes_go():
    """A root keeps categories 0 and 1 on the left; below, the set names 1, 2 and 40."""
    low, high = sum(1 << code for code in (1, 2)), 1 << 8  # words of {1, 2, 40}
    two_levels = tree_text([1, 2, 3], [0, 0], [0, 1], [1, 1], [1, -1], [-3, -2], [[3], [low, high]])
    text = text_of([two_levels], "binary sigmoid:1").encode()
    result = simplify(text)
    assert result.unused_codes == 2
    words = [re.search(rb"cat_threshold=(.*)", contents)[1].split() for contents in (text, result.model)]
    assert list(map(len, words)) == [3, 2]
    loaded, original = (lightgbm.Booster(model_str=contents.decode()) for contents in (result.model, text))
    X = np.array([[-1.0], [0], [0.5], [1], [2], [3], [40], [41], [1e9], [np.nan]])
    np.testing.assert_array_equal(loaded.predict(X, raw_score=True), original.predict(X, raw_score=True))


def test_only_constants_still_make_a_model():
    text = text_of([leaf(0.0), leaf(0.0), leaf(0.0)], "binary sigmoid:1").encode()
    result = simplify(text)
    assert (result.trees_after, result.exact) == (1, True)
    text = text_of([leaf(0.25), leaf(0.5), leaf(0.0)], "binary sigmoid:1").encode()
    assert simplify(text).trees_after == 2
    folded = simplify(text, fold_constants=True)
    assert folded.trees_after == 1
    X = np.zeros((1, 1))
    assert lightgbm.Booster(model_str=folded.model.decode()).predict(X, raw_score=True) == 0.75
    text = text_of([leaf(0.25), split("0.5", 2), leaf(0.5)], "binary sigmoid:1").encode()
    folded = simplify(text, fold_constants=True)
    values = lightgbm.Booster(model_str=folded.model.decode()).predict(np.array([[0.0], [1.0]]), raw_score=True)
    assert values.tolist() == [1.75, 2.75]
    assert folded.trees_after == 1


def test_pipelines_and_wrappers_come_back_with_the_smaller_model_inside():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    X, y = make_table(2, missing=False)
    trees = DecisionTreeClassifier(max_depth=3, random_state=0)
    boosting = ensemble.AdaBoostClassifier(trees, n_estimators=8, random_state=0)
    pipeline = make_pipeline(StandardScaler(), boosting).fit(X, y)
    result = simplify(pipeline)
    assert type(result.model) is type(pipeline)
    assert result.model is not pipeline
    np.testing.assert_array_equal(result.model.decision_function(X), pipeline.decision_function(X))
    before = pipeline[-1].estimators_[0].tree_.node_count
    assert result.leaves_after < result.leaves_before
    assert pipeline[-1].estimators_[0].tree_.node_count == before
    fixed = FixedThresholdClassifier(FrozenEstimator(pipeline), threshold=0.4).fit(X, y)
    np.testing.assert_array_equal(simplify(fixed).model.predict(X), fixed.predict(X))
    calibrated = CalibratedClassifierCV(FrozenEstimator(pipeline)).fit(X, y)
    smaller = simplify(calibrated).model
    assert type(smaller) is CalibratedClassifierCV
    np.testing.assert_array_equal(smaller.predict_proba(X), calibrated.predict_proba(X))
    plain = make_pipeline(StandardScaler(), ensemble.GradientBoostingClassifier(n_estimators=3)).fit(X, y)
    assert simplify(plain).model is plain


def test_nothing_to_do_gives_the_object_back():
    native = train(rounds=3, objective="binary:logistic")
    result = simplify(native)
    assert result.model is native
    assert result.summary().startswith("Nothing could be removed (3 trees")
    assert str(result) == result.summary()
