"""Smaller blocks of a LightGBM text: nodes left out, other leaf values, trees of one leaf.

In come a checked TreeBlock and the nodes that remain of it; out goes a TreeBlock with its gains
kept, counts and weights of what was cut added up. Numbers the nodes anew, changes no split.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.trimming import Trimming
from pine_boost.parsers.lightgbm.tree import TreeBlock

MAX_COUNT = 2**31 - 1  # LightGBM reads counts as int32


def constant_tree(like: TreeBlock, value: float, shrinkage: float = 1.0) -> TreeBlock:
    """A tree of one leaf that covers the data of another tree."""
    empty = {
        field.name: getattr(like, field.name)[:0]
        for field in fields(TreeBlock)
        if field.name not in ("shrinkage", "leaf_value", "leaf_weight", "leaf_count")
    }
    return TreeBlock(
        **{**empty, "cat_boundaries": like.cat_boundaries[:1]},
        leaf_value=np.array([value]),
        leaf_weight=like.leaf_weight.sum(keepdims=True),
        leaf_count=np.minimum(like.leaf_count.sum(keepdims=True), MAX_COUNT),
        shrinkage=shrinkage,
    )


def trim_block(block: TreeBlock, forest: Forest, trimming: Trimming, index: int, leaf_value: FloatArray) -> TreeBlock:
    """The block with the remaining nodes of tree ``kept[index]``.

    Parameters
    ----------
    block : TreeBlock
        Of that tree; the Forest lists its inner nodes first, then its leaves.
    forest : Forest
    trimming : Trimming
    index : int
    leaf_value : float64
        A value for every remaining node of the tree; read at the leaves.
    """
    part = trimming.part(index)
    is_leaf = trimming.is_leaf[part]
    node = trimming.node[part]
    if is_leaf[0]:
        return constant_tree(block, float(leaf_value[0]), block.shrinkage)
    local = node - forest.tree_offset[trimming.kept[index]]
    inner, leaves = local[~is_leaf], local[is_leaf]
    number = np.empty(len(local), dtype=np.int64)
    number[~is_leaf] = np.arange(len(inner))
    number[is_leaf] = ~np.arange(len(leaves))
    left, right = trimming.children(index)
    category_sets = _category_sets(forest, trimming, node[~is_leaf], block.is_categorical[inner])
    threshold = block.threshold[inner].copy()
    threshold[block.is_categorical[inner]] = np.arange(len(category_sets))
    sizes = [len(words) for words in category_sets]
    count = _totals(block, block.leaf_count.astype(np.float64))[leaves]
    return TreeBlock(
        split_feature=block.split_feature[inner],
        split_gain=block.split_gain[inner],
        threshold=threshold,
        decision_type=block.decision_type[inner],
        left_child=number[left[~is_leaf]],
        right_child=number[right[~is_leaf]],
        leaf_value=leaf_value[is_leaf],
        leaf_weight=_totals(block, block.leaf_weight)[leaves],
        leaf_count=np.minimum(count, MAX_COUNT).astype(np.int64),
        internal_value=block.internal_value[inner],
        internal_weight=block.internal_weight[inner],
        internal_count=block.internal_count[inner],
        cat_boundaries=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        cat_threshold=np.concatenate([*category_sets, np.zeros(0, dtype=np.int64)]),
        shrinkage=block.shrinkage,
    )


def with_means(block: TreeBlock, shrinkage: float) -> TreeBlock:
    """The informative values of inner nodes become the mean of their data."""
    n_inner = block.n_leaves - 1
    weight = block.leaf_count.astype(np.float64)
    if not weight.any():
        weight = np.ones(block.n_leaves)
    total, count = _totals(block, weight * block.leaf_value), _totals(block, weight)
    mean = total[:n_inner] / np.maximum(count[:n_inner], 1)
    return replace(block, internal_value=mean, shrinkage=shrinkage)


def _totals(block: TreeBlock, of_leaf: FloatArray) -> FloatArray:
    """Sums over the leaves below every inner node, then the leaves themselves."""
    n_inner = block.n_leaves - 1
    total = np.concatenate([np.zeros(n_inner), of_leaf])
    levels, frontier = [], np.zeros(min(n_inner, 1), dtype=np.int64)
    while len(frontier):
        levels.append(frontier)
        both = np.concatenate([block.left_child[frontier], block.right_child[frontier]])
        frontier = both[both >= 0]
    for nodes in reversed(levels):
        for child in (block.left_child[nodes], block.right_child[nodes]):
            total[nodes] += total[np.where(child >= 0, child, n_inner + ~child)]
    return total


def _category_sets(
    forest: Forest, trimming: Trimming, inner: IntArray, is_categorical: npt.NDArray[np.bool_]
) -> list[IntArray]:
    """The 32-bit words of the set of each remaining categorical node, in order."""
    sets = []
    for node in inner[is_categorical]:
        codes = forest.categories_of(int(node))
        if trimming.category_kept is not None:
            start, end = forest.category_offset[node : node + 2]
            codes = codes[trimming.category_kept[start:end]]
        bits = np.zeros(32 * (int(codes.max(initial=0)) // 32 + 1), dtype=np.uint8)
        bits[codes] = 1
        words = np.packbits(bits, bitorder="little").view("<u4").astype(np.int64)
        sets.append(words)
    return sets
