"""Healthy XGBoost files that cover what a file may contain; damaged ones are made of them."""

from __future__ import annotations

from typing import Any

import numpy as np


def healthy_files() -> dict[str, bytes]:
    """Small models that cover what a file may contain: categories, dart, several classes."""
    import pandas
    import xgboost

    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 3))
    rows[:, 2] = random.integers(0, 6, 200)
    names = ["a", "b", "c"]
    options: dict[str, Any] = {"max_depth": 3, "nthread": 1, "tree_method": "hist"}
    binary_data = xgboost.DMatrix(
        rows,
        (rows[:, 0] > 0) ^ np.isin(rows[:, 2], [1, 4]),
        feature_names=names,
        feature_types=["float", "float", "c"],
        enable_categorical=True,
    )
    binary = xgboost.train({**options, "objective": "binary:logistic"}, binary_data, 3)
    multi = xgboost.train(
        {**options, "objective": "multi:softprob", "num_class": 3, "booster": "dart"},
        xgboost.DMatrix(rows, np.digitize(rows[:, 0], [-0.5, 0.5]), feature_names=names),
        2,
    )
    table = pandas.DataFrame(
        {"x": rows[:, 0], "k": pandas.Categorical(rows[:, 2].astype(int)), "n": pandas.Categorical(list("uvwx") * 50)}
    )
    labels = ((rows[:, 0] > 0) ^ (rows[:, 2] == 2)).astype(int)
    wrapper = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, enable_categorical=True)
    pandas_booster = wrapper.fit(table, labels).get_booster()
    return {
        "binary.json": bytes(binary.save_raw("json")),
        "binary.ubj": bytes(binary.save_raw("ubj")),
        "multi.json": bytes(multi.save_raw("json")),
        "pandas.json": bytes(pandas_booster.save_raw("json")),
    }
