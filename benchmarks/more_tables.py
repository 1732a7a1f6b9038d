"""Tables of the other benchmarks: alpha selection, large models, serving, search.

In comes a results folder; out goes Markdown, or an empty text where the file is absent.
Refuses nothing: a row that failed is shown with its reason.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.compare import summary
from benchmarks.frames import markdown, number, texts, values, where
from benchmarks.published import PAPER_SELECTION
from benchmarks.runner import read_rows
from benchmarks.selection import selected
from benchmarks.size_tables import read_proved


def selection(folder: Path) -> str:
    """The two rules of the paper's appendix at two targets."""
    rows = read_rows(folder / "selection.csv")
    if not rows:
        return ""
    runs = {(row["dataset"], row["seed"]): where(rows, dataset=row["dataset"], seed=row["seed"]) for row in rows}
    lines = []
    for (target, confident), theirs in PAPER_SELECTION.items():
        rates, fidelities = [], []
        chosen: dict[str, int] = {}
        for candidates in runs.values():
            counts = {row["alpha"]: (int(row["mismatches"]), int(row["n_selection"])) for row in candidates}
            alpha = selected(counts, target, confident=confident)
            name = alpha or "original"
            chosen[name] = chosen.get(name, 0) + 1
            row = where(candidates, alpha=alpha)[0] if alpha else None
            rates.append(float(row["pruning_rate"]) if row else 0.0)
            fidelities.append(float(row["fidelity"]) if row else 100.0)
        listed = ", ".join(f"{name} x {count}" for name, count in sorted(chosen.items()))
        rule = "confidence" if confident else "empirical"
        lines.append(
            (
                f"{target:.0%}",
                rule,
                listed,
                number(sum(rates) / len(rates)),
                theirs[0],
                number(sum(fidelities) / len(fidelities), 2),
                theirs[1],
            )
        )
    header = ("target", "rule", "alpha x runs", "trees removed %", "paper", "fidelity %", "paper")
    return markdown(header, lines)


def large(folder: Path) -> str:
    """Every default-sized model of which a proof was tried."""
    lines = []
    for row in read_proved(folder):
        sizes = "-"
        if row["bytes_before"]:
            before, after = int(row["bytes_before"]), int(row["bytes_after"])
            sizes = f"{before / 1024:.0f} -> {after / 1024:.0f}"
        lines.append(
            (
                row["dataset"],
                row["model"],
                row["indifference"],
                row["fit"],
                _short(row["pruning_rate"]),
                _short(row["leaf_pruning_rate"]),
                sizes,
                row["native_ratio"] or "-",
                row["treelite_ratio"] or "-",
                _short(row["fidelity"], 2),
                _short(row["fidelity_in_region"], 2),
                _short(row["coverage"]),
                row["time_s"] or "-",
                row["status"],
            )
        )
    header = (
        "data set",
        "model",
        "indifference",
        "region of rows",
        "trees removed %",
        "leaves removed %",
        "file kB",
        "native x",
        "gtil x",
        "fidelity %",
        "in region %",
        "coverage %",
        "s",
        "status",
    )
    return markdown(header, lines) if lines else ""


def serving(folder: Path) -> str:
    """Rows per second before and after."""
    rows = read_rows(folder / "serving.csv")
    lines = [
        (
            row["dataset"],
            row["model"],
            f"{row['trees_before']} -> {row['trees_after']}",
            row["engine"],
            row["batch"],
            f"{int(row['rows_per_s_before']):,}",
            f"{int(row['rows_per_s_after']):,}",
            row["ratio"],
            f"{int(row['bytes_before']) // 1024} -> {int(row['bytes_after']) // 1024}",
        )
        for row in rows
    ]
    header = ("data set", "model", "trees", "engine", "batch", "rows/s before", "rows/s after", "ratio", "file kB")
    return markdown(header, lines) if lines else ""


def search(folder: Path) -> str:
    """The table of python -m benchmarks.search."""
    rows = read_rows(folder / "search.csv")
    lines = [
        (
            row["dataset"],
            row["alpha"],
            row["pruning_rate"],
            row["prototype"] or "-",
            row["required"],
            row["time_s"],
            row["prototype_s"] or "-",
            row["required_s"],
            row["verdict"],
        )
        for row in rows
    ]
    header = ("data set", "alpha", "ours %", "prototype %", "required %", "s", "prototype s", "required s", "verdict")
    return markdown(header, lines) if lines else ""


def sweeping(folder: Path) -> str:
    """The table of python -m benchmarks.sweeping, and the sums over all data sets."""
    rows = read_rows(folder / "sweep.csv")
    if not rows:
        return ""
    lines = [
        (
            row["dataset"],
            row["slowest_s"],
            row["singles_s"],
            row["sweep_s"],
            row["ratio"],
            row["kept_single"],
            row["kept_sweep"],
        )
        for row in rows
    ]
    totals = [float(values(rows, name).sum()) for name in ("slowest_s", "singles_s", "sweep_s")]
    ratio = number(totals[2] / totals[0], 2)
    lines.append(("all", *(number(total, 3) for total in totals), ratio, "", ""))
    header = (
        "data set",
        "slowest alpha s",
        "seven calls s",
        "sweep s",
        "sweep / slowest",
        "rounds kept, single",
        "rounds kept, sweep",
    )
    return markdown(header, lines)


def lossless(folder: Path) -> str:
    """What `simplify` leaves out, one line per kind of model."""
    rows = read_rows(folder / "lossless.csv")
    lines = []
    for model in texts(rows, "model"):
        here = where(rows, model=model)
        gone = [100 * (1 - int(r["leaves_after"]) / int(r["leaves_before"])) for r in here]
        folded = [100 * (1 - int(r["trees_folded"]) / int(r["trees_before"])) for r in here]
        lines.append(
            (
                model,
                len(here),
                number(np.mean(gone)),
                number(np.max(gone)),
                number(np.mean(folded)),
                number(np.max(folded)),
                f"{values(here, 'bound').max():.1g}",
            )
        )
    header = (
        "model",
        "data sets",
        "leaves gone %, bit for bit",
        "most",
        "trees gone %, folded",
        "most",
        "margin moved by at most",
    )
    return markdown(header, lines) if lines else ""


def two_commits(folder: Path) -> str:
    """What a change of the search made of its time and its answers."""
    rows = read_rows(folder / "compare.csv")
    return summary(rows) if rows else ""


def _short(text: str, digits: int = 1) -> str:
    return number(float(text), digits) if text else "-"
