"""When the answer of a cell was there: proved once, proved twice, proved to be the fewest.

In come rows of results.csv; out goes a table of medians per alpha. Rows written before these
columns existed are left out.
"""

from __future__ import annotations

import numpy as np

from benchmarks.frames import Rows, markdown, number, where
from benchmarks.published import ALPHA_ORDER

MEANING = (
    "Median seconds until a certified model of the final size was there. One proof is what the "
    "published method gives; the second, different proof, and the proof that no model of "
    "this form has fewer, are only ours and part of our total."
)
_STAGES = ("once_s", "twice_s", "fewest_s", "time_s")


def timed(cells: Rows) -> Rows:
    """The cells that know when their answer was there."""
    return [row for row in cells if row.get("once_s")]


def table(cells: Rows) -> str:
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
