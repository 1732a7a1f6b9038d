"""Native models that tests share: every kind that can be pruned with all states listed, larger ones, one per library.

Models with missing values and categories if the kind takes them. Fitted once per process.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost
from sklearn import datasets, ensemble, tree

CATBOOST_QUIET = {"depth": 3, "border_count": 8, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
Table = tuple[np.ndarray, np.ndarray]


def has_same_probabilities(name: str, found: Any, expected: Any) -> bool:
    """Whether probabilities are equal bit for bit; CatBoost's softmax is repeated so on x86-64 with AVX2 alone."""
    if name == "MultiClass" and platform.machine().lower() not in ("x86_64", "amd64"):
        return np.allclose(found, expected, rtol=4e-15, atol=1e-300)
    return np.array_equal(found, expected)


def make_table(n_classes: int, *, missing: bool = True, n_rows: int = 500, seed: int = 0) -> Table:
    """Three numeric columns and one of six categories (column 1), some values missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(1)
    X[:, 1] = rng.integers(0, 6, n_rows)
    signal = X[:, 0] + np.isin(X[:, 1], [1, 4]) - 0.7 * X[:, 2] * (X[:, 3] > 0)
    y = np.digitize(signal + 0.3 * rng.normal(size=n_rows), [-0.4, 0.8][: n_classes - 1])
    if missing:
        X[:, 2:][rng.random((n_rows, 2)) < 0.15] = np.nan
    return X, y


_XGB = {"max_depth": 3, "max_bin": 8, "n_jobs": 1, "enable_categorical": True, "feature_types": ["q", "c", "q", "q"]}
_LGB = {"num_leaves": 7, "max_bin": 8, "n_jobs": 1, "verbose": -1}
_LGB |= {"min_child_samples": 5, "cat_smooth": 1, "min_data_per_group": 1}
_SKLEARN = {
    "random forest": ensemble.RandomForestClassifier,
    "extra trees": ensemble.ExtraTreesClassifier,
    "gradient boosting": ensemble.GradientBoostingClassifier,
    "histogram": ensemble.HistGradientBoostingClassifier,
    "ada boost": ensemble.AdaBoostClassifier,
}
_STUMP = tree.DecisionTreeClassifier(max_depth=1, random_state=0)

# the options of each; those of XGBoost with an objective are Boosters
MODELS: dict[str, dict[str, Any]] = {
    "xgb binary": {},
    "xgb 3 classes": {},
    "xgb dart": {"booster": "dart", "rate_drop": 0.3, "random_state": 1},
    "xgb hinge": {"objective": "binary:hinge"},
    "xgb softmax": {"objective": "multi:softmax", "num_class": 3, "eta": 0.1},
    "lgb binary": {},
    "lgb 3 classes": {},
    "lgb rf": {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "lgb zero as missing": {"zero_as_missing": True},
    "cat binary": {},
    "cat 3 classes": {"nan_mode": "Max"},
    "cat lossguide": {"grow_policy": "Lossguide", "max_leaves": 6, "boost_from_average": True},
    "random forest": {"n_estimators": 9, "max_depth": 3},
    "random forest 3 classes": {"n_estimators": 9, "max_depth": 3},
    "extra trees": {"n_estimators": 12, "max_depth": 2},
    "gradient boosting": {"n_estimators": 12, "max_depth": 3},
    "gradient boosting 3 classes": {"n_estimators": 8, "max_depth": 2},
    "histogram": {
        **{"max_iter": 8, "learning_rate": 0.4, "max_leaf_nodes": 4, "max_bins": 8},
        "categorical_features": [1],
    },
    "histogram 3 classes": {"max_iter": 6, "max_leaf_nodes": 4, "max_bins": 8},
    "ada boost": {"estimator": _STUMP, "n_estimators": 20},
    "ada boost 3 classes": {"estimator": _STUMP, "n_estimators": 20},
}


@cache
def built(name: str) -> tuple[Any, np.ndarray]:
    """A model of this name and its rows."""
    n_classes = 3 if name.endswith(("3 classes", "softmax")) else 2
    kind, own = name.removesuffix(" 3 classes"), MODELS[name]
    if kind in _SKLEARN:
        X, y = make_table(n_classes, missing=kind not in ("gradient boosting", "ada boost"), n_rows=300)
        X = np.round(X * 2) / 2  # few thresholds
        return _SKLEARN[kind](random_state=0, **own).fit(X, y), X
    X, y = make_table(n_classes)
    few = 12 if n_classes == 2 else 6
    if "objective" in own:
        parameters = {"max_depth": 3, "nthread": 1, "max_bin": 8, **own}
        return xgboost.train(parameters, xgboost.DMatrix(X, y, nthread=1), num_boost_round=12), X
    if name.startswith("xgb"):
        return xgboost.XGBClassifier(n_estimators=few, **_XGB, **own).fit(X, y), X
    if name.startswith("lgb"):
        model = lightgbm.LGBMClassifier(n_estimators=few, **_LGB, **own)
        return model.fit(X, y, categorical_feature=[1]).booster_, X
    return catboost.CatBoostClassifier(iterations=few, **CATBOOST_QUIET, **own).fit(X, y), X


@cache
def cancer_boosting(n_features: int, n_trees: int) -> tuple[Any, np.ndarray]:
    """Gradient boosting of small trees on the first 250 patients and measurements, and the rows of all."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = X[:, :n_features]
    model = ensemble.GradientBoostingClassifier(n_estimators=n_trees, max_depth=2, random_state=0)
    return model.fit(X[:250], y[:250]), X


@dataclass(frozen=True)
class Large:
    """A model whose states cannot be listed, and an alpha at which it is really pruned."""

    alpha: float
    make: Callable[[], Any]
    dataset: str = "breast_cancer"
    n_features: int | None = 12
    n_fit: int = 300

    def table(self) -> Table:
        """The rows in another order, and their labels."""
        X, y = getattr(datasets, f"load_{self.dataset}")(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(X))
        return X[order, : self.n_features], y[order]


LARGE = {
    "xgboost": Large(0.1, lambda: xgboost.XGBClassifier(n_estimators=20, max_depth=2, learning_rate=0.05, n_jobs=1)),
    "xgboost 3 classes": Large(
        0.4, lambda: xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1), "wine", None, 100
    ),
    "lightgbm": Large(0.1, lambda: lightgbm.LGBMClassifier(n_estimators=20, num_leaves=6, n_jobs=1, verbose=-1)),
    "catboost": Large(0.1, lambda: catboost.CatBoostClassifier(iterations=20, **(CATBOOST_QUIET | {"depth": 2}))),
    "gradient boosting": Large(0.1, lambda: ensemble.GradientBoostingClassifier(n_estimators=20, max_depth=2)),
    "histogram": Large(
        0.1, lambda: ensemble.HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=4, max_bins=64)
    ),
    "random forest": Large(0.4, lambda: ensemble.RandomForestClassifier(12, max_depth=2)),
    "extra trees": Large(0.4, lambda: ensemble.ExtraTreesClassifier(12, max_depth=2)),
    "ada boost": Large(0.1, lambda: ensemble.AdaBoostClassifier(n_estimators=40)),
}


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
        "catboost": catboost.CatBoostClassifier(
            iterations=few, random_seed=seed, **(CATBOOST_QUIET | {"depth": depth, "border_count": 254})
        ),
        "histogram": ensemble.HistGradientBoostingClassifier(max_iter=few, max_depth=depth, random_state=seed),
        "gradient": ensemble.GradientBoostingClassifier(n_estimators=few, max_depth=depth, random_state=seed),
    }
