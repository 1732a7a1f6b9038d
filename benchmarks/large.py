"""Prove models of default size (python -m benchmarks.large).

One CSV line per model, with and without indifference, at alpha 0.1. A cell that runs out of time or memory says so in
its status.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.cells import percent, warm_up
from benchmarks.machine import record_run
from benchmarks.models import fit
from benchmarks.paper import add_data_options, add_run_options, check_data, listed
from benchmarks.runner import RESULTS, Job, run_jobs
from benchmarks.throughput import gtil_predict, input_type, model_bytes, native_predict, repeat_rows, rows_per_second

KEY_COLUMNS = ("dataset", "model", "alpha", "indifference", "fit", "seed")
COLUMNS = (
    *KEY_COLUMNS,
    "trees",
    "leaves",
    "pruning_rate",
    "leaf_pruning_rate",
    "bytes_before",
    "bytes_after",
    "native_ratio",
    "treelite_ratio",
    "fidelity",
    "fidelity_in_region",
    "coverage",
    "accuracy_before",
    "accuracy_after",
    "time_s",
    "lower_bound",
    "status",
)
MODELS = ("xgboost", "lightgbm", "histgb", "random-forest")
FITS = ("training", "unseen")
AUTO = "auto"
BATCH = 20_000


@dataclass(frozen=True)
class LargeCell:
    """One default-sized model at one region."""

    dataset: str
    model: str
    alpha: str
    indifference: str
    fit: str
    seed: int
    time_limit: float
    folder: str | None
    trees: int = 100

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, self.model, self.alpha, self.indifference, self.fit, str(self.seed))


def train_default(model: str, trees: int, seed: int, X: Any, y: Any) -> Any:
    """Train with the library's own defaults; only trees and (xgboost-0.1) learning rate change."""
    kind, _, rate = model.partition("-") if model.startswith("xgboost") else (model, "", "")
    return fit(kind, trees, X, y, seed=seed, **({"learning_rate": float(rate)} if rate else {}))


def run_large(cell: LargeCell) -> list[dict[str, Any]]:
    """Train, prune, weigh and time one model; untouched numbers, gaps kept.

    The model trains on 48 % of the rows. Its region is fitted on these, as the README tells users
    to, or ("unseen") on 16 % that it has not seen: a model of this size is far surer of its
    training rows than of new ones, so that more of them stay decided.
    """
    from pine_boost import prune_booster

    warm_up()
    table = data.load(cell.dataset, cell.folder, "raw", True)
    parts = data.split(table, cell.seed, selection=True)
    model = train_default(cell.model, cell.trees, cell.seed, parts.X_fit, parts.y_fit)
    X_region = parts.X_fit if cell.fit == FITS[0] else parts.X_sel
    indifference = AUTO if cell.indifference == AUTO else float(cell.indifference)
    started = time.perf_counter()
    result = prune_booster(
        model,
        X_region,
        parts.X_cal,
        alpha=float(cell.alpha),
        domain=table.domain(),
        indifference=indifference,
        time_limit=cell.time_limit,
        random_state=cell.seed,
    )
    seconds = time.perf_counter() - started
    certificate = result.certificate
    evaluation = result.evaluate(parts.X_test, parts.y_test)
    native, treelite = 1.0, 1.0  # the original itself, where nothing could be removed
    if certificate.trees_after < certificate.trees_before:
        native, treelite = throughput_ratios(model, result.model, parts.X_test)
    return [
        {
            **dict(zip(KEY_COLUMNS, cell.key, strict=True)),
            "trees": certificate.trees_before,
            "leaves": certificate.leaves_before,
            "pruning_rate": percent(result.pruning_rate),
            "leaf_pruning_rate": percent(1 - certificate.leaves_after / certificate.leaves_before),
            "bytes_before": len(model_bytes(model)),
            "bytes_after": len(model_bytes(result.model)),
            "native_ratio": f"{native:.2f}",
            "treelite_ratio": f"{treelite:.2f}",
            "fidelity": percent(evaluation.fidelity),
            "fidelity_in_region": percent(evaluation.fidelity_in_region),
            "coverage": percent(evaluation.coverage.share),
            "accuracy_before": percent(evaluation.accuracy_before or 0.0),
            "accuracy_after": percent(evaluation.accuracy_after or 0.0),
            "time_s": f"{seconds:.2f}",
            "lower_bound": certificate.lower_bound,
            "status": result.status,
        }
    ]


def throughput_ratios(before: Any, after: Any, X: Any) -> tuple[float, float]:
    """How many times more rows per second the pruned model does, natively and in gtil."""
    batch = repeat_rows(X, BATCH)
    native = rows_per_second([native_predict(m) for m in (before, after)], batch)
    gtil = rows_per_second([gtil_predict(m, input_type(m)) for m in (before, after)], batch)
    return native[1] / native[0], gtil[1] / gtil[0]


def failed(cell: LargeCell, error: str) -> list[dict[str, Any]]:
    """The line of a cell that could not be run: nothing was pruned, nothing is claimed."""
    labels = dict(zip(KEY_COLUMNS, cell.key, strict=True))
    word = "REFUSED" if error.startswith("RegionError") else "FAILED"
    return [{**labels, "pruning_rate": percent(0), "status": f"{word} {error[:160]}"}]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--alpha", default="0.1")
    parser.add_argument("--indifference", type=listed, default=["0", AUTO], metavar="A,B")
    parser.add_argument(
        "--fit", type=listed, default=list(FITS), metavar="A,B", help="rows of the region: training, unseen"
    )
    parser.add_argument("--trees", type=int, default=100, help="the libraries' default is 100")
    parser.add_argument("--memory-limit", type=float, default=6.0, help="gigabytes per process")
    parser.add_argument("--out", type=Path, default=RESULTS / "large.csv")
    add_run_options(parser)
    options = parser.parse_args(arguments)
    check_data(options, parser)
    if not set(options.fit) <= set(FITS):
        parser.error(f"--fit {','.join(options.fit)}: accepted are {', '.join(FITS)}")
    if arguments is None:
        record_run(options.out)
    cells = [
        LargeCell(dataset, model, options.alpha, indifference, fit, 0, options.time_limit, options.data, options.trees)
        for fit, dataset, model, indifference in product(
            options.fit, options.datasets, options.models, options.indifference
        )
    ]
    failures = run_jobs(
        run_large,
        [Job(cell.key, cell) for cell in cells],
        options.out,
        COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=4 * options.time_limit + 300,
        memory_limit=options.memory_limit,
        on_failure=failed,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
