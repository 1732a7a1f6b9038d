"""Leaf values of their own: fewer trees, proved like any other model, never more than before; which trees rise."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pine_boost.budget import Budget, Effort, OutOfTime, StopReason
from pine_boost.model.reference import find_leaves
from pine_boost.proof.bound import ExactRows, check_bound
from pine_boost.search import driver, leaf_values, search_state
from pine_boost.search.algorithm import Known, explore
from pine_boost.search.driver import search_leaves, search_stages
from pine_boost.search.lp_columns import build_columns, in_order, leaf_columns, ordered_leaves, renamed
from tests.support.bruteforce import CLEAR, NOTHING, all_rows, check_result, small_problem
from tests.support.forests import LIGHTGBM, MANNERS, XGBOOST


def _both(small, budget=None):
    """What the search over whole units finds, and where leaf values lead from there."""
    before = small.search()
    return before, search_leaves(small.task(reweight="leaf"), before, budget or Budget.of())


def _fewest_with_leaves(small):
    """The fewest units whose leaf values keep every decided row; None where floats cannot tell."""
    problem = small.problem
    forest = problem.forest
    states = all_rows(small)
    nodes = find_leaves(forest, problem.space.representative(states))
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    for size in range(1, small.n_units + 1):
        unclear = False
        for units in combinations(range(small.n_units), size):
            trees = np.flatnonzero(np.isin(small.tree_unit, units))
            rows, strict = [], []
            for point, question in zip(*np.nonzero(decided), strict=True):
                asked = problem.questions[question]
                row = np.zeros(forest.n_nodes + forest.n_outputs)
                for output in range(forest.n_outputs):
                    side = float(asked.side(np.eye(forest.n_outputs)[output]))
                    own = trees[forest.tree_output[trees] == output]
                    row[nodes[point, own]] = side
                    row[forest.n_nodes + output] = side
                rows.append(row)
                strict.append(bool(problem.strict[question]))
            table, width = np.array(rows), np.array(strict, dtype=float)
            used = np.flatnonzero(np.abs(table).sum(axis=0))
            result = linprog(
                np.concatenate([np.zeros(len(used)), [-1.0]]),
                A_ub=np.hstack([-table[:, used], width[:, None]]),
                b_ub=np.zeros(len(table)),
                bounds=[(-1, 1)] * len(used) + [(0, 1)],
                method="highs",
            )
            assert result.success
            if -result.fun > CLEAR:
                return None if unclear else size
            unclear |= -result.fun > NOTHING
        if unclear:
            return None
    return small.n_units


@settings(derandomize=True, deadline=None, max_examples=12)
@given(
    st.integers(0, 2**16),
    st.sampled_from(MANNERS),
    st.sampled_from([(1, 5), (3, 9)]),
    st.sampled_from(["chow-liu", "leaf-support", None]),
)
def test_never_more_than_whole_trees_and_never_fewer_than_brute_force(seed, manner, outputs, score):
    small = small_problem(seed, manner, n_outputs=outputs[0], n_trees=outputs[1], score=score)
    before, after = _both(small)
    check_result(small, after)
    assert after.n_kept <= before.n_kept
    if after.n_kept < before.n_kept:
        assert after.reweight == "leaf"
        parts = (small.problem, small.tree_unit)
        if after.bound is not None:
            assert after.bound.units == after.lower_bound > 1
            assert check_bound(*parts, after.bound, Budget.of(), by_leaf=True) is True
            more = replace(after.bound, units=after.bound.units + 1)
            assert check_bound(*parts, more, Budget.of(), by_leaf=True) is False
        else:
            assert after.lower_bound == 1
    else:
        assert after.pruned is before.pruned
        assert after.reweight == "tree"
        assert after.lower_bound == before.lower_bound
    fewest = _fewest_with_leaves(small)
    if fewest is not None:
        assert after.n_kept >= fewest
        if after.reweight == "leaf":
            assert after.lower_bound <= fewest
            assert after.stopped is not StopReason.OPTIMAL or after.n_kept == fewest


def test_leaf_values_need_fewer_units():
    """Somewhere the freedom is used: a multiclass round less than weights can do."""
    gains, bounds = [], []
    for seed in (1, 3, 5):
        small = small_problem(seed, MANNERS[seed % 4], n_outputs=3, n_trees=12, score=None)
        before, after = _both(small)
        check_result(small, after)
        gains.append(before.n_kept - after.n_kept)
        bounds.append(after.lower_bound if after.reweight == "leaf" else 1)
    assert max(gains) > 0
    assert max(bounds) > 1  # somewhere a bound on models with free leaf values is proved


@pytest.mark.parametrize("seed", [1, 5, 6])
def test_the_whole_search_goes_on_with_leaves_only_when_asked(seed):
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=3, n_trees=15, score="chow-liu")
    tree = search_stages(small.task(), Budget.of())
    leaf = search_stages(small.task(reweight="leaf"), Budget.of())
    assert tree.reweight == "tree"
    assert leaf.n_kept <= tree.n_kept
    assert leaf.reweight == ("leaf" if leaf.n_kept < tree.n_kept else "tree")
    check_result(small, leaf)
    if leaf.bound is not None:
        own = (small.problem, small.tree_unit, leaf.bound, Budget.of())
        assert check_bound(*own, by_leaf=leaf.reweight == "leaf") is True
    assert [moment.seconds for moment in leaf.history] == sorted(m.seconds for m in leaf.history)


@pytest.mark.parametrize("reason", [OutOfTime, KeyboardInterrupt])
def test_leaf_values_that_are_not_found_leave_what_the_units_gave(reason, monkeypatch):
    """The model of whole units is proved twice after them, too, and has its own bound."""

    def stop(*arguments):
        raise reason

    small = small_problem(5, MANNERS[1], n_outputs=3, n_trees=15, score="chow-liu")
    tree = search_stages(small.task(), Budget.of())
    assert search_stages(small.task(reweight="leaf"), Budget.of()).n_kept < tree.n_kept
    for step in ("_missed_least", "perturb"):
        monkeypatch.setattr(leaf_values, step, stop)
    leaf = search_stages(small.task(reweight="leaf"), Budget.of())
    check_result(small, leaf)
    assert (leaf.n_kept, leaf.reweight) == (tree.n_kept, "tree")
    assert len(leaf.proofs) == len(tree.proofs) == 2 * len(small.problem.questions)
    assert leaf.lower_bound == tree.lower_bound > 1


def test_the_programs_of_leaf_values_have_an_effort_of_their_own(monkeypatch):
    small = small_problem(5, MANNERS[1], n_outputs=3, n_trees=15, score="chow-liu")
    task = small.task(reweight="leaf")
    whole = search_stages(task, Budget.of())
    tree = search_stages(small.task(), Budget.of())
    assert whole.n_kept < tree.n_kept
    none = search_stages(task, Budget.of(None, Effort(leaf_work=0)))
    check_result(small, none)
    assert (none.n_kept, none.reweight, none.stopped) == (tree.n_kept, "tree", tree.stopped)
    assert none.lower_bound == tree.lower_bound
    monkeypatch.setattr(leaf_values, "_MANY_COLUMNS", 0)
    light_first = search_stages(task, Budget.of())
    check_result(small, light_first)
    assert light_first.n_kept < tree.n_kept


def test_units_make_room_late_and_only_for_leaves_that_can_be_chosen(monkeypatch):
    small = small_problem(5, MANNERS[1], n_outputs=3, n_trees=15, score="chow-liu")
    state = small.state()
    assert not state.is_over
    early, late = (replace(state, units_budget=Budget.of(limit)) for limit in (1000.0, 0.0))
    assert (early.is_over, late.is_over) == (False, True)
    ended = explore(small.task(), Budget.of(1000.0), Known(units_budget=late.units_budget))
    assert ended.ended == {StopReason.TIME}
    assert ended.oracle.n_asked == 0
    monkeypatch.setattr(search_state, "MOST_LEAF_COLUMNS", 3)
    assert not late.is_over


def test_a_column_is_a_leaf_of_the_chosen_units():
    small = small_problem(0, XGBOOST, n_outputs=3, n_trees=6)
    problem = small.problem
    units = build_columns(problem)
    chosen = np.array([True, False])
    columns = leaf_columns(units, problem, chosen)
    leaves = problem.trees.leaves(small.fit_states)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=columns.n_columns)
    value = np.zeros((problem.trees.n_leaves, 3))
    own = np.flatnonzero(columns.leaf_column >= 0)
    value[own, problem.forest.tree_output[problem.trees.leaf_tree[own]]] = weights
    margins = value[leaves].sum(axis=1)
    for question in problem.questions:
        sides = columns.rows(leaves, question) @ weights
        np.testing.assert_allclose(sides, question.side(margins))
    assert set(columns.column_unit) == {0}


def test_a_model_of_a_larger_region_is_taken_over():
    small = small_problem(1, LIGHTGBM, n_outputs=3, n_trees=12, score="chow-liu", quantile=0.3)
    whole = replace(small.problem.region, score=None, tau=None)
    larger = replace(small, problem=replace(small.problem, region=whole))
    outer = search_stages(larger.task(reweight="leaf"), Budget.of())
    original = replace(small.search(), pruned=None, proofs=(), n_kept=small.n_units, bound=None)
    found = search_leaves(small.task(reweight="leaf"), original, Budget.of(1e-9), larger=outer)
    assert found.n_kept == outer.n_kept
    assert found.pruned is outer.pruned
    assert found.reweight == outer.reweight
    check_result(small, found)


def test_what_was_found_stays_when_the_budget_is_over_or_the_leaves_are_too_many(monkeypatch):
    small = small_problem(3, MANNERS[3], n_outputs=3, n_trees=12, score=None)
    before, after = _both(small, Budget.of(1e-9))
    assert after.pruned is before.pruned
    assert after.stopped is (StopReason.TIME if before.pruned is None else before.stopped)
    assert (StopReason.TIME in before.ended, StopReason.TIME in after.ended) == (False, True)
    monkeypatch.setattr(driver, "MOST_LEAF_COLUMNS", 3)
    before, after = _both(small)
    assert after is before
    monkeypatch.undo()
    before, after = _both(small, Budget.of(effort=Effort(proof_effort=0.0, box_limit=0)))
    check_result(small, after)
    assert after.n_kept <= before.n_kept


def test_ctrl_c_keeps_the_certified_model(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    small = small_problem(3, MANNERS[3], n_outputs=3, n_trees=12, score=None)
    monkeypatch.setattr(leaf_values, "_missed_least", interrupt)
    before, after = _both(small)
    assert after.stopped is StopReason.INTERRUPTED
    assert after.pruned is before.pruned


def test_a_bound_for_weights_is_none_for_leaf_values_and_an_edited_one_none_at_all():
    small = small_problem(1, MANNERS[1], n_outputs=3, n_trees=12, score=None)
    before, after = _both(small)
    assert after.n_kept < before.n_kept == before.lower_bound
    assert before.bound is not None
    parts, budget = (small.problem, small.tree_unit), Budget.of()
    assert check_bound(*parts, before.bound, budget) is True
    assert check_bound(*parts, before.bound, budget, by_leaf=True) is False
    for number, cut in enumerate(after.bound.cuts):
        if len(cut.units) < 2:
            continue
        narrower = replace(cut, units=frozenset(sorted(cut.units)[1:]))
        other = replace(cut, multipliers=(cut.multipliers[0] + 1, *cut.multipliers[1:]))
        for edited in (narrower, other):
            cuts = (*after.bound.cuts[:number], edited, *after.bound.cuts[number + 1 :])
            wrong = replace(after.bound, cuts=cuts)
            assert check_bound(*parts, wrong, budget, by_leaf=True) is False


def test_a_leaf_speaks_with_either_sign():
    unit, strict = np.array([0, 0, 1]), np.array([True, True])
    entries = np.array([[1, 0, -1], [-1, 0, 0]], dtype=object)
    none = np.zeros((2, 0), dtype=object)
    leaves = ExactRows(entries, unit, True, none, None, strict)
    assert leaves.units((1, 1)) == {1}
    assert leaves.units((2, 1)) == {0, 1}
    assert ExactRows(entries, unit, False, none, None, strict).units((1, 1)) == frozenset()


def _rises(small, tree, feature, value):
    """Whether a tree never falls from one interval of a feature to the next, other states alike."""
    problem = small.problem
    states = small.everything
    own = problem.trees.leaves(states)[:, tree]
    n_intervals = problem.space.axes[feature].n_intervals
    value_of = {row.tobytes(): value[leaf] for row, leaf in zip(states, own, strict=True)}
    for row in states[states[:, feature] < n_intervals - 1]:
        above = row.copy()
        above[feature] += 1
        if value_of[row.tobytes()] > value_of[above.tobytes()]:
            return False
    return True


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 2**16), st.sampled_from(MANNERS))
def test_pairs_are_in_order_where_and_only_where_the_trees_are(seed, manner):
    small = small_problem(seed, manner, n_trees=3, score=None)
    problem = small.problem
    random = np.random.default_rng(seed)
    value = random.integers(0, 3, problem.trees.n_leaves)
    numeric = [f for f, axis in enumerate(problem.space.axes) if axis.n_intervals > 1]
    for feature in numeric:
        directions = np.zeros(problem.space.n_features, dtype=int)
        directions[feature] = 1
        pairs = ordered_leaves(problem, tuple(directions))
        falling = ordered_leaves(problem, tuple(-directions))
        assert sorted(map(tuple, falling)) == sorted(map(tuple, pairs[:, ::-1]))
        leaf_tree = problem.trees.leaf_tree
        assert (leaf_tree[pairs[:, 0]] == leaf_tree[pairs[:, 1]]).all()
        raised = in_order(value, pairs)
        for tree in range(problem.trees.n_trees):
            own = pairs[leaf_tree[pairs[:, 0]] == tree]
            in_line = bool((value[own[:, 0]] <= value[own[:, 1]]).all())
            assert in_line == _rises(small, tree, feature, value)
            assert _rises(small, tree, feature, raised)


def test_values_rise_as_little_as_they_must():
    pairs = np.array([[0, 1], [1, 2], [3, 2]])
    assert in_order(np.array([3, 1, 2, 5]), pairs).tolist() == [3, 3, 5, 5]
    assert in_order(np.array([1, 2, 2, 0]), pairs).tolist() == [1, 2, 2, 0]
    column = np.array([0, 0, 1, -1])
    assert renamed(pairs, column).tolist() == [[0, 1]]
    assert renamed(np.zeros((0, 2), dtype=np.int64), column).shape == (0, 2)


def test_without_directions_there_are_no_pairs():
    problem = small_problem(0, MANNERS[0]).problem
    assert ordered_leaves(problem, ()).shape == (0, 2)
    assert ordered_leaves(problem, (0,) * problem.space.n_features).shape == (0, 2)
