"""Smaller shapes of a forest: which node every original leaf ends at, and with which value.

In come the stacked trees; out go ranges of leaves per node and frozen Shapes. Collapsing a node is
one assignment to a range of leaves, as leaves are numbered left to right. Nothing is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.routing import StateTrees

SLICE = "slice"  # the name of the first rounds of the original
GONE = -1  # the owner of the leaves of a tree that was dropped


@dataclass(frozen=True, eq=False)
class Ranges:
    """Where a node's leaves are, over the leaves of all trees from left to right.

    Attributes
    ----------
    first, last : int64 (n_nodes,)
        The leaves below node ``i`` are ``first[i]:last[i]``.
    parent : int64 (n_nodes,)
        -1 at roots.
    leaf_node : int64 (n_leaves,)
        The node of each original leaf.
    leaf_tree : int64 (n_leaves,)
    """

    first: IntArray
    last: IntArray
    parent: IntArray
    leaf_node: IntArray
    leaf_tree: IntArray


def leaf_ranges(forest: Forest, trees: StateTrees) -> Ranges:
    """Number the leaves below every node, deepest nodes first."""
    first = trees.leaf_of_node.astype(np.int64)
    last = first + 1
    parent = np.full(forest.n_nodes, -1, dtype=np.int64)
    inner = np.flatnonzero(forest.left >= 0)
    parent[forest.left[inner]] = parent[forest.right[inner]] = inner
    levels = [forest.tree_offset[:-1]]
    while len(inside := levels[-1][forest.left[levels[-1]] >= 0]):
        levels.append(np.concatenate([forest.left[inside], forest.right[inside]]))
    for level in reversed(levels):
        inside = level[forest.left[level] >= 0]
        first[inside], last[inside] = first[forest.left[inside]], last[forest.right[inside]]
    leaf_node = np.empty(trees.n_leaves, dtype=np.int64)
    is_leaf = trees.leaf_of_node >= 0
    leaf_node[trees.leaf_of_node[is_leaf]] = np.flatnonzero(is_leaf)
    return Ranges(first, last, parent, leaf_node, trees.leaf_tree)


@dataclass(frozen=True, eq=False)
class Shape:
    """A smaller model over the leaves of the original.

    Attributes
    ----------
    owner : int64 (n_leaves,)
        The node at which the way to each original leaf ends now, `GONE` in dropped trees.
    value : float64 (n_leaves, width)
        What each original leaf adds now; equal within an owner, 0 in dropped trees.
    intercept : float64 (n_outputs,)
    name : str
        How it came about: ``"path"``, or ``"slice"`` for the first rounds of the original.
    """

    owner: IntArray
    value: FloatArray
    intercept: FloatArray
    name: str = "path"

    @property
    def begins(self) -> npt.NDArray[np.bool_]:
        """Whether an original leaf is the first one of its present leaf."""
        changes = np.concatenate([[True], self.owner[1:] != self.owner[:-1]])
        return np.asarray(changes & (self.owner != GONE))

    @property
    def n_leaves(self) -> int:
        """Leaves of the trees that are left."""
        return int(np.count_nonzero(self.begins))


def original_shape(forest: Forest, ranges: Ranges) -> Shape:
    """The original itself."""
    value = forest.value[ranges.leaf_node].astype(np.float64)
    return Shape(ranges.leaf_node.copy(), value, forest.intercept.astype(np.float64), "original")


def slice_shape(forest: Forest, ranges: Ranges, n_rounds: int) -> Shape:
    """The first rounds of the original; averages of trees are scaled to the same sum."""
    kept = forest.tree_round[ranges.leaf_tree] < n_rounds
    value = np.where(kept[:, None], forest.value[ranges.leaf_node], 0.0)
    if not forest.free_intercept:
        n_kept = max(1, int(np.count_nonzero(forest.tree_round < n_rounds)))
        value = value * (forest.n_trees / n_kept)
    owner = np.where(kept, ranges.leaf_node, GONE)
    return Shape(owner, value, forest.intercept.astype(np.float64), SLICE)


def margins(shape: Shape, forest: Forest, leaves: npt.NDArray[np.int32]) -> FloatArray:
    """Margins of rows from their original leaves, (n_rows, n_outputs), in float64."""
    result = np.tile(shape.intercept, (len(leaves), 1))
    if shape.value.shape[1] > 1 or forest.n_outputs == 1:
        for column in range(shape.value.shape[1]):
            result[:, column] += shape.value[:, column][leaves].sum(axis=1)
        return result
    for output in range(forest.n_outputs):
        own = np.flatnonzero(forest.tree_output == output)
        result[:, output] += shape.value[:, 0][leaves[:, own]].sum(axis=1)
    return result
