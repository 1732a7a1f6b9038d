"""Rows at the thresholds and categories of a forest, where another evaluation of it would differ."""

from __future__ import annotations

import numpy as np

from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.states import build_space


def edge_rows(forest: Forest, seed: int = 0) -> FloatArray:
    """Return rows that contain every state of every feature, and both sides of every threshold."""
    random = np.random.default_rng(seed)
    space = build_space(forest)
    possible = [
        np.flatnonzero(axis.reachable) if axis.reachable is not None else np.arange(axis.n_states)
        for axis in space.axes
    ]
    states = []
    for feature, mine in enumerate(possible):
        block = np.column_stack([random.choice(other, len(mine)) for other in possible])
        block[:, feature] = mine
        states.append(block)
    rows = space.representative(np.concatenate(states))
    edges = [rows]
    for feature in range(forest.n_features):
        values = edge_values(forest, feature)
        moved = rows[random.integers(len(rows), size=len(values))]
        moved[:, feature] = values
        edges.append(moved)
    found = np.concatenate(edges)
    usable: FloatArray = found[~np.isinf(found).any(axis=1)]  # not every library accepts infinities
    return usable


def edge_values(forest: Forest, feature: int) -> FloatArray:
    """Return the thresholds of a feature, their neighbours in the relevant float types, and the codes in its sets."""
    nodes = np.flatnonzero(forest.feature == feature)
    at = np.unique(forest.threshold[nodes[forest.kind[nodes] == SplitKind.NUMERIC]])
    at = at[np.abs(at) < np.finfo(np.float32).max]
    beside = [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
        single = at.astype(np.float32)
        beside += [np.nextafter(single, np.float32(side)).astype(np.float64) for side in (np.inf, -np.inf)]
    if forest.comparison is Comparison.FLOAT32_LESS:  # the input itself is float32
        beside = [value.astype(np.float32).astype(np.float64) for value in beside]
    codes = [forest.categories_of(int(node)) for node in nodes[forest.kind[nodes] == SplitKind.CATEGORICAL]]
    return np.unique(np.concatenate([*beside, *codes]))
