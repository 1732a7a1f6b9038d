"""Small regressors and rankers that the tests share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn import ensemble
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

BAGGED = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}


GROUPS = [30] * 10


def table(gaps: bool = False, n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Four columns and a positive label."""
    random = np.random.default_rng(2)
    X = random.normal(size=(n_rows, 4)).round(2)
    y = np.exp(0.5 * X[:, 0]) + (X[:, 1] > 0) + random.random(n_rows)
    if gaps:
        X[random.random(X.shape) < 0.1] = np.nan
    return X, y


def is_ranking(objective: str) -> bool:
    """Whether an objective compares the rows of a group."""
    return objective.startswith(("rank", "lambda"))


def label_for(objective: str, y: np.ndarray) -> np.ndarray:
    """The label as an objective takes it: a share, a grade, or as it is."""
    if objective == "reg:logistic" or objective.startswith("cross"):
        return y / y.max()
    if is_ranking(objective):
        return np.digitize(y, [2] if objective == "rank:map" else [1, 2])
    return y


def xgb(objective: str, gaps: bool = False, **options: Any) -> Any:
    """A Booster of any of `OBJECTIVES_OF_VALUES`."""
    X, y = table(gaps)
    data = xgboost.DMatrix(X, label_for(objective, y), nthread=1)
    if is_ranking(objective):
        data.set_group(GROUPS)
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", y)
        data.set_float_info("label_upper_bound", y)
    if objective == "reg:quantileerror":
        options["quantile_alpha"] = 0.4
    return xgboost.train({"objective": objective, "max_depth": 4, "nthread": 1, **options}, data, 8)


def lgb(objective: str, gaps: bool = False, **options: Any) -> Any:
    """A Booster of any objective of values."""
    X, y = table(gaps)
    data = lightgbm.Dataset(X, label_for(objective, y), group=GROUPS if is_ranking(objective) else None)
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
ESTIMATORS = {
    "forest": ensemble.RandomForestRegressor(7, max_depth=5, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(7, max_depth=5, random_state=0),
    "tree": DecisionTreeRegressor(max_depth=5, random_state=0),
    "extra tree": ExtraTreeRegressor(max_depth=5, random_state=0),
    "gradient": ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
    "gradient huber": ensemble.GradientBoostingRegressor(loss="huber", n_estimators=8, random_state=0),
    "histogram": ensemble.HistGradientBoostingRegressor(max_iter=8),
    "histogram gamma": ensemble.HistGradientBoostingRegressor(loss="gamma", max_iter=8),
    "histogram poisson": ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=8),
}
VALUES: dict[str, Callable[[], Any]] = {
    **{f"xgboost {objective}": partial(xgb, objective) for objective in _XGBOOST},
    **{f"lightgbm {objective}": partial(lgb, objective) for objective in _LIGHTGBM},
    "wrapped xgboost poisson": lambda: xgboost.XGBRegressor(
        objective="count:poisson", n_estimators=8, max_depth=4, n_jobs=1
    ).fit(*table()),
    "lightgbm square root": partial(lgb, "regression", reg_sqrt=True),
    "lightgbm averaged": partial(lgb, "regression", **BAGGED),
    **{name: lambda estimator=estimator: clone(estimator).fit(*table()) for name, estimator in ESTIMATORS.items()},
}
