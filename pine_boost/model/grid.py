"""Round real leaf values to integer multiples of a grid unit such that every native sum is exact.

A pruned or compressed model has leaf values ``integer / 2**grid`` and its intercept inside the
leaves, so its native margin is the integer sum / 2**grid, in any order of summation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import MAX_GRID, PRECISION, integer_scale, to_units
from pine_boost.model.forest import FloatArray, Forest, IntArray, PrunedForest, spread


def fold_intercept(
    forest: Forest, leaf_tree: npt.NDArray[Any], leaf_value: FloatArray, intercept: FloatArray, kept: IntArray
) -> FloatArray:
    """Add the intercept to all leaves of the first kept tree that can carry it, in place.

    Parameters
    ----------
    forest : Forest
    leaf_tree : int64 (n_leaves,)
        The tree of each leaf.
    leaf_value : float64 (n_leaves, width)
        Changed in place. Width 1: each output's intercept goes to the first kept tree of that
        output. Vector leaves: the first kept tree carries all of it.
    intercept : float64 (n_outputs,)
    kept : int64
        Ascending indices of the trees that remain.

    Returns
    -------
    float64 (n_outputs,)
        The intercepts of outputs that have no kept tree, 0 elsewhere.
    """
    left_over = np.zeros(forest.n_outputs)
    if leaf_value.shape[1] == forest.n_outputs:
        if len(kept) == 0:
            return np.array(intercept, dtype=np.float64)
        leaf_value[leaf_tree == kept[0]] += intercept
        return left_over
    for output in range(forest.n_outputs):
        own = kept[forest.tree_output[kept] == output]
        if len(own):
            leaf_value[leaf_tree == own[0], 0] += intercept[output]
        else:
            left_over[output] = intercept[output]
    return left_over


def native_grid(
    forest: Forest,
    leaf_tree: npt.NDArray[Any],
    leaf_value: FloatArray,
    left_over: FloatArray,
    *,
    spare_bits: int,
    finest: int | None = None,
) -> int:
    """The finest grid on which every native sum of leaf values is exact.

    Parameters
    ----------
    forest : Forest
    leaf_tree : int64 (n_leaves,)
    leaf_value : float64 (n_leaves, width)
    left_over : float64 (n_outputs,)
        What `fold_intercept` could not fold.
    spare_bits : int
        Bits of the native mantissa left free for the rounding of the leaves, at most half a unit
        per tree.
    finest : int, optional
        Upper limit of the grid; by default `exact.MAX_GRID` of the native float type.
    """
    largest = np.zeros((forest.n_trees, forest.n_outputs))
    np.maximum.at(largest, leaf_tree, np.abs(spread(forest, leaf_value, leaf_tree)))
    total = float((largest.sum(axis=0) + np.abs(left_over)).max())
    native = integer_scale(total, 2 ** (PRECISION[forest.arithmetic] - spare_bits))
    return min(native, MAX_GRID[forest.arithmetic] if finest is None else finest)


def written_on_grid(
    forest: Forest,
    leaf_node: IntArray,
    leaf_value: FloatArray,
    left_over: FloatArray,
    kept: IntArray,
    weights: FloatArray,
    grid: int,
) -> PrunedForest:
    """The model with leaf values in units of ``2**-grid``; ``leaf_node`` are the nodes of the leaves.

    A weight so small that all its leaves round to the same constant is still a kept tree.
    """
    value_int = np.zeros(forest.value.shape, dtype=np.int64)
    value_int[leaf_node] = to_units(leaf_value, grid)
    return PrunedForest(forest, kept, value_int, grid, to_units(left_over, grid), weights)
