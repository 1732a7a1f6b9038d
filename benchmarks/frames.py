"""Small statistics over result rows, shared by tables and figures.

Nothing is dropped: a cell that was not certified counts as nothing removed.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import COLUMNS, KEY_COLUMNS
from benchmarks.runner import RESULTS, read_rows

Rows = list[dict[str, str]]
ALPHA_ORDER = ("faithful", "0.05", "0.1", "0.2", "0.4", "0.6", "0.8")
# Issue 7: mean over 12 data sets and 5 seeds, percent of the trees removed, at least.
REQUIRED_MEAN = dict(zip(ALPHA_ORDER, (35.2, 44.6, 48.7, 54.6, 60.7, 65.2, 67.8), strict=True))
LATER = (*COLUMNS, "leaf_pruning_rate")  # older files have fewer columns
NEEDED = (*KEY_COLUMNS, "pruning_rate", "fidelity", "fidelity_in_region", "coverage", "time_s", "lower_bound", "status")


def read_cells(folder: Path) -> Rows:
    """All cells of benchmarks.paper in a folder, whatever their files are called."""
    rows: Rows = []
    seen: set[tuple[str, ...]] = set()
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            header = next(csv.reader(file), [])
        if not set(NEEDED) <= set(header):
            continue
        for row in read_rows(path):
            key = tuple(row[c] for c in KEY_COLUMNS)
            if key not in seen:  # depth 2 is in the main file and in the grid
                seen.add(key)
                rows.append({**dict.fromkeys(LATER, ""), **row})
    return rows


def paper_l0() -> dict[tuple[str, str, str], tuple[float, float]]:
    """The paper's main table: (data set, alpha, metric) to mean and standard deviation."""
    return {
        (row["dataset"], row["alpha"], row["metric"]): (float(row["mean"]), float(row["std"]))
        for row in read_rows(RESULTS / "published_l0.csv")
    }


def where(rows: Rows, **conditions: object) -> Rows:
    """Rows whose columns have the given texts."""
    return [row for row in rows if all(row[k] == str(v) for k, v in conditions.items())]


def main_cells(rows: Rows) -> Rows:
    """The paper's main experiment."""
    return where(rows, model="xgboost", trees=30, depth=2, objective="l0", score="chow-liu")


def values(rows: Rows, column: str) -> np.ndarray:
    """A column as numbers, empty texts left out."""
    return np.array([float(row[column]) for row in rows if row[column] not in ("", "nan")])


def mean(rows: Rows, column: str) -> float:
    """Mean of a column; NaN without rows."""
    return average(values(rows, column))


def average(numbers: Sequence[float] | np.ndarray) -> float:
    """Mean; NaN of nothing."""
    return float(np.mean(numbers)) if len(numbers) else float("nan")


def spread(rows: Rows, column: str) -> str:
    """Mean and standard deviation as text; the paper divides by the count, so do we."""
    found = values(rows, column)
    return f"{found.mean():.1f}±{found.std():.1f}" if len(found) else "-"


def texts(rows: Rows, column: str) -> list[str]:
    """Distinct texts of a column in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))


def number(value: float | np.floating[Any], digits: int = 1) -> str:
    """A number, or a dash where there is none."""
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def markdown(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    table = [header, rule, *lines]
    return "\n".join("| " + " | ".join(str(c) for c in line) + " |" for line in table)


def table(columns: Mapping[str, str | Callable[[Any], object]], items: Iterable[Any]) -> str:
    """A Markdown table with a line for each item; a column is a key of it or a function. Empty without items."""
    lines = [[item[cell] if isinstance(cell, str) else cell(item) for cell in columns.values()] for item in items]
    return markdown(tuple(columns), lines) if lines else ""


def kept_of(row: dict[str, str]) -> int:
    """The number of rounds that a line of results keeps."""
    return round(int(row["trees"]) * (1 - float(row["pruning_rate"]) / 100))


ANSWER_TIMES = (
    "Median seconds until a certified model of the final size was found. The published method gives one "
    "proof; the second, different proof and the proof that no smaller model of this form exists are "
    "additional here and included in our total."
)
_STAGES = ("once_s", "twice_s", "fewest_s", "time_s")


def timed(cells: Rows) -> Rows:
    """The cells that know when their answer was there."""
    return [row for row in cells if row.get("once_s")]


def answer_times(cells: Rows) -> str:
    """Medians per alpha; empty where no cell has these columns."""
    lines = []
    for alpha in ALPHA_ORDER:
        rows = where(timed(cells), alpha=alpha)
        if rows:
            lines.append((alpha, len(rows), *(_median(rows, stage) for stage in _STAGES)))
    header = ("alpha", "cells", "proved once s", "proved twice s", "proved the fewest s", "total s")
    return markdown(header, lines) if lines else ""


def _median(rows: Rows, column: str) -> str:
    known = [float(row[column]) for row in rows if row[column]]
    return number(float(np.median(known)), 2) if known else "-"
