"""Larger regions that are easier to prove in: isolation trees cut off at a depth.

Whatever is proved in a larger region also holds in the region itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pine_boost.model.routing import TreeShape, make_trees
from pine_boost.model.trimming import node_levels
from pine_boost.region.score_tables import RegionTables, TreeCost

DEPTHS = (4,)


def enclosing(tables: RegionTables) -> list[tuple[str, RegionTables]]:
    """Regions that contain this one, largest first, each with a short name; empty if CP-SAT copes without them."""
    extra = tables.extra_trees
    if extra is None or tables.score is None:
        return []
    larger = [("whole domain", replace(tables, score=None, tau=None))]
    for depth in DEPTHS:
        if depth < extra.trees.depth:
            cut = replace(tables, score=replace(tables.score, trees=cut_trees(extra, depth)))
            larger.append((f"isolation trees of depth {depth}", cut))
    return larger


def cut_trees(cost: TreeCost, depth: int) -> TreeCost:
    """The trees down to ``depth``; a subtree that is cut off costs what its cheapest leaf costs."""
    trees = cost.trees
    is_leaf = trees.leaf_of_node >= 0
    levels = node_levels(trees.root, is_leaf, trees.left, trees.right)
    cheapest = np.where(is_leaf, cost.cost[np.maximum(trees.leaf_of_node, 0)], 0)
    for level in reversed(levels):
        inner = level[~is_leaf[level]]
        cheapest[inner] = np.minimum(cheapest[trees.left[inner]], cheapest[trees.right[inner]])
    kept = np.sort(np.concatenate(levels[: depth + 1]))
    ends = is_leaf.copy()
    if depth < len(levels):
        ends[levels[depth]] = True
    number = np.full(len(is_leaf), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    ends, root = ends[kept], number[trees.root]
    left, right = number[trees.left[kept]], number[trees.right[kept]]
    shorter = make_trees(
        TreeShape(root, ends, left, right),
        trees.feature[kept],
        trees.rank[kept],
        trees.first_special[kept],
        trees.special_offset[kept],
        trees.special_left,
    )
    leaf_cost = np.zeros(shorter.n_leaves, dtype=np.int64)
    leaf_cost[shorter.leaf_of_node[ends]] = cheapest[kept][ends]
    return TreeCost(shorter, leaf_cost, cost.of_model)
