"""All tables from the results files (python -m benchmarks.tables).

A table whose file is missing is left out and named. No number is typed in by hand except published ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import compare
from benchmarks.data import N_ROWS
from benchmarks.frames import (
    ALPHA_ORDER,
    REQUIRED_MEAN,
    Rows,
    average,
    kept_of,
    main_cells,
    markdown,
    mean,
    number,
    paper_l0,
    read_cells,
    spread,
    table,
    texts,
    values,
    where,
)
from benchmarks.runner import RESULTS, read_rows
from benchmarks.size_tables import default_sizes, library_sections, read_proved

STEPS = ("prune", "verify", "compress", "contains")


def growth(folder: Path) -> str:
    """One line per size: what every step took and what it gave."""
    rows = read_rows(folder / "growth.csv")
    if not rows:
        return ""
    lines = []
    for axis in texts(rows, "axis"):
        for size in sorted(texts(where(rows, axis=axis), "size"), key=int):
            here = where(rows, axis=axis, size=size)
            cells = [cell for step in STEPS for cell in _cells(where(here, step=step), step)]
            lines.append((axis, size, *cells))
    header = ["axis", "size"]
    for step in STEPS:
        header += [step, "s", "MB"]
    return markdown(header, lines)


def _cells(rows: Rows, step: str) -> tuple[str, str, str]:
    if not rows:
        return ("-", "-", "-")
    (row,) = rows
    if not row["seconds"]:
        return (row["answer"].split(":")[0], "-", "-")
    answer = row["answer"].split(",")[0]
    if step in ("prune", "compress"):
        answer = f"{row['size_before']} to {row['size_after']} {row['unit']}, {answer}"
    digits = 4 if step == "contains" else 1
    return (answer, f"{float(row['seconds']):.{digits}f}", f"{float(row['peak_mb']):.0f}")


def limits(folder: Path) -> str:
    """Asked for and taken; Ctrl-C has no limit and two seconds."""
    columns = {
        **{name: name for name in ("model", "trees", "leaves", "call")},
        "limit s": lambda row: row["limit"] or "Ctrl-C",
        **{"s": "seconds", "processor s": "cpu_s", "kept": "is_kept", "MB": "peak_mb"},
        "answer": lambda row: row["answer"][:90],
    }
    return table(columns, read_rows(folder / "limits.csv"))


def large(folder: Path) -> str:
    """Every default-sized model of which a proof was tried."""
    columns = {
        **{"data set": "dataset", "model": "model", "indifference": "indifference", "region of rows": "fit"},
        "trees removed %": _short("pruning_rate"),
        "leaves removed %": _short("leaf_pruning_rate"),
        "file kB": _file_sizes,
        "native x": lambda row: row["native_ratio"] or "-",
        "gtil x": lambda row: row["treelite_ratio"] or "-",
        "fidelity %": _short("fidelity", 2),
        "in region %": _short("fidelity_in_region", 2),
        "coverage %": _short("coverage"),
        "s": lambda row: row["time_s"] or "-",
        "status": "status",
    }
    return table(columns, read_proved(folder))


def _file_sizes(row: dict[str, str]) -> str:
    before, after = row["bytes_before"], row["bytes_after"]
    return f"{int(before) / 1024:.0f} -> {int(after) / 1024:.0f}" if before else "-"


def _short(column: str, digits: int = 1) -> Callable[[dict[str, str]], str]:
    """A column rounded, or a dash where it is empty."""
    return lambda row: number(float(row[column]), digits) if row[column] else "-"


def two_commits(folder: Path) -> str:
    """What a change of the search made of its time and its answers."""
    rows = read_rows(folder / "compare.csv")
    return compare.summary(rows) if rows else ""


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


def cell_sections(cells: Rows) -> list[tuple[str, str]]:
    """Every table that comes from cells of benchmarks.paper; an empty text where none do."""
    main = main_cells(cells)
    base = where(cells, model="xgboost", trees=30, depth=2)
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
    by_score = where(base, objective="l0")
    for score, short in (("leaf-support", "LS"), ("isolation-forest", "IF")):
        names = {"chow-liu": "CL", score: short}
        table = variants(by_score, "score", names) if where(by_score, score=score) else ""
        sections.append((f"Scores: Chow-Liu and {score.replace('-', ' ')}", table))
    return sections


def render(folder: Path) -> str:
    """TABLES.md for a results folder."""
    cells = read_cells(folder)
    sections = [
        *cell_sections(cells),
        ("Default sizes in short (leaves removed %)", default_sizes(folder)),
        *library_sections(folder),
        ("Models of default size, every proof that was tried", large(folder)),
        ("Two commits on the same cells", two_commits(folder)),
        ("Growth (30 trees, depth 3, 10 features, 10 000 rows, 2 classes, one varied)", growth(folder)),
        ("Limits (kept: 10 % + 2 s, Ctrl-C 2 s)", limits(folder)),
    ]
    present = [f"## {title}\n\n{table}\n" for title, table in sections if table]
    absent = [title for title, table in sections if not table]
    note = f"\nNot run yet: {'; '.join(absent)}.\n" if absent else ""
    intro = (
        "# Benchmark tables\n\nWritten by `python -m benchmarks.tables`; do not edit. "
        "One-off comparisons are in EARLIER_TABLES.md.\n"
    )
    return "\n".join([intro + note, *present])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    path = options.results / "TABLES.md"
    path.write_text(render(options.results), encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
