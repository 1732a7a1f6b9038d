"""Convert a Forest to the binned arrays that the kernel traverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.errors import UnsupportedModelError
from pine_boost.kernels.flat_forest import (
    CATEGORY_BIT,
    CHILD_SHIFT,
    COLUMN_SHIFT,
    LARGEST_COLUMN,
    LARGEST_RANK,
    LARGEST_STEP,
    TOP_BIN,
    CodeRule,
    FlatForest,
)
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray, Forest, Int32Array, IntArray
from pine_boost.model.routing import category_sides
from pine_boost.model.rules import CategoryRule, Comparison, MissingRule, SplitKind
from pine_boost.model.states import StateSpace, build_space
from pine_boost.model.subtrees import find_subtrees

_CODE_RULES = {
    CategoryRule.EXACT: CodeRule.EXACT,
    CategoryRule.TRUNCATE: CodeRule.TRUNCATED,
    CategoryRule.KNOWN: CodeRule.KNOWN,
}
_SEGMENT = TOP_BIN  # number of thresholds that one column of bins can distinguish


def flatten(forest: Forest) -> FlatForest:
    """Return the same trees over bins: every split compares a 16-bit bin or looks up a category.

    Raises
    ------
    UnsupportedModelError
        The model has more categories, columns or nodes per tree than the layout has bits for.
    """
    space = build_space(forest)
    is_leaf = forest.kind == SplitKind.LEAF
    subtrees = find_subtrees(forest.tree_offset[:-1], is_leaf, forest.left, forest.right)
    position, depth = _breadth_first(forest)
    sources = np.unique(forest.feature[~is_leaf]).astype(np.int32)
    columns = _Columns(forest, space, sources)
    rank, column, sets = columns.of_nodes()
    step = np.where(is_leaf, 0, position[np.where(is_leaf, 0, forest.left)] - position)
    limits = {
        "thresholds or category sets": (rank, LARGEST_RANK),
        "columns": (column, LARGEST_COLUMN),
        "nodes in a tree": (step, LARGEST_STEP),
    }
    for what, (numbers, largest) in limits.items():
        if len(numbers) and numbers.max() > largest:
            raise UnsupportedModelError(f"The model has too many {what} for a scorer (more than {largest}).")
    is_category = forest.kind == SplitKind.CATEGORICAL
    word = (
        rank.astype(np.uint64)
        | column.astype(np.uint64) << np.uint64(COLUMN_SHIFT)
        | is_category.astype(np.uint64) << np.uint64(CATEGORY_BIT)
        | step.astype(np.uint64) << np.uint64(CHILD_SHIFT)
    )
    node, leaves = np.empty_like(word), np.empty(forest.n_nodes, dtype=np.int32)
    node[position], leaves[position] = word, np.where(is_leaf, subtrees.first, -1)
    return FlatForest(
        n_features=forest.n_features,
        n_outputs=forest.n_outputs,
        is_float32=forest.comparison is not Comparison.FLOAT64_LESS_EQUAL,
        is_closed=forest.comparison is Comparison.FLOAT32_LESS,
        zero=LIGHTGBM_ZERO if forest.snaps_to_zero else -1.0,
        missing_value=float(forest.missing_value),
        refuses_missing=not forest.accepts_missing,
        refuses_infinite=forest.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL,
        code_rule=_CODE_RULES[forest.category_rule],
        source_feature=sources,
        node=node,
        root=forest.tree_offset[:-1].astype(np.int32),
        depth=depth.astype(np.int32),
        leaf_of_node=leaves,
        leaf_offset=subtrees.leaf_offset.astype(np.int32),
        tree_output=forest.tree_output.astype(np.int32),
        **columns.arrays(),
        **sets,
    )


def _breadth_first(forest: Forest) -> tuple[IntArray, IntArray]:
    """Return new node positions, level by level within each tree with adjacent siblings, and the depths."""
    position = np.zeros(forest.n_nodes, dtype=np.int64)
    depth = np.zeros(forest.n_trees, dtype=np.int64)
    position[forest.tree_offset[:-1]] = forest.tree_offset[:-1]
    free = forest.tree_offset[:-1] + 1  # the next free position of each tree
    level, tree = forest.tree_offset[:-1], np.arange(forest.n_trees)
    while True:
        inner = forest.kind[level] != SplitKind.LEAF
        level, tree = level[inner], tree[inner]
        if len(level) == 0:
            return position, depth
        depth[tree] += 1
        first = np.searchsorted(tree, tree)  # tree indices ascend within a level
        place = free[tree] + 2 * (np.arange(len(tree)) - first)
        left, right = forest.left[level], forest.right[level]
        position[left], position[right] = place, place + 1
        free += 2 * np.bincount(tree, minlength=forest.n_trees)
        level = np.stack([left, right], axis=1).ravel()
        tree = np.repeat(tree, 2)


class _Columns:
    """The columns of bins of a forest, built feature by feature."""

    def __init__(self, forest: Forest, space: StateSpace, sources: Int32Array) -> None:
        self.forest, self.space = forest, space
        self.edges: list[FloatArray] = []
        self.codes: list[IntArray] = []
        self.states: list[IntArray] = []
        self.source_column = [1]
        self.other: list[int] = []
        self.missing: list[int] = []
        self.known: list[int] = []
        self.base, self.nan, self.zero = [0], [0], [-1]
        self.column = np.zeros(forest.n_nodes, dtype=np.int64)
        self.rank = np.zeros(forest.n_nodes, dtype=np.int64)
        inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
        inner = inner[np.argsort(forest.feature[inner], kind="stable")]
        bounds = np.searchsorted(forest.feature[inner], [*sources, forest.n_features])
        for source, feature in enumerate(sources):
            nodes = inner[bounds[source] : bounds[source + 1]]
            if space.axes[feature].codes is None:
                self._add_numeric(int(feature), nodes)
            else:
                self._add_categorical(int(feature), nodes)
            self.source_column.append(len(self.base))

    def _add_numeric(self, feature: int, nodes: IntArray) -> None:
        forest, edges = self.forest, self.space.axes[feature].edges
        self.edges.append(edges)
        self.codes.append(np.zeros(0, dtype=np.int64))
        self.states.append(np.zeros(0, dtype=np.int64))
        self.other.append(0)
        self.missing.append(0)
        self.known.append(-1)
        rank = np.searchsorted(edges, forest.threshold[nodes])
        side = "right" if forest.comparison is Comparison.FLOAT32_LESS else "left"
        zero_bin = int(np.searchsorted(edges, 0.0, side=side))  # type: ignore[call-overload]
        rule, default_left = forest.missing[nodes], forest.default_left[nodes]
        # one column for every segment of thresholds and every way of treating NaN and zero
        way = np.where(rule == MissingRule.NAN_IS_ZERO, 0, 1 + 2 * (rule == MissingRule.ZERO_IS_MISSING) + default_left)
        key = way + 5 * (rank // _SEGMENT)
        for one in np.unique(key):
            here = key == one
            base = int(one // 5) * _SEGMENT
            default = 0 if (one % 5) in (2, 4) else TOP_BIN
            zero = min(max(zero_bin - base, 0), TOP_BIN)
            self.column[nodes[here]] = len(self.base)
            self.rank[nodes[here]] = rank[here] - base
            self.base.append(base)
            self.nan.append(zero if one % 5 == 0 else default)
            self.zero.append(default if one % 5 >= 3 else -1)

    def _add_categorical(self, feature: int, nodes: IntArray) -> None:
        axis = self.space.axes[feature]
        assert axis.codes is not None
        assert axis.code_states is not None
        if axis.n_states > TOP_BIN:
            raise UnsupportedModelError(
                f"Feature {self.forest.name_of(feature)!r} has {axis.n_states} groups of categories; "
                f"a scorer takes at most {TOP_BIN}."
            )
        self.edges.append(np.zeros(0))
        self.codes.append(axis.codes)
        self.states.append(axis.code_states)
        self.other.append(max(axis.other_state, 0))
        self.missing.append(max(axis.missing_state, 0))
        self.known.append(axis.n_known or 0)
        self.column[nodes] = len(self.base)
        self.base.append(0)
        self.nan.append(0)
        self.zero.append(-1)

    def of_nodes(self) -> tuple[IntArray, IntArray, dict[str, Any]]:
        """Return the rank and column of every node, and the category sets, numbered within their trees."""
        forest = self.forest
        nodes = np.flatnonzero(forest.kind == SplitKind.CATEGORICAL)
        trees = forest.node_tree[nodes]
        set_word, words = [0], [np.zeros(0, dtype=np.uint64)]
        tree_set = np.full(forest.n_trees, -1, dtype=np.int32)
        for number, (node, tree) in enumerate(zip(nodes, trees, strict=True)):
            if tree_set[tree] < 0:
                tree_set[tree] = number
            self.rank[node] = number - tree_set[tree]
            sides = category_sides(forest, self.space, int(node))
            padded = np.zeros(-(-len(sides) // 64) * 64, dtype=np.uint8)
            padded[: len(sides)] = sides
            words.append(np.packbits(padded, bitorder="little").view(np.uint64))
            set_word.append(set_word[-1] + len(words[-1]))
        sets: dict[str, Any] = {
            "tree_set": tree_set,
            "set_word": np.array(set_word, dtype=np.int32),
            "word": np.concatenate(words),
        }
        return self.rank, self.column, sets

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of sources and columns for a `FlatForest`."""
        empty = np.zeros(0)
        lengths = [[len(part) for part in parts] for parts in (self.edges, self.codes)]
        offsets = [np.cumsum([0, *counts]).astype(np.int32) for counts in lengths]
        int32 = {
            "source_column": self.source_column,
            "source_other": self.other,
            "source_missing": self.missing,
            "source_known": self.known,
            "column_base": self.base,
            "column_nan": self.nan,
            "column_zero": self.zero,
            "code": np.concatenate([*self.codes, empty]),
            "code_state": np.concatenate([*self.states, empty]),
        }
        return {
            "n_columns": len(self.base),
            "source_edge": offsets[0],
            "source_code": offsets[1],
            "edge": np.concatenate([*self.edges, empty]),
            **{name: np.asarray(numbers, dtype=np.int32) for name, numbers in int32.items()},
        }
