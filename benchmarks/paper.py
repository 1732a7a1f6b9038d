"""The paper's experiments (python -m benchmarks.paper --out results.csv).

A finished cell is not run again. Cells whose proof ran out of time say NOT_CERTIFIED.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

from benchmarks import data, frames
from benchmarks.cells import COLUMNS, FAITHFUL, KEY_COLUMNS, MODELS, Cell, run_cell
from benchmarks.machine import record_run
from benchmarks.runner import Job, rows_of, run_jobs
from pine_boost.options import SCORE_NAMES

ALPHAS = (FAITHFUL, "0.05", "0.1", "0.2", "0.4", "0.6", "0.8")


def listed(text: str) -> list[str]:
    """Comma separated words."""
    return [word.strip() for word in text.split(",") if word.strip()]


def add_data_options(parser: argparse.ArgumentParser, datasets: tuple[str, ...]) -> None:
    """Options that every benchmark on these data sets has."""
    parser.add_argument("--datasets", type=listed, default=list(datasets), metavar="A,B", help="default: all")
    parser.add_argument("--data", metavar="FOLDER", help="default: ../shared/data")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options of benchmarks that run cells in processes."""
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per cell")


def add_grid_options(parser: argparse.ArgumentParser) -> None:
    """The grid of cells."""
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0..n-1 (default 5)")
    parser.add_argument("--alphas", type=listed, default=list(ALPHAS), metavar="A,B")
    parser.add_argument("--score", type=listed, default=["chow-liu"], metavar="A,B")
    parser.add_argument("--bins", type=listed, default=["4"], metavar="A,B")
    parser.add_argument("--objective", type=listed, default=["l0"], metavar="l0,l1")
    parser.add_argument("--reweight", choices=("tree", "leaf"), default="tree")
    parser.add_argument("--unit", choices=("round", "tree", "leaf"), default="round")
    parser.add_argument("--indifference", default="0", metavar="SHARE|auto")
    parser.add_argument("--model", choices=MODELS, default="xgboost")
    parser.add_argument("--trees", type=listed, default=["30"], metavar="A,B")
    parser.add_argument("--depth", type=listed, default=["2"], metavar="A,B")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per cell")


def format_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    add_grid_options(parser)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--out", type=Path, required=True)
    return parser


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """The grid that the options describe, seeds outermost: a stopped run has whole seeds."""
    grid = product(
        range(options.seeds),
        options.objective,
        options.score,
        options.bins,
        options.trees,
        options.depth,
        options.datasets,
        options.alphas,
    )
    return [
        Cell(
            dataset=dataset,
            model=options.model,
            trees=int(trees),
            depth=int(depth),
            objective=objective,
            score=score,
            bins=int(bins),
            seed=seed,
            alpha=alpha,
            time_limit=options.time_limit,
            folder=options.data,
            reweight=options.reweight,
            unit=options.unit,
            indifference=options.indifference,
        )
        for seed, objective, score, bins, trees, depth, dataset, alpha in grid
    ]


def check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuse wrong words and absent data before hours of work."""
    for score in options.score:
        if score not in SCORE_NAMES:
            parser.error(f"--score {score}: accepted are {', '.join(SCORE_NAMES)}")
    for objective in options.objective:
        if objective not in ("l0", "l1"):
            parser.error(f"--objective {objective}: accepted are l0, l1")
    share = options.indifference
    if share != "auto" and not share.replace(".", "", 1).isdigit():
        parser.error(f"--indifference {share}: a share such as 0.05, or auto")
    for alpha in options.alphas:
        if alpha != FAITHFUL and not (alpha.replace(".", "", 1).isdigit() and 0 < float(alpha) < 1):
            parser.error(f"--alphas {alpha}: 'faithful' or a number between 0 and 1")
    check_data(options, parser)


def check_data(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Every data set must be there."""
    for dataset in options.datasets:
        try:
            data.find_file(dataset, options.data)
        except data.DataNotFoundError as error:
            parser.error(str(error))


def begin(
    parser: argparse.ArgumentParser,
    arguments: list[str] | None,
    refuse: Callable[[argparse.Namespace, argparse.ArgumentParser], None] = check_data,
) -> argparse.Namespace:
    """The options, checked; a run from the command line is written down."""
    options = parser.parse_args(arguments)
    refuse(options, parser)
    if arguments is None:
        record_run(options.out)
    return options


def main(arguments: list[str] | None = None) -> int:
    parser = format_parser()
    options = begin(parser, arguments, check)
    jobs = [Job(cell.key, cell) for cell in cells_of(options)]
    failures = run_jobs(
        run_cell,
        jobs,
        options.out,
        COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=4 * options.time_limit + 120,
    )
    rows = rows_of(options.out, jobs, KEY_COLUMNS)
    if frames.timed(rows):
        sys.stdout.write(f"{frames.ANSWER_TIMES}\n\n{frames.answer_times(rows)}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
