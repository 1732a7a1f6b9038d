"""Larger regions that are easier to prove on: isolation trees cut off at a depth.

In come the tables of a region; out go tables of regions that contain it, from the largest inwards.
Whatever holds on one of them holds on the region. Scores without trees of their own have none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pine_boost.model.forest import IntArray
from pine_boost.model.routing import StateTrees, number_leaves
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
    levels = _levels(trees)
    is_leaf = trees.leaf_of_node >= 0
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
    ends, own = ends[kept], np.arange(len(kept))
    root = number[trees.root]
    left, right = (np.where(ends, own, number[child[kept]]) for child in (trees.left, trees.right))
    leaf_of_node, leaf_offset, n_levels = number_leaves(root, ends, left, right)
    leaf_cost = np.zeros(int(leaf_offset[-1]), dtype=np.int64)
    leaf_cost[leaf_of_node[ends]] = cheapest[kept][ends]
    shorter = StateTrees(
        root=root.astype(np.int32),
        feature=np.where(ends, 0, trees.feature[kept]).astype(np.int32),
        rank=np.where(ends, -1, trees.rank[kept]).astype(np.int32),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        first_special=np.where(ends, np.iinfo(np.int32).max, trees.first_special[kept]).astype(
            np.int32
        ),
        special_offset=trees.special_offset[kept],
        special_left=trees.special_left,
        leaf_of_node=leaf_of_node,
        leaf_offset=leaf_offset,
        depth=n_levels,
    )
    return TreeCost(shorter, leaf_cost, cost.of_model)


def _levels(trees: StateTrees) -> list[IntArray]:
    """The nodes of all trees by depth."""
    levels = [trees.root.astype(np.int64)]
    while True:
        inner = levels[-1][trees.leaf_of_node[levels[-1]] < 0]
        if len(inner) == 0:
            return levels
        levels.append(np.concatenate([trees.left[inner], trees.right[inner]]).astype(np.int64))
