"""Baselines at the sizes that ours reached (python -m benchmarks.compare).

In comes a results file of benchmarks.paper (how many rounds were kept in every cell); out goes one
line per cell and rule with fidelity, fidelity in our region and accuracy. XGBoost, L0, Chow-Liu.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.baselines import orders_of, rounds_of
from benchmarks.cells import alpha_of, percent, train
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options
from benchmarks.runner import Job, read_rows, run_jobs

KEY_COLUMNS = ("dataset", "model", "trees", "depth", "seed")
COLUMNS = (
    *KEY_COLUMNS, "alpha", "method", "kept", "pruning_rate", "fidelity", "fidelity_in_region",
    "accuracy",
)  # fmt: skip
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Sizes:
    """One trained model and how many rounds ours kept at each alpha."""

    dataset: str
    model: str
    trees: int
    depth: int
    seed: int
    kept: tuple[tuple[str, int], ...]
    folder: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, self.model, str(self.trees), str(self.depth), str(self.seed))


def sizes_of(rows: list[dict[str, str]], folder: str | None) -> list[Sizes]:
    """Group the cells of a results file by their model."""
    kept: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for row in rows:
        if row["objective"] == "l0" and row["score"] == "chow-liu" and row["model"] == "xgboost":
            count = round(int(row["trees"]) * (1 - float(row["pruning_rate"]) / 100))
            key = tuple(row[c] for c in KEY_COLUMNS)
            kept.setdefault(key, []).append((row["alpha"], count))
    return [
        Sizes(key[0], key[1], int(key[2]), int(key[3]), int(key[4]), tuple(counts), folder)
        for key, counts in kept.items()
    ]


def compare(sizes: Sizes) -> list[dict[str, Any]]:
    """Fidelity of every rule at every size, on the test rows."""
    from pine_boost.parsers import read_model
    from pine_boost.region import fit_region

    table = data.load(sizes.dataset, sizes.folder)
    parts = data.split(table, sizes.seed)
    native = train(sizes.model, sizes.trees, sizes.depth, sizes.seed, parts.X_fit, parts.y_fit)
    model = read_model(native)
    orders = orders_of(model, parts.X_fit, parts.y_fit)
    test = rounds_of(model.forest, parts.X_test)
    before = native.predict(parts.X_test)
    rows = []
    for alpha, kept in sizes.kept:
        region = fit_region(
            model.forest, parts.X_fit, parts.X_cal, alpha=alpha_of(alpha), domain=table.domain()
        )
        inside = region.contains(parts.X_test)
        for method, order in orders.items():
            after = test.predict(order[:kept])
            same = after == before
            rows.append(
                {
                    **dict(zip(KEY_COLUMNS, sizes.key, strict=True)),
                    "alpha": alpha,
                    "method": method,
                    "kept": kept,
                    "pruning_rate": percent(1 - kept / sizes.trees),
                    "fidelity": percent(same.mean()),
                    "fidelity_in_region": percent(same[inside].mean() if inside.any() else np.nan),
                    "accuracy": percent((after == parts.y_test).mean()),
                }
            )
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--results", type=Path, default=RESULTS / "paper_l0.csv")
    parser.add_argument("--out", type=Path, default=RESULTS / "baselines.csv")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    rows = [row for row in read_rows(options.results) if row["dataset"] in options.datasets]
    if not rows:
        parser.error(f"{options.results} holds no cells; run python -m benchmarks.paper first.")
    if arguments is None:
        record_run(options.out.parent)
    jobs = [Job(sizes.key, sizes) for sizes in sizes_of(rows, options.data)]
    failures = run_jobs(compare, jobs, options.out, COLUMNS, KEY_COLUMNS, n_workers=options.jobs)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
