"""What simplify removes from models as the libraries train them (python -m benchmarks.lossless).

Counts trees and leaves before and after, bit for bit and with constants folded, and the largest change of a native
margin.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import DATASETS, load
from benchmarks.frames import markdown
from benchmarks.paper import add_data_options, begin
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs
from pine_boost import simplify
from pine_boost.native.predict import predict_margins

KEY_COLUMNS = ("dataset", "model")
COLUMNS = (
    *KEY_COLUMNS,
    "trees_before",
    "trees_after",
    "leaves_before",
    "leaves_after",
    "trees_folded",
    "moved",
    "bound",
    "seconds",
)


def _models() -> dict[str, Callable[[], Any]]:
    import lightgbm
    import xgboost
    from sklearn import ensemble
    from sklearn.tree import DecisionTreeClassifier

    return {
        "XGBoost 100x6": lambda: xgboost.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0),
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


def measure(cell: tuple[str, str, str | None]) -> list[dict[str, Any]]:
    """Train one model on one data set and simplify it both ways."""
    dataset, model, folder = cell
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
    return [
        {
            "dataset": dataset,
            "model": model,
            "trees_before": exact.trees_before,
            "trees_after": exact.trees_after,
            "leaves_before": exact.leaves_before,
            "leaves_after": exact.leaves_after,
            "trees_folded": folded.trees_after,
            "moved": f"{moved:.1g}",
            "bound": f"{folded.bound:.1g}",
            "seconds": f"{seconds:.1f}",
        }
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run what is not in the file yet, then print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lossless", description=__doc__)
    add_data_options(parser, DATASETS)
    parser.add_argument("--models", nargs="+", default=list(_models()), choices=list(_models()))
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--out", type=Path, default=RESULTS / "lossless.csv")
    options = begin(parser, arguments)
    jobs = [
        Job((dataset, model), (dataset, model, options.data))
        for model, dataset in product(options.models, options.datasets)
    ]
    failures = run_jobs(measure, jobs, options.out, COLUMNS, KEY_COLUMNS, n_workers=options.jobs)
    print(markdown(COLUMNS, [tuple(row.values()) for row in read_rows(options.out)]))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
