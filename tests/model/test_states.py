"""States and leaves against the native libraries and the slow walker, on every edge."""

from dataclasses import replace

import numpy as np
import pytest
import xgboost

from pine_boost.model.reference import find_leaves
from pine_boost.model.routing import route
from pine_boost.model.rules import Comparison, MissingRule, SplitKind
from pine_boost.model.states import build_space, unique_rows, values_in
from tests.support.forests import HISTOGRAM, LIGHTGBM, MANNER_NAMES, MANNERS, XGBOOST, random_forest, random_rows
from tests.support.grids import edge_rows, feature_edges


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_leaves_over_states_equal_the_walker(manner, seed):
    rng = np.random.default_rng(seed)
    categorical = (1, 3) if seed % 2 else ()
    forest = random_forest(rng, 6, 4, 4, manner=manner, categorical=categorical)
    X = edge_rows(forest, random_rows(rng, forest, 60), infinite=seed % 3 == 0, limit=200)
    space = build_space(forest)
    trees = route(forest, space)
    assert np.array_equal(trees.leaves(space.states(X)), trees.leaf_of_node[find_leaves(forest, X)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_representative_has_the_states_it_represents(manner, seed):
    rng = np.random.default_rng(seed + 100)
    forest = random_forest(rng, 6, 4, 4, manner=manner, categorical=(2,))
    space = build_space(forest)
    for feature, axis in enumerate(space.axes):
        states = np.zeros((axis.n_states, forest.n_features), dtype=np.int32)
        for other, other_axis in enumerate(space.axes):
            assert other_axis.reachable is None or other_axis.reachable.any()
            if other_axis.reachable is not None:
                states[:, other] = np.argmax(other_axis.reachable)
        states[:, feature] = np.arange(axis.n_states)
        if axis.reachable is not None:
            states = states[axis.reachable]
        assert np.array_equal(space.states(space.representative(states)), states)


def test_unreachable_states_hold_no_edge_value():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        forest = random_forest(rng, 6, 4, 3, manner=LIGHTGBM, n_thresholds=8)
        space = build_space(forest)
        for feature, axis in enumerate(space.axes):
            if axis.reachable is None:
                continue
            values = np.concatenate([feature_edges(forest, feature), rng.normal(size=500) * 3])
            reached = np.unique(space.axis_states(axis, values))
            assert axis.reachable[reached].all()


def test_infinity_reaches_a_state_where_the_library_accepts_it():
    rng = np.random.default_rng(2)
    for manner in MANNERS:
        forest = random_forest(rng, 2, 1, 1, manner=manner, missing_rules=[MissingRule.DEFAULT])
        space = build_space(forest, [np.array([-np.inf, np.inf])])
        axis = space.axes[0]
        assert axis.reachable is not None
        values = np.array([-np.inf, *rng.normal(size=2000) * 3, np.inf, *axis.edges, np.nan])
        if manner.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:  # scikit-learn raises
            values = values[~np.isinf(values)]
        reached = np.zeros(axis.n_states, dtype=bool)
        reached[space.axis_states(axis, values)] = True
        assert np.array_equal(axis.reachable, reached)


def test_tiny_values_are_zero_only_in_lightgbm():
    rng = np.random.default_rng(1)
    rules = [MissingRule.DEFAULT]
    for manner in (LIGHTGBM, HISTOGRAM):
        forest = random_forest(rng, 2, 1, 1, manner=manner, missing_rules=rules)
        space = build_space(forest, [np.array([-1e-36, 1e-36])])
        states = space.states(np.array([[-2e-36], [0.0], [2e-36]]))[:, 0]
        assert (len(set(states.tolist())) == 1) == (manner is LIGHTGBM)


def test_category_code_is_rounded_to_float32_first():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(300, 1)).astype(float)
    y = np.isin(X[:, 0], [1, 4]).astype(int)
    data = xgboost.DMatrix(X, y, feature_types=["c"], enable_categorical=True, nthread=1)
    booster = xgboost.train({"max_depth": 3, "objective": "binary:logistic", "nthread": 1}, data, num_boost_round=3)
    forest = _read(booster)
    probe = np.array([[4 - 1e-12], [4 - 1e-3], [3.999999999], [1.0000000001], [-0.5], [2.0**24]])
    native = booster.predict(
        xgboost.DMatrix(probe, feature_types=["c"], enable_categorical=True, nthread=1), pred_leaf=True
    )
    space = build_space(forest)
    assert np.array_equal(_native_leaves(forest, space, probe), native.reshape(len(probe), -1))


def _read(model):
    from pine_boost.parsers import read_model

    return read_model(model).forest


def _native_leaves(forest, space, X):
    """Node number within its tree of the leaf that the states reach, as XGBoost counts it."""
    from pine_boost.model.states import StateSpace

    assert isinstance(space, StateSpace)
    trees = route(forest, space)
    is_leaf = trees.leaf_of_node >= 0
    node_of_leaf = np.empty(trees.n_leaves, dtype=np.int64)
    node_of_leaf[trees.leaf_of_node[is_leaf]] = np.flatnonzero(is_leaf)
    return node_of_leaf[trees.leaves(space.states(X))] - forest.tree_offset[:-1]


def _training_data(seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(500, 4)), 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) > 0.1).astype(int)
    return X, y


