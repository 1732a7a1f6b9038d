"""The three scores against their definitions, by enumeration where the space is small."""

from itertools import combinations, product

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import ROW_LIMIT, SCORE_SCALE
from pine_boost.model.routing import route
from pine_boost.model.rules import MissingRule
from pine_boost.model.states import Axis, StateSpace, build_space
from pine_boost.region.isolation_forest import average_path_length
from pine_boost.region.score_tables import PairTable, ScoreTables
from pine_boost.region.scores.chow_liu import bins_of, count_nearest
from pine_boost.region.scores.fit_score import (
    UNSEEN_MISSING_NATS,
    check_tables,
    fit_score,
    missing_seen,
    price_unseen_missing,
)
from tests.support.forests import LIGHTGBM, MANNER_NAMES, MANNERS, XGBOOST, random_forest, random_rows
from tests.support.scores import fit_chow_liu, fit_isolation_forest, fit_leaf_support


def _all_bins(score):
    """One state row for every combination of bins."""
    first = [[int(np.argmax(bins == b)) for b in np.unique(bins)] for bins in score.bins]
    return np.array(list(product(*first)), dtype=np.int32)


def _data(manner, seed, n_features=4):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 8, 3, n_features, manner=manner, categorical=(1,))
    X = random_rows(rng, forest, 400)
    X[:, 2] = np.where(rng.random(400) < 0.7, X[:, 0], X[:, 2])
    space = build_space(forest)
    return forest, X, space, space.states(X)


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_chow_liu_is_a_distribution_over_bins(manner, seed):
    _, X, space, states = _data(manner, seed)
    score = fit_chow_liu(states, space, X)
    rows = _all_bins(score)
    total = np.exp(-score.score(rows) / SCORE_SCALE).sum()
    # every one of the (at most n_features) factors is off by half a unit
    assert abs(np.log(total)) <= space.n_features * 0.5 / SCORE_SCALE + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_at_most_exp_tau_bins_score_within_tau(seed):
    _, X, space, states = _data(XGBOOST, seed)
    score = fit_chow_liu(states, space, X)
    scores = np.sort(score.score(_all_bins(score)))
    rounding = space.n_features * 0.5
    count = np.arange(1, len(scores) + 1)
    assert np.all(np.log(count) <= (scores + rounding) / SCORE_SCALE + 1e-12)


def test_chow_liu_equals_its_definition():
    _, X, space, states = _data(XGBOOST, 5)
    score = fit_chow_liu(states, space, X, n_bins=3)
    binned = np.stack([score.bins[j][states[:, j]] for j in range(4)], axis=1)
    n_bins = [len(cost) for cost in score.unary]
    assert score.pairs[0].first == 0  # the root is the first feature
    n = len(X)
    for b in range(n_bins[0]):
        p = (np.sum(binned[:, 0] == b) + 1) / (n + n_bins[0])
        assert score.unary[0][b] == round(-np.log(p) * SCORE_SCALE)
    assert all(not cost.any() for cost in score.unary[1:])
    for pair in score.pairs:
        for a, b in product(range(n_bins[pair.first]), range(n_bins[pair.second])):
            given = binned[:, pair.first] == a
            joint = np.sum(given & (binned[:, pair.second] == b))
            p = (joint + 1) / (np.sum(given) + n_bins[pair.second])
            assert pair.cost[a, b] == round(-np.log(p) * SCORE_SCALE)


@pytest.mark.parametrize("seed", range(4))
def test_chow_liu_edges_form_the_maximum_spanning_tree(seed):
    _, X, space, states = _data(XGBOOST, seed, n_features=5)
    score = fit_chow_liu(states, space, X)
    binned = np.stack([score.bins[j][states[:, j]] for j in range(5)], axis=1)

    def information(i, j):
        joint = np.zeros((binned[:, i].max() + 1, binned[:, j].max() + 1))
        np.add.at(joint, (binned[:, i], binned[:, j]), 1 / len(binned))
        outer = joint.sum(axis=1, keepdims=True) @ joint.sum(axis=0, keepdims=True)
        return float(np.sum(joint[joint > 0] * np.log((joint / np.maximum(outer, 1e-300))[joint > 0])))

    def is_tree(edges):
        reached = {0}
        for _ in range(5):
            reached |= {v for e in edges for v in e if reached & set(e)}
        return len(reached) == 5

    value = {edge: information(*edge) for edge in combinations(range(5), 2)}
    trees = [edges for edges in combinations(value, 4) if is_tree(edges)]
    best = max(sum(value[edge] for edge in edges) for edges in trees)
    found = [tuple(sorted((pair.first, pair.second))) for pair in score.pairs]
    assert is_tree(tuple(found))
    assert abs(sum(value[edge] for edge in found) - best) < 1e-9
    parents = [pair.first for pair in score.pairs]
    children = [pair.second for pair in score.pairs]
    assert sorted([0, *children]) == list(range(5))  # everyone but the root has one parent
    assert all(p in [0, *children[:k]] for k, p in enumerate(parents))


