"""Grids on which native sums are exact, and intercepts folded into leaves."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.model import exact
from pine_boost.model.grid import fold_intercept, native_grid
from pine_boost.model.subtrees import forest_subtrees
from tests.support.forests import LIGHTGBM, MANNERS, XGBOOST, Manner, random_forest


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("n_kept", [0, 1, 6])
def test_every_margin_grows_by_the_intercept(n_kept: int, vector: bool) -> None:
    forest = random_forest(np.random.default_rng(0), 6, 3, 3, 3, vector_leaves=vector)
    subtrees = forest_subtrees(forest)
    before = forest.value[subtrees.leaf_node]
    after, intercept, kept = before.copy(), np.array([1.0, 2.0, 4.0]), np.arange(n_kept)
    left_over = fold_intercept(forest, subtrees.leaf_tree, after, intercept, kept)
    grown = left_over.copy()
    for tree in kept:  # one leaf of each kept tree: all of its leaves grow alike
        own = slice(subtrees.leaf_offset[tree], subtrees.leaf_offset[tree + 1])
        step = after[own] - before[own]
        assert np.allclose(step, step[0], atol=1e-12)
        grown[slice(None) if vector else forest.tree_output[tree]] += step[0] if vector else step[0, 0]
    assert np.allclose(grown, intercept)
    dropped = ~np.isin(subtrees.leaf_tree, kept)
    assert np.array_equal(after[dropped], before[dropped])


@pytest.mark.parametrize("manner", MANNERS)
def test_sums_on_the_grid_are_exact_and_no_finer_grid_has_the_spare_bits(manner: Manner) -> None:
    forest = random_forest(np.random.default_rng(1), 8, 3, 3, manner=manner)
    value, left_over = 2.0**20 * forest.value, np.zeros(1)
    grid = native_grid(forest, value, left_over, spare_bits=1)
    largest = float(exact.largest_leaf(forest, value).sum())
    room = 2.0 ** (exact.PRECISION[manner.arithmetic] - 1)
    assert largest * 2.0**grid <= room
    assert grid == exact.MAX_GRID[manner.arithmetic] or largest * 2.0 ** (grid + 1) > room
    total_int = exact.largest_leaf(forest, exact.to_units(value, grid)).sum()
    assert manner.arithmetic(total_int) == total_int


def test_a_coarser_limit_holds() -> None:
    for manner in (XGBOOST, LIGHTGBM):
        forest = random_forest(np.random.default_rng(1), 2, 2, 3, manner=manner)
        assert native_grid(forest, forest.value, np.zeros(1), spare_bits=3, finest=5) == 5
