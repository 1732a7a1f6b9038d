"""Smaller shapes of a forest: the node at which the path to each original leaf ends now, and its value.

Leaves are numbered from left to right, so collapsing a node is one assignment to a range of leaves. A shape becomes
a native model by way of `to_pruned`, which rounds it to a dyadic grid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pine_boost.kernels.leaf_tables import sum_leaves
from pine_boost.model.exact import to_units
from pine_boost.model.forest import BoolArray, FloatArray, Forest, Int32Array, IntArray, PrunedForest
from pine_boost.model.grid import fold_intercept, native_grid
from pine_boost.model.trimming import Subtrees, Trimming, untrimmed

SLICE = "slice"  # the name of the first rounds of the original
GONE = -1  # the owner of the leaves of a tree that was dropped
# Leaves of averages: far finer than any vote, and coarse enough that the exporter's check of a
# mean against a threshold (exporters/sklearn.py) holds for thousands of trees.
_FINEST_MEAN = 24


@dataclass(frozen=True, eq=False)
class Shape:
    """A smaller model over the leaves of the original.

    Attributes
    ----------
    owner : int64 (n_leaves,)
        The node at which the path to each original leaf ends now, `GONE` in dropped trees.
    value : float64 (n_leaves, width)
        What each original leaf adds now; equal within an owner, 0 in dropped trees.
    intercept : float64 (n_outputs,)
    name : str
        Its origin: ``"path"``, or ``"slice"`` for the first rounds of the original.
    """

    owner: IntArray
    value: FloatArray
    intercept: FloatArray
    name: str = "path"

    @property
    def begins(self) -> BoolArray:
        """Whether an original leaf is the first one of its present leaf."""
        changes = np.concatenate([[True], self.owner[1:] != self.owner[:-1]])
        return np.asarray(changes & (self.owner != GONE))

    @property
    def n_leaves(self) -> int:
        """Leaves of the trees that are left."""
        return int(np.count_nonzero(self.begins))


def original_shape(forest: Forest, subtrees: Subtrees) -> Shape:
    """The original itself."""
    value = forest.value[subtrees.leaf_node].astype(np.float64)
    return Shape(subtrees.leaf_node.copy(), value, forest.intercept.astype(np.float64), "original")


def slice_shape(forest: Forest, subtrees: Subtrees, n_rounds: int) -> Shape:
    """The first rounds of the original; averages of trees are scaled to the same sum."""
    kept = forest.tree_round[subtrees.leaf_tree] < n_rounds
    value = np.where(kept[:, None], forest.value[subtrees.leaf_node], 0.0)
    if not forest.free_intercept:
        n_kept = max(1, int(np.count_nonzero(forest.tree_round < n_rounds)))
        value = value * (forest.n_trees / n_kept)
    owner = np.where(kept, subtrees.leaf_node, GONE)
    return Shape(owner, value, forest.intercept.astype(np.float64), SLICE)


def margins(shape: Shape, forest: Forest, leaves: Int32Array) -> FloatArray:
    """Margins of rows from their original leaves, (n_rows, n_outputs), in float64."""
    return sum_leaves(leaves, shape.value, forest.tree_output, shape.intercept)


def to_pruned(forest: Forest, subtrees: Subtrees, shape: Shape) -> PrunedForest:
    """Round a shape to the finest grid on which every native sum is exact."""
    is_kept = np.zeros(forest.n_trees, dtype=bool)
    is_kept[subtrees.leaf_tree[shape.owner != GONE]] = True
    kept = np.flatnonzero(is_kept)
    leaf_value = shape.value.copy()
    left_over = fold_intercept(forest, subtrees.leaf_tree, leaf_value, shape.intercept, kept)
    if not forest.free_intercept:  # the native library divides by the trees that are left
        leaf_value *= len(kept) / forest.n_trees
    value = np.zeros(forest.value.shape)
    value[subtrees.leaf_node] = leaf_value
    present = shape.begins
    value[shape.owner[present]] = leaf_value[present]
    is_leaf = np.zeros(forest.n_nodes, dtype=bool)
    is_leaf[shape.owner[present]] = True
    # three bits of the range are left for rounding
    finest = None if forest.free_intercept else _FINEST_MEAN
    grid = native_grid(forest, value, left_over, spare_bits=3, finest=finest)
    value_int, intercept_int = to_units(value, grid), to_units(left_over, grid)
    return PrunedForest(forest, kept, value_int, grid, intercept_int, is_kept.astype(np.float64), is_leaf)


def shares_adding_up(forest: Forest, subtrees: Subtrees, shape: Shape) -> Shape:
    """Class shares of an average add up to one per tree again; a constant for all classes decides nothing."""
    if forest.free_intercept or forest.n_outputs == 1:
        return shape
    stays = shape.owner != GONE
    level = (1.0 - shape.value.sum(axis=1, keepdims=True)) / forest.n_outputs
    n_kept = len(np.unique(subtrees.leaf_tree[stays]))
    missing = forest.n_trees - n_kept - shape.intercept.sum()
    intercept = shape.intercept + missing / forest.n_outputs
    value = np.where(stays[:, None], shape.value + level, 0.0)
    return replace(shape, value=value, intercept=intercept)


@dataclass(frozen=True, eq=False)
class LosslessPart:
    """The part of a forest that inputs can tell apart, with the same margin for every input.

    Attributes
    ----------
    original, forest : Forest
        ``forest`` is what remains of ``original``; the same object if nothing could go.
    trimming : Trimming
        The remaining nodes, over those of ``original``.
    instead : int64 (n_nodes,)
        The node in the place of each node of ``original`` whose other side no input reaches.
    """

    original: Forest
    forest: Forest
    trimming: Trimming | None = None
    instead: IntArray | None = None

    def restore(self, pruned: PrunedForest) -> PrunedForest:
        """A smaller model of ``forest`` as one of ``original``, which an exporter can write."""
        return pruned if self.trimming is None else untrimmed(pruned, self.original, self.trimming, self.instead)