def test_features_that_no_split_uses_are_ignored():
    rng = np.random.default_rng(1)
    forest = random_forest(rng, 1, 1, 6, leaf_probability=0)
    X = random_rows(rng, forest, 50)
    space = build_space(forest)
    score = fit_chow_liu(space.states(X), space, X)
    assert score.pairs == ()
    assert sum(len(cost) > 1 for cost in score.unary) == 1


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_leaf_support_equals_its_definition(manner):
    forest, _, space, states = _data(manner, 2)
    trees = route(forest, space)
    score = fit_leaf_support(states, trees, space)
    reached = trees.leaves(states)
    expected = np.zeros(len(states), dtype=np.int64)
    for tree in range(trees.n_trees):
        n_leaves = trees.leaf_offset[tree + 1] - trees.leaf_offset[tree]
        for row in range(len(states)):
            visits = np.sum(reached[:, tree] == reached[row, tree])
            share = (visits + 1) / (len(states) + n_leaves)
            expected[row] += round(-np.log(share) * SCORE_SCALE)
    assert np.array_equal(score.score(states), expected)


def test_leaf_support_is_coarser_where_a_solver_row_would_overflow():
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 160, 7, 3, leaf_probability=0)
    space = build_space(forest)
    score = fit_leaf_support(space.states(random_rows(rng, forest, 500)), route(forest, space), space)
    assert score.scale == SCORE_SCALE // 10
    assert score.trees.cost.sum() <= ROW_LIMIT // 4 + score.trees.trees.n_leaves


def test_average_path_length():
    assert average_path_length([0, 1, 2, 3]).tolist() == [0.0, 0.0, 1.0, 3 - 4 / 3]
    harmonic = sum(1 / i for i in range(1, 256))
    assert abs(average_path_length([256])[0] - (2 * harmonic - 2 * 255 / 256)) < 1e-9


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_isolation_forest_is_minus_the_mean_corrected_path_length(manner):
    forest, X, _, _ = _data(manner, 4)
    score, space = fit_isolation_forest(X, forest, random_state=1)
    trees = score.trees.trees
    states = space.states(X)
    reached = trees.leaves(states)
    visits = np.bincount(reached.ravel(), minlength=trees.n_leaves)
    for row in range(0, len(X), 40):
        length = 0.0
        for tree in range(30):
            node, depth = int(trees.root[tree]), 0
            while trees.leaf_of_node[node] < 0:
                feature = trees.feature[node]
                left = trees.goes_left(node)[states[row, feature]]
                node, depth = int((trees.left if left else trees.right)[node]), depth + 1
            assert trees.leaf_of_node[node] == reached[row, tree]
            length += depth + average_path_length([visits[reached[row, tree]]])[0]
        assert abs(score.score(states[row : row + 1])[0] + length / 30 * SCORE_SCALE) <= 15.001


def test_isolation_forest_follows_scikit_learn_where_the_comparison_is_the_same():
    from sklearn import ensemble

    rng = np.random.default_rng(0)
    forest = random_forest(rng, 5, 3, 3, comparison=MANNERS[2].comparison)
    X = rng.normal(size=(500, 3)).astype(np.float32).astype(np.float64)
    score, space = fit_isolation_forest(X, forest, random_state=7)
    model = ensemble.IsolationForest(n_estimators=30, max_samples=256, random_state=7).fit(X)
    probe = np.vstack([X[:100], rng.normal(size=(100, 3)) * 3])
    reached = score.trees.trees.leaves(space.states(probe))
    for tree, estimator in enumerate(model.estimators_):
        native = estimator.apply(probe.astype(np.float32))
        pairs = set(zip(reached[:, tree].tolist(), native.tolist(), strict=True))
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_isolation_thresholds_join_the_space_and_leave_the_model_alone():
    forest, X, base, states = _data(XGBOOST, 6)
    _, space = fit_isolation_forest(X, forest)
    assert space.n_states.sum() > base.n_states.sum()
    for axis in space.axes:
        assert np.array_equal(axis.edges, axis.edges.astype(np.float32))
    before, after = route(forest, base).leaves(states), route(forest, space).leaves(space.states(X))
    assert np.array_equal(before, after)


