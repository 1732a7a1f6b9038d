"""Compare two commits on the same cells (python -m benchmarks.compare BEFORE [AFTER]).

Writes one CSV line per cell with both times and answers, and prints the geometric mean of the time ratios and the
cells whose answers differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.cells import KEY_COLUMNS, Cell
from benchmarks.commits import HERE, Commit, name_of
from benchmarks.frames import Rows, kept_of, number, table, texts, values, where
from benchmarks.machine import record_run
from benchmarks.paper import add_grid_options, cells_of, check
from benchmarks.runner import RESULTS, Progress, append_rows, check_columns, finished_keys, read_rows

COLUMNS = (
    "before",
    "after",
    *KEY_COLUMNS,
    "time_before",
    "time_after",
    "ratio",
    "cpu_before",
    "cpu_after",
    "cpu_ratio",
    "kept_before",
    "kept_after",
    "bound_before",
    "bound_after",
    "status_before",
    "status_after",
    "answer",
)
PAIR = COLUMNS[:2]
Row = dict[str, str]


def answer_of(before: Row, after: Row) -> str:
    """Same, fewer or more rounds; a lost or won certificate goes first."""
    if before["status"] != after["status"]:
        return f"{before['status']} -> {after['status']}"
    kept = kept_of(after) - kept_of(before)
    if kept:
        return "fewer rounds" if kept < 0 else "more rounds"
    bound = int(after["lower_bound"]) - int(before["lower_bound"])
    return "same" if bound == 0 else f"same rounds, {'higher' if bound > 0 else 'lower'} bound"


def compare_cell(cell: Cell, pair: tuple[Commit, Commit], repeat: int, turn: int) -> Row:
    """Both commits on one cell, who goes first in turns; the best time of each."""
    runs: tuple[list[Row], list[Row]] = ([], [])
    for attempt in range(repeat):
        for side in (0, 1) if (turn + attempt) % 2 == 0 else (1, 0):
            row = pair[side].run(cell)
            if "error" in row:
                raise RuntimeError(f"{PAIR[side]}: {row['error']}")
            runs[side].append(row)
    wall = [min(float(row["time_s"]) for row in rows) for rows in runs]
    # the clock of os.times has steps of 0.01 s
    cpu = [max(0.01, min(float(row["cpu_s"]) for row in rows)) for rows in runs]
    before, after = runs[0][0], runs[1][0]
    return {
        **dict(zip(KEY_COLUMNS, cell.key, strict=True)),
        "time_before": f"{wall[0]:.3f}",
        "time_after": f"{wall[1]:.3f}",
        "ratio": f"{wall[0] / wall[1]:.3f}",
        "cpu_before": f"{cpu[0]:.2f}",
        "cpu_after": f"{cpu[1]:.2f}",
        "cpu_ratio": f"{cpu[0] / cpu[1]:.3f}",
        "kept_before": str(kept_of(before)),
        "kept_after": str(kept_of(after)),
        "bound_before": before["lower_bound"],
        "bound_after": after["lower_bound"],
        "status_before": before["status"],
        "status_after": after["status"],
        "answer": answer_of(before, after),
    }


def geometric_mean(ratios: np.ndarray) -> float:
    """NaN of nothing."""
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else float("nan")


def summary(rows: Rows) -> str:
    """Per pair of commits and data set: cells, seconds, how many times as fast, other answers."""
    groups = []
    for before, after in dict.fromkeys((row["before"], row["after"]) for row in rows):
        here = where(rows, before=before, after=after)
        groups += [(f"{before} to {after}", name, where(here, dataset=name)) for name in texts(here, "dataset")]
        groups.append((f"{before} to {after}", "**all**", here))
    columns = {
        "commits": lambda group: group[0],
        "data set": lambda group: group[1],
        "cells": lambda group: len(group[2]),
        "s before": lambda group: number(values(group[2], "time_before").sum(), 1),
        "s after": lambda group: number(values(group[2], "time_after").sum(), 1),
        "times as fast (geometric mean)": lambda group: number(geometric_mean(values(group[2], "ratio")), 2),
        "least": lambda group: number(values(group[2], "ratio").min(), 2),
        "most": lambda group: number(values(group[2], "ratio").max(), 2),
        "by processor time": lambda group: number(geometric_mean(values(group[2], "cpu_ratio")), 2),
        "answers": lambda group: _other_answers(group[2]),
    }
    return table(columns, groups)


def _other_answers(rows: Rows) -> str:
    others = [row["answer"] for row in rows if row["answer"] != "same"]
    return ", ".join(f"{others.count(text)} {text}" for text in dict.fromkeys(others)) or "all the same"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", default=HERE, help="default: this working tree")
    parser.add_argument("--repeat", type=int, default=1, help="best of n runs of each")
    parser.add_argument("--out", type=Path, default=RESULTS / "compare.csv")
    add_grid_options(parser)
    options = parser.parse_args(arguments)
    check(options, parser)
    names = (name_of(options.before), name_of(options.after))
    if arguments is None:
        record_run(options.out)
    check_columns(options.out, COLUMNS)
    done = finished_keys(options.out, (*PAIR, *KEY_COLUMNS))
    cells = cells_of(options)
    todo = [cell for cell in cells if (*names, *cell.key) not in done]
    progress = Progress(len(cells), len(cells) - len(todo))
    failures = 0
    if todo:
        with Commit(options.before) as before, Commit(options.after) as after:
            for turn, cell in enumerate(todo):
                try:
                    row = compare_cell(cell, (before, after), options.repeat, turn)
                    append_rows(options.out, COLUMNS, [{**dict(zip(PAIR, names, strict=True)), **row}])
                except RuntimeError as error:
                    failures += 1
                    progress.note(f"FAILED {' '.join(cell.key)}: {error}")
                progress.step(" ".join(cell.key))
    progress.close()
    keys = {cell.key for cell in cells}
    rows = where(read_rows(options.out), before=names[0], after=names[1])
    sys.stdout.write(summary([r for r in rows if tuple(r[c] for c in KEY_COLUMNS) in keys]) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
