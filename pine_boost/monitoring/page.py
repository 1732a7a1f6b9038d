"""Write the HTML page of a monitor: coverage over the batches, the evidence, and what drifted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from pine_boost.model.digits import percent_down, percent_up, rest_of
from pine_boost.monitoring.region_monitor import RegionMonitor
from pine_boost.report.charts import Frame
from pine_boost.report.pages import beginning_of, render

_MOST_POINTS = 400
_TITLE = "Region monitor"
BEGINNING = beginning_of(_TITLE)  # an earlier page begins like this; no other file is overwritten


def write_page(monitor: RegionMonitor) -> str:
    """Return the page as text."""
    status, alpha = monitor.status(), monitor.region.alpha
    shares = [batch.n_inside / batch.n_rows for batch in monitor.batches]
    low = max(0.0, min([*shares, 1 - alpha]) - 0.02)
    logs = [float(np.log10(max(batch.evidence, 1e-12))) for batch in monitor.batches]
    alarm = float(np.log10(status.threshold))
    least, most = min([*logs, -1.0]), max([*logs, alarm + 1])
    coverage = Frame("Share of inputs in the region", _span(monitor), (low, 1.0), "batch", "share inside")
    coverage.grid(np.linspace(low, 1.0, 5).tolist(), "{:.0%}")
    evidence = Frame("Evidence of drift", _span(monitor), (least, most), "batch", "log10 of the evidence")
    evidence.grid(np.unique(np.round(np.linspace(least, most, 5))).tolist())
    return render(
        "monitor.html",
        _TITLE,
        status=status,
        level=monitor.level,
        n_batches=monitor.n_dropped + len(monitor.batches),
        low=percent_down(status.coverage.low),
        high=percent_up(status.coverage.high),
        promised=percent_down(rest_of(status.alpha)),
        coverage=_curve(coverage, shares, 1 - alpha),
        evidence=_curve(evidence, logs, alarm),
        drifted=[(" given ".join(drift.features), f"+{drift.excess:.3f}") for drift in status.drifted],
    )


def _span(monitor: RegionMonitor) -> tuple[float, float]:
    first = monitor.n_dropped + 1
    return float(first), float(first + max(len(monitor.batches) - 1, 1))


def _curve(frame: Frame, values: Sequence[float], mark: float) -> Markup:
    """Plot a value for every batch, thinned if they would overlap, and a mark to compare them with."""
    first, last = frame.x_range
    frame.ticks(np.unique(np.round(np.linspace(first, last, 8))).tolist(), "{:.0f}")
    frame.line(first, mark, last, mark, "mark")
    shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_POINTS)).astype(int))
    points = [(first + j, values[j]) for j in shown.tolist()]
    frame.steps(points if len(points) > 1 else [*points, (last, points[0][1])])
    return frame.text()
