"""A frame with two axes as inline SVG, which the pictures of the report draw into.

In come ranges and labels; out go SVG texts. Colours come from the page's style sheet, so that a
picture is readable on light and dark screens and on paper. Loads nothing, runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 18, 50


@dataclass
class Frame:
    """Axes with linear scales; `text` closes the picture.

    Attributes
    ----------
    title : str
        What the picture shows, for who cannot see it.
    x_range, y_range : (float, float)
        Least and largest value that is drawn.
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
        """Where a value lies from left to right."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * _share(value, self.x_range)

    def y(self, value: float) -> float:
        """Where a value lies from top to bottom."""
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * _share(value, self.y_range)

    def grid(self, y_ticks: Sequence[float], shown: str = "{:g}") -> None:
        """Horizontal lines with their values."""
        for value in y_ticks:
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.write(_LEFT - 8, y + 4, shown.format(value), "tick", "end")

    def ticks(self, x_ticks: Sequence[float], shown: str = "{:g}") -> None:
        """Values below the picture; those that would overlap are left out."""
        last = -100.0
        for value in x_ticks:
            x = self.x(value)
            if x - last > 34:
                last = x
                self.write(x, _HEIGHT - _BOTTOM + 18, shown.format(value), "tick")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A line between two points in values."""
        self.parts.append(
            f'<line class="{kind}" x1="{self.x(x1):.1f}" x2="{self.x(x2):.1f}" '
            f'y1="{self.y(y1):.1f}" y2="{self.y(y2):.1f}"/>'
        )

    def steps(self, points: Sequence[tuple[float, float]], kind: str = "curve") -> None:
        """A stair through points: a value holds until the next."""
        first, *rest = ((self.x(x), self.y(y)) for x, y in points)
        path = [f"M {first[0]:.1f} {first[1]:.1f}", *(f"H {x:.1f} V {y:.1f}" for x, y in rest)]
        self.parts.append(f'<path class="{kind}" d="{" ".join(path)}"/>')

    def bar(self, x1: float, x2: float, height: float, kind: str) -> None:
        """A column from the ground."""
        left, right, top, ground = self.x(x1), self.x(x2), self.y(height), self.y(self.y_range[0])
        self.parts.append(
            f'<rect class="{kind}" x="{left + 0.5:.1f}" y="{top:.1f}" '
            f'width="{max(right - left - 1, 0.5):.1f}" '
            f'height="{max(ground - top, 0):.1f}"/>'
        )

    def dot(self, x: float, y: float, kind: str, title: str = "", radius: float = 5) -> None:
        """A point, with words that appear when it is pointed at."""
        words = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<circle class="{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:g}">{words}</circle>'
        )

    def label(self, x: float, y: float, text: str, anchor: str = "middle") -> None:
        """Words above a point, below it where there is no room."""
        at = self.y(y)
        self.write(self.x(x), at - 11 if at > _TOP + 14 else at + 20, text, "value", anchor)

    def write(self, x: float, y: float, text: str, kind: str, anchor: str = "middle") -> None:
        """Words at a place of the picture."""
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>')

    def text(self) -> str:
        """The picture."""
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        self.write(middle, _HEIGHT - 8, self.x_label, "axis")
        centre = (_TOP + _HEIGHT - _BOTTOM) / 2
        turned = (
            f'<text class="axis" transform="translate(14 {centre:.0f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text>'
        )
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self.title)}">'
            f"{''.join(self.parts)}{turned}</svg>"
        )


def round_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round values between two, about so many."""
    span = max(high - low, 1e-12)
    raw = span / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw)))
    first = np.ceil(low / step - 1e-9) * step
    # adding 0 makes 0 of -0, which would be shown with its sign
    return [float(value) + 0.0 for value in np.arange(first, high + step * 1e-9, step)]


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return float(min(max((value - low) / max(high - low, 1e-12), 0.0), 1.0))
