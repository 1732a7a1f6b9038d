"""The figure of benchmarks.glance: size against kept classes, as means over the data sets.

The SVG has no background, and its ink follows the reader's light or dark setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.data import ROOT
from benchmarks.frames import Rows, mean, where
from benchmarks.glance import ALPHAS, BEST_RULES, DEFAULT, PROVED, RETRAINING, SLICING, SMALL, VALIDATED
from benchmarks.runner import read_rows

FIGURE = ROOT / "docs" / "glance.svg"
INK = "#1a2b3c"  # becomes currentColor
STYLE = "<style>svg{color:#24292f}@media (prefers-color-scheme:dark){svg{color:#d0d7de}}</style>"
COLOURS = {PROVED: "#2da44e", VALIDATED: "#3b82f6", RETRAINING: "#d97706", SLICING: "#8b949e", "rule": "#db61a2"}
NAMES = {
    PROVED: "pine_boost, proved",
    VALIDATED: "pine_boost, validated",
    SLICING: "first trees only",
    RETRAINING: "retrained",
    "rule": "best rule of PyPruning",
}
TITLES = {SMALL: "30 trees of depth 2", DEFAULT: "100 trees of depth 6"}
Point = tuple[float, float]


def best_rule(rows: Rows) -> str:
    """The rule that keeps most classes in these rows."""
    return max(BEST_RULES, key=lambda rule: mean(where(rows, method=rule), "fidelity"))


def curves_of(rows: Rows, model: str) -> dict[str, list[Point]]:
    """Points of every way: mean leaves kept and mean classes kept, per size, largest first."""
    here = where(rows, model=model)
    sizes = [f"{alpha:g}" for alpha in ALPHAS] if model == SMALL else ["50", "25", "10"]
    rule = best_rule(here)
    curves = {}
    for method in (PROVED, VALIDATED, RETRAINING, SLICING, rule):
        groups = [where(here, size=size, method=method) for size in sizes]
        if model == DEFAULT and method == PROVED:
            groups = [where(here, method=PROVED)]
        points = [(mean(g, "leaves_kept"), mean(g, "fidelity")) for g in groups if g]
        curves["rule" if method == rule else method] = sorted(points, reverse=True)
    return {method: points for method, points in curves.items() if points}


def draw(results: Path, figure_path: Path = FIGURE) -> Path:
    """Two panels, one per size of model, every way named at its line."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "pine_boost",
            "svg.fonttype": "path",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )
    import matplotlib.pyplot as plt

    rows = read_rows(results)
    models = [model for model in (SMALL, DEFAULT) if where(rows, model=model)]
    figure, panels = plt.subplots(1, len(models), figsize=(5.2 * len(models), 4.4), squeeze=False, sharey=True)
    for panel, model in zip(panels[0], models, strict=True):
        _draw_panel(panel, rows, model)
    panels[0][0].set_ylabel("test rows that keep their class, %")
    figure.tight_layout(w_pad=1.0)
    figure_path.parent.mkdir(parents=True, exist_ok=True)
    if figure_path.suffix == ".svg":
        figure.savefig(figure_path, transparent=True, metadata={"Date": None})
        _follow_reader(figure_path)
    else:
        figure.savefig(figure_path, dpi=110)
    plt.close(figure)
    return figure_path


def _draw_panel(panel: Any, rows: Rows, model: str) -> None:
    here = where(rows, model=model)
    curves = curves_of(rows, model)
    for method, points in curves.items():
        x, y = [p[0] for p in points], [p[1] for p in points]
        is_ours = method in (PROVED, VALIDATED)
        panel.plot(
            x,
            y,
            "o-",
            color=COLOURS[method],
            lw=2.4 if is_ours else 1.3,
            ms=6 if is_ours else 4,
            zorder=3 if is_ours else 2,
        )
    returned = where(here, size="returned", method=VALIDATED)
    if returned:
        x, y = mean(returned, "leaves_kept"), mean(returned, "fidelity")
        panel.plot([x], [y], "*", color=COLOURS[VALIDATED], ms=15, zorder=4)
        panel.annotate(
            "what 99 % returns",
            (x, y),
            xytext=(0, -18),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=COLOURS[VALIDATED],
        )
    lines = {method: points for method, points in curves.items() if len(points) > 1}
    for method in curves.keys() - lines.keys():
        panel.annotate(
            NAMES[method],
            curves[method][0],
            xytext=(-6, -16),
            textcoords="offset points",
            ha="left",
            fontsize=9,
            weight="bold",
            color=COLOURS[method],
        )
    _name_lines(panel, lines)
    panel.set_title(f"XGBoost, {TITLES[model]}", fontsize=11, loc="left", weight="bold")
    panel.set_xlabel("leaves kept, %")
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.margins(x=0.08)
    panel.invert_xaxis()
    panel.grid(alpha=0.25, color=INK, lw=0.6)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _name_lines(panel: Any, curves: dict[str, list[Point]]) -> None:
    """Names at the small end of each line, kept apart."""
    low = min(y for points in curves.values() for _, y in points)
    step = max(100 - low, 1.0) * 0.062
    ends = [(points[-1], method) for method, points in curves.items()]
    ends.sort(key=lambda end: -end[0][1])
    right = min(point[0] for point, _ in ends)
    last = float("inf")
    for (_, y), method in ends:
        height = min(y, last - step)
        panel.annotate(
            NAMES[method],
            (right, height),
            xytext=(10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=COLOURS[method],
            annotation_clip=False,
            weight="bold" if method in (PROVED, VALIDATED) else "normal",
        )
        last = height


def _follow_reader(path: Path) -> None:
    """Ink as the page's: dark on light, light on dark."""
    text = path.read_text(encoding="utf-8").replace(INK, "currentColor")
    end = text.index(">", text.index("<svg")) + 1
    path.write_text(text[:end] + STYLE + text[end:], encoding="utf-8")
