"""Choosing alpha on held-out rows (python -m benchmarks.selection).

In come data sets; out goes one line per data set, seed and candidate alpha with the mismatches on
the selection rows (48/16/16/20 split of the paper's appendix). The rules are applied in tables.py.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.cells import percent, small_model, warm_up
from benchmarks.paper import add_data_options, add_run_options, begin
from benchmarks.runner import RESULTS, Job, run_jobs

KEY_COLUMNS = ("dataset", "seed", "alpha")
COLUMNS = (*KEY_COLUMNS, "pruning_rate", "n_selection", "mismatches", "fidelity", "time_s", "status")
CANDIDATES = ("0.05", "0.1", "0.2", "0.4", "0.6", "0.8", "0.9", "0.95")
FAILURE_PROBABILITY = 0.05


@dataclass(frozen=True)
class Candidate:
    """One model pruned at one candidate alpha; XGBoost, 30 trees of depth 2."""

    dataset: str
    seed: int
    alpha: str
    time_limit: float
    folder: str | None


def run_candidate(candidate: Candidate) -> list[dict[str, Any]]:
    """Prune and count mismatches on selection and test rows."""
    from pine_boost import prune_booster

    warm_up()
    table, parts, model = small_model(candidate.dataset, candidate.folder, candidate.seed, selection=True)
    started = time.perf_counter()
    result = prune_booster(
        model,
        parts.X_fit,
        parts.X_cal,
        alpha=float(candidate.alpha),
        domain=table.domain(),
        reweight="tree",
        time_limit=candidate.time_limit,
        random_state=candidate.seed,
    )
    seconds = time.perf_counter() - started
    differs = model.predict(parts.X_sel) != result.model.predict(parts.X_sel)
    return [
        {
            "dataset": candidate.dataset,
            "seed": candidate.seed,
            "alpha": candidate.alpha,
            "pruning_rate": percent(result.pruning_rate),
            "n_selection": len(differs),
            "mismatches": int(np.sum(differs)),
            "fidelity": percent(result.evaluate(parts.X_test).fidelity),
            "time_s": f"{seconds:.3f}",
            "status": result.status,
        }
    ]


def selected(mismatches: dict[str, tuple[int, int]], target: float, *, confident: bool) -> str | None:
    """The largest alpha that a rule allows; None falls back to the original.

    ``mismatches`` maps an alpha to mismatches and rows. The confident rule wants the upper
    Clopper-Pearson bound, Bonferroni over the candidates, below 1 - target.
    """
    from scipy.stats import beta

    allowed = []
    for alpha, (count, n_rows) in mismatches.items():
        risk = count / n_rows
        if confident:
            eta = FAILURE_PROBABILITY / len(mismatches)
            risk = 1.0 if count == n_rows else float(beta.ppf(1 - eta, count + 1, n_rows - count))
        if risk <= 1 - target:
            allowed.append(alpha)
    return max(allowed, key=float) if allowed else None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0..n-1 (the paper: 1)")
    parser.add_argument("--out", type=Path, default=RESULTS / "selection.csv")
    add_run_options(parser)
    options = begin(parser, arguments)
    grid = product(range(options.seeds), options.datasets, CANDIDATES)
    jobs = [
        Job((dataset, str(seed), alpha), Candidate(dataset, seed, alpha, options.time_limit, options.data))
        for seed, dataset, alpha in grid
    ]
    failures = run_jobs(
        run_candidate,
        jobs,
        options.out,
        COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=4 * options.time_limit + 120,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
