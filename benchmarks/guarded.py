"""A guarded model against the original and its accelerated scorer (python -m benchmarks.guarded).

Measures rows per second in batches of 1, 100 and 100 000, and the share of rows that went to the original. One
thread. A call includes everything a server pays: input checks, membership, both models.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
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
    "batch",
    "rows_per_s_native",
    "rows_per_s_accelerated",
    "rows_per_s_guarded",
    "share_fallbacks",
    "same_class",
)
BATCHES = (1, 100, 100_000)


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


def run_guarded(dataset: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Both models, behind the guard that each allows, in all batches."""
    from pine_boost import GuardedModel, InvalidInputError, accelerate_booster
    from pine_boost.fleet.run import smaller_of

    for name, result, parts in results_of(dataset, options):
        model = result.original.native
        X_val = None if result.status == "CERTIFIED" else parts.X_test[::2]
        try:
            guarded = GuardedModel(result, X_val, fidelity=0.99)
        except InvalidInputError as error:
            print(f"{name}: no margin guard: {error}")
            continue
        X_new = parts.X_test[1::2]  # the other half chose the margin
        sample = repeat_rows(X_new, 2000)
        calls = (model.predict, accelerate_booster(model).scorer.predict, guarded.predict)
        for batch in options.batches:
            speed = rows_per_second(calls, repeat_rows(X_new, batch))
            yield {
                "dataset": dataset,
                "model": name,
                "leaves_before": result.original.forest.n_leaves,
                "leaves_after": smaller_of(result).forest.n_leaves,
                "guard": "region" if guarded.margin is None else "margin",
                "batch": batch,
                **{column: f"{rows:.0f}" for column, rows in zip(COLUMNS[6:9], speed, strict=True)},
                "share_fallbacks": f"{1 - guarded.guarded(X_new).mean():.3f}",
                "same_class": f"{(guarded.predict(sample) == model.predict(sample)).mean():.4f}",
            }


HEADER = (
    "| data set | model | leaves | guard | batch | native rows/s | accelerated rows/s | guarded rows/s "
    "| to the original | same class |\n|---|---|---|---|---:|---:|---:|---:|---:|---:|"
)


def format_row(row: dict[str, Any]) -> str:
    """One line of the printed table."""
    speeds = " | ".join(f"{int(row[column]):,}" for column in COLUMNS[6:9])
    return (
        f"| {row['dataset']} | {row['model']} | {row['leaves_before']} -> {row['leaves_after']} "
        f"| {row['guard']} | {int(row['batch']):,} | {speeds} "
        f"| {float(row['share_fallbacks']):.1%} | {float(row['same_class']):.2%} |"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarded", description=__doc__)
    add_data_options(parser, ("HTRU2", "ELEC2"))
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
