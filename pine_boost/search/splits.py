"""The splits of a forest, and what is left of its trees when some of them are collapsed.

A split stays only if all splits above it do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import BoolArray, Forest, IntArray, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.subtrees import Subtrees, forest_subtrees
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
    subtrees : Subtrees
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
    subtrees: Subtrees
    node: IntArray
    parent: IntArray
    first: IntArray
    last: IntArray
    tree: IntArray
    leaf_node: IntArray
    leaf_tree: IntArray

    @property
    def is_root(self) -> BoolArray:
        """Which splits are the root of their tree."""
        return np.asarray(self.parent < 0)

    def size(self, kept: Kept) -> int:
        """Leaves of the trees that are left: one more than splits in every tree that has any."""
        return int(np.count_nonzero(kept) + np.count_nonzero(kept & self.is_root))

    def ends(self, kept: Kept) -> Kept:
        """The kept splits with only leaves below, which can be collapsed next."""
        above = self.parent[kept & ~self.is_root]
        ends = kept.copy()
        ends[above] = False
        return ends

    def ranges(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Largest minus smallest leaf value below every split."""
        return self.subtrees.ranges(values, self.node)

    def groups(self, kept: Kept) -> IntArray:
        """The merged leaf that each leaf of the original belongs to, -1 if its tree is dropped."""
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
        """The model with all other splits collapsed; the leaves below each of them agree already."""
        value, is_leaf = pruned.value_int.copy(), np.zeros(self.forest.n_nodes, dtype=bool)
        kept = self._without_twins(value[self.leaf_node, 0], kept)
        gone = ~kept
        # only the highest collapsed split becomes a leaf; what is below it is gone
        highest = gone & (self.is_root | kept[self.parent])
        value[self.node[highest]] = value[self.leaf_node[self.first[highest]]]
        is_leaf[self.node[highest]] = True
        is_leaf[self.forest.kind == SplitKind.LEAF] = True
        dropped = np.setdiff1d(np.arange(self.forest.n_trees), pruned.kept)
        value[np.isin(self.forest.node_tree, dropped)] = 0
        return replace(pruned, value_int=value, is_leaf=is_leaf)

    def _without_twins(self, value: npt.NDArray[Any], kept: Kept) -> Kept:
        """Splits above different values; the root of a kept tree stays."""
        return kept & ((self.ranges(value) > 0) | self.is_root)

    def spared(self, problem: Problem, seen: npt.NDArray[Any], value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Leaf values of a model in which unreached leaves take the value of their neighbours.

        No input of the region and no row reaches such a leaf (``seen`` are leaves of rows). From the
        leaves upwards, if the reached leaves below a split have one value, the others take it.
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
    forest, subtrees = problem.forest, forest_subtrees(problem.forest)
    node = subtrees.inner
    position = np.full(forest.n_nodes + 1, -1)  # the last one is for roots
    position[node] = np.arange(len(node))
    return Splits(
        forest=forest,
        subtrees=subtrees,
        node=node,
        parent=position[subtrees.parent[node]],
        first=subtrees.first[node],
        last=subtrees.last[node],
        tree=forest.node_tree[node],
        leaf_node=subtrees.leaf_node,
        leaf_tree=subtrees.leaf_tree,
    )