def test_scores_are_deterministic():
    forest, X, _, _ = _data(XGBOOST, 8)
    for name in ("chow-liu", "leaf-support", "isolation-forest"):
        first, second = (fit_score(name, forest, X, random_state=3) for _ in range(2))
        probe = first.space.states(X)
        assert np.array_equal(first.tables.score(probe), second.tables.score(probe))


@pytest.mark.parametrize("name", ["chow-liu", "leaf-support", "isolation-forest"])
def test_missing_values_that_were_never_seen_are_priced_out(name):
    forest, X, _, _ = _data(XGBOOST, 12)
    present = X[~np.isnan(X[:, [0, 3]]).any(axis=1)]  # features 0 and 3 never miss, 1 and 2 do
    fitted = fit_score(name, forest, present)
    usual = fitted.tables.score(fitted.space.states(present))
    odd = present.copy()
    odd[:, 3] = np.nan
    assert fitted.tables.score(fitted.space.states(odd)).min() > usual.max()
    odd = present.copy()
    odd[:, 2] = np.nan
    assert fitted.tables.score(fitted.space.states(odd)).min() <= usual.max()
    check_tables(fitted.tables, fitted.space)


def _tables_of_scale(space, scale):
    """One nat for every state but the first, in units of 1 / scale."""
    bins = tuple((np.arange(axis.n_states) > 0).astype(np.int64) for axis in space.axes)
    return ScoreTables(bins, tuple(np.array([0, scale]) for _ in bins), scale=scale)


@pytest.mark.parametrize("scale", [1, 1000, SCORE_SCALE, 50_000])
def test_unseen_missing_costs_the_same_nats_on_every_scale(scale):
    _, X, space, _ = _data(XGBOOST, 12)
    present = X[~np.isnan(X).any(axis=1)]
    states = space.states(present)
    own = _tables_of_scale(space, scale)
    priced = price_unseen_missing(own, space, missing_seen(space, states))
    assert priced.scale == scale
    assert np.array_equal(priced.score(states), own.score(states))
    numeric = [j for j, axis in enumerate(space.axes) if axis.missing_state >= max(axis.n_intervals, 1)]
    assert len(numeric) > 1
    for feature in numeric:
        missing = states.copy()
        missing[:, feature] = space.axes[feature].missing_state
        extra = priced.score(missing) - own.score(missing)
        assert np.array_equal(extra, np.full(len(states), UNSEEN_MISSING_NATS * scale))
    # the coarser Leaf Support of a large model is such a table
    check_tables(priced, space)


def test_prices_of_very_many_features_leave_room_in_the_solver_row():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 900, 2, 1500, n_thresholds=1, leaf_probability=0)
    space = build_space(forest)
    states = space.states(rng.normal(size=(20, 1500)))
    priced = price_unseen_missing(_tables_of_scale(space, SCORE_SCALE), space, missing_seen(space, states))
    added = sum(int(cost.sum()) for cost in priced.unary)
    assert sum(axis.n_states > 1 for axis in space.axes) > 1000
    assert added <= ROW_LIMIT
    assert min(int(cost.max()) for cost in priced.unary if len(cost) > 2) > 50 * SCORE_SCALE


def test_a_users_own_score():
    forest, X, _, states = _data(XGBOOST, 9)

    class CountMissing:
        name = "count missing"

        def tables(self, space):
            bins = tuple((np.arange(axis.n_states) == axis.missing_state).astype(np.int64) for axis in space.axes)
            return ScoreTables(bins, tuple(np.array([0, 1]) for _ in bins), scale=1)

    fitted = fit_score(CountMissing(), forest, X)
    assert fitted.name == "count missing"
    assert np.array_equal(fitted.tables.score(states), np.isnan(X).sum(axis=1))
    again = fit_score(fitted.tables, forest, X)
    assert np.array_equal(again.tables.score(states), np.isnan(X).sum(axis=1))