def test_edges_fall_where_xgboost_puts_them():
    X, y = _training_data(0)
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1).fit(X, y)
    forest = _read(model)
    rows = edge_rows(forest, X[:50])
    native = model.get_booster().predict(xgboost.DMatrix(rows, nthread=1), pred_leaf=True)
    assert np.array_equal(_native_leaves(forest, build_space(forest), rows), native)


@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_edges_fall_where_lightgbm_puts_them(zero_as_missing):
    import lightgbm

    X, y = _training_data(1)
    X[np.isnan(X[:, 3]), 3] = 0.0  # a feature without NaN: missing type None
    parameters = {
        "objective": "binary",
        "num_leaves": 12,
        "num_threads": 1,
        "verbosity": -1,
        "zero_as_missing": zero_as_missing,
        "min_data_in_leaf": 5,
    }
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, y), num_boost_round=15)
    forest = _read(booster)
    rows = edge_rows(forest, X[:50], infinite=True)
    native = booster.predict(rows, pred_leaf=True, num_threads=1)
    space = build_space(forest)
    trees = route(forest, space)
    reached = trees.leaves(space.states(rows))
    # the leaf number is the library's own: equal numbers iff equal leaves, tree by tree
    for tree in range(forest.n_trees):
        pairs = set(zip(reached[:, tree].tolist(), native[:, tree].tolist(), strict=True))
        assert len(pairs) == len({ours for ours, _ in pairs}) == len({its for _, its in pairs})


def test_edges_fall_where_scikit_learn_puts_them():
    from sklearn import ensemble

    X, y = _training_data(2)
    model = ensemble.RandomForestClassifier(12, max_depth=5, random_state=0).fit(X, y)
    forest = _read(model)
    rows = edge_rows(forest, X[:50])
    assert np.array_equal(_native_leaves(forest, build_space(forest), rows), model.apply(rows))


def test_a_forest_without_missing_values_has_no_missing_state():
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 4, 3, 3, manner=XGBOOST, accepts_missing=False)
    used = set(forest.feature[forest.feature >= 0].tolist())
    axes = build_space(forest).axes
    assert all(axes[j].missing_state == -1 for j in used)


def test_states_in_words():
    rng = np.random.default_rng(4)
    forest = random_forest(rng, 8, 3, 2, manner=XGBOOST, categorical=(1,))
    space = build_space(forest)
    edges = space.axes[0].edges
    assert space.describe(0, 0) == f"< {edges[0]:.9g}"
    assert space.describe(0, 1) == f">= {edges[0]:.9g} and < {edges[1]:.9g}"
    assert space.describe(0, space.axes[0].missing_state) == "missing"
    assert space.describe(1, space.axes[1].other_state) == "any other category"


def test_features_that_no_split_uses_share_one_axis():
    """A small file may declare a million features; their states must cost nothing each."""
    forest = random_forest(np.random.default_rng(0), 3, 2, 4)
    wide = replace(forest, n_features=10**5, feature_categories=())
    space = build_space(wide)
    assert len({id(axis) for axis in space.axes}) <= 5
    rows = np.zeros((2, 10**5))
    rows[1] = np.nan
    assert not space.states(rows)[:, 4:].any()


def test_reachable_states_are_those_that_hold_a_value():
    """The witnesses at thresholds only save time: state by state the answer is the same."""
    empty = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        manner = MANNERS[seed % len(MANNERS)]
        forest = random_forest(rng, n_trees=6, depth=4, manner=manner, categorical=(1,))
        near = forest.threshold.copy()
        numeric = np.flatnonzero((forest.kind == SplitKind.NUMERIC) & (rng.random(len(near)) < 0.5))
        near[numeric] = np.nextafter(near[numeric], np.inf)  # no float32 lies between the two
        if manner is not XGBOOST:
            forest = replace(forest, threshold=near)
        if manner is XGBOOST and seed % 8 == 0:
            forest = replace(forest, missing_value=float(forest.threshold[0]))
        space = build_space(forest)
        for axis in space.axes:
            slow = [len(values_in(space, axis, state)) > 0 for state in range(axis.n_states)]
            np.testing.assert_array_equal(axis.reachable, slow)
            empty += slow.count(False)
    assert empty > 0


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("n_columns", [1, 2, 9, 300])
def test_distinct_rows_are_those_of_numpy_in_its_order(dtype, n_columns):
    rng = np.random.default_rng(n_columns)
    pool = rng.integers(0, 2 if dtype is bool else np.iinfo(dtype).max, (20, n_columns)).astype(dtype)
    for rows in (pool[rng.integers(0, 20, 100)], pool[:0], np.asfortranarray(pool)):
        expected, places = np.unique(rows, axis=0, return_inverse=True)
        first, inverse = unique_rows(rows)
        assert np.array_equal(rows[first], expected)
        assert np.array_equal(inverse, places.reshape(-1))
