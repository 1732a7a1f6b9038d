"""The page of a monitor: coverage over the batches, the evidence, what drifted.

In comes a monitor; out goes one HTML text with inline SVG, nothing loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from pine_boost.model.digits import percent_down, percent_up, rest_of
from pine_boost.monitoring.monitor import RegionMonitor
from pine_boost.report.style import STYLE
from pine_boost.report.svg import Frame

_MOST_POINTS = 400


# An earlier page is known by it, so that no other file is replaced.
BEGINNING = "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Region monitor</title>"


def write_page(monitor: RegionMonitor) -> str:
    """The page as text."""
    status = monitor.status()
    verdict, kind = ("ALARM", "warn") if status.alarm else ("OK", "good")
    head = (
        "Inputs leave the region more often than promised"
        if status.alarm
        else ("Inputs lie in the region as often as promised, as far as can be told")
    )
    all_ = status.coverage
    drifted = "".join(
        f"<tr><td>{escape(' given '.join(drift.features))}</td><td>+{drift.excess:.3f}</td></tr>"
        for drift in status.drifted
    )
    table = (
        "<section><h2>What costs more than in X_fit (nats per input)</h2><table><tbody>"
        f"{drifted}</tbody></table></section>"
        if drifted
        else ""
    )
    return (
        f"{BEGINNING}<style>{STYLE}</style></head><body><main>"
        f"<p><span class='badge {kind}'>{verdict}</span></p><h1>{head}</h1>"
        f"<p>{all_.n_inside} of {all_.n_rows} inputs in {monitor.n_dropped + len(monitor.batches)} "
        f"batches lie in the region ({all_.share:.2%}; true share {percent_down(all_.low)} to "
        f"{percent_up(all_.high)} at 95 %), {percent_down(rest_of(status.alpha))} was "
        "calibrated. Evidence of drift: "
        f"{status.evidence:.3g}, largest {status.largest_evidence:.3g}; the alarm is raised from "
        f"{status.threshold:.3g} on and stays. Without drift it is ever raised with probability "
        f"{monitor.level:g} at most, however often one looks.</p>"
        f"<section><h2>Coverage</h2>{_coverage_curve(monitor)}</section>"
        f"<section><h2>Evidence</h2>{_evidence_curve(monitor)}</section>{table}"
        "</main></body></html>"
    )


def _coverage_curve(monitor: RegionMonitor) -> str:
    """Share inside of every batch, and what was calibrated."""
    shares = [batch.n_inside / batch.n_rows for batch in monitor.batches]
    low = min([*shares, 1 - monitor.region.alpha]) - 0.02
    frame = Frame("Share of inputs in the region", _span(monitor), (max(0.0, low), 1.0), "batch", "share inside")
    frame.grid(np.linspace(frame.y_range[0], 1.0, 5).tolist(), "{:.0%}")
    _ticks(frame)
    frame.line(frame.x_range[0], 1 - monitor.region.alpha, frame.x_range[1], 1 - monitor.region.alpha, "mark")
    frame.steps(_points(monitor, shares))
    return frame.text()


def _evidence_curve(monitor: RegionMonitor) -> str:
    """log10 of the evidence after every batch, and where the alarm is raised."""
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
    """The batches as points of a stair, thinned where they would not be told apart."""
    first = monitor.n_dropped + 1
    shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_POINTS)).astype(int))
    points = [(float(first + j), values[j]) for j in shown]
    return points if len(points) > 1 else [*points, (points[0][0] + 1, points[0][1])]
