"""What simplify leaves out of models as the libraries train them.

``python -m benchmarks.lossless`` prints a table: trees and leaves before and after, bit for bit
and with constants folded, and the largest native margin that moved. Twelve data sets, seed 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import DATASETS, load
from pine_boost import simplify
from pine_boost.native.predict import predict_margins


def _models() -> dict[str, Callable[[], Any]]:
    import lightgbm
    import xgboost
    from sklearn import ensemble
    from sklearn.tree import DecisionTreeClassifier

    return {
        "XGBoost 100x6": lambda: xgboost.XGBClassifier(
            n_estimators=100, max_depth=6, n_jobs=1, random_state=0
        ),
        "XGBoost 100x6, gamma 1": lambda: xgboost.XGBClassifier(
            n_estimators=100, max_depth=6, gamma=1.0, n_jobs=1, random_state=0
        ),
        "LightGBM": lambda: lightgbm.LGBMClassifier(n_jobs=1, verbose=-1, random_state=0),
        "HistGradientBoosting": lambda: ensemble.HistGradientBoostingClassifier(random_state=0),
        "RandomForest 100": lambda: ensemble.RandomForestClassifier(random_state=0),
        "AdaBoost 50x3": lambda: ensemble.AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=3, random_state=0), n_estimators=50, random_state=0
        ),
    }


def measure(dataset: str, model: str, folder: str | None = None) -> dict[str, Any]:
    """Train one model on one data set and simplify it both ways."""
    table = load(dataset, folder)
    native = _models()[model]().fit(table.X, table.y)
    start = time.perf_counter()
    exact = simplify(native)
    seconds = time.perf_counter() - start
    folded = simplify(native, fold_constants=True)
    rows = table.X[:2000]
    margins = [predict_margins(m, rows)[0] for m in (exact.original, exact.simplified)]
    if not np.array_equal(margins[0].view(np.uint64), margins[1].view(np.uint64)):
        raise AssertionError(f"{dataset}, {model}: a margin changed")
    moved = np.abs(predict_margins(folded.simplified, rows)[0] - margins[0]).max()
    return {
        "dataset": dataset,
        "model": model,
        "trees": f"{exact.trees_before} -> {exact.trees_after}",
        "leaves": f"{exact.leaves_before} -> {exact.leaves_after}",
        "trees, folded": f"{folded.trees_before} -> {folded.trees_after}",
        "moved": f"{moved:.1g}",
        "bound": f"{folded.bound:.1g}",
        "seconds": f"{seconds:.1f}",
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default=",".join(DATASETS), help="names, comma separated")
    parser.add_argument("--models", nargs="+", default=list(_models()), choices=list(_models()))
    parser.add_argument("--data", metavar="FOLDER", help="where the data sets are")
    options = parser.parse_args(arguments)
    header: list[str] = []
    for model in options.models:
        for dataset in options.datasets.split(","):
            row = measure(dataset, model, options.data)
            if not header:
                header = list(row)
                print(f"| {' | '.join(header)} |")
                print(f"|{'---|' * len(header)}")
            print(f"| {' | '.join(map(str, row.values()))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
