"""Tables of growth and limits.

In comes a results folder; out goes Markdown, or an empty text where the file is absent. A step that
was refused or ran out of time is shown as such.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.frames import Rows, markdown, texts, where
from benchmarks.runner import read_rows

STEPS = ("prune", "verify", "compress", "contains")


def growth(folder: Path) -> str:
    """One line per size: what every step took and what it gave."""
    rows = read_rows(folder / "growth.csv")
    if not rows:
        return ""
    lines = []
    for axis in texts(rows, "axis"):
        for size in sorted(texts(where(rows, axis=axis), "size"), key=int):
            here = where(rows, axis=axis, size=size)
            cells = [cell for step in STEPS for cell in _cells(where(here, step=step), step)]
            lines.append((axis, size, *cells))
    header = ["axis", "size"]
    for step in STEPS:
        header += [step, "s", "MB"]
    return markdown(header, lines)


def _cells(rows: Rows, step: str) -> tuple[str, str, str]:
    if not rows:
        return ("-", "-", "-")
    (row,) = rows
    if not row["seconds"]:
        return (row["answer"].split(":")[0], "-", "-")
    answer = row["answer"].split(",")[0]
    if step in ("prune", "compress"):
        answer = f"{row['size_before']} to {row['size_after']} {row['unit']}, {answer}"
    digits = 4 if step == "contains" else 1
    return (answer, f"{float(row['seconds']):.{digits}f}", f"{float(row['peak_mb']):.0f}")


def limits(folder: Path) -> str:
    """Asked for and taken; Ctrl-C has no limit and two seconds."""
    rows = read_rows(folder / "limits.csv")
    lines = [
        (
            row["model"],
            row["trees"],
            row["leaves"],
            row["call"],
            row["limit"] or "Ctrl-C",
            row["seconds"],
            row["cpu_s"],
            row["is_kept"],
            row["peak_mb"],
            row["answer"][:90],
        )
        for row in rows
    ]
    header = ("model", "trees", "leaves", "call", "limit s", "s", "processor s", "kept", "MB", "answer")
    return markdown(header, lines) if lines else ""
