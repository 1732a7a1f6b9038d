"""Tables of the rules without a guarantee: the fifteen of the appendix, top-K, ForestPrune.

In comes a results folder; out goes Markdown, or an empty text where the file is absent. The paper's
figures stand beside ours; a rule whose figure is missed by more than two points gets a star.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.frames import Rows, main_cells, markdown, mean, number, texts, values, where
from benchmarks.published import paper_forest_prune, paper_rules
from benchmarks.runner import read_rows

COMPARED = {"leaf_pruning_rate": "leaves %", "fidelity": "fidelity %", "fidelity_in_region": "in region %"}
FAR = 2.0  # points of fidelity that want an explanation


def rules(folder: Path, cells: Rows) -> str:
    """Every rule at the sizes that ours reached, as the native model decides."""
    rows = [row for row in read_rows(folder / "rules.csv") if row["alpha"] != "faithful"]
    ours = [row for row in main_cells(cells) if row["alpha"] != "faithful"]
    if not rows or not ours:
        return ""
    deep = where(cells, model="xgboost", trees=30, depth=4, objective="l0", alpha=0.8)
    lines = [("**pine_boost**", *_line(ours), number(mean(deep, "fidelity"), 2))]
    flat, deep = where(rows, depth=2), where(rows, depth=4)
    by_method = {method: where(flat, method=method) for method in texts(flat, "method")}
    for method, here in sorted(by_method.items(), key=lambda item: -mean(item[1], "fidelity")):
        depth_4 = mean(where(deep, method=method), "fidelity")
        lines.append((method, *_line(here), number(depth_4, 2)))
    header = ("rule", "fidelity %", "lowest", "fidelity in region %", "lowest", "depth 4, alpha 0.8: fidelity %")
    return markdown(header, lines)


def _line(rows: Rows) -> tuple[str, ...]:
    inside = values(rows, "fidelity_in_region")
    return (
        number(mean(rows, "fidelity"), 2),
        number(values(rows, "fidelity").min(), 2),
        number(inside.mean(), 2),
        number(inside.min(), 2),
    )


def published_rules(folder: Path) -> str:
    """The appendix's table measured as the paper did: its sizes, no intercept."""
    rows = read_rows(folder / "rules_published.csv")
    if not rows:
        return ""
    lines = []
    for method, theirs in paper_rules().items():
        own = [row for row in where(rows, method=method) if row["source"] != "library"]
        if not own:
            continue
        ours = mean(own, "fidelity")
        library = mean(where(rows, method=method, source="library"), "fidelity")
        star = "*" if abs(ours - theirs) > FAR else ""
        lines.append((method, f"{theirs:.2f}", f"{ours:.2f}{star}", number(library, 2)))
    return markdown(("rule", "paper", "ours, from the rule's paper", "what PyPruning does"), lines)


def forest_prune(folder: Path) -> str:
    """Means at depths 2 and 4, five seeds and the paper's one."""
    rows = read_rows(folder / "forest_prune.csv")
    if not rows:
        return ""
    lines: list[tuple[object, ...]] = []
    for depth in texts(rows, "depth"):
        for row in where(paper_forest_prune(), dataset="mean", depth=depth):
            lines.append(
                (
                    depth,
                    f"{row['method']} (paper)",
                    row["leaf_pruning_rate"],
                    row["fidelity"],
                    row["fidelity_in_region"],
                    "",
                    row["time_s"],
                )
            )
        for method in texts(rows, "method"):
            here = where(rows, depth=depth, method=method)
            lost = mean(here, "accuracy_before") - mean(here, "accuracy_after")
            lines.append(
                (
                    depth,
                    method,
                    number(mean(here, "leaf_pruning_rate"), 2),
                    number(mean(here, "fidelity"), 2),
                    number(mean(here, "fidelity_in_region"), 2),
                    number(lost, 2),
                    number(mean(here, "time_s"), 2),
                )
            )
    header = (
        "depth",
        "method",
        "leaves removed %",
        "fidelity %",
        "fidelity in region %",
        "test accuracy lost",
        "mean s",
    )
    return markdown(header, lines)


def forest_prune_per_dataset(folder: Path, depth: int) -> str:
    """Per data set: leaves removed and fidelity, the paper's one seed and our mean.

    Beside ForestPrune and whole trees, whatever else of ours is in the file (single leaves).
    """
    rows = where(read_rows(folder / "forest_prune.csv"), depth=depth)
    paper = where(paper_forest_prune(), depth=depth)
    ours = [method for method in texts(rows, "method") if method.startswith("pine_boost")]
    methods = ["ForestPrune", *ours]
    theirs = {"ForestPrune": "ForestPrune", "pine_boost": "PINE"}
    is_published = any(row["dataset"] != "mean" for row in paper)
    lines, header = [], ["data set"]
    for dataset in texts(rows, "dataset"):
        line = [dataset]
        for method in methods:
            here = where(rows, dataset=dataset, method=method)
            published = where(paper, dataset=dataset, method=theirs.get(method, ""))
            for column in COMPARED:
                if is_published and method in theirs:
                    line.append(published[0][column] if published else "-")
                line.append(number(mean(here, column), 1))
        lines.append(line)
    for method in methods:
        for what in COMPARED.values():
            if is_published and method in theirs:
                header += [f"{theirs[method]}, paper: {what}", f"{method} here"]
            else:
                header.append(f"{method}: {what}")
    return markdown(header, lines) if lines else ""
