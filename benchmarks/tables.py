"""All tables and figures from the results files (python -m benchmarks.tables).

In come the CSV files of benchmarks/results; out go TABLES.md and figures/*.png beside them. A table
whose file is absent is left out and named; no number is typed in by hand except other people's.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.cells import KEY_COLUMNS
from benchmarks.data import N_ROWS
from benchmarks.fewest import kept_of
from benchmarks.frames import (
    Rows,
    average,
    main_cells,
    markdown,
    mean,
    number,
    read_cells,
    spread,
    texts,
    values,
    where,
)
from benchmarks.growth_tables import growth, limits
from benchmarks.more_tables import large, lossless, search, selection, serving, sweeping, two_commits
from benchmarks.published import (
    ALLOWED_DEPTH_SECONDS,
    ALLOWED_TREES_SECONDS,
    ALPHA_ORDER,
    PAPER_DEPTH,
    PAPER_TREES,
    REQUIRED_MEAN,
    paper_l0,
)
from benchmarks.rule_tables import forest_prune, forest_prune_per_dataset, published_rules, rules
from benchmarks.runner import RESULTS, read_rows
from benchmarks.size_tables import default_sizes, library_sections


def summary(cells: Rows, by_leaf: Rows = ()) -> str:
    """Mean over data sets and seeds per alpha, against the paper; a column for leaf values."""
    paper = paper_l0()
    datasets, published = texts(cells, "dataset"), {key[0] for key in paper}
    lines = []
    for alpha in ALPHA_ORDER:
        rows = where(cells, alpha=alpha)
        if not rows:
            continue
        theirs = {
            metric: average([paper[d, alpha, metric][0] for d in datasets if d in published])
            for metric in ("pruning_rate", "fidelity", "time_s")
        }
        certified = sum(row["status"] == "CERTIFIED" for row in rows)
        lines.append(
            (
                alpha,
                number(mean(rows, "pruning_rate")),
                *_by_leaf(by_leaf, alpha, len(rows)),
                number(theirs["pruning_rate"]),
                number(mean(rows, "fidelity"), 2),
                number(theirs["fidelity"], 2),
                number(values(rows, "fidelity_in_region").min(), 2),
                number(mean(rows, "coverage")),
                number(np.median(values(rows, "time_s")), 2),
                number(mean(rows, "time_s"), 2),
                number(theirs["time_s"]),
                f"{certified}/{len(rows)}",
            )
        )
    header = (
        "alpha",
        "trees removed %",
        *(["with leaf values (default)"] if by_leaf else []),
        "paper",
        "fidelity %",
        "paper",
        "lowest fidelity in region %",
        "coverage %",
        "median s",
        "mean s",
        "paper mean s",
        "certified",
    )
    return markdown(header, lines)


def _by_leaf(cells: Rows, alpha: str, n_cells: int) -> list[str]:
    """The rate with leaf values, of certified cells as many as there are with weights."""
    if not cells:
        return []
    rows = where(cells, alpha=alpha, status="CERTIFIED")
    return [number(mean(rows, "pruning_rate")) if len(rows) == n_cells else "-"]


def per_dataset(cells: Rows, metric: str) -> str:
    """Ours and the paper's mean and standard deviation, data set by alpha."""
    paper = paper_l0()
    lines = []
    for dataset in texts(cells, "dataset"):
        ours, theirs = [dataset, "ours"], ["", "paper"]
        for alpha in ALPHA_ORDER:
            ours.append(spread(where(cells, dataset=dataset, alpha=alpha), metric))
            found = paper.get((dataset, alpha, metric))
            theirs.append(f"{found[0]}±{found[1]}" if found else "-")
        lines += [ours, theirs]
    return markdown(("data set", "", *ALPHA_ORDER), lines)


def shortfalls(cells: Rows) -> str:
    """Where a data set removes less than the paper on average, and whether that was optimal."""
    paper = paper_l0()
    lines = []
    for dataset in texts(cells, "dataset"):
        for alpha in ALPHA_ORDER:
            rows = where(cells, dataset=dataset, alpha=alpha)
            theirs = paper.get((dataset, alpha, "pruning_rate"))
            if not rows or theirs is None or mean(rows, "pruning_rate") >= theirs[0] - 0.05:
                continue
            n_optimal = sum(kept_of(row) <= int(row["lower_bound"]) for row in rows)
            ours = number(mean(rows, "pruning_rate"))
            lines.append((dataset, alpha, ours, theirs[0], f"{n_optimal}/{len(rows)}"))
    header = ("data set", "alpha", "ours %", "paper %", "proved fewest")
    return markdown(header, lines) if lines else "None."


