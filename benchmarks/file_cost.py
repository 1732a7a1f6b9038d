"""What a model file costs more than the live object (python -m benchmarks.file_cost).

In come the number of trees and repeats; out go two lines per library, seconds by the clock and of
processor time (children included, which other work on the machine does not lengthen as much):
``prune_booster`` for the live model, for its file, and the parts that only the file has (reading
it, its first load in a child process). In turns, medians; the libraries are imported before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pine_boost import prune_booster
from pine_boost.native.child_process import try_in_child
from pine_boost.parsers import read_model


def _table() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 8)).round(2)
    return X, (X[:, 0] + X[:, 1] * (X[:, 2] > 0) + random.normal(size=1000) > 0).astype(int)


def _models(n_trees: int) -> dict[str, tuple[Any, bytes]]:
    """Live model and file of each library that has a file format."""
    import lightgbm
    import xgboost

    X, y = _table()
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}, xgboost.DMatrix(X[:500], y[:500]), n_trees
    )
    light = lightgbm.train(
        {"objective": "binary", "max_depth": 2, "num_threads": 1, "verbose": -1},
        lightgbm.Dataset(X[:500], y[:500]),
        n_trees,
    )
    return {
        "xgboost": (booster, bytes(booster.save_raw("json"))),
        "lightgbm": (light, light.model_to_string().encode()),
    }


def _seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """By the clock, and of processor time in this process and its children."""
    started, busy = time.perf_counter(), sum(os.times()[:4])
    run()
    return time.perf_counter() - started, sum(os.times()[:4]) - busy


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; returns 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    X, _ = _table()
    print("library   seconds    live    file    more    read  first_load")
    for name, (live, contents) in _models(options.trees).items():
        parsed = read_model(contents)
        runs: dict[str, Callable[[], Any]] = {
            "live": lambda live=live: prune_booster(live, X[:500], X[500:], alpha=0.2),
            "file": lambda contents=contents: prune_booster(contents, X[:500], X[500:], alpha=0.2),
            "read": lambda contents=contents: read_model(contents),
            "first": lambda parsed=parsed: try_in_child(parsed),
        }
        _seconds(runs["live"])  # imports and caches
        found: dict[str, list[tuple[float, float]]] = {run: [] for run in runs}
        for _ in range(options.repeats):
            for run, call in runs.items():
                found[run].append(_seconds(call))
        for which, kind in enumerate(("clock", "CPU")):
            live_s, file_s, read_s, first_s = (
                statistics.median(seconds[which] for seconds in found[run]) for run in runs
            )
            print(
                f"{name:9s} {kind:7s} {live_s:7.3f} {file_s:7.3f} {file_s - live_s:7.3f} {read_s:7.3f} {first_s:11.3f}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
