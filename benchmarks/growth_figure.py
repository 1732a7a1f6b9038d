"""The figure of benchmarks.growth: seconds and megabytes along each axis.

In comes growth.csv; out goes docs/growth.svg. Draws what is in the file; a step that was refused
has no point.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.data import ROOT
from benchmarks.frames import texts, where
from benchmarks.runner import read_rows

FIGURE = ROOT / "docs" / "growth.svg"
STYLES = {"prune": "o-", "compress": "s-", "verify": "^--", "contains": "d:"}
MEASURES = {"seconds": "seconds", "peak_mb": "megabytes added"}


def draw(results: Path, figure_path: Path = FIGURE) -> Path:
    """One column per axis, seconds above, memory below, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pine_boost"  # the same file from the same numbers
    import matplotlib.pyplot as plt

    rows = read_rows(results)
    axes = texts(rows, "axis")
    figure, panels = plt.subplots(2, len(axes), figsize=(2.7 * len(axes), 5), squeeze=False)
    for column, axis in enumerate(axes):
        for line, (measure, label) in enumerate(MEASURES.items()):
            panel = panels[line][column]
            for step, style in STYLES.items():
                here = [row for row in where(rows, axis=axis, step=step) if row[measure] and float(row[measure]) > 0]
                here.sort(key=lambda row: int(row["size"]))
                x = [int(row["size"]) for row in here]
                panel.plot(x, [float(row[measure]) for row in here], style, ms=3, lw=1, label=step)
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel(axis, fontsize=8)
            panel.tick_params(labelsize=7)
            if column == 0:
                panel.set_ylabel(label, fontsize=8)
    limits = texts(rows, "time_limit")
    panels[0][0].legend(fontsize=6, title=f"time_limit {limits[0]} s" if limits else None)
    figure.tight_layout()
    figure_path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(figure_path, metadata={"Date": None})
    plt.close(figure)
    return figure_path
