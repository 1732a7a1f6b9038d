"""Validated scorers on fresh rows: work, changed classes and speed (python -m benchmarks.validated_scoring).

64 % of the rows train the model and shape the stages; half of the others are X_val, the other half are fresh. Work is
the mean share of the trees that a fresh row meets; beside it that of the same exits on the original's own values in
file order. Speed is that of 100 000 rows in one thread beside the native ``predict`` and the library's own booster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import pine_boost
from benchmarks import data
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, check_data, listed
from benchmarks.runner import RESULTS, show_and_replace
from benchmarks.scoring import FIT_SHARE, train
from benchmarks.throughput import native_predict, repeat_rows, rows_per_second

COLUMNS = (
    *("dataset", "model", "fidelity", "status", "n_val", "work", "plain_work", "proved_work", "changed_percent"),
    *("n_fresh", "build_s", "times_native", "times_booster"),
)
MODELS = ("xgboost-100x6", "lightgbm-100x31")
FIDELITIES = (0.999, 0.99)
BATCH = 100_000


def plain_work(parsed: Any, X_fit: Any, X_val: Any, fresh: Any, fidelity: float) -> float:
    """Work of the same test with unrefitted stages: the first trees of the file, shifted by the mean of the others."""
    from pine_boost import kernels
    from pine_boost.budget import Budget
    from pine_boost.compression.path import set_up
    from pine_boost.compression.reading import read_tables
    from pine_boost.model.flatten import flatten
    from pine_boost.model.shape import GONE, Shape, margins
    from pine_boost.options import AccelerateOptions
    from pine_boost.scoring.native_sum import native_sum
    from pine_boost.scoring.validated_exits import Stages, build_stages, fit_odds, validate_exits

    options, forest = AccelerateOptions(fidelity=fidelity), parsed.forest
    tables = read_tables(parsed, X_fit, X_val, options)
    task = set_up(parsed, "trees", tables.fit, 0, Budget.of())
    points, shapes = task.sample.holdout_points, []
    refitted = build_stages(task, Budget.of())
    for count in refitted.counts.tolist():
        kept = task.subtrees.leaf_tree < count
        value = np.where(kept[:, None], task.original.value, 0.0)
        shape = Shape(np.where(kept, task.original.owner, GONE), value, task.original.intercept)
        rest = np.average(points.margins - margins(shape, forest, points.leaves), axis=0, weights=points.weight)
        shapes.append(replace(shape, intercept=shape.intercept + rest))
    offset, slope = np.array([fit_odds(task, shape) for shape in shapes]).T
    stages = Stages(np.arange(forest.n_trees), refitted.counts, shapes, offset, slope)
    flat, native = flatten(forest), native_sum(parsed)
    found = validate_exits(task, stages, flat, native, tables, options, Budget.of())
    if found.plan is None:
        return 1.0
    met = np.zeros(len(fresh), dtype=np.int32)
    kernels.bind(flat, native, found.plan).classes(np.ascontiguousarray(fresh, dtype=np.float64), met=met)
    return float(met.mean()) / forest.n_trees


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line per data set, model and fidelity that X_val has rows enough for."""
    for dataset in options.datasets:
        table = data.load(dataset, options.data, "raw")
        order = np.random.default_rng(options.seed).permutation(len(table.X))
        fit, rest = np.split(order, [int(FIT_SHARE * len(order))])
        val, fresh = np.array_split(rest, 2)
        X_fit, X_val, X_fresh = (table.X[rows] for rows in (fit, val, fresh))
        for name in options.models:
            model = train(name, X_fit, table.y[fit])
            expected = model.predict(X_fresh)
            proved = pine_boost.accelerate_booster(model, X_fit)
            proved_work = float(proved.scorer.trees_met(X_fresh).mean()) / proved.original.forest.n_trees
            for fidelity in options.fidelities:
                started = time.process_time()
                try:
                    result = pine_boost.accelerate_booster(
                        model, X_fit, X_val, fidelity=fidelity, allow_overlap=True, verbose=False
                    )
                except pine_boost.InvalidInputError:  # too few rows
                    continue
                build, scorer = time.process_time() - started, result.scorer
                rows = repeat_rows(X_fresh, BATCH)
                engines = [scorer.predict, model.predict]
                if not type(model).__module__.startswith("sklearn"):
                    engines.append(native_predict(model))
                speeds = rows_per_second(engines, rows, time.thread_time if options.cpu_time else time.perf_counter)
                cells = (
                    *(dataset, name, fidelity, result.status, len(val)),
                    float(scorer.trees_met(X_fresh).mean()) / result.original.forest.n_trees,
                    plain_work(result.original, X_fit, X_val, X_fresh, fidelity) if options.plain else float("nan"),
                    proved_work,
                    100 * float(np.mean(scorer.predict(X_fresh) != expected)),
                    *(len(fresh), build, speeds[0] / speeds[1], speeds[0] / speeds[-1]),
                )
                yield dict(zip(COLUMNS, cells, strict=True))


def format_row(row: dict[str, Any]) -> str:
    """A line to look at."""
    return (
        f"{row['dataset']:24} {row['model']:17} {row['fidelity']:<6} {row['status']:13} work {row['work']:.3f}  "
        f"unrefitted {row['plain_work']:.3f}  proved {row['proved_work']:.3f}  changed {row['changed_percent']:.3f} %  "
        f"built {row['build_s']:5.1f} s  {row['times_native']:.1f} / {row['times_booster']:.1f} times as fast"
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validated_scoring", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    numbers = {"type": lambda text: [float(word) for word in listed(text)], "metavar": "A,B"}
    parser.add_argument("--fidelities", default=list(FIDELITIES), **numbers)
    parser.add_argument("--plain", action="store_true", help="unrefitted stages too, which doubles the time")
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread, for a busy machine")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "validated_scoring.csv")
    options = parser.parse_args(arguments)
    check_data(options, parser)
    record_run(options.out)
    show_and_replace(options.out, COLUMNS, run(options), format_row)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
