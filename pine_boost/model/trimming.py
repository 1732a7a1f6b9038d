"""Choose the nodes of a forest that remain in a smaller model, and the order in which a writer lists them.

No split and no number is changed; nodes are only removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray, PrunedForest
from pine_boost.model.rules import SplitKind


@dataclass(frozen=True, eq=False)
class Trimming:
    """The remaining nodes, tree after tree.

    A tree begins with its root, parents come before children, and siblings are adjacent (left
    first) wherever they were in the original: XGBoost needs right = left + 1.

    Attributes
    ----------
    kept : int64 (n_kept,)
        Ascending indices of the trees that remain.
    offset : int64 (n_kept + 1,)
        Tree ``kept[i]`` owns the remaining nodes ``offset[i]:offset[i + 1]``.
    node : int64 (n,)
        The node of the original from which a remaining node takes its split, counts and weights.
    value_node : int64 (n,)
        At a leaf, the node of the original from which it takes its value; ``node`` elsewhere.
    left, right : int64 (n,)
        Positions in these arrays, -1 at leaves.
    depth : int64 (n,)
        Distance from the root.
    category_kept : bool, or None for all
        Over the entries of ``Forest.category``: False if a code is removed from its set.
    instead : int64 (n_nodes,) or None
        The node of the original that replaces each node and everything below it: the node itself, or a
        descendant that moved up because the rest of the subtree is gone.
    """

    kept: IntArray
    offset: IntArray
    node: IntArray
    value_node: IntArray
    left: IntArray
    right: IntArray
    depth: IntArray
    category_kept: BoolArray | None = None
    instead: IntArray | None = None

    @property
    def is_leaf(self) -> BoolArray:
        """Whether each remaining node is a leaf."""
        return self.left < 0

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all remaining trees."""
        return int(np.count_nonzero(self.left < 0))

    def shifted(self, values: FloatArray, shift: FloatArray) -> FloatArray:
        """Return the values of the remaining nodes, each plus the ``shift`` of its tree in the original.

        A shift of 0 preserves even the sign of a zero: -0.0 + 0.0 would be 0.0.
        """
        of_node = np.repeat(shift[self.kept], np.diff(self.offset))
        of_node = of_node.reshape(-1, *([1] * (values.ndim - 1)))
        return np.where(of_node == 0, values, values + of_node)

    def part(self, index: int) -> slice:
        """Return the slice of the remaining nodes of tree ``kept[index]``."""
        return slice(int(self.offset[index]), int(self.offset[index + 1]))

    def children(self, index: int) -> tuple[IntArray, IntArray]:
        """Return the left and right children of tree ``kept[index]``, counted from its root, -1 at leaves."""
        start = self.offset[index]
        left, right = self.left[self.part(index)], self.right[self.part(index)]
        return np.where(left < 0, -1, left - start), np.where(right < 0, -1, right - start)


def trim(
    forest: Forest,
    kept: IntArray,
    is_leaf: BoolArray | None = None,
    *,
    instead: IntArray | None = None,
    value_node: IntArray | None = None,
    category_kept: BoolArray | None = None,
) -> Trimming:
    """List the nodes that remain.

    Parameters
    ----------
    forest : Forest
    kept : int64
        Ascending indices of the trees that remain.
    is_leaf : bool (n_nodes,), optional
        Nodes that become leaves; the original's leaves stay leaves.
    instead : int64 (n_nodes,), optional
        See `Trimming`.
    value_node : int64 (n_nodes,), optional
        The node from which a new leaf takes its value; itself by default.
    category_kept : bool, optional
        See `Trimming`.
    """
    own = np.arange(forest.n_nodes)
    ends = forest.kind == SplitKind.LEAF
    if is_leaf is not None:
        if is_leaf.shape != ends.shape:
            raise InvalidInputError(f"is_leaf has the shape {is_leaf.shape}, the forest {forest.n_nodes} nodes.")
        ends = ends | is_leaf
    place = own if instead is None else instead
    left = np.where(ends, -1, place[np.maximum(forest.left, 0)])
    right = np.where(ends, -1, place[np.maximum(forest.right, 0)])
    roots = place[forest.tree_offset[:-1][kept]]
    node, tree, depth = by_level(roots, left, right)
    # a tree in which a node moved up is listed level by level, any other tree in its old order
    moved = np.zeros(len(kept), dtype=bool)
    if instead is not None:
        stepped = np.isin(node, instead[instead != own])
        moved[tree[stepped]] = True
    order = np.lexsort((np.where(moved[tree], own[: len(node)], node), tree))
    node = node[order]
    position = np.full(forest.n_nodes, -1)
    position[node] = np.arange(len(node))
    is_end = ends[node]
    takes = own if value_node is None else value_node
    return Trimming(
        kept=np.asarray(kept, dtype=np.int64),
        offset=np.concatenate([[0], np.cumsum(np.bincount(tree, minlength=len(kept)))]),
        node=node,
        value_node=np.where(is_end, takes[node], node),
        left=np.where(is_end, -1, position[left[node]]),
        right=np.where(is_end, -1, position[right[node]]),
        depth=depth[order],
        category_kept=category_kept,
        instead=instead,
    )


