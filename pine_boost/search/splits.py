"""The splits of a forest, and what is left of its trees when some of them go.

In comes a problem; out go its inner nodes with the leaves below each, and for a set of splits that
stay the leaves that share a value. A split stays only if all above it do. Proposes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import BoolArray, Forest, IntArray, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import trim_pruned
from pine_boost.proof.minsum import cheapest_leaves
from pine_boost.proof.problem import Problem

Kept = BoolArray  # which splits stay


@dataclass(frozen=True, eq=False)
class Splits:
    """The inner nodes of all trees, parents before children.

    Attributes
    ----------
    forest : Forest
    node : int64 (n_splits,)
    parent : int64 (n_splits,)
        Position of the split above, -1 at a root.
    first, last : int64 (n_splits,)
        The leaves below a split are ``first:last``.
    tree : int64 (n_splits,)
    leaf_node : int64 (n_leaves,)
    leaf_tree : int64 (n_leaves,)
    """

    forest: Forest
    node: IntArray
    parent: IntArray
    first: IntArray
    last: IntArray
    tree: IntArray
    leaf_node: IntArray
    leaf_tree: IntArray

    @property
    def is_root(self) -> BoolArray:
        """Which splits are the first of their tree."""
        return np.asarray(self.parent < 0)

    def size(self, kept: Kept) -> int:
        """Leaves of the trees that are left: one more than splits in every tree that has any."""
        return int(np.count_nonzero(kept) + np.count_nonzero(kept & self.is_root))

    def ends(self, kept: Kept) -> Kept:
        """The splits that stay with nothing but leaves below: those that can go next."""
        above = self.parent[kept & ~self.is_root]
        ends = kept.copy()
        ends[above] = False
        return ends

    def ranges(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Largest minus smallest leaf value below every split."""
        pairs = np.stack([self.first, self.last], axis=1).ravel()
        padded = np.append(values, values[-1:])
        highest = np.maximum.reduceat(padded, pairs)[::2]
        return np.asarray(highest - np.minimum.reduceat(padded, pairs)[::2])

    def groups(self, kept: Kept) -> IntArray:
        """The common leaf that each leaf of the original belongs to, -1 where the tree is gone."""
        group = np.arange(len(self.leaf_node))
        for split in np.flatnonzero(~kept)[::-1]:
            group[self.first[split] : self.last[split]] = self.first[split]
        gone = np.ones(self.forest.n_trees, dtype=bool)
        gone[self.tree[kept & self.is_root]] = False
        group[gone[self.leaf_tree]] = -1
        there = group >= 0
        group[there] = np.unique(group[there], return_inverse=True)[1]
        return group

    def of_model(self, pruned: PrunedForest | None) -> Kept:
        """The splits that a model still has."""
        if pruned is None:
            return np.ones(len(self.node), dtype=bool)
        trimming = trim_pruned(pruned)
        remaining = np.zeros(self.forest.n_nodes, dtype=bool)
        remaining[trimming.node[~trimming.is_leaf]] = True
        return np.asarray(remaining[self.node])

    def collapse(self, pruned: PrunedForest, kept: Kept) -> PrunedForest:
        """The model without the splits that go; leaves below one of them agree already."""
        value, is_leaf = pruned.value_int.copy(), np.zeros(self.forest.n_nodes, dtype=bool)
        kept = self._without_twins(value[self.leaf_node, 0], kept)
        gone = ~kept
        # only the highest split that goes becomes a leaf; what is below it is not there any more
        highest = gone & (self.is_root | kept[self.parent])
        value[self.node[highest]] = value[self.leaf_node[self.first[highest]]]
        is_leaf[self.node[highest]] = True
        is_leaf[self.forest.kind == SplitKind.LEAF] = True
        dropped = np.setdiff1d(np.arange(self.forest.n_trees), pruned.kept)
        value[np.isin(self.forest.node_tree, dropped)] = 0
        return replace(pruned, value_int=value, is_leaf=is_leaf)

    def _without_twins(self, value: npt.NDArray[Any], kept: Kept) -> Kept:
        """Splits that still tell two values apart; the first of a tree stays with it."""
        return kept & ((self.ranges(value) > 0) | self.is_root)

    def spared(self, problem: Problem, seen: npt.NDArray[Any], value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Leaf values of a model where leaves that matter to nobody take their neighbours'.

        Such a leaf is one that no input of the region and no row reaches (``seen`` are leaves of
        rows). From the leaves upwards a split with one side of that kind takes the other's value,
        where that is one value.
        """
        region = problem.region
        alive = cheapest_leaves(region, problem.trees, problem.masks, region.allowed)
        alive[np.unique(seen)] = True
        value = value.copy()
        for split in range(len(self.node) - 1, -1, -1):
            below = slice(self.first[split], self.last[split])
            own = value[below][alive[below]]
            if 0 < len(own) < self.last[split] - self.first[split] and np.all(own == own[0]):
                value[below] = own[0]
        return value


def find_splits(problem: Problem) -> Splits:
    """The splits of a problem's forest, level by level."""
    forest, leaf_node = problem.forest, problem.leaf_node
    levels = [forest.tree_offset[:-1]]
    while len(levels[-1]):
        inner = levels[-1][forest.left[levels[-1]] >= 0]
        levels.append(np.concatenate([forest.left[inner], forest.right[inner]]))
    node = np.concatenate([level[forest.left[level] >= 0] for level in levels])
    position = np.full(forest.n_nodes, -1)
    position[node] = np.arange(len(node))
    above = np.full(forest.n_nodes, -1)
    above[forest.left[node]] = above[forest.right[node]] = node
    parent = np.where(above[node] >= 0, position[above[node]], -1)
    first, last = np.zeros(forest.n_nodes, np.int64), np.zeros(forest.n_nodes, np.int64)
    first[leaf_node] = np.arange(len(leaf_node))
    last[leaf_node] = first[leaf_node] + 1
    for split in node[::-1]:
        children = [forest.left[split], forest.right[split]]
        first[split], last[split] = first[children].min(), last[children].max()
    return Splits(
        forest,
        node,
        parent,
        first[node],
        last[node],
        forest.node_tree[node],
        leaf_node,
        problem.trees.leaf_tree.astype(np.int64),
    )
