"""The paper's figures as PNG files, from the results files.

In comes a results folder; out go the paths of the figures drawn. A figure without data is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.frames import Rows, main_cells, mean, read_cells, texts, where
from benchmarks.published import ALPHA_ORDER
from benchmarks.runner import read_rows

ALPHAS = ALPHA_ORDER[1:]
# The paper's three, its three heuristics, slicing, and the rule that keeps most classes.
DRAWN_RULES = (
    "individual_contribution",
    "drep",
    "individual_margin_diversity",
    "LeafMagnitude-TopK",
    "TreeGain-TopK",
    "FeatImpTree-TopK",
    "Slice",
    "error_ambiguity",
)
METRICS = {
    "coverage": "coverage %",
    "fidelity": "fidelity %",
    "pruning_rate": "trees removed %",
    "time_s": "mean seconds",
}


def draw_all(folder: Path) -> list[Path]:
    """Draw every figure that has data; returns the files."""
    import matplotlib

    matplotlib.use("Agg")
    out = folder / "figures"
    out.mkdir(parents=True, exist_ok=True)
    cells = read_cells(folder)
    main = main_cells(cells)
    baselines = [
        row for row in where(read_rows(folder / "rules.csv"), trees=30, depth=2) if row["method"] in DRAWN_RULES
    ]
    base = where(cells, model="xgboost", trees=30, depth=2)
    chosen = {
        "l1": where(base, objective="l1", score="chow-liu"),
        "random_forest": where(cells, model="random-forest", trees=30, depth=2),
        "trees50": where(cells, model="xgboost", trees=50, depth=2),
    }
    drawn: list[Path] = []
    if main:
        drawn += trade_off(main, baselines, out / "tradeoff")
        drawn.append(coverage_figure(main, out / "coverage.png"))
        drawn.append(conditional(main, baselines, out / "conditional_fidelity.png"))
    for name, rows in chosen.items():
        if rows:
            drawn += trade_off(rows, [], out / f"tradeoff_{name}")
    bins = {"B=4": "chow-liu", "B=8": "chow-liu-b8", "B=16": "chow-liu-b16"}
    scores = {"CL": "chow-liu", "LS": "leaf-support", "IF": "isolation-forest"}
    for name, labels in {"bins": bins, "scores": scores}.items():
        groups = {label: where(base, objective="l0", score=s) for label, s in labels.items()}
        if all(groups.values()):
            drawn.append(metric_panels(groups, out / f"{name}.png"))
    return drawn


def _panels(n_panels: int, width: float = 3.2, height: float = 2.6) -> tuple[Any, list[Any]]:
    import matplotlib.pyplot as plt

    columns = min(4, n_panels)
    lines = -(-n_panels // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(width * columns, height * lines), squeeze=False)
    flat = [axis for line in axes for axis in line]
    for axis in flat[n_panels:]:
        axis.set_visible(False)
    return figure, flat[:n_panels]


def _save(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    lines = {line.get_label(): line for axis in figure.axes for line in axis.get_lines()}
    named = {label: line for label, line in lines.items() if not label.startswith("_")}
    figure.legend(named.values(), named.keys(), loc="upper center", ncol=4, fontsize=7)
    height = figure.get_size_inches()[1]
    room = (0.25 + 0.17 * -(-len(named) // 4)) / height  # inches for the legend's lines
    figure.tight_layout(rect=(0, 0, 1, 1 - room))
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _curve(rows: Rows, x: str, y: str) -> tuple[list[float], list[float]]:
    groups = [where(rows, alpha=alpha) for alpha in ALPHA_ORDER]
    points = [(mean(group, x), mean(group, y)) for group in groups if group]
    return [p[0] for p in points], [p[1] for p in points]


def trade_off(cells: Rows, baselines: Rows, stem: Path) -> list[Path]:
    """Accuracy and fidelity against the pruning rate, one panel per data set."""
    drawn = []
    for name, ours, theirs in (("accuracy", "accuracy_after", "accuracy"), ("fidelity", "fidelity", "fidelity")):
        datasets = texts(cells, "dataset")
        figure, axes = _panels(len(datasets))
        for axis, dataset in zip(axes, datasets, strict=True):
            rows = where(cells, dataset=dataset)
            for method in texts(where(baselines, dataset=dataset), "method"):
                here = where(baselines, dataset=dataset, method=method)
                axis.plot(*_curve(here, "pruning_rate", theirs), "o-", ms=2, lw=0.7, label=method)
            axis.plot(*_curve(rows, "pruning_rate", ours), "ks-", ms=4, lw=1.5, label="pine_boost")
            if name == "accuracy":
                axis.axhline(mean(rows, "accuracy_before"), color="grey", ls=":", lw=1)
            axis.set_title(dataset, fontsize=9)
            axis.set_xlabel("trees removed %", fontsize=8)
            axis.set_ylabel(f"{name} %", fontsize=8)
            axis.tick_params(labelsize=7)
        drawn.append(_save(figure, stem.with_name(f"{stem.name}_{name}.png")))
    return drawn


def coverage_figure(cells: Rows, path: Path) -> Path:
    """Coverage against alpha, all data sets, with the target."""
    figure, (axis,) = _panels(1, 5.0, 4.0)
    for dataset in texts(cells, "dataset"):
        rows = where(cells, dataset=dataset)
        found = [a for a in ALPHAS if where(rows, alpha=a)]
        shares = [mean(where(rows, alpha=a), "coverage") for a in found]
        axis.plot([float(a) for a in found], shares, "o-", ms=3, lw=0.8, label=dataset)
    axis.plot([0, 1], [100, 0], "r--", lw=1.2, label="1 - alpha")
    axis.set_xlabel("alpha")
    axis.set_ylabel("coverage of test rows %")
    return _save(figure, path)


def conditional(cells: Rows, baselines: Rows, path: Path) -> Path:
    """Fidelity inside the region against alpha, one panel per data set."""
    datasets = texts(cells, "dataset")
    figure, axes = _panels(len(datasets))
    for axis, dataset in zip(axes, datasets, strict=True):
        groups = {"pine_boost": where(cells, dataset=dataset)}
        for method in texts(where(baselines, dataset=dataset), "method"):
            groups[method] = where(baselines, dataset=dataset, method=method)
        for label, rows in groups.items():
            found = [a for a in ALPHAS if where(rows, alpha=a)]
            shares = [mean(where(rows, alpha=a), "fidelity_in_region") for a in found]
            style = "ks-" if label == "pine_boost" else "o-"
            axis.plot([float(a) for a in found], shares, style, ms=3, lw=0.8, label=label)
        axis.set_title(dataset, fontsize=9)
        axis.set_xlabel("alpha", fontsize=8)
        axis.set_ylabel("fidelity in region %", fontsize=8)
        axis.tick_params(labelsize=7)
    return _save(figure, path)


def metric_panels(groups: dict[str, Rows], path: Path) -> Path:
    """Coverage, fidelity, pruning rate and time against alpha for several variants."""
    figure, axes = _panels(len(METRICS))
    for axis, (column, label) in zip(axes, METRICS.items(), strict=True):
        for name, rows in groups.items():
            found = [a for a in ALPHAS if where(rows, alpha=a)]
            means = [mean(where(rows, alpha=a), column) for a in found]
            axis.plot([float(a) for a in found], means, "o-", ms=3, lw=1, label=name)
        axis.set_xlabel("alpha", fontsize=8)
        axis.set_ylabel(label, fontsize=8)
        axis.tick_params(labelsize=7)
    return _save(figure, path)
