"""Small LightGBM models of every configuration that the tests share, and their raw scores."""

import functools
from typing import Any

import lightgbm as lgb
import numpy as np

from tests.support.grids import edge_rows

BASE = {
    "num_leaves": 12,
    "num_threads": 1,
    "verbose": -1,
    "min_data_in_leaf": 5,
    "cat_smooth": 1,
    "min_data_per_group": 3,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
}
RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
CONFIGS: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary"},
    "zero_as_missing": {"objective": "binary", "zero_as_missing": True},
    "no_missing": {"objective": "binary", "use_missing": False},
    "sigmoid_2": {"objective": "binary", "sigmoid": 2},
    "sigmoid_0.7": {"objective": "binary", "sigmoid": 0.7},
    "dart": {"objective": "binary", "boosting": "dart", "drop_rate": 0.6, "skip_drop": 0.1},
    "goss": {"objective": "binary", "data_sample_strategy": "goss"},
    "rf": {"objective": "binary", **RF},
    "no_prior": {"objective": "binary", "boost_from_average": False},
    "learning_rate_1": {"objective": "binary", "learning_rate": 1.0, "max_depth": 2},
    "monotone": {"objective": "binary", "monotone_constraints": [1, 0, -1, 0, 0]},
    "one_hot": {"objective": "binary", "max_cat_to_onehot": 100},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "multiclass_rf": {"objective": "multiclass", "num_class": 3, **RF},
    "multiclass_dart": {"objective": "multiclass", "num_class": 3, "boosting": "dart"},
    "ova": {"objective": "multiclassova", "num_class": 3},
    "ova_rf": {"objective": "multiclassova", "num_class": 3, "sigmoid": 0.5, **RF},
}


@functools.cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 5))
    X[:, 3] = random.integers(0, 70, len(X))
    X[:, 4] = random.choice([0.0, 1.0, -1.0, 2.0], len(X))
    score = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] % 2 + X[:, 4]
    X[random.random(X.shape) < 0.1] = np.nan
    X[random.random(X.shape) < 0.1] = 0.0
    return X, (score > 0.6).astype(int), np.digitize(score, [0.0, 1.2])


@functools.cache
def trained(name: str, rounds: int = 8) -> Any:
    X, y, y3 = table()
    config = CONFIGS[name]
    label = y3 if "num_class" in config else y
    data = lgb.Dataset(X, label, categorical_feature=[3])
    if name == "monotone":  # not for categorical features
        data = lgb.Dataset(X, label)
    return lgb.train({**BASE, **config}, data, rounds)


def rows_for(forest: Any) -> np.ndarray:
    X = table()[0]
    return np.vstack([X[:80], edge_rows(forest, X, infinite=True, limit=40)])


def raw(booster: Any, X: np.ndarray) -> np.ndarray:
    return booster.predict(X, raw_score=True, num_threads=1).reshape(len(X), -1)
