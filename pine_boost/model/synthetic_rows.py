"""Rows made from the trees alone, spread like training rows or at every threshold, and the work that models need."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pine_boost.kernels import leaves
from pine_boost.kernels.flat_forest import FlatForest
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, Int32Array, IntArray
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.states import build_space
from pine_boost.model.trimming import forest_subtrees

TREE_WORK = 2.0  # fetching a tree takes as long as about two splits
WORK_ROWS = 500


def synthetic_rows(forest: Forest, n_rows: int, seed: int = 0) -> FloatArray:
    """Rows whose values follow how densely the trees split each feature.

    Trees split where the training rows were, so the gap between two neighbouring thresholds is
    drawn as often as splits end there. Features are drawn independently of each other.
    """
    rng = np.random.default_rng(seed)
    space = build_space(forest)
    X = np.zeros((n_rows, forest.n_features))
    inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
    for feature in np.unique(forest.feature[inner]):
        axis = space.axes[feature]
        nodes = inner[forest.feature[inner] == feature]
        if axis.codes is not None:
            pool = axis.codes if len(axis.codes) else np.zeros(1)
            X[:, feature] = rng.choice(pool, n_rows)
            continue
        place = np.searchsorted(axis.edges, forest.threshold[nodes])
        state = rng.choice(place, n_rows) + rng.integers(0, 2, n_rows)
        X[:, feature] = _between(axis.edges)[state]
    return X


def most_similar(leaves: Int32Array, base: IntArray, drawn: Iterable[IntArray]) -> IntArray:
    """Of the rows drawn for every base row, the one that shares most leaves with it; itself if no other was drawn."""
    own = leaves[base]
    best, most = base, np.full(len(base), -1)
    for partner in drawn:
        shared = np.where(partner == base, -1, (leaves[partner] == own).sum(axis=1))
        best, most = np.where(shared > most, partner, best), np.maximum(shared, most)
    return best


def work_of(
    forest: Forest,
    rows: FloatArray,
    order: Int32Array | None = None,
    met: Int32Array | None = None,
    *,
    flat: FlatForest | None = None,
) -> float:
    """Sum over the trees of 2 plus the mean number of splits that a row passes.

    With an order of visits: over the trees that each row has met, ``met`` of them. ``flat`` is `flatten` of the
    forest, where it is known.
    """
    subtrees = forest_subtrees(forest)
    work = TREE_WORK + subtrees.depth[subtrees.leaf_node][leaves(flat or flatten(forest), rows)]
    if order is not None and met is not None:
        work = np.where(np.arange(len(order)) < met[:, None], work[:, order], 0.0)
    return float(work.sum(axis=1).mean())


def _between(edges: FloatArray) -> FloatArray:
    """A value in every interval between ascending edges."""
    finite = np.clip(edges, -1e30, 1e30)
    spread = np.diff(finite).mean() if len(finite) > 1 else max(1.0, abs(float(finite[0])))
    middles = finite[:-1] + np.diff(finite) / 2
    return np.concatenate([finite[:1] - spread, middles, finite[-1:] + spread])


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
