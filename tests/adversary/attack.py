"""Rows on and beside thresholds, and how many of them break a certificate natively."""

import numpy as np

from pine_boost.model.forest import Forest
from pine_boost.model.rules import SplitKind
from pine_boost.native.predict import predict_classes
from pine_boost.proof.problem import build_problem
from pine_boost.result import PruneResult
from tests.support.grids import feature_edges


def adversarial_rows(rng: np.random.Generator, forest: Forest, X: np.ndarray, n_rows: int) -> np.ndarray:
    """Rows of X with some cells moved onto, just below and just above thresholds, or emptied."""
    rows = X[rng.integers(len(X), size=n_rows)].copy()
    for feature in range(forest.n_features):
        edges = feature_edges(forest, feature)
        if not forest.accepts_missing:
            edges = edges[~np.isnan(edges)]
        if np.any(forest.kind[forest.feature == feature] == SplitKind.CATEGORICAL):
            edges = edges[edges >= 0]
        moved = rng.random(n_rows) < 0.4
        rows[moved, feature] = rng.choice(edges, int(moved.sum()))
    return rows


def count_breaks(result: PruneResult, rows: np.ndarray) -> tuple[int, int]:
    """Rows of the region whose class is settled, and on how many of them the natives differ."""
    region, forest = result.region, result.original.forest
    inside = region.contains(rows, model=forest)
    rows = rows[inside]
    problem = build_problem(forest, region.space, region.tables, delta=region.delta or 0.0)
    certain = problem.settled(region.states(rows))
    if region.delta is not None:
        certain[:] = True
    rows = rows[certain]
    if len(rows) == 0:
        return 0, 0
    before, after = (predict_classes(model, rows) for model in (result.original, result.pruned))
    return len(rows), int((before != after).sum())
