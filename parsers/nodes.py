"""The trees of a model file as one stack of nodes: what readers fill, exporters cut and writers list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import Trimming, chosen_codes, node_levels, ranges

NO_CODES = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees; tree ``t`` owns ``offset[t]:offset[t + 1]``, its root first.

    Attributes
    ----------
    offset : int64 (n_trees + 1,)
    left, right : int64 (n_nodes,)
        Positions in the stack, -1 at leaves.
    record : structured array (n_nodes,)
        What the library itself stores of a node, under names of its file; ``nodes[name]`` is a field.
    category_offset, category
        The category codes of node ``i`` are ``category[category_offset[i]:category_offset[i + 1]]``.
    """

    offset: IntArray
    left: IntArray
    right: IntArray
    record: npt.NDArray[Any]
    category_offset: IntArray
    category: npt.NDArray[Any]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.record[name]

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    @property
    def is_leaf(self) -> BoolArray:
        """Whether each node is a leaf."""
        return self.left < 0

    def codes_of(self, node: int) -> npt.NDArray[Any]:
        """Return the category codes in the set of a node."""
        return self.category[self.category_offset[node] : self.category_offset[node + 1]]

    def changed(self, **fields: Any) -> Nodes:
        """Return the same trees with other values in some fields of the record."""
        record = self.record.copy()
        for name, values in fields.items():
            record[name] = values
        return replace(self, record=record)

    def trimmed(self, trimming: Trimming) -> Nodes:
        """Return the remaining nodes; a node that became a leaf keeps its record."""
        own = trimming
        return self._chosen(own.node, own.offset, own.left, own.right, own.category_kept)

    def reached(self, keep: BoolArray) -> Nodes:
        """Keep some nodes of every tree, its root among them; children stay or go with their parents."""
        position = np.append(np.cumsum(keep) - 1, -1)  # -1 stays -1
        offset = np.concatenate([[0], np.cumsum(keep)])[self.offset]
        return self._chosen(np.flatnonzero(keep), offset, position[self.left[keep]], position[self.right[keep]])

    def pick(self, trees: npt.ArrayLike) -> Nodes:
        """Return some trees, in the order in which they are named."""
        chosen = np.asarray(trees, dtype=np.int64)
        sizes = np.diff(self.offset)[chosen]
        offset = np.concatenate([[0], np.cumsum(sizes)])
        node = ranges(self.offset[chosen], sizes)
        moved = np.arange(len(node)) - node
        left, right = (np.where(child[node] < 0, -1, child[node] + moved) for child in (self.left, self.right))
        return self._chosen(node, offset, left, right)

    def _chosen(
        self, node: IntArray, offset: IntArray, left: IntArray, right: IntArray, is_kept: BoolArray | None = None
    ) -> Nodes:
        category_offset, entries = chosen_codes(self.category_offset, node, left < 0, is_kept)
        return Nodes(offset, left, right, self.record[node], category_offset, self.category[entries])

    def totals(self, values: npt.NDArray[Any]) -> FloatArray:
        """Return the sum of the values of the leaves at and below every node."""
        total = np.where(self.is_leaf, values, 0.0)
        for level in reversed(node_levels(self.offset[:-1], self.is_leaf, self.left, self.right)):
            inner = level[~self.is_leaf[level]]
            total[inner] = total[self.left[inner]] + total[self.right[inner]]
        return total

    def largest(self, values: npt.NDArray[Any]) -> FloatArray:
        """Return the largest |value| of the leaves of every tree, by output if they have several."""
        is_leaf = self.is_leaf.reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray(np.maximum.reduceat(np.where(is_leaf, np.abs(values), 0.0), self.offset[:-1], axis=0))

    def forest(
        self, feature: IntArray, threshold: FloatArray, value: FloatArray, is_categorical: Any = False, **fields: Any
    ) -> Forest:
        """Build a Forest of these trees; what is given for all nodes is read only where it has a meaning.

        ``fields`` are further fields of `Forest`, ``default_left`` and ``n_outputs`` among them.
        """
        n_nodes, n_trees, n_outputs = len(self.left), self.n_trees, fields["n_outputs"]
        kind = np.select([self.is_leaf, is_categorical], [SplitKind.LEAF, SplitKind.CATEGORICAL], SplitKind.NUMERIC)
        value = np.where(self.is_leaf[:, None], value.reshape(n_nodes, -1), 0.0)
        common = {
            "tree_offset": self.offset,
            "feature": np.where(self.is_leaf, -1, feature).astype(np.int32),
            "threshold": np.where(kind == SplitKind.NUMERIC, threshold, 0.0),
            "left": self.left,
            "right": self.right,
            "kind": kind.astype(np.uint8),
            "missing": np.zeros(n_nodes, dtype=np.uint8),
            "set_left": np.zeros(n_nodes, dtype=bool),
            "category_offset": self.category_offset,
            "category": self.category.astype(np.int32),
            "value": value,
            "tree_output": np.full(n_trees, -1 if value.shape[1] > 1 else 0, dtype=np.int32),
            "tree_round": np.arange(n_trees, dtype=np.int32),
            "tree_bias": np.zeros(n_trees),
            "intercept": np.zeros(n_outputs),
            "free_intercept": True,
            "arithmetic": np.float64,
        }
        fields["default_left"] = fields["default_left"] & ~self.is_leaf
        return Forest(**{**common, **fields})


def one_tree(left: npt.ArrayLike, right: npt.ArrayLike, record: npt.NDArray[Any], sets: Sequence[Any] = ()) -> Nodes:
    """Return a stack of one tree; ``sets`` are the category codes of every node, or of none."""
    counts = [len(codes) for codes in sets] or np.zeros(len(record), dtype=np.int64)
    return Nodes(
        np.array([0, len(record)]),
        np.asarray(left, dtype=np.int64),
        np.asarray(right, dtype=np.int64),
        record,
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([NO_CODES, *sets]),
    )


def constant_trees(record: npt.NDArray[Any]) -> Nodes:
    """Return trees of one leaf each."""
    leaf = np.full(len(record), -1)
    offsets = np.arange(len(record) + 1)
    return Nodes(offsets, leaf, leaf, record, np.zeros_like(offsets), NO_CODES)


def stack(parts: Sequence[Nodes]) -> Nodes:
    """Join stacks of the same library in their order."""

    def joined(name: str, sizes: Sequence[int], first: Sequence[int] = ()) -> IntArray:
        starts = np.cumsum([0, *sizes])
        arrays = [getattr(part, name)[len(first) :] for part in parts]
        moved = [np.where(one < 0, -1, one + start) for one, start in zip(arrays, starts, strict=False)]
        return np.concatenate([np.array(first, dtype=np.int64), *moved])

    n_nodes, n_codes = [len(part.left) for part in parts], [len(part.category) for part in parts]
    return Nodes(
        joined("offset", n_nodes, [0]),
        joined("left", n_nodes),
        joined("right", n_nodes),
        np.concatenate([part.record for part in parts]),
        joined("category_offset", n_codes, [0]),
        np.concatenate([part.category for part in parts]),
    )
