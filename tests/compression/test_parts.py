"""Shapes, goals, equations, least squares, intercepts, rounding: each part against a slow, obvious one or natively."""

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from sklearn import ensemble

from pine_boost.budget import Budget
from pine_boost.compression.fit import RIDGE, Intervals, best_shift, build_equations, refit
from pine_boost.compression.goal import Goal
from pine_boost.compression.path import Pace, build_cost, collapse, set_up, slices, step_sizes, walk
from pine_boost.compression.path_rows import Points, Sources, draw_between
from pine_boost.exporters import export
from pine_boost.kernels.leaf_tables import SignedMatrix
from pine_boost.model.routing import route
from pine_boost.model.shape import GONE, margins, original_shape, slice_shape, to_pruned
from pine_boost.model.states import build_space
from pine_boost.model.trimming import forest_subtrees
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.rows import MemoryRows
from tests.support.native_models import make_table


def _models():
    X, y = make_table(3)
    full, labels = make_table(3, missing=False)
    return {
        "xgboost binary": (xgboost.XGBClassifier(n_estimators=8, max_depth=4, n_jobs=1).fit(X, y > 0), X),
        "xgboost classes": (xgboost.XGBClassifier(n_estimators=5, max_depth=4, n_jobs=1).fit(X, y), X),
        "lightgbm classes": (lightgbm.LGBMClassifier(n_estimators=6, n_jobs=1, verbose=-1).fit(X, y), X),
        "forest": (ensemble.RandomForestClassifier(7, max_depth=6, random_state=0).fit(full, labels), full),
        "histogram": (ensemble.HistGradientBoostingClassifier(max_iter=6).fit(X, y), X),
    }


