"""A guarded model against the original (python -m benchmarks.guarded).

Measures rows per second in batches of 1, 100 and 100 000 for every backend, and the share of rows that went to the
original. One thread. The ratio includes everything a server pays: input checks, membership, both models.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.compare import RESULTS
from benchmarks.large import train_default
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, check_data, listed
from benchmarks.runner import show_and_replace
from benchmarks.throughput import repeat_rows, rows_per_second

COLUMNS = (
    "dataset",
    "model",
    "leaves_before",
    "leaves_after",
    "guard",
    "backend",
    "batch",
    "rows_per_s_original",
    "rows_per_s_guarded",
    "ratio",
    "share_fallbacks",
    "same_class",
)
BATCHES = (1, 100, 100_000)
BACKENDS = ("native", "kernel")


def results_of(dataset: str, options: argparse.Namespace) -> list[tuple[str, Any, Any]]:
    """A small model with a certified region, and a default-size one that was compressed."""
    from xgboost import XGBClassifier

    from pine_boost import compress_booster, prune_booster

    table = data.load(dataset, options.data, "raw", True)
    parts = data.split(table, 0, selection=True)
    small = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    small.fit(parts.X_fit, parts.y_fit)
    pruned = prune_booster(
        small, parts.X_sel, parts.X_cal, alpha=0.1, domain=table.domain(), time_limit=options.time_limit
    )
    large = train_default("xgboost", options.trees, 0, parts.X_fit, parts.y_fit)
    unseen = np.concatenate([parts.X_sel, parts.X_cal])
    compressed = compress_booster(large, parts.X_fit, unseen, fidelity=options.fidelity, time_limit=options.time_limit)
    return [("xgboost 30x2, pruned", pruned, parts), (f"xgboost {options.trees}x6, compressed", compressed, parts)]


def guarded_models(result: Any, parts: Any, backend: str) -> list[tuple[str, Any]]:
    """Every guard that this result allows."""
    from pine_boost import GuardedModel, InvalidInputError

    made: list[tuple[str, Any]] = []
    if result.status == "CERTIFIED":
        return [("region", GuardedModel(result, backend=backend))]
    try:
        made.append(("margin", GuardedModel(result, parts.X_test[::2], fidelity=0.99, backend=backend)))
    except InvalidInputError as error:
        print(f"no margin guard: {error}")
    return made


def run_guarded(dataset: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All models, guards, backends and batches of one data set."""
    from pine_boost.fleet.run import smaller_of
    from pine_boost.native.predict import predict_classes
    from pine_boost.serving.engines import make_engine

    rows = []
    for name, result, parts in results_of(dataset, options):
        X_new = parts.X_test[1::2]  # the other half chose the margin
        for backend in options.backends:
            original = make_engine(result.original, backend)
            for guard, guarded in guarded_models(result, parts, backend):
                for batch in options.batches:
                    X = repeat_rows(X_new, batch)
                    speed = rows_per_second((original.classes, guarded.predict), X)
                    sample = repeat_rows(X_new, 2000)
                    same = guarded.predict(sample) == predict_classes(result.original, sample)
                    rows.append(
                        {
                            "dataset": dataset,
                            "model": name,
                            "leaves_before": result.original.forest.n_leaves,
                            "leaves_after": smaller_of(result).forest.n_leaves,
                            "guard": guard,
                            "backend": backend,
                            "batch": batch,
                            "rows_per_s_original": f"{speed[0]:.0f}",
                            "rows_per_s_guarded": f"{speed[1]:.0f}",
                            "ratio": f"{speed[1] / speed[0]:.2f}",
                            "share_fallbacks": f"{1 - guarded.guarded(X_new).mean():.3f}",
                            "same_class": f"{same.mean():.4f}",
                        }
                    )
    return rows


HEADER = (
    "| data set | model | leaves | guard | backend | batch | original rows/s | guarded rows/s "
    "| ratio | to the original | same class |\n|---|---|---|---|---|---:|---:|---:|---:|---:|---:|"
)


def format_row(row: dict[str, Any]) -> str:
    """One line of the printed table."""
    return (
        f"| {row['dataset']} | {row['model']} | {row['leaves_before']} -> {row['leaves_after']} "
        f"| {row['guard']} | {row['backend']} | {row['batch']} "
        f"| {int(row['rows_per_s_original']):,} | {int(row['rows_per_s_guarded']):,} "
        f"| {row['ratio']} | {float(row['share_fallbacks']):.1%} | {float(row['same_class']):.2%} |"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarded", description=__doc__)
    add_data_options(parser, ("HTRU2", "ELEC2"))
    parser.add_argument("--backends", type=listed, default=list(BACKENDS), metavar="A,B")
    parser.add_argument("--batches", type=listed, default=[str(b) for b in BATCHES])
    parser.add_argument("--trees", type=int, default=300, help="of the model to compress")
    parser.add_argument("--fidelity", type=float, default=0.98, help="of the compression")
    parser.add_argument("--time-limit", type=float, default=40.0, help="seconds to prune")
    parser.add_argument("--out", type=Path, default=RESULTS / "guarded.csv")
    options = parser.parse_args(arguments)
    options.batches = [int(batch) for batch in options.batches]
    check_data(options, parser)
    if arguments is None:
        record_run(options.out)
    print(HEADER, flush=True)
    rows = (row for dataset in options.datasets for row in run_guarded(dataset, options))
    show_and_replace(options.out, COLUMNS, rows, format_row)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
