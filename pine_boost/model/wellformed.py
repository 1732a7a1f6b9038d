"""Whether the arrays of a Forest form trees; parsers check their files in more detail before.

In comes a Forest; nothing goes out. Refuses wrong lengths, children outside their tree, cycles,
orphans, unknown features, and numbers that are not finite.
"""

from __future__ import annotations

import numpy as np

from pine_boost.errors import MalformedModelError
from pine_boost.model.forest import Forest
from pine_boost.model.rules import SplitKind


def check_trees(forest: Forest) -> None:
    """Refuse arrays that do not form trees."""
    n_nodes, n_trees = len(forest.feature), len(forest.tree_offset) - 1
    lengths = {
        "threshold": n_nodes,
        "left": n_nodes,
        "right": n_nodes,
        "default_left": n_nodes,
        "kind": n_nodes,
        "missing": n_nodes,
        "set_left": n_nodes,
        "value": n_nodes,
        "category_offset": n_nodes + 1,
        "tree_output": n_trees,
        "tree_round": n_trees,
        "tree_bias": n_trees,
        "intercept": forest.n_outputs,
    }
    for name, length in lengths.items():
        if len(getattr(forest, name)) != length:
            found = len(getattr(forest, name))
            raise MalformedModelError(f"Forest.{name} has {found} entries, expected {length}.")
    if n_trees < 1 or np.any(np.diff(forest.tree_offset) < 1):
        raise MalformedModelError("A Forest needs at least one tree, and every tree a node.")
    if forest.value.ndim != 2 or forest.value.shape[1] not in (1, forest.n_outputs):
        raise MalformedModelError(f"Forest.value has shape {forest.value.shape}.")
    inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
    tree = forest.node_tree
    for child in (forest.left[inner], forest.right[inner]):
        if np.any((child < 0) | (child >= n_nodes)) or np.any(tree[child] != tree[inner]):
            raise MalformedModelError("A child lies outside its tree.")
    children = np.concatenate([forest.left[inner], forest.right[inner]])
    # n nodes, every one but the roots with exactly one parent, and no cycle: a tree each
    parents = np.bincount(children, minlength=n_nodes)
    is_root = np.zeros(n_nodes, dtype=bool)
    is_root[forest.tree_offset[:-1]] = True
    if np.any(parents != ~is_root) or not _all_reachable(forest):
        raise MalformedModelError("The nodes of a tree do not form a tree (cycle or orphan).")
    split_feature = forest.feature[inner]
    if np.any((split_feature < 0) | (split_feature >= forest.n_features)):
        raise MalformedModelError("A split names a feature that the model does not have.")
    if not (np.all(np.isfinite(forest.value)) and np.all(np.isfinite(forest.intercept))):
        raise MalformedModelError("A leaf value or intercept is not finite.")
    if np.any(np.isnan(forest.threshold)):
        raise MalformedModelError("A threshold is NaN.")


def _all_reachable(forest: Forest) -> bool:
    frontier = forest.tree_offset[:-1]
    seen = 0
    while len(frontier) and seen <= forest.n_nodes:
        seen += len(frontier)
        inner = frontier[forest.kind[frontier] != SplitKind.LEAF]
        frontier = np.concatenate([forest.left[inner], forest.right[inner]])
    return seen == forest.n_nodes
