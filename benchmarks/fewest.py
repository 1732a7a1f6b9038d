"""How few trees can do (python -m benchmarks.fewest).

In come the cells of trees.csv whose search ended with its effort used up or out of time, with a gap
between answer and bound; out goes one CSV line each, the exact search taken further. Nothing is
exported or certified here: the question is only what any search could still remove.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.cells import KEY_COLUMNS, Cell, alpha_of, train, warm_up
from benchmarks.machine import record_run
from benchmarks.paper import add_run_options, listed
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

FEWEST_COLUMNS = (*KEY_COLUMNS, "kept", "lower_bound", "time_s", "stopped")


def kept_of(row: dict[str, str]) -> int:
    """The number of rounds that a line of results keeps."""
    return round(int(row["trees"]) * (1 - float(row["pruning_rate"]) / 100))


def gaps(results: Path, trees: list[str], time_limit: float, folder: str | None) -> list[Cell]:
    """Cells of the tree grid that were not proved to be the fewest."""
    return [
        Cell(
            dataset=row["dataset"],
            trees=int(row["trees"]),
            depth=int(row["depth"]),
            seed=int(row["seed"]),
            alpha=row["alpha"],
            time_limit=time_limit,
            folder=folder,
        )
        for row in read_rows(results)
        if row["trees"] in trees and int(row["lower_bound"]) < kept_of(row)
    ]


def run_further(cell: Cell) -> list[dict[str, Any]]:
    """The search of one cell with no limit but time."""
    from pine_boost.budget import Budget, Effort
    from pine_boost.parsers import read_model
    from pine_boost.proof.problem import build_problem
    from pine_boost.region.fitting import fit_region
    from pine_boost.search.algorithm import search
    from pine_boost.search.search_state import SearchOptions

    warm_up()
    table = data.load(cell.dataset, cell.folder)
    parts = data.split(table, cell.seed)
    model = train(cell.model, cell.trees, cell.depth, cell.seed, parts.X_fit, parts.y_fit)
    forest = read_model(model).forest
    region = fit_region(
        forest, parts.X_fit, parts.X_cal, alpha=alpha_of(cell.alpha), domain=table.domain(), random_state=cell.seed
    )
    problem = build_problem(forest, region.space, region.tables)
    effort = Effort(exact_rounds=10**6, exact_programs=10**9, master_effort=60.0)
    started = time.perf_counter()
    budget = Budget.of(cell.time_limit, effort)
    found = search(problem, region.states(parts.X_fit), budget, SearchOptions(seed=cell.seed))
    return [
        {
            **dict(zip(KEY_COLUMNS, cell.key, strict=True)),
            "kept": found.n_kept,
            "lower_bound": found.lower_bound,
            "time_s": f"{time.perf_counter() - started:.1f}",
            "stopped": found.stopped,
        }
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fewest", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS / "trees.csv")
    parser.add_argument("--trees", type=listed, default=["40"], metavar="A,B")
    parser.add_argument("--data", metavar="FOLDER", help="default: ../shared/data")
    parser.add_argument("--out", type=Path, default=RESULTS / "fewest.csv")
    add_run_options(parser)
    options = parser.parse_args(arguments)
    if arguments is None:
        record_run(options.out)
    found = gaps(options.results, options.trees, options.time_limit, options.data)
    failures = run_jobs(
        run_further,
        [Job(cell.key, cell) for cell in found],
        options.out,
        FEWEST_COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=2 * options.time_limit + 120,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
