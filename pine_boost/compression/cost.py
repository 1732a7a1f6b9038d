"""What a smaller model is meant to save: work, leaves or trees.

The order of collapsing, the sizes of the path, the choice of candidates and the test's "smallest" all use one `Cost`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pine_boost.compression.record import LEAVES, TREES, WORK
from pine_boost.compression.shape import GONE, Shape
from pine_boost.model.forest import FloatArray, Forest, Int32Array
from pine_boost.model.synthetic_rows import TREE_WORK
from pine_boost.model.trimming import Subtrees


@dataclass(frozen=True, eq=False)
class Cost:
    """The cost of a shape, leaf by leaf.

    ``"leaves"`` counts the leaves. ``"work"`` is the sum over the trees of 2 plus the mean number of splits that a row
    passes. ``"trees"`` counts the trees, which are then dropped as a whole.

    Attributes
    ----------
    minimize : str
    subtrees : Subtrees
    reach : float64 (n_leaves,)
        Share of the rows that end in each original leaf.
    depth : float64 (n_nodes,)
        Splits above each node.
    """

    minimize: str
    subtrees: Subtrees
    reach: FloatArray
    depth: FloatArray

    @property
    def whole_trees(self) -> bool:
        """Whether only whole trees are dropped."""
        return self.minimize == TREES

    @property
    def per_tree(self) -> float:
        """What a tree costs beside its leaves."""
        return {WORK: TREE_WORK, LEAVES: 0.0, TREES: 1.0}[self.minimize]

    def of_leaves(self, shape: Shape) -> FloatArray:
        """What each original leaf adds to the cost of a shape, (n_leaves,)."""
        if self.minimize == LEAVES:
            return shape.begins.astype(np.float64)
        if self.minimize == TREES:
            return np.zeros(len(shape.owner))
        return np.where(shape.owner == GONE, 0.0, self.reach * self.depth[shape.owner])

    def of_nodes(self) -> FloatArray:
        """What each node costs once it is a leaf; a root is dropped with its tree, so that it saves more than all."""
        if self.minimize == WORK:
            below = np.concatenate([[0.0], np.cumsum(self.reach)])
            as_leaf = (below[self.subtrees.last] - below[self.subtrees.first]) * self.depth
        else:
            as_leaf = np.full(len(self.depth), 1.0 if self.minimize == LEAVES else 0.0)
        return np.where(self.subtrees.parent < 0, -self.per_tree, as_leaf)

    def of(self, shape: Shape) -> float:
        """The cost of a shape."""
        n_trees = len(np.unique(self.subtrees.leaf_tree[shape.owner != GONE]))
        return float(self.of_leaves(shape).sum()) + self.per_tree * n_trees


def build_cost(minimize: str, forest: Forest, subtrees: Subtrees, leaves: Int32Array) -> Cost:
    """The cost as rows meet it; ``leaves`` holds the leaf of each row in each tree."""
    depth = np.zeros(forest.n_nodes)
    for number, level in enumerate(subtrees.levels):
        depth[level] = number
    reach = np.bincount(leaves.ravel(), minlength=len(subtrees.leaf_node)) / max(1, len(leaves))
    return Cost(minimize, subtrees, reach, depth)
