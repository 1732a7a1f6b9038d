"""Rows at, beside and between the thresholds of a forest, with everything that converters misread."""

from typing import Any

import numpy as np

from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.rules import SplitKind
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

_LARGE = (np.inf, -np.inf, 1e300, -1e300, 3.4e38, -3.5e38)
SPECIAL = np.array([np.nan, 0.0, -0.0, 5e-324, -5e-324, 1e-40, LIGHTGBM_ZERO, -LIGHTGBM_ZERO, 2e-35, *_LARGE])
CODES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0, 1.9, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 64.0, 2.0**24 - 1, 2.0**24, 2.0**31])


def hard_rows(forest: Forest, n_rows: int, seed: int = 0, special: float = 0.1) -> FloatArray:
    """A float64 matrix; a share ``special`` of the cells is NaN, infinite, denormal or tiny."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_rows, forest.n_features))
    for feature in range(forest.n_features):
        nodes = (forest.feature == feature) & (forest.kind != SplitKind.LEAF)
        if np.any(forest.kind[nodes] == SplitKind.CATEGORICAL):
            pool = np.concatenate([CODES, np.arange(12.0), [np.nan]])
        else:
            pool = _beside(np.unique(forest.threshold[nodes]))
        X[:, feature] = rng.choice(pool, n_rows) if len(pool) else rng.normal(size=n_rows)
        chosen = rng.random(n_rows) < special
        X[chosen, feature] = rng.choice(SPECIAL, np.count_nonzero(chosen))
    return X


def hard_table(forest: Forest, n_rows: int = 1500, seed: int = 0) -> Any:
    """Hard rows that the library accepts, as it takes them."""
    X = hard_rows(forest, n_rows, seed)
    if not forest.accepts_missing:
        X = np.nan_to_num(X, nan=0.3)
    if forest.comparison.name == "FLOAT32_VALUE_LESS_EQUAL":
        X = np.clip(X, -1e30, 1e30)  # scikit-learn sums a table to look for infinity, and warns of 3e38
    return as_table(X, schema_of(forest))


def _beside(edges: FloatArray) -> FloatArray:
    """The edges, their float64 and float32 neighbours, and the middles between them."""
    if len(edges) == 0:
        return edges
    narrow = edges.astype(np.float32)
    beside = [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)]
    beside += [np.nextafter(narrow, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)]
    beside += [narrow.astype(np.float64), (edges[1:] + edges[:-1]) / 2, edges[:1] - 1, edges[-1:] + 1]
    return np.concatenate(beside)
