"""CatBoost models of every kind that is read, and the table of the one with categories."""

from functools import cache
from typing import Any

import catboost
import numpy as np

from tests.support.native_models import CATBOOST_QUIET, built, make_table

TOWNS = ("ulm", "bonn", "kiel", "köln", "x" * 70)


@cache
def fitted(kind: str, **options: Any) -> Any:
    X, y = make_table(3 if "Multi" in options.get("loss_function", "") else 2)
    own = CATBOOST_QUIET | {"iterations": 7, **options}
    return getattr(catboost, kind)(**own).fit(X, y)


KINDS = {
    "binary": lambda: built("cat binary")[0],
    "3 classes": lambda: built("cat 3 classes")[0],
    "lossguide": lambda: built("cat lossguide")[0],
    "one against all": lambda: fitted("CatBoostClassifier", loss_function="MultiClassOneVsAll"),
    "depthwise binary": lambda: fitted("CatBoostClassifier", grow_policy="Depthwise"),
    "depthwise": lambda: fitted("CatBoostClassifier", loss_function="MultiClass", grow_policy="Depthwise"),
    "regressor": lambda: fitted("CatBoostRegressor"),
    "poisson": lambda: fitted("CatBoostRegressor", loss_function="Poisson", grow_policy="Lossguide"),
    "cross entropy": lambda: fitted("CatBoostClassifier", loss_function="CrossEntropy"),
}


def table_of_towns(n_rows: int, seed: int = 0) -> Any:
    import pandas

    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n_rows, 2)).round(1)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    towns = rng.choice(TOWNS, n_rows)
    return pandas.DataFrame({"a": numbers[:, 0], "town": towns, "b": numbers[:, 1], "k": rng.integers(-1, 3, n_rows)})


@cache
def one_hot(n_classes: int = 2, **options: Any) -> Any:
    table = table_of_towns(500)
    score = table.a.fillna(0) + (table.town == "ulm") - (table.k == 2) * table.b.fillna(1)
    y = np.digitize(score, [0.2, 1.0][: n_classes - 1])
    own = {**CATBOOST_QUIET, "iterations": 10, "one_hot_max_size": 9, "cat_features": ["town", "k"], **options}
    return catboost.CatBoostClassifier(**own).fit(table, y)


def small_models() -> list[Any]:
    """One of every form that a file may have: fuzzing starts from them."""
    return [*(KINDS[name]() for name in ("binary", "3 classes", "lossguide", "regressor", "poisson")), one_hot()]
