"""A fleet with one process and with two, alternating (python -m benchmarks.fleet).

Measures seconds and speed-up with joblib and on a local Dask cluster, a second run that finds all jobs done, and how
many cores were busy: 1.0 with one worker on a quiet machine.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import RESULTS
from benchmarks.machine import record_run
from benchmarks.runner import append_rows

COLUMNS = ("backend", "turn", "workers", "jobs", "seconds", "speed_up", "seconds_again", "busy_cores", "failed")
QUIET = 1.3  # cores busy while one worker works; beyond, a ratio says little


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
        rows.append([f"segment-{number:03d}", f"{number}.json", f"fit{number}.npy", f"cal{number}.npy"])
    with (folder / "jobs.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return folder / "jobs.csv"


def timed(jobs: Path, out: Path, **options: Any) -> tuple[float, int, float]:
    """Seconds of a run, how many jobs failed, and how many cores were busy on average."""
    from pine_boost.fleet import run_fleet

    started, busy = time.perf_counter(), busy_seconds()
    found = run_fleet(jobs, out, options={"alpha": 0.1, "time_limit": 20}, **options)
    seconds = time.perf_counter() - started
    return seconds, len(found.failed), (busy_seconds() - busy) / seconds


def busy_seconds() -> float:
    """Processor seconds of everything on this machine since it started; NaN without /proc."""
    path = Path("/proc/stat")
    if not path.exists():
        return float("nan")
    user, nice, system, _, _, irq, softirq, steal = map(int, path.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run(jobs: Path, out: Path, backend: str, workers: int) -> tuple[float, float, float, int]:
    """Seconds of a first and of a second run, cores that were busy, jobs that failed."""
    if backend == "joblib":
        first, failed, busy = timed(jobs, out, n_jobs=workers)
        return first, timed(jobs, out, n_jobs=workers)[0], busy, failed
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        first, failed, busy = timed(jobs, out, dask=address)
        return first, timed(jobs, out, dask=address)[0], busy, failed


def measure(jobs: Path, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One worker and several, turn by turn, so that both meet the same neighbours."""
    rows = []
    for backend in options.backends:
        for turn in range(options.turns):
            alone = None
            for workers in sorted({1, options.workers}):
                out = folder / f"{backend}-{turn}-{workers}"
                first, again, busy, failed = run(jobs, out, backend, workers)
                alone = alone or first
                rows.append(
                    {
                        "backend": backend,
                        "turn": turn,
                        "workers": workers,
                        "jobs": options.jobs,
                        "seconds": f"{first:.1f}",
                        "speed_up": f"{alone / first:.2f}",
                        "seconds_again": f"{again:.1f}",
                        "busy_cores": f"{busy:.1f}",
                        "failed": failed,
                    }
                )
                print("| " + " | ".join(map(str, rows[-1].values())) + " |", flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--backends", nargs="+", default=["joblib", "dask"])
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.csv")
    options = parser.parse_args(arguments)
    if arguments is None:
        record_run(options.out)
    # one thread each: else the libraries of a single worker would use the second core, too
    os.environ["OMP_NUM_THREADS"] = "1"
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---:|" * (len(COLUMNS) - 1), flush=True)
    with tempfile.TemporaryDirectory() as name:
        rows = measure(make_jobs(Path(name), options.jobs), Path(name), options)
    for backend in options.backends:
        ratios = [
            float(row["speed_up"]) for row in rows if row["backend"] == backend and row["workers"] == options.workers
        ]
        print(
            f"{backend}: {np.median(ratios):.2f} times as fast with {options.workers} workers "
            f"(median of {len(ratios)} turns)"
        )
    if any(float(row["busy_cores"]) > QUIET for row in rows if row["workers"] == 1):
        print("Other work ran beside this; measure again on a quiet machine.")
    options.out.unlink(missing_ok=True)
    append_rows(options.out, COLUMNS, rows)
    return int(any(row["failed"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
