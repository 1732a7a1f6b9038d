"""Which leaf values may not exceed which others, so that every tree rises or falls with a feature.

In come a problem and directions of features; out go pairs of leaves of one tree, and leaf values in
whole numbers that keep them. Such a pair is next to each other along a feature: some input reaches
the one just below a threshold, and the other just above it with all other values the same. Where
every pair is in order, so is the tree, on every input. A missing value has no place in the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.proof.problem import Problem

Directions = tuple[int, ...]  # 1 rises, -1 falls, 0 is free, for every feature


def ordered_leaves(problem: Problem, directions: Directions) -> IntArray:
    """Pairs of leaves: the first may not exceed the second; (n_pairs, 2)."""
    pairs = []
    for feature, low, high in _neighbours(problem, np.flatnonzero(directions)):
        pairs.append((low, high) if directions[feature] > 0 else (high, low))
    return np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2)


def kept_directions(problem: Problem) -> Directions:
    """The directions that every tree of the original keeps, of a model that does not name any.

    Where it was trained with constraints, these are among them.
    """
    space, forest = problem.space, problem.forest
    value = forest.leaf_vectors()[problem.leaf_node].sum(axis=1)  # a tree has one output
    rises = np.zeros(space.n_features, dtype=bool)
    falls = np.zeros(space.n_features, dtype=bool)
    numeric = [feature for feature, axis in enumerate(space.axes) if axis.codes is None]
    for feature, low, high in _neighbours(problem, numeric):
        rises[feature] |= value[low] < value[high]
        falls[feature] |= value[low] > value[high]
    return tuple(int(up) - int(down) for up, down in zip(rises, falls, strict=True))


def in_order(value: npt.NDArray[Any], pairs: IntArray) -> npt.NDArray[Any]:
    """The least values that are not below the given ones and keep every pair."""
    value = value.copy()
    while len(pairs) and (value[pairs[:, 0]] > value[pairs[:, 1]]).any():
        np.maximum.at(value, pairs[:, 1], value[pairs[:, 0]])
    return value


def renamed(pairs: IntArray, column: IntArray) -> IntArray:
    """Pairs of leaves as pairs of their columns, each once; a leaf without a column is -1."""
    found = column[pairs].reshape(-1, 2)
    found = found[(found >= 0).all(axis=1) & (found[:, 0] != found[:, 1])]
    return np.unique(found, axis=0)


def _neighbours(problem: Problem, features: Iterable[int]) -> list[tuple[int, int, int]]:
    """Feature, and the leaves below and above a threshold that one input can cross alone.

    Two such leaves part at a split by this feature, and at that threshold.
    """
    asked = {int(feature) for feature in features}
    trees, n_states = problem.trees, problem.space.n_states
    found = []
    for root in trees.root.tolist() if asked else ():
        boxes: dict[int, dict[int, int]] = {root: {}}  # node: states of each feature, as bits
        order = [root]
        for node in order:
            if trees.leaf_of_node[node] >= 0:
                continue
            feature = int(trees.feature[node])
            left = _bits(trees.goes_left(node, int(n_states[feature])))
            own = boxes[node].get(feature, (1 << int(n_states[feature])) - 1)
            for child, states in ((trees.left, own & left), (trees.right, own & ~left)):
                boxes[int(child[node])] = {**boxes[node], feature: states}
                order.append(int(child[node]))
        below: dict[int, list[int]] = {}
        for node in reversed(order):
            if trees.leaf_of_node[node] >= 0:
                below[node] = [node]
                continue
            lower, upper = below[int(trees.left[node])], below[int(trees.right[node])]
            below[node] = lower + upper
            feature, rank = int(trees.feature[node]), int(trees.rank[node])
            if feature not in asked or rank + 1 >= problem.space.axes[feature].n_intervals:
                continue
            lower = [leaf for leaf in lower if boxes[leaf][feature] >> rank & 1]
            upper = [leaf for leaf in upper if boxes[leaf][feature] >> (rank + 1) & 1]
            found += [
                (feature, int(trees.leaf_of_node[low]), int(trees.leaf_of_node[high]))
                for low in lower
                for high in upper
                if _meet(boxes[low], boxes[high], feature)
            ]
    return found


def _meet(one: dict[int, int], other: dict[int, int], but: int) -> bool:
    """Whether two boxes share states of every feature but one."""
    return all(one[f] & other.get(f, -1) for f in one if f != but) and all(
        states for f, states in other.items() if f != but
    )


def _bits(states: npt.NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(states, bitorder="little").tobytes(), "little")
