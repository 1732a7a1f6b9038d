"""One weight per tree and leaf values of their own in one run (python -m benchmarks.reweighting).

In comes the grid of benchmarks.paper; out goes one CSV line per cell with both answers and the
processor seconds of both, one after the other in one process, so that other work on the machine
hardly touches their ratio. A summary says where leaf values keep more rounds: nowhere, as it should
be.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import KEY_COLUMNS, Cell, measure_cell
from benchmarks.frames import Rows, markdown, number, texts, values, where
from benchmarks.paper import add_grid_options, begin, cells_of, check
from benchmarks.runner import RESULTS, Job, rows_of, run_jobs

COLUMNS = (
    *KEY_COLUMNS,
    "pruning_rate_tree",
    "pruning_rate_leaf",
    "cpu_tree",
    "cpu_leaf",
    "ratio",
    "status_tree",
    "status_leaf",
    "fidelity_in_region_leaf",
    "lower_bound_leaf",
)


def run_pair(cell: Cell) -> list[dict[str, Any]]:
    """Both reweightings of one cell, the paper's first."""
    tree, cpu_tree = measure_cell(replace(cell, reweight="tree"))
    leaf, cpu_leaf = measure_cell(replace(cell, reweight="leaf"))
    # the clock of os.times has steps of 0.01 s
    cpu_tree, cpu_leaf = max(cpu_tree, 0.01), max(cpu_leaf, 0.01)
    return [
        {
            **dict(zip(KEY_COLUMNS, cell.key, strict=True)),
            "pruning_rate_tree": tree["pruning_rate"],
            "pruning_rate_leaf": leaf["pruning_rate"],
            "cpu_tree": f"{cpu_tree:.2f}",
            "cpu_leaf": f"{cpu_leaf:.2f}",
            "ratio": f"{cpu_leaf / cpu_tree:.3f}",
            "status_tree": tree["status"],
            "status_leaf": leaf["status"],
            "fidelity_in_region_leaf": leaf["fidelity_in_region"],
            "lower_bound_leaf": leaf["lower_bound"],
        }
    ]


def summary(rows: Rows) -> str:
    """Per alpha: rates of both, cells below the other, certified, median of the ratio of times."""
    lines = []
    for alpha in [*texts(rows, "alpha"), "**all**"]:
        group = rows if alpha == "**all**" else where(rows, alpha=alpha)
        gain = values(group, "pruning_rate_leaf") - values(group, "pruning_rate_tree")
        certified = [row["status_leaf"] for row in group].count("CERTIFIED")
        lines.append(
            (
                alpha,
                len(group),
                number(values(group, "pruning_rate_tree").mean(), 1),
                number(values(group, "pruning_rate_leaf").mean(), 1),
                number(gain.mean(), 1),
                int(np.count_nonzero(gain < 0)),
                certified,
                number(float(np.median(values(group, "ratio"))), 2),
            )
        )
    header = (
        "alpha",
        "cells",
        "% removed, tree",
        "% removed, leaf",
        "points more",
        "cells below tree",
        "leaf CERTIFIED",
        "median ratio of processor times",
    )
    return markdown(header, lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reweighting", description=__doc__)
    add_grid_options(parser)
    parser.set_defaults(alphas=["0.05", "0.1", "0.2"], time_limit=30.0)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--out", type=Path, default=RESULTS / "reweighting.csv")
    options = begin(parser, arguments, check)
    cells = [replace(cell, reweight="leaf") for cell in cells_of(options)]
    jobs = [Job(cell.key, cell) for cell in cells]
    failures = run_jobs(
        run_pair,
        jobs,
        options.out,
        COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=8 * options.time_limit + 120,
    )
    rows = rows_of(options.out, jobs, KEY_COLUMNS)
    sys.stdout.write(summary(rows) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
