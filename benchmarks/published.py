"""Published figures of the paper, and the mean pruning rates that pine_boost must reach."""

from __future__ import annotations

from benchmarks.runner import RESULTS, read_rows

PUBLISHED_L0 = RESULTS / "published_l0.csv"
ALPHA_ORDER = ("faithful", "0.05", "0.1", "0.2", "0.4", "0.6", "0.8")

# Issue 7: mean over 12 data sets and 5 seeds, percent of the trees removed, at least.
REQUIRED_MEAN = dict(zip(ALPHA_ORDER, (35.2, 44.6, 48.7, 54.6, 60.7, 65.2, 67.8), strict=True))


def paper_l0() -> dict[tuple[str, str, str], tuple[float, float]]:
    """The paper's main table: (data set, alpha, metric) to mean and standard deviation."""
    return {
        (row["dataset"], row["alpha"], row["metric"]): (float(row["mean"]), float(row["std"]))
        for row in read_rows(PUBLISHED_L0)
    }
