"""The trade-off plot of the report as inline SVG.

In come rows of a sweep; out goes an SVG text that takes its colours from the page's style sheet.
Needs neither matplotlib nor the network; draws nothing for fewer than two alphas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 48


def draw_tradeoff(rows: Sequence[Mapping[str, Any]], chosen: float | None, unit: str) -> str:
    """Share of units removed over alpha; the chosen alpha is marked."""
    if len(rows) < 2:
        return ""
    largest = max(float(row["alpha"]) for row in rows) or 1.0
    points = [(_x(float(row["alpha"]), largest), _y(float(row["removed"]))) for row in rows]
    # more alpha allows more: between two points of the grid at least the left one's share holds
    steps = [f"M {points[0][0]:.1f} {points[0][1]:.1f}"]
    steps += [f"H {x:.1f} V {y:.1f}" for x, y in points[1:]]
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Share of {unit}s removed for each alpha">'
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">'
                     f"{share:.0%}</text>")  # fmt: skip
    parts.append(f'<path class="curve" d="{" ".join(steps)}"/>')
    labelled = -100.0
    for row, (x, y) in zip(rows, points, strict=True):
        kind = "open" if row["status"] != "CERTIFIED" else "dot"
        if chosen is not None and float(row["alpha"]) == chosen:
            kind += " chosen"
        title = f"alpha {row['alpha']:g}: {row['trees']} trees, {row['removed']:.0%} removed"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5">'
                     f"<title>{title}</title></circle>")  # fmt: skip
        above = y - 11 if y > _TOP + 14 else y + 20
        parts.append(f'<text class="value" x="{x:.1f}" y="{above:.1f}" text-anchor="middle">'
                     f"{row['trees']}</text>")  # fmt: skip
        if x - labelled > 26:
            labelled = x
            parts.append(f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
                         f'text-anchor="middle">{row["alpha"]:g}</text>')  # fmt: skip
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">'
                 "alpha: share of inputs that may lie outside the region</text></svg>")  # fmt: skip
    return "".join(parts)


def _x(alpha: float, largest: float) -> float:
    return _LEFT + 14 + (_WIDTH - _LEFT - _RIGHT - 28) * alpha / largest


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)
