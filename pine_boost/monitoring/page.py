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
    status = monitor.status()
    return render(
        "monitor.html",
        _TITLE,
        status=status,
        level=monitor.level,
        n_batches=monitor.n_dropped + len(monitor.batches),
        low=percent_down(status.coverage.low),
        high=percent_up(status.coverage.high),
        promised=percent_down(rest_of(status.alpha)),
        coverage=_coverage_curve(monitor),
        evidence=_evidence_curve(monitor),
        drifted=[(" given ".join(drift.features), f"+{drift.excess:.3f}") for drift in status.drifted],
    )


def _coverage_curve(monitor: RegionMonitor) -> Markup:
    """Plot the share inside for every batch, and the calibrated share."""
    shares = [batch.n_inside / batch.n_rows for batch in monitor.batches]
    low = min([*shares, 1 - monitor.region.alpha]) - 0.02
    frame = Frame("Share of inputs in the region", _span(monitor), (max(0.0, low), 1.0), "batch", "share inside")
    frame.grid(np.linspace(frame.y_range[0], 1.0, 5).tolist(), "{:.0%}")
    _ticks(frame)
    frame.line(frame.x_range[0], 1 - monitor.region.alpha, frame.x_range[1], 1 - monitor.region.alpha, "mark")
    frame.steps(_points(monitor, shares))
    return frame.text()


def _evidence_curve(monitor: RegionMonitor) -> Markup:
    """Plot the log10 of the evidence after every batch, and the alarm threshold."""
    status = monitor.status()
    logs = [float(np.log10(max(batch.evidence, 1e-12))) for batch in monitor.batches]
    alarm = float(np.log10(status.threshold))
    y_range = (min([*logs, -1.0]), max([*logs, alarm + 1]))
    frame = Frame("Evidence of drift", _span(monitor), y_range, "batch", "log10 of the evidence")
    frame.grid(np.unique(np.round(np.linspace(*frame.y_range, 5))).tolist())
    _ticks(frame)
    frame.line(frame.x_range[0], alarm, frame.x_range[1], alarm, "mark")
    frame.steps(_points(monitor, logs))
    return frame.text()


def _span(monitor: RegionMonitor) -> tuple[float, float]:
    first = monitor.n_dropped + 1
    return float(first), float(first + max(len(monitor.batches) - 1, 1))


def _ticks(frame: Frame) -> None:
    frame.ticks(np.unique(np.round(np.linspace(*frame.x_range, 8))).tolist(), "{:.0f}")


def _points(monitor: RegionMonitor, values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the batches as points of a step curve, thinned if they would overlap."""
    first = monitor.n_dropped + 1
    shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_POINTS)).astype(int))
    points = [(float(first + j), values[j]) for j in shown]
    return points if len(points) > 1 else [*points, (points[0][0] + 1, points[0][1])]
