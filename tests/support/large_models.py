"""Models whose states cannot be listed, one of each kind, and alphas at which they are pruned.

Imports the libraries: a test file that uses it skips itself first where one is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn import ensemble

from tests.support.native_models import Table


def _cancer() -> Table:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order, :12], y[order]


def _wine() -> Table:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


@dataclass(frozen=True)
class Large:
    """A model whose states cannot be listed, and an alpha at which it is really pruned."""

    alpha: float
    make: Callable[[], Any]
    table: Callable[[], Table] = _cancer
    n_fit: int = 300


LARGE = {
    "xgboost": Large(0.1, lambda: xgboost.XGBClassifier(n_estimators=20, max_depth=2, learning_rate=0.05, n_jobs=1)),
    "xgboost 3 classes": Large(0.4, lambda: xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1), _wine, 100),
    "lightgbm": Large(0.1, lambda: lightgbm.LGBMClassifier(n_estimators=20, num_leaves=6, n_jobs=1, verbose=-1)),
    "gradient boosting": Large(0.1, lambda: ensemble.GradientBoostingClassifier(n_estimators=20, max_depth=2)),
    "histogram": Large(
        0.1, lambda: ensemble.HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=4, max_bins=64)
    ),
    "random forest": Large(0.4, lambda: ensemble.RandomForestClassifier(12, max_depth=2)),
    "extra trees": Large(0.4, lambda: ensemble.ExtraTreesClassifier(12, max_depth=2)),
    "ada boost": Large(0.1, lambda: ensemble.AdaBoostClassifier(n_estimators=40)),
}
