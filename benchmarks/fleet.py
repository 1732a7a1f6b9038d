"""A fleet with one process and with two (python -m benchmarks.fleet).

In come a number of jobs and of workers; out go seconds and speed-up, with joblib's processes and
on a Dask cluster of this machine, and the seconds of a second run that finds all jobs done.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import RESULTS
from benchmarks.machine import record_run
from benchmarks.runner import append_rows

COLUMNS = ("backend", "workers", "jobs", "seconds", "speed_up", "seconds_again", "failed")


def make_jobs(folder: Path, n_jobs: int) -> Path:
    """Boosters of as many segments, each with its own rows."""
    from xgboost import XGBClassifier

    rows = [["name", "model", "fit", "cal"]]
    for number in range(n_jobs):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(1600, 8)).astype(np.float32)
        y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.3, 1600) > 0).astype(int)
        model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.2, n_jobs=1)
        model.fit(X[:800], y[:800]).save_model(folder / f"{number}.json")
        np.save(folder / f"fit{number}.npy", X[:800])
        np.save(folder / f"cal{number}.npy", X[800:])
        rows.append([f"segment-{number:03d}", f"{number}.json", f"fit{number}.npy",
                     f"cal{number}.npy"])  # fmt: skip
    with (folder / "jobs.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return folder / "jobs.csv"


def timed(jobs: Path, out: Path, **options: Any) -> tuple[float, int]:
    """Seconds of a run and how many jobs failed."""
    from pine_boost.fleet import run_fleet

    started = time.perf_counter()
    found = run_fleet(jobs, out, options={"alpha": 0.1, "time_limit": 20}, **options)
    return time.perf_counter() - started, len(found.failed)


def run(jobs: Path, folder: Path, backend: str, workers: int) -> tuple[float, float, int]:
    """Seconds of a first and of a second run."""
    out = folder / f"{backend}-{workers}"
    if backend == "joblib":
        first, failed = timed(jobs, out, n_jobs=workers)
        return first, timed(jobs, out, n_jobs=workers)[0], failed
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    ) as cluster:  # fmt: skip
        address = cluster.scheduler_address
        first, failed = timed(jobs, out, dask=address)
        return first, timed(jobs, out, dask=address)[0], failed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--backends", nargs="+", default=["joblib", "dask"])
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.csv")
    options = parser.parse_args(arguments)
    if arguments is None:
        record_run(options.out)
    print("| backend | workers | jobs | seconds | speed-up | again | failed |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        jobs = make_jobs(Path(name), options.jobs)
        for backend in options.backends:
            alone = None
            for workers in sorted({1, options.workers}):
                first, again, failed = run(jobs, Path(name), backend, workers)
                alone = alone or first
                row = {
                    "backend": backend,
                    "workers": workers,
                    "jobs": options.jobs,
                    "seconds": f"{first:.1f}",
                    "speed_up": f"{alone / first:.2f}",
                    "seconds_again": f"{again:.1f}",
                    "failed": failed,
                }
                print("| " + " | ".join(str(value) for value in row.values()) + " |", flush=True)
                rows.append(row)
    options.out.unlink(missing_ok=True)
    append_rows(options.out, COLUMNS, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
