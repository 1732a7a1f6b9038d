"""Convert a Forest to the binned arrays that the kernel traverses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from pine_boost.model.forest import Forest, IntArray
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.model.states import Axis, StateSpace, build_space
from pine_boost.model.trimming import by_level

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
    # NaN has a side even where the library refuses it
    space = build_space(replace(forest, accepts_missing=True))
    flat, _ = flatten_trees(space, route(forest, space))
    return replace(
        flat,
        n_outputs=forest.n_outputs,
        refuses_missing=not forest.accepts_missing,
        refuses_infinite=forest.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL,
        tree_output=forest.tree_output.astype(np.int32),
    )


def flatten_trees(
    space: StateSpace, trees: StateTrees, axes: Sequence[tuple[int, Axis]] = ()
) -> tuple[FlatForest, list[int]]:
    """Return trees over states as trees over bins, and a column of bare states for each of some features.

    Each of ``axes`` is a feature and states of it, which need not be those of ``space``.

    Raises
    ------
    UnsupportedModelError
        There are more categories, columns or nodes per tree than the layout has bits for.
    """
    is_leaf = trees.leaf_of_node >= 0
    position, depth = _breadth_first(trees)
    columns = _Columns(space, trees)
    rank, column, sets = columns.rank, columns.column, columns.sets()
    of_axes = [columns.add_states(feature, axis) for feature, axis in axes]
    step = np.where(is_leaf, 0, position[trees.left] - position)
    limits = {
        "thresholds or category sets": (rank, LARGEST_RANK),
        "columns": (column, LARGEST_COLUMN),
        "nodes in a tree": (step, LARGEST_STEP),
    }
    for what, (numbers, largest) in limits.items():
        if len(numbers) and numbers.max() > largest:
            raise UnsupportedModelError(f"The model has too many {what} for a scorer (more than {largest}).")
    word = (
        rank.astype(np.uint64)
        | column.astype(np.uint64) << np.uint64(COLUMN_SHIFT)
        | columns.is_category.astype(np.uint64) << np.uint64(CATEGORY_BIT)
        | step.astype(np.uint64) << np.uint64(CHILD_SHIFT)
    )
    node, leaves = np.empty_like(word), np.empty(len(word), dtype=np.int32)
    node[position], leaves[position] = word, trees.leaf_of_node
    flat = FlatForest(
        n_features=space.n_features,
        n_outputs=1,
        is_float32=space.comparison is not Comparison.FLOAT64_LESS_EQUAL,
        is_closed=space.comparison is Comparison.FLOAT32_LESS,
        zero=LIGHTGBM_ZERO if space.snaps_to_zero else -1.0,
        missing_value=float(space.missing_value),
        refuses_missing=False,
        refuses_infinite=False,
        code_rule=_CODE_RULES[space.category_rule],
        node=node,
        root=trees.root,
        depth=depth.astype(np.int32),
        leaf_of_node=leaves,
        leaf_offset=trees.leaf_offset.astype(np.int32),
        tree_output=np.zeros(trees.n_trees, dtype=np.int32),
        **columns.arrays(),
        **sets,
    )
    return flat, of_axes


def _breadth_first(trees: StateTrees) -> tuple[IntArray, IntArray]:
    """Return new node positions, level by level within each tree with adjacent siblings, and the depths."""
    is_leaf = trees.leaf_of_node >= 0
    node, tree, level = by_level(trees.root, np.where(is_leaf, -1, trees.left), trees.right)
    position, depth = np.zeros(len(is_leaf), dtype=np.int64), np.zeros(trees.n_trees, dtype=np.int64)
    position[node[np.argsort(tree, kind="stable")]] = np.arange(len(node))
    np.maximum.at(depth, tree, level)
    return position, depth


class _Columns:
    """The columns of bins of some trees, built feature by feature."""

    def __init__(self, space: StateSpace, trees: StateTrees) -> None:
        self.space, self.trees = space, trees
        self.sources: list[tuple[int, Axis]] = []
        self.source_column = [1]
        self.columns = [(0, 0, -1)]  # base, bin of NaN, bin of zero
        n_nodes = len(trees.left)
        self.column, self.rank = np.zeros((2, n_nodes), dtype=np.int64)
        self.is_category = np.zeros(n_nodes, dtype=bool)
        inner = np.flatnonzero(trees.leaf_of_node < 0)
        inner = inner[np.argsort(trees.feature[inner], kind="stable")]
        features, starts = np.unique(trees.feature[inner], return_index=True)
        for feature, nodes in zip(features.tolist(), np.split(inner, starts[1:]), strict=False):
            axis = space.axes[feature]
            if axis.codes is None:
                self._add_numeric(feature, axis, nodes)
            else:
                self.column[nodes] = self.add_states(feature, axis)
                self.is_category[nodes] = True

    def _add_numeric(self, feature: int, axis: Axis, nodes: IntArray) -> None:
        """One column for every segment of thresholds and every way of treating NaN and zero."""
        rank, start = self.trees.rank[nodes].astype(np.int64), self.trees.special_offset[nodes] - axis.n_intervals
        sides = [
            self.trees.special_left[start + state] if state >= axis.n_intervals else np.zeros(len(nodes), dtype=bool)
            for state in (axis.missing_state, axis.zero_state)
        ]
        key = sides[0] + 2 * sides[1] + 4 * (rank // _SEGMENT)
        for one in np.unique(key).tolist():
            here = key == one
            base = one // 4 * _SEGMENT
            is_interval = 0 <= axis.missing_state < axis.n_intervals
            default = min(max(axis.missing_state - base, 0), TOP_BIN) if is_interval else TOP_BIN
            self.column[nodes[here]] = len(self.columns)
            self.rank[nodes[here]] = rank[here] - base
            zero = -1 if axis.zero_state < 0 else 0 if one & 2 else TOP_BIN
            self.columns.append((base, 0 if one & 1 else default, zero))
        self._add_source(feature, axis)

    def add_states(self, feature: int, axis: Axis) -> int:
        """Add a column whose bins are the states of a feature, and return its number."""
        if axis.n_states > TOP_BIN:
            raise UnsupportedModelError(
                f"Feature {feature} has {axis.n_states} groups of categories or intervals; "
                f"a scorer takes at most {TOP_BIN}."
            )
        self.columns.append((0, max(axis.missing_state, 0), axis.zero_state))
        self._add_source(feature, axis)
        return len(self.columns) - 1

    def _add_source(self, feature: int, axis: Axis) -> None:
        self.sources.append((feature, axis))
        self.source_column.append(len(self.columns))

    def sets(self) -> dict[str, Any]:
        """Return the category sets, numbered within their trees, and give their nodes these numbers as ranks."""
        trees = self.trees
        nodes = np.flatnonzero(self.is_category)
        set_word, words = [0], [np.zeros(0, dtype=np.uint64)]
        tree_set = np.full(trees.n_trees, -1, dtype=np.int32)
        for number, node in enumerate(nodes.tolist()):
            tree = int(np.searchsorted(trees.root, node, side="right")) - 1
            if tree_set[tree] < 0:
                tree_set[tree] = number
            self.rank[node] = number - tree_set[tree]
            sides = trees.goes_left(node)
            padded = np.zeros(-(-len(sides) // 64) * 64, dtype=np.uint8)
            padded[: len(sides)] = sides
            words.append(np.packbits(padded, bitorder="little").view(np.uint64))
            set_word.append(set_word[-1] + len(words[-1]))
        return {"tree_set": tree_set, "set_word": np.array(set_word, dtype=np.int32), "word": np.concatenate(words)}

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of sources and columns for a `FlatForest`."""
        empty, axes = np.zeros(0), [axis for _, axis in self.sources]
        codes = [empty if axis.codes is None else axis.codes for axis in axes]
        base, nan, zero = zip(*self.columns, strict=True)
        int32 = {
            "source_feature": [feature for feature, _ in self.sources],
            "source_column": self.source_column,
            "source_other": [max(axis.other_state, 0) for axis in axes],
            "source_missing": [0 if axis.codes is None else max(axis.missing_state, 0) for axis in axes],
            "source_known": [-1 if axis.codes is None else axis.n_known or 0 for axis in axes],
            "source_edge": np.cumsum([0, *(len(axis.edges) for axis in axes)]),
            "source_code": np.cumsum([0, *(len(own) for own in codes)]),
            "column_base": base,
            "column_nan": nan,
            "column_zero": zero,
            "code": np.concatenate([*codes, empty]),
            "code_state": np.concatenate([*(axis.code_states for axis in axes if axis.code_states is not None), empty]),
        }
        return {
            "n_columns": len(base),
            "edge": np.concatenate([*(axis.edges for axis in axes), empty]),
            **{name: np.asarray(numbers, dtype=np.int32) for name, numbers in int32.items()},
        }