def test_a_users_tables_of_small_integers_are_computed_with_in_64_bits():
    forest, X, space, states = _data(XGBOOST, 10)
    rng = np.random.default_rng(0)
    bins = tuple(20 * np.arange(axis.n_states) for axis in space.axes)
    unary = tuple(np.zeros(20 * axis.n_states, dtype=np.int64) for axis in space.axes)
    cost = rng.integers(0, 2**20, (len(unary[0]), len(unary[1])))  # far more than 256 cells
    wide = ScoreTables(bins, unary, (PairTable(0, 1, cost),))
    narrow = ScoreTables(
        tuple(table.astype(np.uint8) for table in bins),
        tuple(table.astype(np.int32) for table in unary),
        (PairTable(0, 1, cost.astype(np.uint32)),),
    )
    tables = fit_score(narrow, forest, X).tables
    assert np.array_equal(tables.score(states), fit_score(wide, forest, X).tables.score(states))
    for array in (*tables.bins, *tables.unary, tables.pairs[0].cost):
        assert array.dtype == np.int64


def test_tables_that_do_not_fit_are_refused():
    _, X, space, states = _data(XGBOOST, 10)
    good = fit_chow_liu(states, space, X)
    bad = {
        "features": ScoreTables(good.bins[1:], good.unary[1:]),
        "integers": ScoreTables(good.bins, tuple(c / 2 for c in good.unary)),
        "states": ScoreTables((good.bins[0][1:], *good.bins[1:]), good.unary),
        "bin outside": ScoreTables((good.bins[0] + 9, *good.bins[1:]), good.unary),
        "two different features": ScoreTables(good.bins, good.unary, (PairTable(0, 0, good.pairs[0].cost),)),
        "scale": ScoreTables(good.bins, good.unary, scale=0),
        r"exceeds 2\*\*31": ScoreTables(good.bins, (good.unary[0] + 2**40, *good.unary[1:])),
        r"cost of the score exceeds 2\*\*31": ScoreTables(
            good.bins, (np.full_like(good.unary[0], -(2**63)), *good.unary[1:])
        ),  # its absolute value is itself
    }
    check_tables(good, space)
    for message, tables in bad.items():
        with pytest.raises(InvalidInputError, match=message):
            check_tables(tables, space)


def test_other_options_are_refused():
    _, X, space, states = _data(XGBOOST, 11)
    for n_bins in (0, 2.5, True):
        with pytest.raises(InvalidInputError, match="n_bins"):
            fit_chow_liu(states, space, X, n_bins=n_bins)


def _numeric_space(edges, missing=True):
    forest = random_forest(np.random.default_rng(0), 1, 0, 1, manner=XGBOOST)
    n_states = len(edges) + 1 + missing
    axis = Axis(np.array(edges), n_states, n_states - 1 if missing else -1)
    return StateSpace((axis,), forest.comparison, forest.category_rule, False)


def _bins(space, x, n_bins):
    return bins_of(space, count_nearest(space, x[:, None]), n_bins)[0]


def test_quantiles_snap_to_the_nearest_edge_and_ties_to_the_larger():
    x = np.arange(0.0, 101.0)  # quartiles 25, 50, 75
    space = _numeric_space([20.0, 30.0, 49.0, 90.0, 95.0])
    # 25 is as near to 20 as to 30: 30; 50 -> 49; 75 -> 90
    assert _bins(space, x, 4).tolist() == [0, 0, 1, 2, 3, 3, 4]


def test_duplicate_boundaries_are_merged():
    space = _numeric_space([49.0])
    x = np.arange(0.0, 101.0)
    assert _bins(space, x, 4).tolist() == [0, 1, 2]
    space = _numeric_space([], missing=True)
    assert _bins(space, x, 4).tolist() == [0, 1]


def test_odd_columns_have_bins():
    space = _numeric_space([-np.inf, 1.0, np.inf])
    for x in (np.full(9, np.nan), np.full(9, 3.0), np.array([np.inf, -np.inf, 1.0, np.nan])):
        bins = _bins(space, x, 4)
        assert bins[-1] == bins.max()
        assert np.all(np.diff(bins) >= 0)


def test_zero_as_missing_is_a_bin_of_its_own():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 8, 3, 1, manner=LIGHTGBM, missing_rules=[MissingRule.ZERO_IS_MISSING])
    space = build_space(forest)
    axis = space.axes[0]
    bins = _bins(space, rng.normal(size=100), 4)
    assert axis.zero_state >= 0
    assert np.sum(bins == bins[axis.zero_state]) == 1
    assert np.sum(bins == bins[axis.missing_state]) == 1
