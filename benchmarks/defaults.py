"""Compress models of default size (python -m benchmarks.defaults).

Reports the leaves removed for 99 % at 95 % confidence and the test fidelity.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.cells import percent
from benchmarks.frames import markdown
from benchmarks.large import train_default
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, add_run_options, check_data, listed
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

KEY_COLUMNS = ("dataset", "model", "seed")
COLUMNS = (
    *KEY_COLUMNS,
    *("target", "n_val", "n_fresh", "trees_before", "trees_after", "leaves_before", "leaves_after", "leaves_gone"),
    *("changed", "bound", "fidelity", "accuracy_before", "accuracy_after", "time_s", "cpu_s", "status"),
)
MODELS = ("xgboost-0.1", "xgboost-0.3", "lightgbm", "histgb", "random-forest", "catboost")
FIDELITY, CONFIDENCE = 0.99, 0.95
LARGE = ("Adult", "COMPAS-ProPublica", "ELEC2", "FICO", "HTRU2", "JM1", "PoL", "Spambase")
FIRST = "xgboost-0.1"


@dataclass(frozen=True)
class CompressionCell:
    """One model of the size people run, on one split."""

    dataset: str
    model: str
    seed: int
    folder: str | None = None
    time_limit: float = 300.0
    trees: int = 100

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, self.model, str(self.seed))


def run_compression(cell: CompressionCell) -> list[dict[str, Any]]:
    """Train, compress, measure on rows that nothing has seen."""
    from pine_boost import compress_booster
    from pine_boost.compression.fixed_sequence import highest_fidelity, lower_bound

    parts = data.split(data.load(cell.dataset, cell.folder, "dummies"), cell.seed)
    model = train_default(cell.model, cell.trees, cell.seed, parts.X_fit, parts.y_fit)
    n_val = len(parts.X_cal)
    target = FIDELITY
    if lower_bound(0, n_val, CONFIDENCE) < target:  # a small data set: the highest that fits
        target = highest_fidelity(n_val, CONFIDENCE)
    started, started_cpu = time.perf_counter(), time.process_time()
    result = compress_booster(
        model,
        parts.X_fit,
        parts.X_cal,
        fidelity=target,
        minimize="leaves",
        confidence=CONFIDENCE,
        random_state=cell.seed,
        time_limit=cell.time_limit,
    )
    seconds, seconds_cpu = time.perf_counter() - started, time.process_time() - started_cpu
    record = result.record
    accuracy = [float(np.mean(m.predict(parts.X_test) == parts.y_test)) for m in (model, result.model)]
    return [
        {
            **dict(zip(KEY_COLUMNS, cell.key, strict=True)),
            "target": f"{target:g}",
            "n_val": n_val,
            "n_fresh": len(parts.X_test),
            "trees_before": record.trees_before,
            "trees_after": record.trees_after,
            "leaves_before": record.leaves_before,
            "leaves_after": result.leaves_after,
            "leaves_gone": percent(result.compression_rate),
            "changed": record.n_changed,
            "bound": f"{record.bound:.6f}",
            "fidelity": percent(result.evaluate(parts.X_test)),
            "accuracy_before": percent(accuracy[0]),
            "accuracy_after": percent(accuracy[1]),
            "time_s": f"{seconds:.1f}",
            "cpu_s": f"{seconds_cpu:.1f}",
            "status": result.status,
        }
    ]


def cells_of(options: argparse.Namespace) -> list[CompressionCell]:
    """All cells, those of the stated target first."""
    cells = [
        CompressionCell(dataset, model, seed, options.data, options.time_limit, options.trees)
        for model in options.models
        for seed in range(options.seeds)
        for dataset in options.datasets
    ]
    return sorted(cells, key=_urgency)


def _urgency(cell: CompressionCell) -> tuple[int, ...]:
    if cell.model == FIRST and cell.dataset in LARGE:
        return (int(cell.seed > 1), 0, cell.seed)
    return (int(cell.seed > 0), 1, cell.seed)


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Markdown: one line per data set and model, means over the seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["model"], row["dataset"]].append(row)
    columns = ("leaves_gone", "fidelity", "time_s", "cpu_s")
    lines = [
        (*key, len(found), found[0]["target"], *(f"{np.mean([float(row[c]) for row in found]):.2f}" for c in columns))
        for key, found in sorted(groups.items())
    ]
    header = ("model", "data set", "seeds", "target", "leaves gone %", "test fidelity %", "time s", "of them CPU")
    return markdown(header, lines)


def main(arguments: list[str] | None = None) -> int:
    """Run what is not in the file yet, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100, help="the libraries' default is 100")
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    parser.add_argument("--memory-limit", type=float, default=4.0, help="gigabytes per process")
    parser.add_argument("--out", type=Path, default=RESULTS / "defaults.csv")
    add_run_options(parser)
    parser.set_defaults(time_limit=300.0)  # a busy machine must not change what is found
    options = parser.parse_args(arguments)
    failures = 0
    if not options.table:
        check_data(options, parser)
        if arguments is None:
            record_run(options.out)
        cells = cells_of(options)
        failures = run_jobs(
            run_compression,
            [Job(cell.key, cell) for cell in cells],
            options.out,
            COLUMNS,
            KEY_COLUMNS,
            n_workers=options.jobs,
            hard_limit=4 * options.time_limit + 300,
            memory_limit=options.memory_limit,
        )
    print(table(read_rows(options.out)))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
