"""Splits that stay or go: leaves below each, shared values, and branches that nobody reaches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import leaf_count, trim_pruned
from pine_boost.search.constraints import Constraints
from pine_boost.search.lp_columns import leaf_columns
from pine_boost.search.shapes import RangeProgram, Splits, find_splits
from tests.support.bruteforce import Small, all_rows, small_problem
from tests.support.forests import MANNERS


def _splits(seed: int) -> tuple[Small, Splits]:
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=3, n_trees=9)
    return small, find_splits(small.problem)


def _random_kept(splits: Splits, random: np.random.Generator) -> np.ndarray:
    """A set that holds every split above its members, and at least one."""
    kept = random.random(len(splits.node)) < 0.7
    kept[np.argmax(splits.is_root)] = True
    for split in range(len(kept)):
        if splits.parent[split] >= 0:
            kept[split] &= kept[splits.parent[split]]
    return kept


def test_leaves_below_a_split_are_those_that_its_states_reach() -> None:
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
        own = splits.leaf_node[splits.first[split] : splits.last[split]]
        assert below == set(own.tolist())
        if splits.parent[split] >= 0:
            above = splits.node[splits.parent[split]]
            assert node in (forest.left[above], forest.right[above])
    assert len(splits.node) == np.count_nonzero(forest.kind != SplitKind.LEAF)


def test_sizes_groups_and_models_agree() -> None:
    random = np.random.default_rng(0)
    for seed in range(4):
        small, splits = _splits(seed)
        forest = small.problem.forest
        kept = _random_kept(splits, random)
        group = splits.groups(kept)
        assert len(np.unique(group[group >= 0])) == splits.size(kept)
        by_group = random.integers(-50, 50, group.max() + 1) * 100 + np.arange(group.max() + 1)
        value = np.zeros((forest.n_nodes, 1), dtype=np.int64)
        there = group >= 0
        value[splits.leaf_node[there], 0] = by_group[group[there]]
        trees = np.unique(splits.tree[kept])
        model = PrunedForest(forest, trees, value, 4, np.zeros(3, dtype=np.int64), np.ones(forest.n_trees))
        collapsed = splits.collapse(model, kept)
        assert leaf_count(collapsed) == splits.size(kept)
        assert np.array_equal(splits.of_model(collapsed), kept)
        assert set(splits.node[splits.ends(kept)]) <= set(trim_pruned(collapsed).node)
        assert np.array_equal(collapsed.value_int[splits.leaf_node], model.value_int[splits.leaf_node])


def test_leaves_that_agree_are_twins_and_go() -> None:
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


def test_only_leaves_that_nobody_reaches_are_spared() -> None:
    n_spared = 0
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], n_trees=5, score="chow-liu", quantile=0.05)
        splits = find_splits(small.problem)
        value = np.arange(len(splits.leaf_node))
        few = small.problem.trees.leaves(small.fit_states[:1])
        spared = splits.spared(small.problem, few, value)
        inside = all_rows(small)[small.problem.region.contains(all_rows(small))]
        reached = np.unique(np.concatenate([small.problem.trees.leaves(inside), few]))
        assert np.array_equal(spared[reached], value[reached])
        n_spared += np.count_nonzero(spared != value)
    assert n_spared > 0


def test_ranges_below_splits_that_go_are_nothing() -> None:
    small = replace(small_problem(2, MANNERS[2], n_trees=5), unit="tree")
    state = small.state()
    splits = find_splits(small.problem)
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
