"""The structure of stacked trees: levels of nodes, parents, and the leaves below every node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import BoolArray, Forest, IntArray
from pine_boost.model.rules import SplitKind


@dataclass(frozen=True, eq=False)
class Subtrees:
    """The leaves below each node, with the leaves of all trees numbered from left to right.

    Attributes
    ----------
    levels : tuple of int64 arrays
        The nodes of all trees by depth, roots first.
    parent : int64 (n_nodes,)
        -1 at roots.
    first, last : int64 (n_nodes,)
        The leaves below node ``i`` are ``first[i]:last[i]``.
    leaf_node : int64 (n_leaves,)
        The node of each leaf.
    leaf_offset : int64 (n_trees + 1,)
        Tree ``t`` owns the leaves ``leaf_offset[t]:leaf_offset[t + 1]``.
    """

    levels: tuple[IntArray, ...]
    parent: IntArray
    first: IntArray
    last: IntArray
    leaf_node: IntArray
    leaf_offset: IntArray

    @property
    def leaf_tree(self) -> IntArray:
        """The tree of each leaf."""
        return np.repeat(np.arange(len(self.leaf_offset) - 1), np.diff(self.leaf_offset))

    @property
    def inner(self) -> IntArray:
        """The splits of all trees level by level, so parents come before children."""
        nodes = np.concatenate(self.levels)
        is_leaf = np.zeros(len(self.parent), dtype=bool)
        is_leaf[self.leaf_node] = True
        return nodes[~is_leaf[nodes]]

    def ranges(self, values: npt.NDArray[Any], nodes: IntArray) -> npt.NDArray[Any]:
        """Return the largest minus the smallest value of the leaves below each of some nodes."""
        pairs = np.stack([self.first[nodes], self.last[nodes]], axis=1).ravel()
        padded = np.append(values, values[-1:])
        highest = np.maximum.reduceat(padded, pairs)[::2]
        return np.asarray(highest - np.minimum.reduceat(padded, pairs)[::2])


def find_subtrees(
    root: npt.NDArray[Any], is_leaf: BoolArray, left: npt.NDArray[Any], right: npt.NDArray[Any]
) -> Subtrees:
    """Number the leaves left to right within each tree, level by level and without recursion.

    Children are only read at inner nodes.
    """
    levels = node_levels(root, is_leaf, left, right)
    inner_levels = [level[~is_leaf[level]] for level in levels]
    parent = np.full(len(is_leaf), -1, dtype=np.int64)
    count = is_leaf.astype(np.int64)
    for inner in reversed(inner_levels):
        parent[left[inner]] = parent[right[inner]] = inner
        count[inner] = count[left[inner]] + count[right[inner]]
    leaf_offset = np.concatenate([[0], np.cumsum(count[root])])
    first = np.zeros(len(is_leaf), dtype=np.int64)
    first[root] = leaf_offset[:-1]
    for inner in inner_levels:
        first[left[inner]] = first[inner]
        first[right[inner]] = first[inner] + count[left[inner]]
    leaf_node = np.empty(int(leaf_offset[-1]), dtype=np.int64)
    leaves = np.concatenate(levels)
    leaves = leaves[is_leaf[leaves]]
    leaf_node[first[leaves]] = leaves
    return Subtrees(tuple(levels), parent, first, first + count, leaf_node, leaf_offset)


def forest_subtrees(forest: Forest) -> Subtrees:
    """Return the subtrees of a Forest; its leaves are numbered as `routing.route` numbers them."""
    return find_subtrees(forest.tree_offset[:-1], forest.kind == SplitKind.LEAF, forest.left, forest.right)


def node_levels(
    root: npt.NDArray[Any], is_leaf: BoolArray, left: npt.NDArray[Any], right: npt.NDArray[Any]
) -> list[IntArray]:
    """Return the nodes of all trees by depth, roots first; the last level has no split."""
    levels = [np.asarray(root, dtype=np.int64)]
    while len(inner := levels[-1][~is_leaf[levels[-1]]]):
        levels.append(np.concatenate([left[inner], right[inner]]).astype(np.int64))
    return levels
