"""Scoring with `accelerate_booster` beside every other engine (python -m benchmarks.scoring).

Microseconds per call for 1, 100 and 100 000 rows, best of calls taken in turns, in one thread, then in all; the
share of the trees that a row meets; what building and checking take. Every class is compared with the native
``predict``; a difference ends the run.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import pine_boost
from benchmarks import data
from benchmarks.machine import record_run
from benchmarks.models import fit
from benchmarks.paper import add_data_options, check_data, listed
from benchmarks.runner import RESULTS, show_and_replace
from benchmarks.throughput import (
    Predict,
    compiled_predict,
    gtil_predict,
    input_type,
    is_catboost,
    native_predict,
    repeat_rows,
    rows_per_second,
)

COLUMNS = ("dataset", "model", "trees", "work", "build_s", "engine", "batch", "us_per_call", "times_as_fast")
BATCHES = (1, 100, 100_000)
MODELS = ("xgboost-100x6", "xgboost-500x7", "lightgbm-100x31", "lightgbm-1000x63", "histgb-100", "forest-200")
CATBOOST = ("catboost-100x6", "catboost-depthwise-100x6")  # symmetric trees, and others; run when they are asked for
FIT_SHARE = 0.64
SINGLE_CALLS = 200  # single rows per timing


def train(model: str, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Any:
    """A model of the benchmark, trained in one thread."""
    kind, _, size = model.rpartition("-")
    if kind in ("histgb", "forest"):
        options = {"early_stopping": False} if kind == "histgb" else {}
        return fit("histgb" if kind == "histgb" else "random-forest", int(size), X, y, **options)
    trees, limit = map(int, size.split("x"))
    if kind.startswith("catboost"):
        policy = "Depthwise" if "depthwise" in kind else "SymmetricTree"
        return fit("catboost", trees, X, y, depth=limit, grow_policy=policy)
    rate = 0.1 if trees == 100 else {"xgboost": 0.03, "lightgbm": 0.02}[kind]
    return fit(kind, trees, X, y, learning_rate=rate, **{"max_depth" if kind == "xgboost" else "num_leaves": limit})


def engines(
    model: Any, scorer: pine_boost.FastScorer, folder: Path, n_met: int, options: argparse.Namespace
) -> Iterator[tuple[str, Predict]]:
    """Everything that answers for a model in one thread, by name; ``n_met`` trees are what a row meets in the mean."""
    yield "scorer", scorer.predict
    if is_catboost(model):  # neither Treelite nor ONNX
        yield "native predict", lambda X: model.predict(X, thread_count=1)
        yield "native booster", native_predict(model)
        return
    yield "native predict", model.predict
    if not type(model).__module__.startswith("sklearn"):
        yield "native booster", native_predict(model)
    if type(model).__module__.startswith("xgboost") and len(model.classes_) == 2:
        yield "native prefix exit", prefix_exit(model)
    if hasattr(model, "booster_"):
        booster = model.booster_
        yield "pred_early_stop", lambda X: booster.predict(X, num_threads=1, pred_early_stop=True)
    yield "treelite gtil", gtil_predict(model, input_type(model))
    yield "onnxruntime", onnx_predict(model)
    if options.free_exits and hasattr(model, "get_booster"):
        yield "onnxruntime, free exits", onnx_predict(model.get_booster()[:n_met])
    if options.compiled:
        yield "tl2cgen", compiled_predict(model, input_type(model), folder)[0]


def on_all_cores(model: Any, scorer: pine_boost.FastScorer) -> dict[str, Predict]:
    """The scorer in one thread and in all, and the library in all, where it can be told."""
    found = {"scorer": scorer.predict, "scorer, all cores": pine_boost.FastScorer(scorer.parts, n_jobs=-1).predict}
    if is_catboost(model):
        found["native predict, all cores"] = lambda X: model.predict(X, thread_count=os.cpu_count())
    elif hasattr(model, "booster_"):
        found["native predict, all cores"] = lambda X: model.predict(X, num_threads=os.cpu_count())
    elif hasattr(model, "get_booster"):
        other = copy.deepcopy(model)
        other.get_booster().set_param({"nthread": os.cpu_count()})
        found["native predict, all cores"] = other.predict
    elif hasattr(model, "n_jobs"):
        found["native predict, all cores"] = copy.deepcopy(model).set_params(n_jobs=-1).predict
    return found


def prefix_exit(model: Any) -> Predict:
    """XGBoost's margins of the first trees in training order; a row stops once the others cannot change its class."""
    import xgboost

    from pine_boost.parsers import read_model

    booster, forest = model.get_booster(), read_model(model).forest
    n_trees, leaves = forest.n_trees, forest.left < 0
    tree = np.searchsorted(forest.tree_offset, np.flatnonzero(leaves), side="right") - 1
    value = forest.value[leaves].reshape(-1)
    least, largest = np.full(n_trees, np.inf), np.full(n_trees, -np.inf)
    np.minimum.at(least, tree, value)
    np.maximum.at(largest, tree, value)
    ends = [n_trees // 8, n_trees // 4, n_trees // 2, 3 * n_trees // 4, n_trees]

    def predict(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        margin, left, begin = np.zeros(len(X), dtype=np.float32), np.arange(len(X)), 0
        for end in ends:
            seen = xgboost.DMatrix(X[left]) if begin == 0 else xgboost.DMatrix(X[left], base_margin=margin[left])
            margin[left] = booster.predict(seen, output_margin=True, iteration_range=(begin, end))
            found = margin[left]
            is_open = (found + least[end:].sum() <= 0.001) & (found + largest[end:].sum() >= -0.001)
            left, begin = left[is_open], end
            if not len(left):
                break
        return model.classes_[(margin > 0).astype(np.int64)]

    return predict


def onnx_predict(model: Any) -> Predict:
    """Onnxruntime on the exported model, one thread."""
    import onnxruntime

    from pine_boost.exporters.onnx import to_onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    exported = to_onnx(model)
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name, label = session.get_inputs()[0].name, [session.get_outputs()[0].name]
    dtype = np.float32 if "float)" in session.get_inputs()[0].type else np.float64
    return lambda X: session.run(label, {name: np.asarray(X, dtype=dtype)})


def calls(rows: npt.NDArray[Any], batch: int) -> npt.NDArray[Any]:
    """The rows of one timing: a batch, or many single rows."""
    return repeat_rows(rows, batch) if batch > 1 else repeat_rows(rows, SINGLE_CALLS)[:, None, :]


def in_calls(predict: Predict, batch: int) -> Predict:
    """One call for a batch; single rows are scored one after another, as a server scores them."""
    return predict if batch > 1 else lambda X: [predict(row) for row in X]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line per data set, model, engine and batch."""
    for dataset in options.datasets:
        table = data.load(dataset, options.data, "raw")
        order = np.random.default_rng(options.seed).permutation(len(table.X))
        fit, rest = np.split(order, [int(FIT_SHARE * len(order))])
        for name in options.models:
            model = train(name, table.X[fit], table.y[fit])
            # CatBoost converts large tables in threads of its own, even where it is told to use one
            busy = time.process_time if is_catboost(model) else time.thread_time
            clock = busy if options.cpu_time else time.perf_counter
            started = time.perf_counter()
            result = pine_boost.accelerate_booster(model)
            build = time.perf_counter() - started
            rows, scorer = table.X[rest], result.scorer
            if not np.array_equal(scorer.predict(rows), model.predict(rows)):
                raise SystemExit(f"{dataset} {name}: the scorer differs from the native predict")
            n_trees = scorer.parts.flat.n_trees
            work = float(scorer.trees_met(rows).mean()) / n_trees
            cells = (dataset, name, n_trees, work, build)
            with tempfile.TemporaryDirectory() as folder:
                named = dict(engines(model, scorer, Path(folder), round(work * n_trees), options))
                for batch in options.batches:
                    left_out = {"treelite gtil"} if batch > 1000 else set()  # the reference takes minutes there
                    asked = {key: one for key, one in named.items() if key not in left_out}
                    yield from measure(cells, asked, rows, batch, clock)
            if max(options.batches) > 1000:  # threads count by the wall
                yield from measure(cells, on_all_cores(model, scorer), rows, max(options.batches), time.perf_counter)


def measure(
    cells: tuple[Any, ...], named: dict[str, Predict], rows: npt.NDArray[Any], batch: int, clock: Callable[[], float]
) -> Iterator[dict[str, Any]]:
    """Time engines in turns, the scorer first."""
    speeds = rows_per_second([in_calls(one, batch) for one in named.values()], calls(rows, batch), clock)
    times = dict(zip(named, (1e6 * batch / speed for speed in speeds), strict=True))
    for engine, microseconds in times.items():
        if engine != "scorer" or clock is not time.perf_counter or "scorer, all cores" not in named:
            ratio = microseconds / times["scorer"]
            yield dict(zip(COLUMNS, (*cells, engine, batch, microseconds, ratio), strict=True))


def format_row(row: dict[str, Any]) -> str:
    """A line to look at."""
    dataset, name, n_trees, work, build, engine, batch, microseconds, ratio = (row[column] for column in COLUMNS)
    return (
        f"{dataset:24} {name:17} {n_trees:5} trees  work {work:.2f}  built {build:5.2f} s  {engine:18} "
        f"{batch:7} rows {microseconds:12.1f} us  scorer {ratio:8.2f} times as fast"
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scoring", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument(
        "--models", type=listed, default=list(MODELS), metavar="A,B", help=f"others: {', '.join(CATBOOST)}"
    )
    parser.add_argument("--batches", type=lambda text: [int(word) for word in listed(text)], default=list(BATCHES))
    parser.add_argument("--compiled", action="store_true", help="tl2cgen too; it compiles for seconds to minutes")
    parser.add_argument(
        "--free-exits",
        action="store_true",
        help="XGBoost: onnxruntime with only as many trees as a row meets, the most that exits in ONNX could gain",
    )
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread, for a busy machine")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "scoring.csv")
    options = parser.parse_args(arguments)
    check_data(options, parser)
    record_run(options.out)
    show_and_replace(options.out, COLUMNS, run(options), format_row)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
