"""Tables larger than memory: time and peak memory of a region fitted from Parquet.

Writes Parquet files of random rows into a temporary folder, fits a region on them in a child
process of its own, and prints what that took. ``python -m benchmarks.out_of_core --rows 10000000``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_FEATURES = 30
ROWS_PER_FILE = 500_000


def write_rows(folder: Path, n_rows: int, seed: int) -> None:
    """Correlated numbers, some missing, some whole; one file after another."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    rng = np.random.default_rng(seed)
    for number, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        X = _draw(rng, min(ROWS_PER_FILE, n_rows - start))
        table = pa.table({f"f{j}": X[:, j] for j in range(N_FEATURES)})
        parquet.write_table(table, folder / f"part-{number:04}.parquet", compression="zstd")


def _draw(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[:, 1::3] += X[:, :1]
    X[:, 2::3] = np.round(2 * X[:, 2::3])
    X[rng.random(n_rows) < 0.02, 5] = np.nan
    return X


def fit(folder: Path, n_trees: int, score: str) -> dict[str, float]:
    """In the child: train a small model on a sample, fit the region, measure."""
    import resource

    import pyarrow
    from sklearn.ensemble import HistGradientBoostingClassifier

    from pine_boost.parsers import read_model
    from pine_boost.region.fitting import fit_with_states

    rng = np.random.default_rng(0)
    X = _draw(rng, 5000)
    model = HistGradientBoostingClassifier(max_iter=n_trees, max_leaf_nodes=8, random_state=0)
    model.fit(X, np.nansum(X[:, :6], axis=1) > 0)
    forest = read_model(model).forest
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.monotonic()
    fitted = fit_with_states(forest, folder / "fit", folder / "cal", alpha=0.1, score=score)
    return {
        "seconds": round(time.monotonic() - started, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "before_mb": round(before),
        "arrow_mb": round(pyarrow.default_memory_pool().max_memory() / 2**20),
        "n_fit": fitted.region.n_fit,
        "n_cal": fitted.region.n_cal,
        "distinct_rows": len(fitted.fit_states),
        "tau": fitted.region.tau or -1,
    }


def main() -> None:
    """Write, fit in a child process, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of X_fit")
    parser.add_argument("--calibration", type=int, default=1_000_000, help="rows of X_cal")
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--score", default="chow-liu")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(fit(Path(arguments.child), arguments.trees, arguments.score)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "fit", arguments.rows, 1)
        write_rows(folder / "cal", arguments.calibration, 2)
        on_disk = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 2**20
        print(f"{arguments.rows} + {arguments.calibration} rows x {N_FEATURES}, {on_disk:.0f} MB of Parquet")
        command = [
            sys.executable,
            "-m",
            "benchmarks.out_of_core",
            "--child",
            str(folder),
            "--trees",
            str(arguments.trees),
            "--score",
            arguments.score,
        ]
        found = subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))
        for key, value in json.loads(found.stdout).items():
            print(f"{key:14} {value}")


if __name__ == "__main__":
    main()
