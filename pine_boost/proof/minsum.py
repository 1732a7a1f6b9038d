"""Lower bounds on the score once a bin, a pair of bins or a leaf is fixed, by min-sum passes over the feature tree.

Whatever cannot be completed within tau is dropped; that never drops a point of the region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import ABSENT
from pine_boost.model.forest import BoolArray, IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.region.score_tables import PairTable, RegionTables, ScoreTables


@dataclass(frozen=True, eq=False)
class _Rooted:
    """The pair tables as rooted trees: features from the leaves to the roots, each with its parent."""

    order: tuple[int, ...]
    parent: dict[int, tuple[int, IntArray]]  # cost[bin of parent, bin of child]


def _root(score: ScoreTables) -> _Rooted | None:
    """Root each component at its lowest feature; None if the pairs contain a cycle."""
    adjacent: dict[int, list[PairTable]] = {}
    for pair in score.pairs:
        adjacent.setdefault(pair.first, []).append(pair)
        adjacent.setdefault(pair.second, []).append(pair)
    visited: list[int] = []
    parent: dict[int, tuple[int, IntArray]] = {}
    reached: set[int] = set()
    for root in range(len(score.bins)):
        if root in reached:
            continue
        reached.add(root)
        queue = [root]
        while queue:
            feature = queue.pop()
            visited.append(feature)
            for pair in adjacent.get(feature, ()):
                other = pair.second if pair.first == feature else pair.first
                if other not in reached:
                    reached.add(other)
                    cost = pair.cost if pair.first == feature else pair.cost.T
                    parent[other] = (feature, cost)
                    queue.append(other)
    if len(parent) != len(score.pairs):
        return None
    return _Rooted(tuple(reversed(visited)), parent)


def _upward(
    score: ScoreTables, rooted: _Rooted, own: Sequence[IntArray]
) -> tuple[list[IntArray], dict[int, IntArray], IntArray]:
    """The upward pass: per feature the cost of its subtree, per child its message to the parent, and the total.

    ``own[j]`` has shape (..., n_bins of j); leading axes are independent problems.
    """
    below = [cost.copy() for cost in own]
    message: dict[int, IntArray] = {}
    total: IntArray = np.zeros(own[0].shape[:-1], dtype=np.int64)
    for feature in rooted.order:
        if feature in rooted.parent:
            up, cost = rooted.parent[feature]
            message[feature] = (below[feature][..., None, :] + cost).min(axis=-1)
            below[up] = below[up] + message[feature]
        else:
            total = total + below[feature].min(axis=-1)
    return below, message, total


def _allowed_costs(region: RegionTables) -> list[IntArray]:
    score = region.score
    assert score is not None
    own = []
    for feature, unary in enumerate(score.unary):
        present = np.zeros(len(unary), dtype=bool)
        present[score.bins[feature][region.allowed[feature]]] = True
        own.append(np.where(present, unary, ABSENT).astype(np.int64))
    return own


def _cheapest_leaf_sum(score: ScoreTables) -> int:
    """The least that leaf costs can add to the score."""
    if score.trees is None:
        return 0
    return int(np.minimum.reduceat(score.trees.cost, score.trees.trees.leaf_offset[:-1]).sum())


def cheapest_scores(region: RegionTables) -> tuple[list[IntArray], list[IntArray]] | None:
    """The least score with each feature in each bin, and with those of each pair table in each pair of bins.

    None if there is nothing to bound.
    """
    if region.score is None or region.tau is None:
        return None
    rooted = _root(region.score)
    if rooted is None:
        return None
    own = _allowed_costs(region)
    below, message, total = _upward(region.score, rooted, own)
    whole = [np.zeros(0, dtype=np.int64)] * len(own)
    for feature in reversed(rooted.order):
        if feature not in rooted.parent:
            rest = total - below[feature].min()
            whole[feature] = below[feature] + rest + _cheapest_leaf_sum(region.score)
        else:
            up, cost = rooted.parent[feature]
            above = whole[up] - message[feature]
            whole[feature] = below[feature] + (above[:, None] + cost).min(axis=0)
    of_pairs = []
    for pair in region.score.pairs:
        if pair.second in rooted.parent and rooted.parent[pair.second][0] == pair.first:
            above = whole[pair.first] - message[pair.second]
            of_pairs.append(above[:, None] + pair.cost + below[pair.second][None])
        else:
            above = whole[pair.second] - message[pair.first]
            of_pairs.append(below[pair.first][:, None] + pair.cost + above[None])
    return whole, of_pairs


def cheapest_leaves(region: RegionTables, trees: StateTrees, allowed: Sequence[BoolArray]) -> BoolArray:
    """Whether each leaf can be reached with a score of at most tau; True may be wrong, False never is."""
    affordable = np.ones(trees.n_leaves, dtype=bool)
    score = region.score
    if score is None or region.tau is None:
        return affordable
    cost = region.leaf_cost
    if cost is not None:
        cheapest = np.minimum.reduceat(cost, trees.leaf_offset[:-1])
        extra = cost - cheapest[trees.leaf_tree]
        affordable &= int(cheapest.sum()) + extra <= region.tau
    rooted = _root(score)
    if rooted is None or not score.pairs:
        return affordable
    own = []
    for feature, unary in enumerate(score.unary):
        bins = score.bins[feature]
        present = np.zeros((trees.n_leaves, len(unary)), dtype=bool)
        for index in np.unique(bins[allowed[feature]]):
            states = np.flatnonzero(allowed[feature] & (bins == index))
            present[:, index] = leaf_flags(trees, np.bitwise_or.reduce(trees.masks.of(feature, states), axis=0))
        own.append(np.where(present, unary, ABSENT).astype(np.int64))
    _, _, total = _upward(score, rooted, own)
    return affordable & (total + _cheapest_leaf_sum(score) <= region.tau)


def leaf_flags(trees: StateTrees, words: npt.NDArray[np.uint64]) -> BoolArray:
    """The bits of every tree as one flag per leaf."""
    tree = trees.leaf_tree
    position = (np.arange(trees.n_leaves) - trees.leaf_offset[tree]).astype(np.uint64)
    word = words[tree, (position // np.uint64(64)).astype(np.int64)]
    return ((word >> (position % np.uint64(64))) & np.uint64(1)).astype(bool)
