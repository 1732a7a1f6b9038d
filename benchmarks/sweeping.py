"""A sweep against its slowest alpha alone (python -m benchmarks.sweeping).

In come data sets; out goes one line per data set: the seconds of seven single calls, of one sweep
over the same alphas, and the trees that both keep. XGBoost, 30 trees of depth 2, seed 0.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.cells import small_model, warm_up
from benchmarks.paper import add_data_options, add_run_options, begin
from benchmarks.runner import RESULTS, Job, run_jobs

COLUMNS = ("dataset", "slowest_s", "singles_s", "sweep_s", "ratio", "kept_single", "kept_sweep")


@dataclass(frozen=True)
class Grid:
    """One model and the default grid of alphas."""

    dataset: str
    time_limit: float
    folder: str | None


def run_grid(grid: Grid) -> list[dict[str, Any]]:
    """Time the single calls and the sweep in one process, one after the other."""
    from pine_boost import prune_booster, sweep
    from pine_boost.sweeping import ALPHAS

    warm_up()
    table, parts, model = small_model(grid.dataset, grid.folder, seed=0)
    seconds, kept = [], []
    for alpha in ALPHAS:
        started = time.perf_counter()
        result = prune_booster(
            model,
            parts.X_fit,
            parts.X_cal,
            alpha=alpha,
            domain=table.domain(),
            reweight="tree",
            time_limit=grid.time_limit,
        )
        seconds.append(time.perf_counter() - started)
        kept.append(result.certificate.units_kept)
    started = time.perf_counter()
    swept = sweep(
        model,
        parts.X_fit,
        parts.X_cal,
        alphas=ALPHAS,
        domain=table.domain(),
        reweight="tree",
        time_limit=grid.time_limit * len(ALPHAS),
    )
    together = time.perf_counter() - started
    return [
        {
            "dataset": grid.dataset,
            "slowest_s": f"{max(seconds):.3f}",
            "singles_s": f"{sum(seconds):.3f}",
            "sweep_s": f"{together:.3f}",
            "ratio": f"{together / max(seconds):.2f}",
            "kept_single": " ".join(map(str, kept)),
            "kept_sweep": " ".join(str(result.certificate.units_kept) for result in swept),
        }
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeping", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--out", type=Path, default=RESULTS / "sweep.csv")
    add_run_options(parser)
    options = begin(parser, arguments)
    jobs = [Job((dataset,), Grid(dataset, options.time_limit, options.data)) for dataset in options.datasets]
    failures = run_jobs(
        run_grid,
        jobs,
        options.out,
        COLUMNS,
        ("dataset",),
        n_workers=options.jobs,
        hard_limit=20 * options.time_limit + 120,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
