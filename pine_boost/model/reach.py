"""Find the nodes of a forest that some input reaches, exactly on states, and the smaller trees that follow.

NaN, unseen categories and intervals without a float are states like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pine_boost.model.forest import BoolArray, Forest, IntArray
from pine_boost.model.routing import route, to_bits, walk_states
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import StateSpace, build_space
from pine_boost.model.trimming import node_levels


@dataclass(frozen=True, eq=False)
class Reach:
    """The nodes and categories that some input reaches.

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

    Features are independent, so a node is reachable iff every feature has a state left there, and
    only the feature of the split can lose its last one.
    """
    # ignore the number that a wrapper calls missing: its Booster may receive that number as a value
    forest = replace(forest, missing_value=float("nan"))
    space = build_space(forest)
    everything = [
        (1 << axis.n_states) - 1 if axis.reachable is None else to_bits(axis.reachable) for axis in space.axes
    ]
    # trees that cannot have a dead side: numeric splits inside their interval, and a float in every interval
    has_gaps = np.array([axis.reachable is not None and not axis.reachable.all() for axis in space.axes])
    inner = forest.kind != SplitKind.LEAF
    unsure = (forest.kind == SplitKind.CATEGORICAL) | (inner & has_gaps[forest.feature])
    walked = np.union1d(_doubtful_trees(forest), forest.node_tree[unsure])
    return _walk(forest, space, everything, walked)


def find_live(forest: Forest) -> BoolArray:
    """Find the nodes that some row of states reaches, including states that contain no float of the type.

    This is a superset of `find_reach`, and covers everything that a proof over states considers. It is
    fast if no split repeats a decision made above it, as in trees that a library has just trained.
    """
    doubtful = _doubtful_trees(forest)
    if len(doubtful) == 0:
        return np.ones(forest.n_nodes, dtype=bool)
    space = build_space(forest)
    everything = [(1 << axis.n_states) - 1 for axis in space.axes]
    return _walk(forest, space, everything, doubtful).alive


def _doubtful_trees(forest: Forest) -> IntArray:
    """Return trees that may have a dead side; in all others every interval is split inside.

    A numeric split whose threshold lies strictly between those of its feature above it leaves an
    interval on both sides. Everything else, including category sets, is decided by the walk.
    """
    inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
    parent = np.full(forest.n_nodes, -1)
    parent[forest.left[inner]] = parent[forest.right[inner]] = inner
    low, high = np.full(forest.n_nodes, -np.inf), np.full(forest.n_nodes, np.inf)
    node = below = inner
    while len(node):
        above = parent[below]
        node, below, above = node[above >= 0], below[above >= 0], above[above >= 0]
        same, went_left = forest.feature[node] == forest.feature[above], forest.left[above] == below
        for ours, end, nearer in ((same & went_left, high, np.minimum), (same & ~went_left, low, np.maximum)):
            end[node[ours]] = nearer(end[node[ours]], forest.threshold[above[ours]])
        below = above
    repeats = (forest.kind == SplitKind.CATEGORICAL) & (np.isfinite(low) | np.isfinite(high))
    repeats |= (forest.kind == SplitKind.NUMERIC) & ~((low < forest.threshold) & (forest.threshold < high))
    return np.unique(forest.node_tree[repeats])


def _walk(forest: Forest, space: StateSpace, everything: list[int], walked: IntArray) -> Reach:
    """Find what is reached in some trees if every feature may have the states ``everything``; all of the others is."""
    alive = ~np.isin(forest.node_tree, walked)
    category_alive = np.ones(len(forest.category), dtype=bool)
    roots = forest.tree_offset[:-1][walked]
    # once for all: numpy asks the enum for attributes, which is slow and swallows Ctrl-C
    is_categorical = forest.kind == SplitKind.CATEGORICAL
    for node, allowed in walk_states(route(forest, space), roots, everything):
        alive[node] = True
        if is_categorical[node]:
            feature = int(forest.feature[node])
            entries = slice(forest.category_offset[node], forest.category_offset[node + 1])
            here = allowed.get(feature, everything[feature])
            category_alive[entries] = _possible_codes(forest, space, node, here)
    return Reach(alive, category_alive)


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Smaller trees over the nodes of a forest that give every live input the same values.

    Attributes
    ----------
    instead : int64 (n_nodes,)
        The node that replaces each node: itself, or the one below it that every live input reaches.
    is_leaf : bool (n_nodes,)
        Leaves of the smaller trees.
    value_node : int64 (n_nodes,)
        The leaf of the forest whose value each new leaf takes.
    n_dead, n_twins : int
        Splits removed because one side is dead, and because both sides are the same.
    """

    instead: IntArray
    is_leaf: BoolArray
    value_node: IntArray
    n_dead: int
    n_twins: int


def shrink(forest: Forest, alive: BoolArray) -> Shrunk:
    """Simplify from the leaves up: a split with one live side becomes that side, one of equal leaves a leaf."""
    instead, value_node = np.arange(forest.n_nodes), np.arange(forest.n_nodes)
    is_leaf = forest.kind == SplitKind.LEAF
    bits = np.ascontiguousarray(forest.value).view(np.uint64)  # -0.0 and 0.0 are different values
    n_dead = n_twins = 0
    for nodes in reversed(node_levels(forest.tree_offset[:-1], is_leaf, forest.left, forest.right)):
        inner = nodes[alive[nodes] & (forest.kind[nodes] != SplitKind.LEAF)]
        left, right = forest.left[inner], forest.right[inner]
        half = ~(alive[left] & alive[right])
        live = np.where(alive[left], left, right)
        instead[inner[half]] = instead[live[half]]
        n_dead += int(np.count_nonzero(half))
        inner, left, right = inner[~half], instead[left[~half]], instead[right[~half]]
        equal = np.all(bits[value_node[left]] == bits[value_node[right]], axis=1)
        twins = is_leaf[left] & is_leaf[right] & equal
        is_leaf[inner[twins]] = True
        value_node[inner[twins]] = value_node[left[twins]]
        n_twins += int(np.count_nonzero(twins))
    return Shrunk(instead, is_leaf, value_node, n_dead, n_twins)


def _possible_codes(forest: Forest, space: StateSpace, node: int, allowed: int) -> BoolArray:
    """Return which codes in the set of a categorical split can reach it."""
    axis = space.axes[forest.feature[node]]
    assert axis.codes is not None
    assert axis.code_states is not None
    states = axis.code_states[np.searchsorted(axis.codes, forest.categories_of(node))]
    return np.array([bool(allowed >> int(state) & 1) for state in states], dtype=bool)