def coverage(cells: Rows) -> str:
    """Mean coverage per data set and alpha; a star where it is below the binomial error.

    Test rows and calibration rows both vary, so the error of a mean over seeds is
    ``sqrt(a (1 - a) (1 / n_test + 1 / n_cal) / n_seeds)``; the star is 2 of these.
    """
    lines = []
    for dataset in texts(cells, "dataset"):
        line = [dataset]
        n_test, n_cal = 0.2 * N_ROWS.get(dataset, 0), 0.16 * N_ROWS.get(dataset, 0)
        for alpha in ALPHA_ORDER[1:]:
            rows = where(cells, dataset=dataset, alpha=alpha)
            if not rows or not n_test:
                line.append("-")
                continue
            a, share = float(alpha), mean(rows, "coverage") / 100
            error = np.sqrt(a * (1 - a) * (1 / n_test + 1 / n_cal) / len(rows))
            line.append(f"{100 * share:.1f}" + ("*" if share < 1 - a - 2 * error else ""))
        lines.append(line)
    return markdown(("data set", *ALPHA_ORDER[1:]), lines)


def variants(cells: Rows, column: str, names: dict[str, str]) -> str:
    """Pruning rate, fidelity, coverage and time per alpha for several texts of a column."""
    found = {text: where(cells, **{column: text}) for text in names}
    # only what every variant has: means over different data sets cannot be compared
    keys = [{(r["dataset"], r["seed"], r["alpha"]) for r in rows} for rows in found.values()]
    shared = set.intersection(*keys)
    lines = []
    for alpha in ALPHA_ORDER:
        for text, rows in found.items():
            here = [r for r in rows if r["alpha"] == alpha and (r["dataset"], r["seed"], alpha) in shared]
            if here:
                lines.append(
                    (
                        alpha,
                        names[text],
                        number(mean(here, "pruning_rate")),
                        number(mean(here, "leaf_pruning_rate")),
                        number(mean(here, "fidelity"), 2),
                        number(mean(here, "coverage")),
                        number(mean(here, "time_s"), 2),
                        f"{sum(r['status'] == 'CERTIFIED' for r in here)}/{len(here)}",
                    )
                )
    header = ("alpha", "", "units removed %", "leaves removed %", "fidelity %", "coverage %", "mean s", "certified")
    return markdown(header, lines)


def grid(
    cells: Rows, column: str, paper: Mapping[int, tuple[float, ...]], allowed: Mapping[int, int], taken_further: Rows
) -> str:
    """A scaling table of the paper (12 cases, one seed) beside ours, alpha 0.8.

    All seeds that were run, seed 0 by itself, and what no weights >= 0 can exceed: the rates at
    the lower bounds, with those of `benchmarks.fewest` where it went further.
    """
    further = {tuple(row[c] for c in KEY_COLUMNS): int(row["lower_bound"]) for row in taken_further}
    lines = []
    for size, theirs in paper.items():
        rows = where(cells, **{column: size})
        if not rows:
            continue
        few = sum(float(row["pruning_rate"]) <= 1 for row in rows)
        certified = sum(row["status"] == "CERTIFIED" for row in rows)
        possible = [
            100 - 100 * max(int(row["lower_bound"]), further.get(key, 1)) / int(row["trees"])
            for row in rows
            for key in [tuple(row[c] for c in KEY_COLUMNS)]
        ]
        lines.append(
            (
                size,
                number(mean(rows, "pruning_rate"), 2),
                number(mean(where(rows, seed=0), "pruning_rate"), 2),
                theirs[0],
                number(average(possible), 2),
                number(mean(rows, "fidelity"), 2),
                theirs[1],
                number(mean(rows, "time_s"), 2),
                theirs[2],
                allowed.get(size, "-"),
                f"{few}/{len(rows)}",
                f"{certified}/{len(rows)}",
            )
        )
    header = (
        column,
        "trees removed %",
        "seed 0",
        "paper",
        "most possible %",
        "fidelity %",
        "paper",
        "mean s",
        "paper",
        "allowed s",
        "rate <= 1 %",
        "certified",
    )
    return markdown(header, lines)


def ensembles(cells: Rows) -> str:
    """Other models and sizes: means per alpha."""
    lines = []
    for alpha in ALPHA_ORDER:
        rows = where(cells, alpha=alpha)
        if rows:
            certified = sum(row["status"] == "CERTIFIED" for row in rows)
            lines.append(
                (
                    alpha,
                    number(mean(rows, "pruning_rate")),
                    number(mean(rows, "fidelity"), 2),
                    number(values(rows, "fidelity_in_region").min(), 2),
                    number(mean(rows, "coverage")),
                    number(mean(rows, "time_s"), 2),
                    f"{certified}/{len(rows)}",
                )
            )
    header = (
        "alpha",
        "trees removed %",
        "fidelity %",
        "lowest fidelity in region %",
        "coverage %",
        "mean s",
        "certified",
    )
    return markdown(header, lines)


