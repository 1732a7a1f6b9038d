"""Charts as inline SVG, coloured by the style sheet of the page.

`Frame` draws into two axes; the functions below it draw the charts of the reports. They return an
empty text if there is too little to show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from pine_boost.model.forest import FloatArray
from pine_boost.options import plural

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 18, 50
_BETWEEN_TICKS = 48
_BARS = 40
_DOTS = 400


@dataclass
class Frame:
    """Axes with linear scales; `text` closes the chart.

    Attributes
    ----------
    title : str
        What the chart shows, for screen readers.
    x_range, y_range : (float, float)
        Smallest and largest value drawn.
    x_label, y_label : str
        With the unit.
    """

    title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_label: str
    y_label: str
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """The horizontal position of a value."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * _share(value, self.x_range)

    def y(self, value: float) -> float:
        """The vertical position of a value."""
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * _share(value, self.y_range)

    def grid(self, y_ticks: Sequence[float], shown: str = "{:g}") -> None:
        """Horizontal lines with their values."""
        for value in y_ticks:
            y = self.y(value)
            self._add("line", kind="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y)
            self.write(_LEFT - 8, y + 4, axis_label(value, shown), "tick", "end")

    def ticks(self, x_ticks: Sequence[float], shown: str = "{:g}") -> None:
        """Values below the chart; those that would overlap are left out."""
        last = -100.0
        for value in x_ticks:
            x = self.x(value)
            if x - last > _BETWEEN_TICKS:
                last = x
                self.write(x, _HEIGHT - _BOTTOM + 18, axis_label(value, shown), "tick")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A line between two points in values."""
        self._add("line", kind=kind, x1=self.x(x1), x2=self.x(x2), y1=self.y(y1), y2=self.y(y2))

    def steps(self, points: Sequence[tuple[float, float]]) -> None:
        """A step curve: a value holds until the next point."""
        first, *rest = ((self.x(x), self.y(y)) for x, y in points)
        path = [f"M {first[0]:.1f} {first[1]:.1f}", *(f"H {x:.1f} V {y:.1f}" for x, y in rest)]
        self._add("path", kind="curve", d=" ".join(path))

    def bar(self, x1: float, x2: float, height: float, kind: str) -> None:
        """A column from the bottom."""
        left, top, ground = self.x(x1), self.y(height), self.y(self.y_range[0])
        width = max(self.x(x2) - left - 1, 0.5)
        self._add("rect", kind=kind, x=left + 0.5, y=top, width=width, height=max(ground - top, 0.0))

    def dot(self, x: float, y: float, kind: str, title: str = "", radius: int = 5) -> None:
        """A point with a tooltip."""
        words = f"<title>{escape(title)}</title>" if title else ""
        self._add("circle", words, kind=kind, cx=self.x(x), cy=self.y(y), r=radius)

    def label(self, x: float, y: float, text: str, anchor: str = "middle") -> None:
        """Text above a point, below it if there is no room."""
        at = self.y(y)
        self.write(self.x(x), at - 11 if at > _TOP + 14 else at + 20, text, "value", anchor)

    def write(self, x: float, y: float, text: str, kind: str, anchor: str = "middle") -> None:
        """Text at a position of the chart."""
        self._add("text", escape(text), kind=kind, x=x, y=y, text_anchor=anchor)

    def _add(self, tag: str, inside: str = "", *, kind: str, **attributes: Any) -> None:
        shown = {name: f"{value:.1f}" if isinstance(value, float) else value for name, value in attributes.items()}
        words = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in {"class": kind, **shown}.items())
        self.parts.append(f"<{tag} {words}>{inside}</{tag}>" if inside else f"<{tag} {words}/>")

    def text(self) -> Markup:
        """The chart."""
        self.write((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, self.x_label, "axis")
        turned = f"translate(14 {(_TOP + _HEIGHT - _BOTTOM) / 2:.0f}) rotate(-90)"
        self._add("text", escape(self.y_label), kind="axis", transform=turned, text_anchor="middle")
        return Markup(
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self.title)}">'
            f"{''.join(self.parts)}</svg>"
        )


def axis_label(value: float, shown: str = "{:g}") -> str:
    """A value on an axis; a rounded zero has no sign."""
    text = shown.format(value)
    return text[1:] if re.fullmatch(r"-0(\.0*)?%?", text) else text


def round_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round values between two bounds, about ``count`` of them."""
    span = max(high - low, 1e-12)
    raw = span / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw)))
    first = np.ceil(low / step - 1e-9) * step
    return [float(value) + 0.0 for value in np.arange(first, high + step * 1e-9, step)]


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return float(min(max((value - low) / max(high - low, 1e-12), 0.0), 1.0))


def draw_tradeoff(rows: Sequence[Mapping[str, Any]], chosen: float | None, unit: str) -> Markup:
    """Share of units removed over alpha; the chosen alpha is marked."""
    if len(rows) < 2:
        return Markup()
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
    # a larger alpha allows more: between two points at least the share of the left one holds
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


def draw_calibration(scores: FloatArray, tau: float | None, n_outside: int, unit: str) -> Markup:
    """Histogram of the calibration scores and the end of the region."""
    if len(scores) < 2 or tau is None:
        return Markup()
    low, high = float(scores.min()), float(max(scores.max(), tau))
    width = max(high - low, 1e-9) / _BARS
    # columns end at tau and include their right edge: a row with score tau is in the region
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


def draw_margins(before: FloatArray, after: FloatArray, inside: Any) -> Markup:
    """Distance from the decision boundary before and after, one point per row."""
    if len(before) < 2:
        return Markup()
    keep = np.linspace(0, len(before) - 1, min(len(before), _DOTS)).astype(int)
    before, after, inside = before[keep], after[keep], np.asarray(inside)[keep]
    width = [float(np.quantile(np.abs(values), 0.99)) or 1.0 for values in (before, after)]
    x_range = (-width[0], width[0]) if before.min() < 0 else (0.0, width[0])
    frame = Frame(
        "Distance from the decision boundary before and after pruning",
        x_range,
        (-width[1], width[1]),
        "margin of the original, from its decision boundary",
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
) -> Markup:
    """Units of the best certified model over the seconds of the search.

    ``history`` is of models proved twice, ``once`` of those that were proved once by then.
    """
    if len(history) + len(once) < 2:
        return Markup()
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
