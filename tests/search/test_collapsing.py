"""Splits that stay or go, and fewer leaves: proved like any other model, never more than before."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.budget import Budget, Effort, StopReason
from pine_boost.model.forest import PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.shape import Splits, numbers
from pine_boost.model.trimming import leaf_count, trim_pruned
from pine_boost.search import collapsing, driver
from pine_boost.search.collapsing import Collapser, RangeProgram, spared_leaves
from pine_boost.search.constraints import Constraints
from pine_boost.search.driver import search_leaves, search_stages
from pine_boost.search.lp_columns import leaf_columns
from pine_boost.search.search_result import SearchResult
from tests.support.bruteforce import all_rows, check_proofs, keeps_all, small_problem
from tests.support.forests import LIGHTGBM, MANNERS

OPTIONS = {"unit": "leaf", "reweight": "leaf"}


def _both(small, budget=None):
    """What the search over trees finds, and where fewer leaves lead from there."""
    small = replace(small, unit="tree")
    before = small.search()
    return before, search_leaves(small.task(**OPTIONS), before, budget or Budget.of())


def _check(small, result):
    """What holds of every result that counts leaves, whenever the search stopped."""
    forest = small.problem.forest
    assert result.lower_bound == 1
    assert result.bound is None
    assert result.stopped is not StopReason.OPTIMAL
    if result.pruned is None:
        assert result.n_kept == forest.n_leaves
        return
    assert keeps_all(small, result.pruned)
    check_proofs(small, result.proofs)
    trimming = trim_pruned(result.pruned)  # refuses leaves that disagree below a collapsed node
    assert result.n_kept == trimming.n_leaves == leaf_count(result.pruned) <= forest.n_leaves
    sizes = [moment.units for moment in result.history if moment.proofs == 2]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == result.n_kept


@settings(derandomize=True, deadline=None, max_examples=10)
@given(
    st.integers(0, 2**16),
    st.sampled_from(MANNERS),
    st.sampled_from([(1, 5), (3, 9)]),
    st.sampled_from(["chow-liu", "leaf-support", None]),
)
def test_every_answer_keeps_every_decided_row(seed, manner, outputs, score):
    small = small_problem(seed, manner, n_outputs=outputs[0], n_trees=outputs[1], score=score)
    before, after = _both(small)
    _check(small, after)
    whole = small.problem.forest.n_leaves if before.pruned is None else leaf_count(before.pruned)
    assert after.n_kept <= whole
    assert after.reweight == ("leaf" if after.n_kept < whole else "tree")


def test_subtrees_become_leaves():
    """Somewhere a kept tree has lost a part, and the original below it is one value."""
    n_collapsed = 0
    for seed in range(3):
        small = small_problem(seed, MANNERS[seed], n_outputs=3, n_trees=9, score="chow-liu")
        _, after = _both(small)
        _check(small, after)
        inner = small.problem.forest.kind != SplitKind.LEAF
        of_kept = np.isin(small.problem.forest.node_tree, after.pruned.kept)
        n_collapsed += np.count_nonzero(after.pruned.is_leaf & inner & of_kept)
    assert n_collapsed > 0


def test_batches_find_fewer_leaves_where_no_shape_is_tried(monkeypatch):
    monkeypatch.setattr(collapsing, "_FIRST_SHAPES", 0)
    monkeypatch.setattr(collapsing, "_REFUTATIONS", 0)
    n_fewer = 0
    for seed in range(3):
        small = small_problem(seed, MANNERS[seed], n_outputs=3, n_trees=9, score="chow-liu")
        before, after = _both(small)
        _check(small, after)
        whole = small.problem.forest.n_leaves
        n_fewer += (whole if before.pruned is None else leaf_count(before.pruned)) - after.n_kept
        assert _both(small)[1].n_kept == after.n_kept
    assert n_fewer > 0


def test_rows_of_many_columns_are_fewer_at_once():
    small = small_problem(0, MANNERS[0], n_outputs=3, n_trees=9, score=None)
    state = small.state()
    many = replace(state.columns, column_unit=np.zeros(10**6, dtype=np.int64))
    few = Constraints(small.problem, many, state.constraints.fit)
    assert few.most_at_once < state.constraints.most_at_once


def test_the_whole_search_counts_leaves_at_every_step():
    small = small_problem(1, MANNERS[1], n_outputs=3, n_trees=9, score="chow-liu")
    steps = []
    budget = Budget.of(callback=steps.append)
    found = search_stages(small.task(**OPTIONS), budget)
    _check(small, found)
    assert {step.unit for step in steps} == {"leaf"}
    assert {step.lower_bound for step in steps} == {1}
    assert steps[0].units == small.problem.forest.n_leaves
    assert steps[-1].units == found.n_kept


def test_a_model_of_a_larger_region_is_taken_over():
    small = small_problem(1, LIGHTGBM, n_outputs=3, n_trees=12, score="chow-liu", quantile=0.3)
    whole = replace(small.problem.region, score=None, tau=None)
    larger = replace(small, problem=replace(small.problem, region=whole))
    outer = search_stages(larger.task(**OPTIONS), Budget.of())
    assert outer.pruned is not None
    original = SearchResult(None, (), small.n_units)
    found = search_leaves(small.task(**OPTIONS), original, Budget.of(1e-9), larger=outer)
    assert found.pruned is outer.pruned
    assert found.n_kept == outer.n_kept
    assert found.reweight == outer.reweight


def test_what_was_found_stays_when_the_budget_is_over_or_the_leaves_are_too_many(monkeypatch):
    small = small_problem(3, MANNERS[3], n_outputs=3, n_trees=12, score=None)
    before, after = _both(small, Budget.of(1e-9))
    assert after.pruned is before.pruned
    monkeypatch.setattr(driver, "MOST_LEAF_COLUMNS", 3)
    before, after = _both(small)
    assert after.pruned is before.pruned
    monkeypatch.undo()
    before, after = _both(small, Budget.of(effort=Effort(proof_effort=0.0, box_limit=0)))
    if after.pruned is not None:
        assert keeps_all(small, after.pruned)


def test_ctrl_c_keeps_the_certified_model(monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    small = small_problem(3, MANNERS[3], n_outputs=3, n_trees=12, score=None)
    monkeypatch.setattr(Collapser, "shrink", interrupt)
    before, after = _both(small)
    assert after.stopped is StopReason.INTERRUPTED
    assert after.pruned is before.pruned


def _splits(seed):
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=3, n_trees=9)
    return small, Splits(small.problem.forest)


def _random_kept(splits, random):
    """A set that holds every split above its members, and at least one."""
    kept = random.random(len(splits.node)) < 0.7
    kept[np.argmax(splits.is_root)] = True
    for split in range(len(kept)):
        if splits.parent[split] >= 0:
            kept[split] &= kept[splits.parent[split]]
    return kept


def test_leaves_below_a_split_are_those_that_its_states_reach():
    small, splits = _splits(0)
    forest = small.problem.forest
    for split, node in enumerate(splits.node):
        below, stack = set(), [int(node)]
        while stack:
            at = stack.pop()
            if forest.kind[at] == SplitKind.LEAF:
                below.add(at)
            else:
                stack += [int(forest.left[at]), int(forest.right[at])]
        own = splits.subtrees.leaf_node[splits.subtrees.first[node] : splits.subtrees.last[node]]
        assert below == set(own.tolist())
        if splits.parent[split] >= 0:
            above = splits.node[splits.parent[split]]
            assert node in (forest.left[above], forest.right[above])
    assert len(splits.node) == np.count_nonzero(forest.kind != SplitKind.LEAF)


def test_sizes_groups_and_models_agree():
    random = np.random.default_rng(0)
    for seed in range(4):
        small, splits = _splits(seed)
        forest = small.problem.forest
        kept = _random_kept(splits, random)
        group, leaf_node = numbers(splits.owners(kept)), splits.subtrees.leaf_node
        assert len(np.unique(group[group >= 0])) == splits.size(kept)
        by_group = random.integers(-50, 50, group.max() + 1) * 100 + np.arange(group.max() + 1)
        value = np.zeros((forest.n_nodes, 1), dtype=np.int64)
        there = group >= 0
        value[leaf_node[there], 0] = by_group[group[there]]
        trees = np.unique(forest.node_tree[splits.node[kept]])
        model = PrunedForest(forest, trees, value, 4, np.zeros(3, dtype=np.int64), np.ones(forest.n_trees))
        collapsed = splits.collapse(model, kept)
        assert leaf_count(collapsed) == splits.size(kept)
        assert np.array_equal(splits.of_model(collapsed), kept)
        assert set(splits.node[splits.ends(kept)]) <= set(trim_pruned(collapsed).node)
        assert np.array_equal(collapsed.value_int[leaf_node], model.value_int[leaf_node])


def test_leaves_that_agree_are_twins_and_go():
    small, splits = _splits(1)
    forest = small.problem.forest
    everything = np.ones(len(splits.node), dtype=bool)
    model = PrunedForest(
        forest,
        np.arange(forest.n_trees),
        np.zeros((forest.n_nodes, 1), dtype=np.int64),
        4,
        np.zeros(3, dtype=np.int64),
        np.ones(forest.n_trees),
    )
    assert leaf_count(splits.collapse(model, everything)) == 2 * np.count_nonzero(splits.is_root)


def test_only_leaves_that_nobody_reaches_are_spared():
    n_spared = 0
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], n_trees=5, score="chow-liu", quantile=0.05)
        splits = Splits(small.problem.forest)
        value = np.arange(small.problem.trees.n_leaves)
        few = small.problem.trees.leaves(small.fit_states[:1])
        spared = spared_leaves(small.problem, splits, few, value)
        inside = all_rows(small)[small.problem.region.contains(all_rows(small))]
        reached = np.unique(np.concatenate([small.problem.trees.leaves(inside), few]))
        assert np.array_equal(spared[reached], value[reached])
        n_spared += np.count_nonzero(spared != value)
    assert n_spared > 0


def test_ranges_below_splits_that_go_are_nothing():
    small = replace(small_problem(2, MANNERS[2], n_trees=5), unit="tree")
    state = small.state()
    splits = Splits(small.problem.forest)
    every = np.ones(state.columns.n_units, dtype=bool)
    rows = Constraints(small.problem, leaf_columns(state.columns, small.problem, every), state.constraints.fit)
    rows.add(small.fit_states)
    program = RangeProgram(rows.program, splits)
    everything = np.ones(len(splits.node), dtype=bool)
    program.permit(everything)
    program.set_cost(np.ones(len(splits.node)))
    assert program.solve(Budget.of())
    ranges = splits.ranges(program.values)
    slack = rows.program.rows @ program.values
    assert np.any(slack > 0)
    fewer = ranges > 1e-6  # the solution itself says that these are enough
    assert not fewer.all()
    program.permit(fewer)
    assert program.solve(Budget.of())
    assert np.all(splits.ranges(program.values)[~fewer] <= 1e-6)
    program.permit(np.zeros(len(splits.node), dtype=bool))
    assert not program.solve(Budget.of())  # both classes occur: constants do not tell them apart
