"""Compression and fast scorers of models of the size people run (python -m benchmarks.real_sizes).

XGBoost 100 x depth 6 and 500 x depth 7, LightGBM 1000 x 63 leaves, on 30 000 and 300 000 generated rows. Each call runs
in a process of its own; processor time is the same on a busy machine. What is made small is ``leaves`` or ``work`` by
`compress_booster`, or ``exits`` by `accelerate_booster`, whose saved scorer is then loaded in a new process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import record_run
from benchmarks.measuring import measured, run_child, say, say_started
from benchmarks.models import fit
from benchmarks.paper import listed
from benchmarks.runner import RESULTS, Job, run_jobs

KEY_COLUMNS = ("model", "rows", "minimize")
COLUMNS = (
    *KEY_COLUMNS,
    *("status", "trees_before", "trees_after", "leaves_before", "leaves_after", "work_before", "work_after"),
    *("n_val", "seconds", "cpu_s", "peak_mb", "load_ms"),
)
ROWS, N_FEATURES = ("30000", "300000"), 20
VAL_SHARE = 5  # X_val has a fifth as many rows as X_fit
FIDELITY = 0.99
EXITS = "exits"
LOADS = 7  # the best of these, each in a new process
_LOAD = """
import sys, time
import numpy, pine_boost
started = time.perf_counter()
pine_boost.load_scorer(sys.argv[1])
print(1000 * (time.perf_counter() - started))
"""


MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "XGBoost 100 x depth 6": ("xgboost", 100, {"max_depth": 6, "learning_rate": 0.1}),
    "XGBoost 500 x depth 7": ("xgboost", 500, {"max_depth": 7, "learning_rate": 0.1}),
    "LightGBM 1000 x 63 leaves": ("lightgbm", 1000, {"num_leaves": 63}),
}


@dataclass(frozen=True)
class Cell:
    """A model, its rows, and what is made small."""

    model: str
    rows: str
    minimize: str

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.model, self.rows, self.minimize)


def generate(n_rows: int, seed: int) -> tuple[Any, Any]:
    """Two classes by interactions of eight of twenty features; a tenth of the labels is drawn at random."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    signal = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] * X[:, 3] + np.abs(X[:, 4]) - (X[:, 5] > 0.3) * X[:, 6] + X[:, 7]
    y = signal > 0.8
    return X, np.where(random.random(n_rows) < 0.1, random.random(n_rows) < 0.5, y).astype(np.int64)


def answer_of(cell: Cell) -> dict[str, Any]:
    """Body of the child: train, then compress."""
    import pine_boost

    n_rows = int(cell.rows)
    X, y = generate(n_rows, 0)
    kind, trees, options = MODELS[cell.model]
    model, X_val = fit(kind, trees, X, y, **options), generate(n_rows // VAL_SHARE, 1)[0]
    say_started()
    if cell.minimize == EXITS:
        run = measured(lambda: pine_boost.accelerate_booster(model, X, X_val, fidelity=FIDELITY))
        side = run.answer.side_by_side
        sizes = {
            f"{name}_{when}": getattr(figures, name)
            for when, figures in (("before", side.before), ("after", side.after))
            for name in ("trees", "leaves", "work")
        }
        found = {"status": run.answer.status, **sizes, "load_ms": load_time(run.answer)}
    else:
        run = measured(lambda: pine_boost.compress_booster(model, X, X_val, fidelity=FIDELITY, minimize=cell.minimize))
        record = run.answer.record
        names = ("status", "trees_before", "trees_after", "leaves_before", "leaves_after", "work_before", "work_after")
        found = {name: getattr(record, name) for name in names} | {"load_ms": ""}
    return {
        **asdict(cell),
        **found,
        **{"n_val": len(X_val), "seconds": run.seconds, "cpu_s": run.cpu_s, "peak_mb": run.peak_mb},
    }


def load_time(result: Any) -> float:
    """Milliseconds that a new process with numpy needs to load the saved scorer."""
    with tempfile.TemporaryDirectory() as folder:
        path = result.save(Path(folder) / "scorer")
        command = [sys.executable, "-c", _LOAD, str(path)]
        return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(LOADS))


def ask(cell: Cell) -> list[dict[str, Any]]:
    """One cell in a process of its own."""
    said, _ = run_child("benchmarks.real_sizes", asdict(cell), hard_limit=1800.0)
    return [{name: f"{value:.1f}" if isinstance(value, float) else value for name, value in said.items()}]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_sizes", description=__doc__)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--rows", type=listed, default=list(ROWS), metavar="N,N")
    parser.add_argument("--minimize", type=listed, default=["leaves", "work", EXITS], metavar="A,B")
    parser.add_argument("--out", type=Path, default=RESULTS / "real_sizes.csv")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cell:
        say(answer_of(Cell(**json.loads(options.cell))))
        return 0
    if not set(options.models) <= set(MODELS):
        parser.error(f"{', '.join(options.models)}: accepted are {', '.join(MODELS)}")
    if arguments is None:
        record_run(options.out)
    cells = [Cell(*key) for key in product(options.models, options.rows, options.minimize)]
    failures = run_jobs(ask, [Job(cell.key, cell) for cell in cells], options.out, COLUMNS, KEY_COLUMNS, n_workers=0)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
