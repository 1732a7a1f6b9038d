"""Trees over states: the same routing as the native library, on small integers.

In come a Forest and its StateSpace; out go StateTrees, which find the leaves of state rows, and
leaf bitmasks per (feature, state, tree). No float is compared here any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import BoolArray, Forest, Int32Array, IntArray
from pine_boost.model.rules import Comparison, MissingRule, SplitKind
from pine_boost.model.states import StateSpace

_CHUNK_CELLS = 2_000_000  # rows x trees evaluated at once: stays in the cache, bounds the memory
MASK_BYTES_LIMIT = 2**30
_LEVELS = 8  # walked before rows that have arrived are left behind
_NO_SPECIAL = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class StateTrees:
    """Trees whose splits are tables over states.

    A numeric split sends interval states ``<= rank`` left; special states (zero, missing) and
    categories look their side up in ``special_left``. Leaves loop on themselves.

    Attributes
    ----------
    root : int32 (n_trees,)
    feature, rank, left, right : int32 (n_nodes,)
    first_special : int32 (n_nodes,)
        The first state of the node's feature that is looked up instead of compared.
    special_offset : int64 (n_nodes,)
        Side of state ``s`` is ``special_left[special_offset[node] + s - first_special[node]]``.
    special_left : bool
    leaf_of_node : int32 (n_nodes,)
        Number of the leaf (left to right over all trees), -1 at inner nodes.
    leaf_offset : int64 (n_trees + 1,)
        Tree ``t`` owns the leaves ``leaf_offset[t]:leaf_offset[t + 1]``.
    depth : int
    """

    root: Int32Array
    feature: Int32Array
    rank: Int32Array
    left: Int32Array
    right: Int32Array
    first_special: Int32Array
    special_offset: IntArray
    special_left: BoolArray
    leaf_of_node: Int32Array
    leaf_offset: IntArray
    depth: int

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(self.leaf_offset[-1])

    @property
    def leaf_tree(self) -> IntArray:
        """The tree of each leaf."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.leaf_offset))

    def leaves(self, states: npt.NDArray[Any]) -> Int32Array:
        """Leaf reached in every tree by every state row, (n_rows, n_trees)."""
        reached = np.empty((len(states), self.n_trees), dtype=np.int32)
        chunk = max(1, _CHUNK_CELLS // self.n_trees)
        for start in range(0, len(states), chunk):
            part = np.ascontiguousarray(states[start : start + chunk], dtype=np.int32)
            reached[start : start + chunk] = self._leaves_of_chunk(part)
        return reached

    def visits(self, states: npt.NDArray[Any]) -> IntArray:
        """How many state rows reach each leaf; memory does not grow with the rows."""
        counts = np.zeros(self.n_leaves, dtype=np.int64)
        chunk = max(1, _CHUNK_CELLS // self.n_trees)
        for start in range(0, len(states), chunk):
            reached = self.leaves(states[start : start + chunk])
            counts += np.bincount(reached.ravel(), minlength=self.n_leaves)
        return counts

    def _leaves_of_chunk(self, states: Int32Array) -> Int32Array:
        n_rows, n_features = states.shape
        flat = states.ravel()
        row_start = np.repeat(np.arange(n_rows, dtype=np.int64) * n_features, self.n_trees)
        node = np.tile(self.root, n_rows)
        walking: npt.NDArray[Any] | slice = slice(None)
        for level in range(self.depth):
            if level % _LEVELS == _LEVELS - 1:  # deep trees have most leaves far above the deepest
                walking = np.flatnonzero(self.leaf_of_node.take(node) < 0)
            here = node[walking]
            state = flat.take(row_start[walking] + self.feature.take(here))
            left = state <= self.rank.take(here)
            special = state >= self.first_special.take(here)
            if special.any():
                nodes = here[special]
                offset = self.special_offset[nodes] - self.first_special[nodes]
                left[special] = self.special_left[offset + state[special]]
            node[walking] = np.where(left, self.left.take(here), self.right.take(here))
        return self.leaf_of_node.take(node).reshape(n_rows, self.n_trees)

    def goes_left(self, node: int, n_states: int) -> BoolArray:
        """The side of every state of the node's feature."""
        side: BoolArray = np.arange(n_states) <= self.rank[node]
        first = self.first_special[node]
        if first < n_states:
            start = self.special_offset[node]
            side[first:] = self.special_left[start : start + n_states - first]
        return side


def route(forest: Forest, space: StateSpace) -> StateTrees:
    """Translate the splits of a forest into tables over the states of ``space``."""
    n_nodes = forest.n_nodes
    is_leaf = forest.kind == SplitKind.LEAF
    rank = np.full(n_nodes, -1, dtype=np.int32)
    first_special = np.full(n_nodes, _NO_SPECIAL, dtype=np.int32)
    inner = np.flatnonzero(~is_leaf)
    n_intervals = np.array([axis.n_intervals for axis in space.axes])
    n_special = space.n_states - n_intervals
    first_special[inner] = n_intervals[forest.feature[inner]]
    lengths = np.zeros(n_nodes, dtype=np.int64)
    lengths[inner] = n_special[forest.feature[inner]]
    special_offset = np.where(is_leaf, 0, np.cumsum(lengths) - lengths)
    special_left = np.zeros(int(lengths.sum()) + 1, dtype=bool)
    for feature in np.unique(forest.feature[inner]):
        axis, nodes = space.axes[feature], inner[forest.feature[inner] == feature]
        if axis.codes is None:
            rank[nodes] = np.searchsorted(axis.edges, forest.threshold[nodes])
            sides = _special_sides(forest, space, nodes)
        else:
            sides = np.stack([_category_sides(forest, space, int(node)) for node in nodes])
        places = special_offset[nodes][:, None] + np.arange(sides.shape[1])
        special_left[places] = sides
    return make_trees(
        Shape(forest.tree_offset[:-1], is_leaf, forest.left, forest.right),
        forest.feature,
        rank,
        first_special,
        special_offset,
        special_left,
    )


@dataclass(frozen=True, eq=False)
class Shape:
    """How the nodes of stacked trees hang together; children are only read at inner nodes."""

    root: npt.NDArray[Any]
    is_leaf: BoolArray
    left: npt.NDArray[Any]
    right: npt.NDArray[Any]


def make_trees(
    shape: Shape,
    feature: npt.NDArray[Any],
    rank: npt.NDArray[Any],
    first_special: npt.NDArray[Any],
    special_offset: npt.NDArray[Any],
    special_left: npt.NDArray[Any],
) -> StateTrees:
    """StateTrees from what their splits say: leaves numbered, looping, and asking nothing."""
    is_leaf, own = shape.is_leaf, np.arange(len(shape.is_leaf))
    leaf_of_node, leaf_offset, depth = number_leaves(shape.root, is_leaf, shape.left, shape.right)
    return StateTrees(
        root=shape.root.astype(np.int32),
        feature=np.where(is_leaf, 0, feature).astype(np.int32),
        rank=np.where(is_leaf, -1, rank).astype(np.int32),
        left=np.where(is_leaf, own, shape.left).astype(np.int32),
        right=np.where(is_leaf, own, shape.right).astype(np.int32),
        first_special=np.where(is_leaf, _NO_SPECIAL, first_special).astype(np.int32),
        special_offset=np.where(is_leaf, 0, special_offset).astype(np.int64),
        special_left=special_left.astype(bool),
        leaf_of_node=leaf_of_node,
        leaf_offset=leaf_offset,
        depth=depth,
    )


def _special_sides(forest: Forest, space: StateSpace, nodes: IntArray) -> BoolArray:
    """Sides of zero and missing at numeric splits of one feature, (n_nodes, n_special)."""
    axis = space.axes[forest.feature[nodes[0]]]
    rule, default_left = forest.missing[nodes], forest.default_left[nodes]
    threshold = forest.threshold[nodes]
    zero_left = threshold > 0 if space.comparison is Comparison.FLOAT32_LESS else threshold >= 0
    sides = np.zeros((len(nodes), axis.n_states - axis.n_intervals), dtype=bool)
    if axis.zero_state >= 0:
        is_default = rule == MissingRule.ZERO_IS_MISSING
        column = axis.zero_state - axis.n_intervals
        sides[:, column] = np.where(is_default, default_left, zero_left)
    if axis.missing_state >= axis.n_intervals:
        is_zero = rule == MissingRule.NAN_IS_ZERO
        column = axis.missing_state - axis.n_intervals
        sides[:, column] = np.where(is_zero, zero_left, default_left)
    return sides


def _category_sides(forest: Forest, space: StateSpace, node: int) -> BoolArray:
    axis = space.axes[forest.feature[node]]
    assert axis.codes is not None
    assert axis.code_states is not None
    set_left = bool(forest.set_left[node])
    sides = np.full(axis.n_states, not set_left)
    sides[axis.code_states[np.isin(axis.codes, forest.categories_of(node))]] = set_left
    if axis.missing_state >= 0:
        sides[axis.missing_state] = forest.default_left[node]
    return sides


def number_leaves(
    root: IntArray, is_leaf: BoolArray, left: IntArray, right: IntArray
) -> tuple[Int32Array, IntArray, int]:
    """Number the leaves left to right within each tree, level by level and without recursion.

    Returns the number of each node's leaf (-1 at inner nodes), the first leaf of each tree (and
    the end), and the depth.
    """
    levels = [root]
    while True:
        inner = levels[-1][~is_leaf[levels[-1]]]
        if len(inner) == 0:
            break
        levels.append(np.concatenate([left[inner], right[inner]]))
    count = is_leaf.astype(np.int64)
    for level in reversed(levels):
        inner = level[~is_leaf[level]]
        count[inner] = count[left[inner]] + count[right[inner]]
    leaf_offset = np.concatenate([[0], np.cumsum(count[root])])
    first = np.zeros(len(is_leaf), dtype=np.int64)
    first[root] = leaf_offset[:-1]
    for level in levels:
        inner = level[~is_leaf[level]]
        first[left[inner]] = first[inner]
        first[right[inner]] = first[inner] + count[left[inner]]
    leaf_of_node = np.where(is_leaf, first, -1).astype(np.int32)
    return leaf_of_node, leaf_offset, len(levels) - 1


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """Which leaves of each tree are still reachable, one bit per leaf.

    ``mask[state_offset[j] + s, t]`` are the words of tree ``t`` when feature ``j`` is in state
    ``s``; the AND over all features leaves exactly one bit.
    """

    mask: npt.NDArray[np.uint64]
    state_offset: IntArray


def require_size(forest: Forest) -> None:
    """Refuse a model whose leaf masks would not fit into a gigabyte, from its shape alone."""
    numeric = forest.kind == SplitKind.NUMERIC
    splits = np.stack([forest.feature[numeric].astype(np.float64), forest.threshold[numeric]])
    n_states = np.unique(splits, axis=1).shape[1] + forest.n_features
    leaves = np.add.reduceat(forest.kind == SplitKind.LEAF, forest.tree_offset[:-1], dtype=np.int64)
    _require_size(forest.n_trees, n_states, -(-int(leaves.max()) // 64))


def _require_size(n_trees: int, n_states: int, n_words: int) -> None:
    n_bytes = n_states * n_trees * n_words * 8
    if n_bytes > MASK_BYTES_LIMIT:
        size = f"{n_trees} trees, {n_states} states, {n_words} words a tree"
        raise UnsupportedModelError(
            f"The search tables of this model would take {n_bytes / 2**30:.1f} GiB ({size}); at "
            "most 1 GiB is accepted. Use fewer or shallower trees."
        )


def leaf_masks(trees: StateTrees, space: StateSpace) -> LeafMasks:
    """Build the masks; refuses when they would not fit into a gigabyte."""
    n_states = space.n_states
    state_offset = np.concatenate([[0], np.cumsum(n_states)])
    n_words = -(-int(np.diff(trees.leaf_offset).max()) // 64)
    _require_size(trees.n_trees, int(state_offset[-1]), n_words)
    mask = np.full((int(state_offset[-1]), trees.n_trees, n_words), 2**64 - 1, dtype=np.uint64)
    first, last = _leaf_ranges(trees)
    for node in np.flatnonzero(trees.leaf_of_node < 0):
        tree = int(np.searchsorted(trees.root, node, side="right")) - 1
        feature = trees.feature[node]
        left = trees.goes_left(int(node), int(n_states[feature]))
        # only the words of the node's own leaves change: few, far down in a large tree
        start = int(trees.leaf_offset[tree])
        word = (int(first[node]) - start) // 64
        stop_word = -(-(int(last[node]) - start) // 64)
        begin = start + 64 * word
        left_bits, right_bits = (
            _bits(int(first[child]) - begin, int(last[child]) - begin, stop_word - word)
            for child in (trees.left[node], trees.right[node])
        )
        states = slice(state_offset[feature], state_offset[feature + 1])
        rows = mask[states, tree, word:stop_word]
        rows &= np.where(left[:, None], ~right_bits, ~left_bits)
    for tree, n_leaves in enumerate(np.diff(trees.leaf_offset)):
        mask[:, tree] &= _bits(0, int(n_leaves), n_words)
    return LeafMasks(mask, state_offset)


def _leaf_ranges(trees: StateTrees) -> tuple[IntArray, IntArray]:
    """First leaf and one past the last leaf below every node."""
    first = trees.leaf_of_node.astype(np.int64)
    last = first + 1
    unknown = np.flatnonzero(trees.leaf_of_node < 0)
    while len(unknown):
        left, right = trees.left[unknown], trees.right[unknown]
        ready = (first[left] >= 0) & (first[right] >= 0)
        now = unknown[ready]
        first[now], last[now] = first[trees.left[now]], last[trees.right[now]]
        unknown = unknown[~ready]
    return first, last


def _bits(start: int, stop: int, n_words: int) -> npt.NDArray[np.uint64]:
    """Words with the bits ``start:stop`` set."""
    number = (1 << stop) - (1 << start)
    words = [(number >> (64 * word)) & (2**64 - 1) for word in range(n_words)]
    return np.array(words, dtype=np.uint64)
