"""Trees over states: the routing of the native library on small integers, and leaf bitmasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.kernels.leaf_tables import NODE, StateNodes
from pine_boost.model.forest import BoolArray, Forest, Int32Array, IntArray
from pine_boost.model.rules import Comparison, MissingRule, SplitKind
from pine_boost.model.states import Axis, StateSpace
from pine_boost.model.trimming import Subtrees, find_subtrees

_CHUNK_CELLS = 4_000_000  # rows x trees evaluated at once: bounds the memory, and the time between two checks
MASK_BYTES_LIMIT = 2**30


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """The leaves of each tree that are still reachable, one bit per leaf.

    ``mask[state_offset[j] + s, t]`` are the words of tree ``t`` when feature ``j`` is in state
    ``s``; the AND over all features leaves exactly one bit.
    """

    mask: npt.NDArray[np.uint64]
    state_offset: IntArray

    def of(self, feature: int, states: IntArray) -> npt.NDArray[np.uint64]:
        """The words of some states of a feature, (n_states, n_trees, n_words)."""
        return np.asarray(self.mask[self.state_offset[feature] + states])


@dataclass(frozen=True, eq=False)
class StateTrees:
    """Trees whose splits are tables over states.

    A numeric split sends interval states ``<= rank`` left; special states (zero, missing) and
    categories look up their side in ``special_left``. Leaves point to themselves.

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
    n_states : int64 (n_features,)
        Number of states of each feature.
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
    n_states: IntArray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    @cached_property
    def subtrees(self) -> Subtrees:
        """The leaves below each node."""
        return find_subtrees(self.root, self.leaf_of_node >= 0, self.left, self.right)

    @cached_property
    def masks(self) -> LeafMasks:
        """The leaf masks; raises if they would not fit into a gigabyte.

        A split takes the leaves on its right from every state that goes left, and those on its left from every other
        state.
        """
        state_offset = np.concatenate([[0], np.cumsum(self.n_states)])
        n_words = -(-int(np.diff(self.leaf_offset).max()) // 64)
        _require_size(self.n_trees, int(state_offset[-1]), n_words)

        def words(first: int, last: int) -> npt.NDArray[np.uint64]:
            bits = (1 << last) - (1 << first)
            return np.frombuffer(bits.to_bytes(8 * n_words, "little"), dtype="<u8").astype(np.uint64)

        mask = np.empty((int(state_offset[-1]), self.n_trees, n_words), dtype=np.uint64)
        mask[:] = np.stack([words(0, n_leaves) for n_leaves in np.diff(self.leaf_offset).tolist()])
        subtrees, split = self.subtrees, self.subtrees.inner
        tree = np.searchsorted(self.root, split, side="right") - 1
        ends = np.stack([subtrees.first[split], subtrees.last[self.left[split]], subtrees.last[split]], axis=1)
        ends -= self.leaf_offset[tree][:, None]
        for node, own, (first, middle, last) in zip(split.tolist(), tree.tolist(), ends.tolist(), strict=True):
            is_left = self.goes_left(node)[:, None]
            states = slice(state_offset[self.feature[node]], state_offset[self.feature[node] + 1])
            mask[states, own] &= np.where(is_left, ~words(middle, last), ~words(first, middle))
        return LeafMasks(mask, state_offset)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(self.leaf_offset[-1])

    @property
    def leaf_tree(self) -> IntArray:
        """The tree of each leaf."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.leaf_offset))

    def leaves(self, states: npt.NDArray[Any], check: Callable[[], None] | None = None) -> Int32Array:
        """Return the leaf reached in every tree by every state row, (n_rows, n_trees).

        ``check`` (such as `Budget.check`) is called before every chunk of rows and may raise.
        """
        reached = np.empty((len(states), self.n_trees), dtype=np.int32)
        chunk = max(1, _CHUNK_CELLS // self.n_trees)
        for start in range(0, len(states), chunk):
            if check is not None:
                check()
            reached[start : start + chunk] = self.nodes.leaves(
                np.asarray(states[start : start + chunk], dtype=np.int32)
            )
        return reached

    def visits(self, states: npt.NDArray[Any]) -> IntArray:
        """Count the state rows that reach each leaf; memory does not grow with the number of rows."""
        counts = np.zeros(self.n_leaves, dtype=np.int64)
        chunk = max(1, _CHUNK_CELLS // self.n_trees)
        for start in range(0, len(states), chunk):
            reached = self.leaves(states[start : start + chunk])
            counts += np.bincount(reached.ravel(), minlength=self.n_leaves)
        return counts

    @cached_property
    def nodes(self) -> StateNodes:
        """The same trees in the layout of the kernel."""
        node = np.empty(len(self.feature), dtype=NODE)
        for name in ("feature", "rank", "left", "right", "first_special"):
            node[name] = getattr(self, name)
        node["leaf"], node["special"] = self.leaf_of_node, self.special_offset - self.first_special
        return StateNodes(node, self.root, self.special_left, self.depth)

    def goes_left(self, node: int) -> BoolArray:
        """Return whether each state of the node's feature goes left."""
        n_states = int(self.n_states[self.feature[node]])
        side: BoolArray = np.arange(n_states) <= self.rank[node]
        first = self.first_special[node]
        if first < n_states:
            start = self.special_offset[node]
            side[first:] = self.special_left[start : start + n_states - first]
        return side


def walk_states(
    trees: StateTrees, roots: npt.NDArray[Any], everything: Sequence[int] | None = None
) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield every node below some roots that state rows reach, parents first, with the states that its path leaves.

    States are bit sets, by the features that the path splits on; ``everything`` are the states that rows may have.
    """
    if everything is None:
        everything = [(1 << n) - 1 for n in trees.n_states.tolist()]
    features, left, right = trees.feature.tolist(), trees.left.tolist(), trees.right.tolist()
    is_leaf = (trees.leaf_of_node >= 0).tolist()
    stack: list[tuple[int, dict[int, int]]] = [(root, {}) for root in roots.tolist()]
    while stack:
        node, allowed = stack.pop()
        yield node, allowed
        if is_leaf[node]:
            continue
        feature = features[node]
        here, to_left = allowed.get(feature, everything[feature]), to_bits(trees.goes_left(node))
        for child, states in ((left[node], here & to_left), (right[node], here & ~to_left)):
            if states:
                stack.append((child, {**allowed, feature: states}))


def to_bits(flags: BoolArray) -> int:
    """Return flags as the bits of an integer, the first as the lowest."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def route(forest: Forest, space: StateSpace) -> StateTrees:
    """Translate the splits of a forest into tables over the states of ``space``."""
    is_leaf = forest.kind == SplitKind.LEAF
    inner = np.flatnonzero(~is_leaf)
    first_special, special_offset, n_sides = special_places(space, forest.feature, is_leaf)
    rank, special_left = np.full(forest.n_nodes, -1), np.zeros(n_sides, dtype=bool)
    for feature in np.unique(forest.feature[inner]):
        axis, nodes = space.axes[feature], inner[forest.feature[inner] == feature]
        if axis.codes is None:
            rank[nodes] = np.searchsorted(axis.edges, forest.threshold[nodes])
            sides = _special_sides(forest, space, nodes)
        else:
            sides = _category_sides(forest, axis, nodes)
        places = special_offset[nodes][:, None] + np.arange(sides.shape[1])
        special_left[places] = sides
    return make_trees(
        forest.tree_offset[:-1],
        is_leaf,
        forest.left,
        forest.right,
        feature=forest.feature,
        rank=rank,
        first_special=first_special,
        special_offset=special_offset,
        special_left=special_left,
        n_states=space.n_states,
    )


def special_places(space: StateSpace, feature: npt.NDArray[Any], is_leaf: BoolArray) -> tuple[IntArray, IntArray, int]:
    """Return the first special state of every split, where the sides of its special states begin, and their number."""
    n_intervals = np.array([axis.n_intervals for axis in space.axes], dtype=np.int64)
    lengths = np.where(is_leaf, 0, (space.n_states - n_intervals)[feature])
    ends = np.cumsum(lengths)
    return n_intervals[feature], ends - lengths, int(ends[-1]) + 1  # one more: trees without any still have an array


def make_trees(
    root: npt.NDArray[Any],
    is_leaf: BoolArray,
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    *,
    feature: npt.NDArray[Any],
    rank: npt.NDArray[Any],
    first_special: npt.NDArray[Any],
    special_offset: npt.NDArray[Any],
    special_left: npt.NDArray[Any],
    n_states: IntArray,
) -> StateTrees:
    """Build StateTrees from stacked nodes: number the leaves and make each point to itself.

    Children and splits are only read at inner nodes.
    """
    own, subtrees = np.arange(len(is_leaf)), find_subtrees(root, is_leaf, left, right)
    return StateTrees(
        root=root.astype(np.int32),
        feature=np.where(is_leaf, 0, feature).astype(np.int32),
        rank=np.where(is_leaf, -1, rank).astype(np.int32),
        left=np.where(is_leaf, own, left).astype(np.int32),
        right=np.where(is_leaf, own, right).astype(np.int32),
        first_special=np.where(is_leaf, np.iinfo(np.int32).max, first_special).astype(np.int32),
        special_offset=np.where(is_leaf, 0, special_offset).astype(np.int64),
        special_left=special_left.astype(bool),
        leaf_of_node=np.where(is_leaf, subtrees.first, -1).astype(np.int32),
        leaf_offset=subtrees.leaf_offset,
        depth=len(subtrees.levels) - 1,
        n_states=n_states,
    )


def _special_sides(forest: Forest, space: StateSpace, nodes: IntArray) -> BoolArray:
    """Return the sides of zero and missing at numeric splits of one feature, (n_nodes, n_special)."""
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


def _category_sides(forest: Forest, axis: Axis, nodes: IntArray) -> BoolArray:
    """Return whether each state of their feature goes left at categorical splits, (n_nodes, n_states)."""
    assert axis.codes is not None
    assert axis.code_states is not None
    in_set = np.zeros((len(nodes), axis.n_states), dtype=bool)
    node, code = np.nonzero(forest.in_sets(nodes, axis.codes))
    in_set[node, axis.code_states[code]] = True
    sides: BoolArray = in_set == forest.set_left[nodes][:, None]
    if axis.missing_state >= 0:
        sides[:, axis.missing_state] = forest.default_left[nodes]
    return sides


def require_size(forest: Forest) -> None:
    """Raise if the leaf masks of a model would not fit into a gigabyte, judging by its shape alone."""
    numeric = forest.kind == SplitKind.NUMERIC
    splits = forest.feature[numeric], forest.threshold[numeric]
    order = np.lexsort(splits)
    is_new = np.any([split[order][1:] != split[order][:-1] for split in splits], axis=0)
    n_states = int(np.count_nonzero(is_new)) + bool(len(order)) + forest.n_features
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
