"""The search's figures against a prototype and what issue 4 asks (python -m benchmarks.search).

In come the data sets; out goes one table on standard output (and a CSV with --out). Seed 0,
XGBoost, 30 trees of depth 2, the prototype's protocol. Judges every cell, hides none.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.cells import alpha_of, percent, train, warm_up
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, check_data, listed
from benchmarks.published import MULTICLASS_SECONDS, PROTOTYPE, REQUIRED, SEARCH_ALPHAS, paper_l0
from benchmarks.runner import append_rows

COLUMNS = (
    "dataset",
    "alpha",
    "pruning_rate",
    "prototype",
    "required",
    "time_s",
    "prototype_s",
    "required_s",
    "lower_bound",
    "fidelity",
    "fidelity_in_region",
    "status",
    "verdict",
)
NAMES = (*PROTOTYPE, "Seeds", "Balance-Scale")


@dataclass(frozen=True)
class Target:
    """What a cell should reach; None where nobody measured."""

    rate: float
    seconds: float
    prototype: float | None
    prototype_seconds: float | None


def target_of(dataset: str, alpha: str) -> Target:
    """Prototype and required figures of a cell."""
    if dataset in PROTOTYPE:
        position = SEARCH_ALPHAS.index(alpha)
        rate, seconds = REQUIRED[dataset][position]
        return Target(rate, seconds, *PROTOTYPE[dataset][position])
    return Target(paper_l0()[dataset, alpha, "pruning_rate"][0], MULTICLASS_SECONDS, None, None)


def run(dataset: str, alpha: str, folder: str | None, time_limit: float) -> dict[str, Any]:
    """One cell by the prototype's protocol."""
    from pine_boost import Domain, prune_booster

    table = data.load(dataset, folder, "dummies")
    parts = data.split(table, 0)
    model = train("xgboost", 30, 2, 0, parts.X_fit, parts.y_fit)
    started = time.perf_counter()
    result = prune_booster(
        model,
        parts.X_fit,
        parts.X_cal,
        alpha=alpha_of(alpha),
        time_limit=time_limit,
        reweight="tree",
        domain=Domain(never_missing=True),
    )
    seconds = time.perf_counter() - started
    target = target_of(dataset, alpha)
    evaluation = result.evaluate(parts.X_test)
    rate = 100 * result.pruning_rate
    return {
        "dataset": dataset,
        "alpha": alpha,
        "pruning_rate": f"{rate:.1f}",
        "prototype": "" if target.prototype is None else f"{target.prototype:.1f}",
        "required": f"{target.rate:g}",
        "time_s": f"{seconds:.2f}",
        "prototype_s": "" if target.prototype_seconds is None else f"{target.prototype_seconds:g}",
        "required_s": f"{target.seconds:g}",
        "lower_bound": result.certificate.lower_bound,
        "fidelity": percent(evaluation.fidelity),
        "fidelity_in_region": percent(evaluation.fidelity_in_region),
        "status": result.status,
        "verdict": verdict(rate, seconds, result.status, target),
    }


def verdict(rate: float, seconds: float, status: str, target: Target) -> str:
    """What a cell misses, in words."""
    missed = []
    if status != "CERTIFIED":
        missed.append("not certified")
    if round(rate, 1) < target.rate:
        missed.append("fewer trees removed")
    if seconds > target.seconds:
        missed.append("slower")
    return ", ".join(missed) or "ok"


def format_line(row: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        f"| {row['dataset']:23s} | {row['alpha']:8s} | {row['pruning_rate']:>6s} "
        f"| {row['prototype']:>9s} | {row['required']:>8s} | {row['lower_bound']:>11} "
        f"| {row['time_s']:>7s} | {row['prototype_s']:>11s} | {row['required_s']:>10s} "
        f"| {float(row['fidelity']):8.2f} | {float(row['fidelity_in_region']):9.2f} "
        f"| {row['verdict']} |"
    )


HEADER = (
    f"| {'data set':23s} | {'alpha':8s} | ours % | prototype | required | lower bound |  time s "
    "| prototype s | required s | fidelity | in region | verdict |\n"
    f"|{'-' * 25}|{'-' * 10}|-------:|----------:|---------:|------------:|--------:"
    "|------------:|-----------:|---------:|----------:|---|"
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    add_data_options(parser, NAMES)
    parser.add_argument("--alphas", type=listed, default=list(SEARCH_ALPHAS), metavar="A,B")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per cell")
    parser.add_argument("--out", type=Path, help="also write the table as CSV (replaces the file)")
    options = parser.parse_args(arguments)
    check_data(options, parser)
    for word in options.alphas:
        if word not in SEARCH_ALPHAS:
            parser.error(f"--alphas {word}: accepted are {', '.join(SEARCH_ALPHAS)}")
    for word in options.datasets:
        if word not in NAMES:
            parser.error(f"--datasets {word}: accepted are {', '.join(NAMES)}")
    if arguments is None and options.out:
        record_run(options.out)
    warm_up()
    print(HEADER, flush=True)
    rows = []
    for dataset in options.datasets:
        for alpha in options.alphas:
            rows.append(run(dataset, alpha, options.data, options.time_limit))
            print(format_line(rows[-1]), flush=True)
    n_met = sum(row["verdict"] == "ok" for row in rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{n_met} of {len(rows)} cells reach what is required; peak memory {peak:.2f} GB.")
    if options.out:
        options.out.unlink(missing_ok=True)
        append_rows(options.out, COLUMNS, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
