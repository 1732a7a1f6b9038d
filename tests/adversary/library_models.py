"""Random tables and a small model of every library, for attacks on what was certified or validated.

In come a seed and a number of classes; out go rows, labels and estimators that are not yet trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")


def random_rows(
    rng: np.random.Generator, n_classes: int, gaps: bool, n_rows: int = 400
) -> tuple[np.ndarray, np.ndarray]:
    """Three measured columns and a whole number, labels with noise, gaps where asked for."""
    X = rng.normal(size=(n_rows, 4)).round(1)
    X[:, 3] = rng.integers(0, 4, n_rows)
    score = X[:, 0] + 0.5 * X[:, 1] * (X[:, 3] > 1) + 0.3 * rng.normal(size=n_rows)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def small_models(seed: int, n_classes: int, depth: int = 2, few: int = 0) -> dict[str, Any]:
    """One estimator per library."""
    few = few or (10 if n_classes == 2 else 5)
    return {
        "xgboost": xgboost.XGBClassifier(
            n_estimators=few, max_depth=depth, learning_rate=0.5, n_jobs=1, random_state=seed
        ),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=few, max_depth=depth, n_jobs=1, verbose=-1, random_state=seed),
        "histogram": ensemble.HistGradientBoostingClassifier(max_iter=few, max_depth=depth, random_state=seed),
        "gradient": ensemble.GradientBoostingClassifier(n_estimators=few, max_depth=depth, random_state=seed),
    }