def cell_sections(cells: Rows, further: Rows) -> list[tuple[str, str]]:
    """Every table that comes from cells of benchmarks.paper; an empty text where none do."""
    main = main_cells(cells)
    base = where(cells, model="xgboost", trees=30, depth=2)
    scaling = [r for r in where(cells, model="xgboost", alpha="0.8", objective="l0") if r["score"] == "chow-liu"]
    bins = where(base, objective="l0")
    bin_names = {"chow-liu": "B=4", "chow-liu-b8": "B=8", "chow-liu-b16": "B=16"}
    rates = ", ".join(f"{a}: {r}" for a, r in REQUIRED_MEAN.items())
    sections = [
        (f"Mean over data sets and seeds (required %: {rates})", summary(main) if main else ""),
        ("Trees removed %", per_dataset(main, "pruning_rate") if main else ""),
        ("Fidelity %", per_dataset(main, "fidelity") if main else ""),
        ("Time s", per_dataset(main, "time_s") if main else ""),
        ("Below the paper's mean rate", shortfalls(main) if main else ""),
        ("Coverage % (* below the binomial error)", coverage(main) if main else ""),
    ]
    l1 = where(base, objective="l1", score="chow-liu")
    both = where(base, score="chow-liu")
    sections.append(("L0 and L1", variants(both, "objective", {"l0": "L0", "l1": "L1"}) if l1 else ""))
    for objective, name in (("l0-leaf", "a value per leaf"), ("l0-leaves", "single leaves")):
        names = {"l0": "whole trees", objective: name}
        found = where(both, objective=objective)
        title = f"Whole trees and {name}"
        sections.append((title, variants(both, "objective", names) if found else ""))
    has_bins = where(bins, score="chow-liu-b8") and where(bins, score="chow-liu-b16")
    sections.append(("Bins", variants(bins, "score", bin_names) if has_bins else ""))
    for score, short in (("leaf-support", "LS"), ("isolation-forest", "IF")):
        names = {"chow-liu": "CL", score: short}
        table = variants(bins, "score", names) if where(bins, score=score) else ""
        sections.append((f"Scores: Chow-Liu and {score.replace('-', ' ')}", table))
    deep = where(scaling, trees=30)
    many = where(scaling, depth=3)
    is_grid = len(texts(deep, "depth")) > 1
    depth_table = trees_table = ""
    if is_grid:
        depth_table = grid(deep, "depth", PAPER_DEPTH, ALLOWED_DEPTH_SECONDS, further)
    if many:
        trees_table = grid(many, "trees", PAPER_TREES, ALLOWED_TREES_SECONDS, further)
    sections.append(("Depth, 30 trees, alpha 0.8", depth_table))
    sections.append(("Trees, depth 3, alpha 0.8", trees_table))
    others = {
        "Random forests, 30 trees": where(cells, model="random-forest", trees=30, depth=2),
        "XGBoost, 50 trees": where(cells, model="xgboost", trees=50, depth=2),
        "LightGBM, 30 trees": where(cells, model="lightgbm", trees=30, depth=2),
    }
    sections += [(title, ensembles(rows) if rows else "") for title, rows in others.items()]
    return sections


def render(folder: Path) -> str:
    """TABLES.md for a results folder."""
    cells = read_cells(folder)
    sections = [
        *cell_sections(cells, read_rows(folder / "fewest.csv")),
        ("Rules without a guarantee at the same size", rules(folder, cells)),
        ("The rules as the paper measured them", published_rules(folder)),
        ("ForestPrune", forest_prune(folder)),
        ("ForestPrune, depth 2, data set by data set", forest_prune_per_dataset(folder, 2)),
        ("ForestPrune, depth 4, data set by data set", forest_prune_per_dataset(folder, 4)),
        ("Choosing alpha", selection(folder)),
        ("Default sizes in short (leaves removed %)", default_sizes(folder)),
        *library_sections(folder),
        ("Models of default size, every proof that was tried", large(folder)),
        ("Lossless", lossless(folder)),
        ("Inference", serving(folder)),
        ("The search against the prototype", search(folder)),
        ("A sweep over seven alphas", sweeping(folder)),
        ("Two commits on the same cells", two_commits(folder)),
        ("Growth (30 trees, depth 3, 10 features, 10 000 rows, 2 classes, one varied)", growth(folder)),
        ("Limits (kept: 10 % + 2 s, Ctrl-C 2 s)", limits(folder)),
    ]
    present = [f"## {title}\n\n{table}\n" for title, table in sections if table]
    absent = [title for title, table in sections if not table]
    note = f"\nNot run yet: {'; '.join(absent)}.\n" if absent else ""
    intro = "# Benchmark tables\n\nWritten by `python -m benchmarks.tables`; do not edit.\n"
    return "\n".join([intro + note, *present])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--no-figures", action="store_true")
    options = parser.parse_args(arguments)
    path = options.results / "TABLES.md"
    path.write_text(render(options.results), encoding="utf-8")
    print(f"wrote {path}")
    if not options.no_figures:
        from benchmarks.figures import draw_all

        for figure in draw_all(options.results):
            print(f"wrote {figure}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
