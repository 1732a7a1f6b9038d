"""A small forest with correlated rows, and a region fitted on half of them.

In comes a seed or options of `fit_region`; out go forests, rows and regions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.model.forest import Forest
from pine_boost.region import Region, fit_region
from tests.support.forests import XGBOOST, Manner, random_forest, random_rows


def forest_and_rows(
    manner: Manner = XGBOOST, seed: int = 0, n_rows: int = 1000, n_outputs: int = 1
) -> tuple[Forest, np.ndarray]:
    """A random forest with one category, and rows in which two features go together."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 12, 3, 4, n_outputs, manner=manner, categorical=(1,))
    X = random_rows(rng, forest, n_rows)
    X[:, 2] = np.where(rng.random(n_rows) < 0.6, X[:, 0], X[:, 2])
    return forest, X


def fitted_region(forest: Forest, X: np.ndarray, **options: Any) -> Region:
    """The first half of the rows fits the region, the second calibrates it."""
    options = {"alpha": 0.1, **options}
    return fit_region(forest, X[: len(X) // 2], X[len(X) // 2 :], **options)
