"""Puts the benchmark table into the project's README (python -m benchmarks.readme).

In come benchmarks/results/paper_l0.csv and README.md with its two markers; out goes README.md with
the table between them. Refuses a README without the markers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.data import ROOT
from benchmarks.frames import main_cells, texts
from benchmarks.runner import RESULTS, read_rows
from benchmarks.tables import summary

START, END = "<!-- benchmark table -->", "<!-- end of benchmark table -->"


def table_text(results: Path) -> str:
    """What stands between the markers: an empty line as long as no full run is committed."""
    cells = main_cells(read_rows(results / "paper_l0.csv"))
    if not cells:
        return "\n"
    n_datasets, n_seeds = len(texts(cells, "dataset")), len(texts(cells, "seed"))
    machine = results / "machine.txt"
    where = machine.read_text(encoding="utf-8").strip() if machine.exists() else "see results"
    return (
        f"\n\nXGBoost, 30 trees of depth 2, {n_datasets} data sets, {n_seeds} seeds: {len(cells)} "
        "cells by the protocol of the paper's main table (its times: Gurobi on an Intel "
        f"i7-11800H).\n\n{summary(cells)}\n\n"
        "Written by `python -m benchmarks.readme` from `benchmarks/results/paper_l0.csv`. "
        f"Machine: {where}.\n\n"
    )


def between_markers(readme: str) -> tuple[str, str, str]:
    """Text before, between and after the markers.

    Raises
    ------
    SystemExit
        A marker is missing, doubled or out of order.
    """
    if readme.count(START) != 1 or readme.count(END) != 1 or readme.find(END) < readme.find(START):
        raise SystemExit(f"README.md needs one line {START!r} and after it one line {END!r}.")
    before, rest = readme.split(START)
    inside, after = rest.split(END)
    return before, inside, after


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    before, _, after = between_markers(options.readme.read_text(encoding="utf-8"))
    text = before + START + table_text(options.results) + END + after
    options.readme.write_text(text, encoding="utf-8")
    print(f"wrote {options.readme}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
