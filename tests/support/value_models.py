"""Small regressors and rankers that the tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn import ensemble
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

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


_XGBOOST = ("reg:squarederror", "reg:logistic", "count:poisson", "reg:tweedie", "rank:ndcg")
_LIGHTGBM = (
    "regression",
    "regression_l1",
    "quantile",
    "poisson",
    "tweedie",
    "gamma",
    "cross_entropy_lambda",
    "lambdarank",
)
_ESTIMATORS = {
    "forest": ensemble.RandomForestRegressor(7, max_depth=5, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(7, max_depth=5, random_state=0),
    "tree": DecisionTreeRegressor(max_depth=5, random_state=0),
    "gradient": ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histogram": ensemble.HistGradientBoostingRegressor(max_iter=8),
    "histogram gamma": ensemble.HistGradientBoostingRegressor(loss="gamma", max_iter=8),
    "histogram poisson": ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=8),
}
VALUES: dict[str, Callable[[], Any]] = {
    **{f"xgboost {objective}": partial(xgb, objective) for objective in _XGBOOST},
    **{f"lightgbm {objective}": partial(lgb, objective) for objective in _LIGHTGBM},
    "lightgbm square root": partial(lgb, "regression", reg_sqrt=True),
    "lightgbm averaged": partial(lgb, "regression", **BAGGED),
    **{name: lambda estimator=estimator: clone(estimator).fit(*table()) for name, estimator in _ESTIMATORS.items()},
}
