"""Smaller shapes of a forest: which splits stay, and the node at which the path to each original leaf ends, its owner.

Leaves are numbered from left to right, so that collapsing a node is one assignment to a range of leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.leaf_tables import sum_leaves
from pine_boost.model.forest import BoolArray, FloatArray, Forest, Int32Array, IntArray, PrunedForest
from pine_boost.model.grid import fold_intercept, native_grid, written_on_grid
from pine_boost.model.trimming import Subtrees, forest_subtrees, leaf_above, trim, trim_pruned

SLICE = "slice"  # the name of the first rounds of the original
GONE = -1  # the owner of the leaves of a tree that was dropped, as in `trimming.leaf_above`
# Leaves of averages: far finer than any vote, and coarse enough that the exporter's check of a
# mean against a threshold (exporters/sklearn.py) holds for thousands of trees.
_FINEST_MEAN = 24


def begins(owner: IntArray) -> BoolArray:
    """Whether an original leaf is the first one of its owner."""
    changes = np.concatenate([[True], owner[1:] != owner[:-1]])
    return np.asarray(changes & (owner != GONE))


def numbers(owner: IntArray) -> IntArray:
    """The number of the owner of each original leaf, from left to right; `GONE` in dropped trees."""
    return np.where(owner == GONE, GONE, np.cumsum(begins(owner)) - 1)


def collapsed(pruned: PrunedForest, subtrees: Subtrees, owner: IntArray) -> PrunedForest:
    """The model in which owners are leaves; the original leaves of each must agree already."""
    first = begins(owner)
    value, is_leaf = pruned.value_int.copy(), np.zeros(len(pruned.value_int), dtype=bool)
    value[owner[first]] = value[subtrees.leaf_node[first]]
    is_leaf[owner[first]] = True
    return replace(pruned, value_int=value, is_leaf=is_leaf)


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
        Its origin: ``"path"``, ``"original"``, or ``"slice"`` for the first rounds of the original.
    """

    owner: IntArray
    value: FloatArray
    intercept: FloatArray
    name: str = "path"

    @property
    def begins(self) -> BoolArray:
        """Whether an original leaf is the first one of its present leaf."""
        return begins(self.owner)

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
    leaf_tree = subtrees.leaf_tree
    kept = np.unique(leaf_tree[shape.owner != GONE])
    value = shape.value.copy()
    left_over = fold_intercept(forest, leaf_tree, value, shape.intercept, kept)
    if not forest.free_intercept:  # the native library divides by the trees that are left
        value *= len(kept) / forest.n_trees
    # three bits of the range are left for rounding
    finest = None if forest.free_intercept else _FINEST_MEAN
    grid = native_grid(forest, leaf_tree, value, left_over, spare_bits=3, finest=finest)
    weights = np.zeros(forest.n_trees)
    weights[kept] = 1.0
    pruned = written_on_grid(forest, subtrees.leaf_node, value, left_over, kept, weights, grid)
    return collapsed(pruned, subtrees, shape.owner)


Kept = BoolArray  # which splits stay; one only if all splits above it do


class Splits:
    """The inner nodes of all trees, parents before children.

    Attributes
    ----------
    forest : Forest
    subtrees : Subtrees
    node : int64 (n_splits,)
    parent : int64 (n_splits,)
        Position of the split above, -1 at a root.
    is_root : bool (n_splits,)
    """

    def __init__(self, forest: Forest) -> None:
        self.forest, self.subtrees = forest, forest_subtrees(forest)
        self.node = node = self.subtrees.inner
        position = np.full(forest.n_nodes + 1, -1)  # the last one is for roots
        position[node] = np.arange(len(node))
        self.parent: IntArray = position[self.subtrees.parent[node]]
        self.is_root: BoolArray = self.parent < 0

    def size(self, kept: Kept) -> int:
        """Leaves of the trees that are left: one more than splits in every tree that has any."""
        return int(np.count_nonzero(kept) + np.count_nonzero(kept & self.is_root))

    def ends(self, kept: Kept) -> Kept:
        """The kept splits with only leaves below, which can be collapsed next."""
        above = self.parent[kept & ~self.is_root]
        ends = kept.copy()
        ends[above] = False
        return ends

    def ranges(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Largest minus smallest leaf value below every split."""
        return self.subtrees.ranges(values, self.node)

    def owners(self, kept: Kept) -> IntArray:
        """The owner of each leaf of the original; a tree without a split is dropped."""
        forest, stays = self.forest, np.zeros(self.forest.n_nodes, dtype=bool)
        stays[self.node[kept]] = True
        trees = np.flatnonzero(stays[forest.tree_offset[:-1]])
        return leaf_above(forest, trim(forest, trees, ~stays))[self.subtrees.leaf_node]

    def of_model(self, pruned: PrunedForest | None) -> Kept:
        """The splits that a model still has."""
        if pruned is None:
            return np.ones(len(self.node), dtype=bool)
        trimming = trim_pruned(pruned)
        return np.isin(self.node, trimming.node[~trimming.is_leaf])

    def collapse(self, pruned: PrunedForest, kept: Kept) -> PrunedForest:
        """The model with all other splits collapsed; the leaves below each of them agree already.

        Splits above equal values go, too, but not the root of a kept tree.
        """
        value = pruned.value_int[self.subtrees.leaf_node, 0]
        return collapsed(pruned, self.subtrees, self.owners(kept & ((self.ranges(value) > 0) | self.is_root)))
