"""How long parsing takes: 500 XGBoost trees of depth 8, seconds per 100 000 nodes.

Trains one model, reads it as object, JSON and UBJSON, prints one line each. No arguments.
"""

from __future__ import annotations

import time

import numpy as np
import xgboost

from pine_boost.parsers import read_model


def main() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(20_000, 20)).astype(np.float32)
    labels = ((rows**2).sum(axis=1) + random.normal(size=len(rows)) > 20).astype(int)
    parameters = {
        "objective": "binary:logistic",
        "max_depth": 8,
        "min_child_weight": 0,
        "reg_lambda": 0,
        "eta": 0.02,
        "nthread": 2,
    }
    booster = xgboost.train(parameters, xgboost.DMatrix(rows, labels), 500)
    sources = {"Booster": booster, "JSON": bytes(booster.save_raw("json")), "UBJSON": bytes(booster.save_raw("ubj"))}
    for name, source in sources.items():
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            forest = read_model(source).forest
            seconds.append(time.perf_counter() - start)
        per_node = min(seconds) / forest.n_nodes * 100_000
        print(
            f"{name:8} {forest.n_trees} trees, {forest.n_nodes} nodes: {min(seconds):.3f} s, "
            f"{per_node:.3f} s per 100 000 nodes"
        )


if __name__ == "__main__":
    main()
