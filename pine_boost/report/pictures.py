"""The pictures of the report, as inline SVG.

In come numbers in the units of the page; out go SVG texts, empty where there is too little to
show. Needs neither matplotlib nor the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pine_boost.model.forest import FloatArray
from pine_boost.options import plural
from pine_boost.report.svg import Frame, round_ticks

_BARS = 40
_DOTS = 400


def draw_tradeoff(rows: Sequence[Mapping[str, Any]], chosen: float | None, unit: str) -> str:
    """Share of units removed over alpha; the chosen alpha is marked."""
    if len(rows) < 2:
        return ""
    largest = max(float(row["alpha"]) for row in rows) or 1.0
    units = plural(unit)
    frame = Frame(
        f"Share of {units} removed for each alpha",
        (-0.02 * largest, 1.02 * largest),
        (0.0, 1.0),
        "alpha: share of inputs that may lie outside the region",
        f"{units} removed",
    )
    frame.grid((0.0, 0.25, 0.5, 0.75, 1.0), "{:.0%}")
    # more alpha allows more: between two points of the grid at least the left one's share holds
    frame.steps([(float(row["alpha"]), float(row["removed"])) for row in rows])
    for row in rows:
        kind = "open" if row["status"] != "CERTIFIED" else "dot"
        if chosen is not None and float(row["alpha"]) == chosen:
            kind += " chosen"
        title = f"alpha {row['alpha']:g}: {row['trees']} trees, {row['removed']:.0%} removed"
        frame.dot(float(row["alpha"]), float(row["removed"]), kind, title)
        frame.label(float(row["alpha"]), float(row["removed"]), str(row["trees"]))
    frame.ticks([float(row["alpha"]) for row in rows])
    return frame.text()


def draw_calibration(scores: FloatArray, tau: float | None, n_outside: int, unit: str) -> str:
    """Histogram of the calibration rows' scores and where the region ends."""
    if len(scores) < 2 or tau is None:
        return ""
    low, high = float(scores.min()), float(max(scores.max(), tau))
    width = max(high - low, 1e-9) / _BARS
    # columns end at tau and hold their right edge: a row with score tau is in the region
    column = np.ceil((scores - tau) / width - 1e-9).astype(int)
    columns, counts = np.unique(column, return_counts=True)
    top = float(counts.max())
    frame = Frame(
        "Scores of the calibration rows and the end of the region",
        (low, high),
        (0.0, 1.1 * top),
        f"score of a calibration row ({unit}; smaller is likelier)",
        "rows",
    )
    frame.grid(round_ticks(0, top, 4))
    for place, count in zip(columns, counts, strict=True):
        right = tau + float(place) * width
        frame.bar(right - width, right, float(count), "bar-in" if place <= 0 else "bar-out")
    frame.line(tau, 0, tau, 1.1 * top, "mark")
    right_half = tau > (low + high) / 2
    frame.label(tau, 1.02 * top, f"tau = {tau:.2f}", "end" if right_half else "start")
    frame.ticks(round_ticks(low, high))
    if n_outside:
        frame.write(frame.x(high), 14, f"+ {n_outside} outside whatever their score", "tick", "end")
    return frame.text()


def draw_margins(before: FloatArray, after: FloatArray, inside: Any) -> str:
    """Distance from the decision before against after, one point per row."""
    if len(before) < 2:
        return ""
    keep = np.linspace(0, len(before) - 1, min(len(before), _DOTS)).astype(int)
    before, after, inside = before[keep], after[keep], np.asarray(inside)[keep]
    width = [float(np.quantile(np.abs(values), 0.99)) or 1.0 for values in (before, after)]
    x_range = (-width[0], width[0]) if before.min() < 0 else (0.0, width[0])
    frame = Frame(
        "Distance from the decision before and after pruning",
        x_range,
        (-width[1], width[1]),
        "margin of the original, from its decision on",
        "margin of the pruned model",
    )
    frame.grid(round_ticks(-width[1], width[1], 5))
    frame.ticks(round_ticks(*x_range))
    frame.line(x_range[0], 0, x_range[1], 0, "mark")
    frame.line(0, -width[1], 0, width[1], "mark")
    for x, y, is_inside in zip(before, after, inside, strict=True):
        changed = (x > 0) != (y > 0) and x != 0
        kind = ("dot" if is_inside else "open") + (" changed" if changed else "")
        frame.dot(float(x), float(y), kind, f"{x:.3g} before, {y:.3g} after", 3)
    return frame.text()


def draw_history(
    history: Sequence[tuple[float, int]], total: int, bound: int, unit: str, once: Sequence[tuple[float, int]] = ()
) -> str:
    """Units of the best certified model over the seconds of the search.

    ``history`` is of models proved twice, ``once`` of those that were proved once by then.
    """
    if len(history) + len(once) < 2:
        return ""
    end = max(*(seconds for seconds, _ in (*history, *once)), 1e-3)
    frame = Frame(
        f"{plural(unit).capitalize()} of the best certified model over time",
        (0.0, end),
        (0.0, 1.05 * total),
        "seconds of the search",
        f"{plural(unit)} certified",
    )
    frame.grid(round_ticks(0, total, 5))
    frame.ticks(round_ticks(0, end))
    frame.line(0, bound, end, bound, "mark")
    for moments, kind, times in ((once, "open", "once"), (history, "dot", "twice")):
        if moments:
            frame.steps([(0.0, total), *moments, (end, moments[-1][1])])
        for seconds, units in moments:
            words = f"{units} {plural(unit)} proved {times} after {seconds:.2f} s"
            frame.dot(seconds, units, kind, words, 4)
    return frame.text()
