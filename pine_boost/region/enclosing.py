"""Larger regions that are easier to prove on: isolation trees cut off at a depth.

In come the tables of a region; out go tables of regions that contain it, from the largest inwards.
Whatever holds on one of them holds on the region. Scores without trees of their own have none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pine_boost.model.routing import Shape, make_trees
from pine_boost.model.subtrees import node_levels
from pine_boost.region.score_tables import RegionTables, TreeCost

DEPTHS = (4,)


def enclosing(tables: RegionTables) -> list[tuple[str, RegionTables]]:
    """Regions that contain this one, each with a few words on what it leaves out."""
    score = tables.score
    if tables.tau is None or score is None or score.trees is None or score.trees.of_model:
        return []
    larger = [("whole domain", replace(tables, score=None, tau=None))]
    for depth in DEPTHS:
        if depth < score.trees.trees.depth:
            trees = cut_trees(score.trees, depth)
            cut = replace(tables, score=replace(score, trees=trees))
            larger.append((f"isolation trees of depth {depth}", cut))
    return larger


def cut_trees(cost: TreeCost, depth: int) -> TreeCost:
    """The trees down to ``depth``; a cut subtree costs what its cheapest leaf costs."""
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
        Shape(root, ends, left, right),
        trees.feature[kept],
        trees.rank[kept],
        trees.first_special[kept],
        trees.special_offset[kept],
        trees.special_left,
    )
    leaf_cost = np.zeros(shorter.n_leaves, dtype=np.int64)
    leaf_cost[shorter.leaf_of_node[ends]] = cheapest[kept][ends]
    return TreeCost(shorter, leaf_cost, cost.of_model)