@pytest.fixture(scope="module", params=list(_models()))
def case(request):
    native, X = _models()[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pine_boost.compression.path_rows._MOST_POINTS", 1000)
        task = set_up(read_model(native), "leaves", MemoryRows(X.astype(np.float64)), 0, Budget.of())
    return task, X, task.trees.leaves(build_space(task.goal.forest).states(X))


def test_margins_of_the_original_shape_are_the_native_ones(case):
    task, X, leaves = case
    found = margins(task.original, task.goal.forest, leaves)
    np.testing.assert_allclose(found, predict_margins(task.parsed, X)[0], atol=1e-5)


def test_exported_path_has_the_leaves_and_margins_of_its_shape(case):
    task, X, leaves = case
    assert len(task.sample.fitted.weight) <= 1000
    equations = build_equations(task.goal, task.sample.fitted)
    model, sizes = task.parsed, []
    for number, shape in enumerate(walk(task, equations, Pace(Budget.of()))):
        sizes.append(shape.n_leaves)
        assert np.all(shape.value[shape.owner == GONE] == 0)
        if number % 12:
            continue
        pruned = to_pruned(model.forest, task.subtrees, shape)
        smaller = read_model(export(model, pruned))
        kept = predict_margins(smaller, X)[0]
        scale = 1.0 if model.forest.free_intercept else len(pruned.kept) / model.forest.n_trees
        expected = margins(shape, model.forest, leaves) * scale
        np.testing.assert_allclose(kept, expected, atol=2.0**-pruned.grid * model.forest.n_trees)
        # splits: fillers of classes without a tree are constants of one leaf
        n_splits = smaller.forest.n_leaves - smaller.forest.n_trees
        assert n_splits == shape.n_leaves - len(pruned.kept)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    assert len(sizes) > 10


def test_a_path_takes_larger_steps_where_time_is_short(monkeypatch):
    """Forty sizes, a second each: with time for all none is passed over, with 5 s most are."""
    clock = [0.0]
    monkeypatch.setattr("pine_boost.budget.time.monotonic", lambda: clock[0])
    taken = {}
    for limit in (None, 60.0, 5.0):
        clock[0] = 0.0
        pace, position, steps = Pace(Budget.of(limit)), 0, 0
        while position < 40 and clock[0] < (limit or 100.0):
            position += pace.sizes_on(40 - position)
            clock[0] += 1.0
            steps += 1
        taken[limit] = steps, position
    assert taken[None] == taken[60.0] == (40, 40)
    assert taken[5.0][0] == 5
    assert taken[5.0][1] > 15


def test_fewer_rows_are_drawn_where_time_is_short(case):
    task, X, _ = case
    few, many, unlimited = (
        set_up(task.parsed, "leaves", MemoryRows(X.astype(np.float64)), 0, Budget.of(limit)).sample
        for limit in (1e-4, 3600.0, None)
    )
    assert 0 < len(few.holdout_points.weight) <= 1000 < len(many.holdout_points.weight)
    assert np.array_equal(many.fitted.leaves, unlimited.fitted.leaves)


def _intercepts(equations, shape):
    """Entries of the matrix that stand for an intercept."""
    return int(np.count_nonzero(equations.over_leaves.indices >= len(shape.owner) * equations.width))


def test_equations_are_distances_to_the_decision(case):
    task, X, leaves = case
    goal, original = task.goal, task.original
    values = margins(original, goal.forest, leaves)
    equations = build_equations(goal, Points(leaves, values, np.ones(len(X))))
    np.testing.assert_allclose(equations.sums(original), equations.distance, atol=1e-9)
    assert np.all(equations.distance >= 0)
    nearest = np.sort(equations.distance)[: len(X) // 4]
    assert np.all(nearest <= np.sort(goal.distances(values))[: len(X) // 4] + 1e-9)
    # of two outputs compared, a leaf of either counts; every tree once for every equation through it
    weights = equations.leaf_weight(np.ones(len(equations.offset)), len(original.owner))
    assert weights.sum() == len(equations.over_leaves.indices) - _intercepts(equations, original)
    reached = np.bincount(leaves.ravel(), minlength=len(weights))
    assert np.all((weights > 0) <= (reached > 0))


def test_slices_are_the_native_first_rounds():
    X, y = make_table(3)
    native = xgboost.XGBClassifier(n_estimators=9, max_depth=3, n_jobs=1).fit(X, y)
    model = read_model(native)
    trees = route(model.forest, space := build_space(model.forest))
    subtrees = forest_subtrees(model.forest)
    leaves = trees.leaves(space.states(X))
    for n_rounds in (1, 4, 8):
        found = margins(slice_shape(model.forest, subtrees, n_rounds), model.forest, leaves)
        expected = native.predict(X, output_margin=True, iteration_range=(0, n_rounds))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    listed = list(slices(model.forest, subtrees, 40))
    assert [shape.name for shape in listed] == ["slice"] * 8


def test_trees_of_one_leaf_go_first_and_change_no_margin():
    """Boosting goes on where nothing is left to split; such trees were kept to the end."""
    X, y = make_table(3, missing=False)
    native = xgboost.XGBClassifier(n_estimators=40, max_depth=3, gamma=3.0, n_jobs=1).fit(X, y > 0)
    forest = read_model(native).forest
    space = build_space(forest)
    trees = route(forest, space)
    subtrees = forest_subtrees(forest)
    start = original_shape(forest, subtrees)
    n_constant = int(np.sum(np.diff(trees.leaf_offset) == 1))
    assert n_constant > 5
    leaves = trees.leaves(space.states(X))
    weight = np.bincount(leaves.ravel(), minlength=trees.n_leaves).astype(float)
    for minimize in ("leaves", "trees", "work"):
        cost = build_cost(minimize, subtrees, leaves)
        n_constant_cost = n_constant * max(1.0, cost.per_tree)
        smaller = collapse(forest, cost, start, weight, cost.of(start) - n_constant_cost)
        assert cost.of(smaller) == pytest.approx(cost.of(start) - n_constant_cost)
        assert smaller.n_leaves == start.n_leaves - n_constant
        np.testing.assert_allclose(margins(smaller, forest, leaves), margins(start, forest, leaves), atol=1e-9)


def test_collapse_takes_the_cheapest_subtree():
    X, y = make_table(2)
    model = read_model(xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1).fit(X, y))
    forest = model.forest
    trees = route(forest, build_space(forest))
    subtrees = forest_subtrees(forest)
    start = original_shape(forest, subtrees)
    weight = np.random.default_rng(0).random(trees.n_leaves) + 0.1
    no_rows = np.zeros((0, forest.n_trees), dtype=np.int32)
    smaller = collapse(forest, build_cost("leaves", subtrees, no_rows), start, weight, start.n_leaves - 1)

    def loss(node):
        leaves = slice(subtrees.first[node], subtrees.last[node])
        weights, values = weight[leaves] + 1e-3, start.value[leaves, 0]
        error = np.sum(weights * (values - np.average(values, weights=weights)) ** 2)
        return float(error / (len(values) - 1 + (subtrees.parent[node] < 0)))

    cheapest = min(np.flatnonzero(forest.left >= 0), key=loss)
    n_below = subtrees.last[cheapest] - subtrees.first[cheapest]
    assert smaller.n_leaves == start.n_leaves - n_below + 1
    assert np.count_nonzero(smaller.owner == cheapest) == n_below
    whole = collapse(forest, build_cost("trees", subtrees, no_rows), start, weight, forest.n_trees - 1)
    gone = whole.owner == GONE
    assert len(set(subtrees.leaf_tree[gone])) == 1  # one whole tree, nothing else
    assert np.array_equal(whole.owner[~gone], start.owner[~gone])


def test_refit_solves_the_ridge_problem():
    from scipy import sparse

    random = np.random.default_rng(0)
    dense = (random.random((400, 12)) < 0.3).astype(float)
    start, target = random.normal(size=12), random.normal(size=400)
    weight = random.random(400) + 0.5
    both = Intervals(target, target, weight)
    rows = sparse.csr_matrix(dense)
    signed = SignedMatrix(np.repeat(rows.indptr, 2)[1:], rows.indices, np.ones(400), 12)  # no second runs
    found = refit(signed, np.zeros(400), start, both)
    matrix = dense.T @ (weight[:, None] * dense) + RIDGE * np.eye(12)
    right = dense.T @ (weight * target) + RIDGE * start
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-3)


def test_a_row_pulls_only_while_it_is_outside_its_interval():
    matrix = SignedMatrix(np.repeat(np.arange(4), 2)[1:], np.arange(3), np.ones(3), 3)
    start = np.array([1.0, 0.2, -1.0])
    above = Intervals(np.full(3, 0.5), np.full(3, np.inf), np.full(3, 1e6))
    found = refit(matrix, np.zeros(3), start, above)
    np.testing.assert_allclose(found, [1.0, 0.5, 0.5], atol=1e-3)


def test_synthetic_rows_lie_between_two_rows_of_one_leaf():
    random = np.random.default_rng(0)
    states = random.integers(0, 50, (300, 6)).astype(np.int32)
    leaves = np.stack([states[:, 0] // 10, 5 + states[:, 1] // 25], axis=1).astype(np.int32)
    # feature 4 has 40 intervals and 10 special states, feature 5 only categories
    intervals = np.array([50, 50, 50, 50, 40, 0])
    states[:, 5] *= 2  # odd categories were never seen
    sources = Sources(states, leaves, intervals)
    rows = draw_between(sources, np.random.default_rng(1), 500)
    assert set(rows[:, 5]) <= set(states[:, 5])
    special = rows[:, 4][rows[:, 4] >= 40]
    assert set(special) <= set(states[:, 4])
    assert len(special) > 0
    low, high = rows[:, None, :4] >= states[None, :, :4], rows[:, None, :4] <= states[None, :, :4]
    assert np.all(np.any(low, axis=1) & np.any(high, axis=1))
    # some pair of rows that share a leaf has the new row in between, in every ordered feature
    for row in rows[:40]:
        below, above = (states[:, :4] <= row[:4]), (states[:, :4] >= row[:4])
        fits = [
            np.all((below[i] & above[others]) | (above[i] & below[others]), axis=1).any()
            for i in range(len(states))
            for others in [np.any(leaves == leaves[i], axis=1)]
        ]
        assert any(fits)
    again = draw_between(sources, np.random.default_rng(1), 500)
    assert np.array_equal(rows, again)
    assert len(np.unique(rows, axis=0)) > 300  # new ones among them


def test_sizes_fall_and_end_above_one():
    sizes = step_sizes(3000)
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[0] < 3000
    assert sizes[-1] >= 2
    assert step_sizes(2) == []


def test_a_margin_on_the_cut_is_the_class_that_the_library_gives_it():
    """GradientBoosting predicts class 1 at a margin of 0: only the move below changes it."""
    X, y = make_table(3, missing=False)
    native = ensemble.GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X, y > 0)
    goal = Goal(read_model(native).forest)
    before, after = goal.answers(np.zeros((2, 1))), goal.answers(np.array([[0.5], [-0.5]]))
    assert goal.differ(before, after).tolist() == [False, True]
    assert goal.differ(after, before).tolist() == [False, True]
    assert goal.distances(np.zeros((2, 1))).tolist() == [0.0, 0.0]


def _lost(sums, sign, weight, shift):
    return float(weight[sums + sign * shift < 0].sum())


def _difference(values, goal):
    if values.shape[1] == 2:
        return values[:, 1] - values[:, 0]
    return values[:, 0] - goal.forest.decision.cuts[0]


@given(st.integers(0, 10_000))
def test_no_other_shift_wins_more(seed):
    random = np.random.default_rng(seed)
    n_groups = int(random.integers(1, 12))
    group = np.repeat(np.arange(n_groups), random.integers(1, 40, n_groups))
    sums = random.integers(-5, 6, n_groups).astype(float)[group]
    sign = random.choice([-1.0, 1.0], n_groups)[group]
    weight = random.integers(1, 3, len(group)) * 1.0
    found = best_shift(sums, sign, weight)
    before, after = _lost(sums, sign, weight, 0.0), _lost(sums, sign, weight, found)
    at = np.unique(-sums * sign)  # where something changes; the ends, beyond all rows, are no place
    between = (at[:-1] + at[1:]) / 2
    least = min((_lost(sums, sign, weight, shift) for shift in between), default=before)
    assert after in (least, before)
    if after == before:
        assert found == 0.0
        # all rows would have to cross for it to be chance
        assert before - least <= 3 * np.sqrt((weight**2).sum())


def test_a_few_rows_move_nothing():
    sums, sign = np.array([2.0, -0.5, 1.5]), np.array([1.0, 1.0, -1.0])
    assert best_shift(sums, sign, np.ones(3)) == 0.0
    assert best_shift(np.repeat(sums, 10), np.repeat(sign, 10), np.ones(30)) == 1.0


@pytest.mark.parametrize(
    ("name", "size"),
    [("HistGradientBoostingClassifier", {"max_iter": 40}), ("RandomForestClassifier", {"n_estimators": 40})],
)
def test_a_group_of_equal_rows_near_the_decision_keeps_its_class(name, size, monkeypatch):
    """A few categories and hundreds of equal rows, as in COMPAS: no shape of the path gives up
    more rows, beyond chance, than another intercept would."""
    random = np.random.default_rng(1)
    X = random.integers(0, 3, (1500, 6)).astype(float)
    y = random.random(1500) < 1 / (1 + np.exp(1.5 - X[:, 0] - 0.6 * X[:, 1] + 0.4 * X[:, 2]))
    native = getattr(ensemble, name)(random_state=0, **size).fit(X, y)
    monkeypatch.setattr("pine_boost.compression.path_rows._MOST_POINTS", 1000)
    task = set_up(read_model(native), "leaves", MemoryRows(X), 0, Budget.of())
    points, goal = task.sample.fitted, task.goal
    sign = np.where(_difference(points.margins, goal) > 0, 1.0, -1.0)
    for shape in walk(task, build_equations(goal, points), Pace(Budget.of())):
        sums = sign * _difference(margins(shape, goal.forest, points.leaves), goal)
        assert best_shift(sums, sign, points.weight) == 0.0
