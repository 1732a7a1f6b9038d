"""Inference before and after pruning (python -m benchmarks.serving).

Measures rows per second, file size and memory for the native call, Treelite's gtil and tl2cgen, in batches of 1, 100
and 100 000 and one thread. The call is the one a server makes, so a single row mostly pays its fixed cost.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.large import MODELS, train_default
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, check_data, listed
from benchmarks.runner import RESULTS, show_and_replace
from benchmarks.throughput import (
    Predict,
    compiled_predict,
    gtil_predict,
    input_type,
    kind_of,
    measure_memory,
    model_bytes,
    native_predict,
    repeat_rows,
    rows_per_second,
)

COLUMNS = (
    "dataset",
    "model",
    "alpha",
    "indifference",
    "trees_before",
    "trees_after",
    "engine",
    "batch",
    "rows_per_s_before",
    "rows_per_s_after",
    "ratio",
    "bytes_before",
    "bytes_after",
    "memory_before",
    "memory_after",
    "status",
)
BATCHES = (1, 100, 100_000)


def engines(before: Any, after: Any, folder: Path) -> Iterator[tuple[str, Predict, Predict, int, int]]:
    """Every engine with its two predictors and the bytes each one loads."""
    sizes = len(model_bytes(before)), len(model_bytes(after))
    dtype = input_type(before)
    yield "native", native_predict(before), native_predict(after), *sizes
    yield "treelite gtil", gtil_predict(before, dtype), gtil_predict(after, dtype), *sizes
    one, bytes_one = compiled_predict(before, dtype, folder)
    two, bytes_two = compiled_predict(after, dtype, folder)
    yield "tl2cgen", one, two, bytes_one, bytes_two


def run_serving(dataset: str, model_name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All engines and batches for one model."""
    from pine_boost import prune_booster

    table = data.load(dataset, options.data, "raw", True)
    parts = data.split(table, 0, selection=True)  # as in large.py
    before = train_default(model_name, options.trees, 0, parts.X_fit, parts.y_fit)
    result = prune_booster(
        before,
        parts.X_sel,
        parts.X_cal,
        alpha=options.alpha,
        indifference=options.indifference,
        domain=table.domain(),
        time_limit=options.time_limit,
    )
    after = result.model
    memory = [measure_memory(model_bytes(m), kind_of(m)) for m in (before, after)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for engine, one, two, size_one, size_two in engines(before, after, Path(folder)):
            for batch in options.batches:
                X = repeat_rows(parts.X_test, batch)
                speed = rows_per_second((one, two), X)
                rows.append(
                    {
                        "dataset": dataset,
                        "model": model_name,
                        "alpha": options.alpha,
                        "indifference": options.indifference,
                        "trees_before": result.certificate.trees_before,
                        "trees_after": result.certificate.trees_after,
                        "engine": engine,
                        "batch": batch,
                        "rows_per_s_before": f"{speed[0]:.0f}",
                        "rows_per_s_after": f"{speed[1]:.0f}",
                        "ratio": f"{speed[1] / speed[0]:.2f}",
                        "bytes_before": size_one,
                        "bytes_after": size_two,
                        "memory_before": memory[0] if engine == "native" else "",
                        "memory_after": memory[1] if engine == "native" else "",
                        "status": result.status,
                    }
                )
    return rows


def format_row(row: dict[str, Any]) -> str:
    """One line of the printed table."""
    return (
        f"| {row['dataset']:23s} | {row['model']:13s} | {row['trees_before']:>4} -> "
        f"{row['trees_after']:<4} | {row['engine']:13s} | {row['batch']:>6} "
        f"| {int(row['rows_per_s_before']):>11,} | {int(row['rows_per_s_after']):>11,} "
        f"| {row['ratio']:>6} | {row['bytes_before']:>8} -> {row['bytes_after']:<8} "
        f"| {row['memory_before'] or '-':>8} -> {row['memory_after'] or '-':<8} |"
    )


HEADER = (
    "| data set | model | trees | engine | batch | rows/s before | rows/s after | ratio "
    "| bytes | memory |\n|---|---|---|---|---:|---:|---:|---:|---|---|"
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    add_data_options(parser, ("Breast-Cancer-Wisconsin", "COMPAS-ProPublica"))
    parser.add_argument("--models", type=listed, default=["xgboost", "lightgbm"], metavar="A,B")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--indifference", type=float, default=0.05)
    parser.add_argument("--batches", type=listed, default=[str(b) for b in BATCHES])
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds to prune")
    parser.add_argument("--out", type=Path, default=RESULTS / "serving.csv")
    options = parser.parse_args(arguments)
    options.batches = [int(batch) for batch in options.batches]
    check_data(options, parser)
    for word in options.models:
        if word not in MODELS:
            parser.error(f"--models {word}: accepted are {', '.join(MODELS)}")
    if arguments is None:
        record_run(options.out)
    print(HEADER, flush=True)
    rows = (
        row
        for dataset, model in product(options.datasets, options.models)
        for row in run_serving(dataset, model, options)
    )
    show_and_replace(options.out, COLUMNS, rows, format_row)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