def trim_pruned(pruned: PrunedForest) -> Trimming:
    """Return the trimming of a PrunedForest; raise if its values contradict its leaves."""
    trimming = trim(pruned.forest, pruned.kept, pruned.is_leaf, instead=pruned.instead)
    if pruned.is_leaf is not None:
        owner = leaf_above(pruned.forest, trimming)
        ends = np.flatnonzero((owner >= 0) & (pruned.forest.kind == SplitKind.LEAF))
        if np.any(pruned.value_int[ends] != pruned.value_int[owner[ends]]):
            raise InvalidInputError(
                "value_int differs between a leaf of the smaller forest and the original's leaves "
                "below it; give all of them the same number."
            )
    return trimming


def untrimmed(pruned: PrunedForest, original: Forest, trimming: Trimming) -> PrunedForest:
    """Return a pruned model of the remaining nodes as one of the original, which an exporter can write."""
    remaining = trim_pruned(pruned)
    ours = remaining.node[remaining.is_leaf]
    leaves = trimming.node[ours]
    value = np.zeros((original.n_nodes, pruned.value_int.shape[1]), dtype=np.int64)
    value[leaves] = pruned.value_int[ours]
    pass_down(original, leaves, value, trimming.instead)
    is_leaf = original.kind == SplitKind.LEAF
    is_leaf[leaves] = True
    weights = np.zeros(original.n_trees)
    weights[trimming.kept] = pruned.weights
    return replace(
        pruned,
        forest=original,
        kept=trimming.kept[pruned.kept],
        value_int=value,
        weights=weights,
        is_leaf=is_leaf,
        instead=trimming.instead,
    )


def leaf_count(pruned: PrunedForest) -> int:
    """Count the leaves of the trees that a pruned model keeps, without constants."""
    return trim_pruned(pruned).n_leaves


def trimmed_forest(forest: Forest, trimming: Trimming) -> Forest:
    """Return the remaining nodes as a forest; new leaves have the values assigned to them."""
    node, is_leaf, kept = trimming.node, trimming.is_leaf, trimming.kept
    category_offset, entries = chosen_codes(forest.category_offset, node, is_leaf)
    return replace(
        forest,
        tree_offset=trimming.offset,
        feature=np.where(is_leaf, -1, forest.feature[node]).astype(forest.feature.dtype),
        threshold=np.where(is_leaf, 0.0, forest.threshold[node]),
        left=trimming.left,
        right=trimming.right,
        default_left=forest.default_left[node] & ~is_leaf,
        kind=np.where(is_leaf, SplitKind.LEAF, forest.kind[node]).astype(forest.kind.dtype),
        missing=forest.missing[node],
        set_left=forest.set_left[node] & ~is_leaf,
        category_offset=category_offset,
        category=forest.category[entries],
        value=np.where(is_leaf[:, None], forest.value[trimming.value_node], 0.0),
        tree_output=forest.tree_output[kept],
        tree_round=forest.tree_round[kept],
        tree_bias=forest.tree_bias[kept],
    )


def chosen_codes(
    category_offset: IntArray, node: IntArray, is_leaf: BoolArray, is_kept: BoolArray | None = None
) -> tuple[IntArray, IntArray]:
    """Return the offsets and the entries of the category codes of some nodes, none at leaves; see `Trimming`."""
    count = np.where(is_leaf, 0, np.diff(category_offset)[node])
    entries, owner = ranges(category_offset[node], count), np.repeat(np.arange(len(node)), count)
    if is_kept is not None:
        entries, owner = entries[is_kept[entries]], owner[is_kept[entries]]
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(node)))]), entries


def ranges(start: IntArray, count: IntArray) -> IntArray:
    """Return ``start[i], ..., start[i] + count[i] - 1`` for every i, in one array."""
    ends = np.cumsum(count)
    found: IntArray = np.arange(count.sum()) + np.repeat(start - (ends - count), count)
    return found


def pass_down(forest: Forest, nodes: IntArray, values: npt.NDArray[Any], instead: IntArray | None = None) -> None:
    """Assign the values of some nodes to everything below them, in place.

    With ``instead``, only to the nodes that replace a node, not to unreachable sides.
    """
    frontier = nodes[forest.kind[nodes] != SplitKind.LEAF]
    while len(frontier):
        below = np.stack([forest.left[frontier], forest.right[frontier]])
        if instead is not None:
            below = instead[below]
        values[below] = values[frontier]
        frontier = below[forest.kind[below] != SplitKind.LEAF]


def by_level(
    roots: npt.NDArray[Any], left: npt.NDArray[Any], right: npt.NDArray[Any]
) -> tuple[IntArray, IntArray, IntArray]:
    """List nodes level by level with adjacent siblings; also return their tree and depth."""
    node, tree = roots, np.arange(len(roots))
    nodes, trees, depths = [node], [tree], [np.zeros(len(node), dtype=np.int64)]
    while len(node):
        inner = left[node] >= 0
        node, tree = node[inner], np.repeat(tree[inner], 2)
        node = np.stack([left[node], right[node]], axis=1).ravel()
        nodes.append(node)
        trees.append(tree)
        depths.append(np.full(len(node), len(depths)))
    return np.concatenate(nodes), np.concatenate(trees), np.concatenate(depths)


def leaf_above(forest: Forest, trimming: Trimming) -> IntArray:
    """Return the remaining leaf at or above each node of the original; -1 for nodes above the leaves."""
    owner = np.full(forest.n_nodes, -1)
    leaves = trimming.node[trimming.is_leaf]
    owner[leaves] = leaves
    pass_down(forest, leaves, owner, trimming.instead)
    return owner


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
    def depth(self) -> IntArray:
        """The number of splits above each node."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        for number, level in enumerate(self.levels):
            depth[level] = number
        return depth

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
