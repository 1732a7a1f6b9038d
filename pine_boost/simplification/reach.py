"""Which nodes of a forest some input reaches, decided on states, exactly.

In comes a Forest; out go the nodes that an input can reach and the category codes that can occur
at their splits. NaN, unseen categories and intervals without a float are states like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import Forest, SplitKind
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import StateSpace, build_space

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Reach:
    """What can happen in a forest.

    Attributes
    ----------
    alive : bool (n_nodes,)
        Some input reaches the node.
    category_alive : bool
        Over the entries of ``Forest.category``: some input of that category reaches the split.
    """

    alive: BoolArray
    category_alive: BoolArray


def find_reach(forest: Forest) -> Reach:
    """Walk every tree once with the states that the path still allows.

    Features are independent, so a node is reached iff every feature has a state left there, and
    only the feature of the split can lose its last one.
    """
    # whatever number a wrapper calls missing: its Booster may be asked for that number itself
    forest = replace(forest, missing_value=float("nan"))
    space = build_space(forest)
    trees = route(forest, space)
    alive = np.zeros(forest.n_nodes, dtype=bool)
    category_alive = np.ones(len(forest.category), dtype=bool)
    everything = [_possible_states(space, feature) for feature in range(forest.n_features)]
    is_leaf = (forest.kind == SplitKind.LEAF).tolist()
    features = forest.feature.tolist()
    left, right = forest.left.tolist(), forest.right.tolist()
    stack: list[tuple[int, dict[int, int]]] = [(int(root), {}) for root in forest.tree_offset[:-1]]
    while stack:
        node, allowed = stack.pop()
        alive[node] = True
        if is_leaf[node]:
            continue
        feature = features[node]
        here = allowed.get(feature, everything[feature])
        goes_left = _left_states(trees, node, space.axes[feature].n_states)
        if forest.kind[node] == SplitKind.CATEGORICAL:
            entries = slice(forest.category_offset[node], forest.category_offset[node + 1])
            category_alive[entries] = _possible_codes(forest, space, node, here)
        for child, states in ((left[node], here & goes_left), (right[node], here & ~goes_left)):
            if states:
                stack.append((child, {**allowed, feature: states}))
    return Reach(alive, category_alive)


def _possible_states(space: StateSpace, feature: int) -> int:
    """Bit s: the native type has a value in state s of the feature."""
    axis = space.axes[feature]
    if axis.reachable is None:
        return (1 << axis.n_states) - 1
    return _to_bits(axis.reachable)


def _left_states(trees: StateTrees, node: int, n_states: int) -> int:
    """Bit s: state s of the split's feature goes left."""
    first, start = int(trees.first_special[node]), int(trees.special_offset[node])
    bits = (1 << (int(trees.rank[node]) + 1)) - 1
    if first < n_states:
        bits |= _to_bits(trees.special_left[start : start + n_states - first]) << first
    return bits


def _possible_codes(forest: Forest, space: StateSpace, node: int, allowed: int) -> BoolArray:
    """Which codes of the set of a categorical split can arrive there."""
    axis = space.axes[forest.feature[node]]
    assert axis.codes is not None
    assert axis.code_states is not None
    states = axis.code_states[np.searchsorted(axis.codes, forest.categories_of(node))]
    return np.array([bool(allowed >> int(state) & 1) for state in states], dtype=bool)


def _to_bits(flags: BoolArray) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
