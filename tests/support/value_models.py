"""Small regressors and rankers that the tests share.

Imports XGBoost and LightGBM: a test file that uses it skips itself first where one is missing.
"""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import xgboost

BAGGED = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}


def table() -> tuple[np.ndarray, np.ndarray]:
    """Four columns and a positive label."""
    random = np.random.default_rng(2)
    X = random.normal(size=(300, 4)).round(2)
    return X, np.exp(0.5 * X[:, 0]) + (X[:, 1] > 0) + random.random(300)


def xgb(objective: str) -> Any:
    X, y = table()
    if objective == "reg:logistic":
        y = y / y.max()
    data = xgboost.DMatrix(X, y, nthread=1)
    if objective.startswith("rank:"):
        data = xgboost.DMatrix(X, np.digitize(y, [1, 2]), nthread=1)
        data.set_group([30] * 10)
    return xgboost.train({"objective": objective, "max_depth": 4, "nthread": 1}, data, 8)


def lgb(objective: str, **options: Any) -> Any:
    X, y = table()
    if objective.startswith("cross"):
        y = y / y.max()
    data = lightgbm.Dataset(X, y)
    if objective == "lambdarank":
        data = lightgbm.Dataset(X, np.digitize(y, [1, 2]), group=[30] * 10)
    parameters = {"objective": objective, "num_leaves": 9, "verbose": -1, "num_threads": 1}
    return lightgbm.train({**parameters, **options}, data, 8)
