"""From a Shape to a PrunedForest on its dyadic grid, which an exporter writes.

In come leaf values in float64; out go integers of grid units whose every partial sum is exact in
the library's float type, the intercept folded into the leaves. Refuses nothing: rounding is part
of the model that is measured.
"""

from __future__ import annotations

import numpy as np

from pine_boost.compression.shape import GONE, Ranges, Shape
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, Forest, IntArray, PrunedForest

# Leaves of averages: far finer than any vote, and coarse enough that the exporter's check of a
# mean against a threshold (exporters/sklearn.py) holds for thousands of trees.
_FINEST_MEAN = 24


def to_pruned(forest: Forest, ranges: Ranges, shape: Shape) -> PrunedForest:
    """Round a shape to the finest grid on which every native sum is exact."""
    is_kept = np.zeros(forest.n_trees, dtype=bool)
    is_kept[ranges.leaf_tree[shape.owner != GONE]] = True
    kept = np.flatnonzero(is_kept)
    leaf_value = shape.value.copy()
    left_over = _fold_intercept(forest, ranges, shape, kept, leaf_value)
    if not forest.free_intercept:  # the native library divides by the trees that are left
        leaf_value *= len(kept) / forest.n_trees
    value = np.zeros(forest.value.shape)
    value[ranges.leaf_node] = leaf_value
    present = shape.begins
    value[shape.owner[present]] = leaf_value[present]
    is_leaf = np.zeros(forest.n_nodes, dtype=bool)
    is_leaf[shape.owner[present]] = True
    grid = _grid(forest, value, left_over)
    value_int, intercept_int = exact.to_units(value, grid), exact.to_units(left_over, grid)
    weights = is_kept.astype(np.float64)
    return PrunedForest(forest, kept, value_int, grid, intercept_int, weights, is_leaf)


def _fold_intercept(forest: Forest, ranges: Ranges, shape: Shape, kept: IntArray, leaf_value: FloatArray) -> FloatArray:
    """Add the intercept to all leaves of the first tree that can carry it; returns the rest."""
    left_over = np.zeros(forest.n_outputs)
    if leaf_value.shape[1] == forest.n_outputs:
        if len(kept) == 0:
            return shape.intercept.copy()
        leaf_value[ranges.leaf_tree == kept[0]] += shape.intercept
        return left_over
    for output in range(forest.n_outputs):
        own = kept[forest.tree_output[kept] == output]
        if len(own) == 0:
            left_over[output] = shape.intercept[output]
        else:
            leaf_value[ranges.leaf_tree == own[0], 0] += shape.intercept[output]
    return left_over


def _grid(forest: Forest, value: FloatArray, left_over: FloatArray) -> int:
    """The finest grid on which every sum is exact; some of the range is left for rounding."""
    largest = exact.largest_leaf(forest, value).sum(axis=0)
    total = float((largest + np.abs(left_over)).max())
    native = exact.integer_scale(total, 2 ** (exact.PRECISION[forest.arithmetic] - 3))
    finest = exact.MAX_GRID[forest.arithmetic] if forest.free_intercept else _FINEST_MEAN
    return min(native, finest)
