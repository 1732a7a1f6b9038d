"""Write the table of the README and the figure and tables of docs/ (python -m benchmarks.readme)."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.data import ROOT
from benchmarks.frames import ANSWER_TIMES, Rows, answer_times, main_cells, texts, where
from benchmarks.ledger import commits_of
from benchmarks.pages import Block, update_docs
from benchmarks.runner import RESULTS, read_rows
from benchmarks.size_tables import default_sizes, expected_in_short
from benchmarks.tables import summary

FILES = {
    "CERTIFIED": "paper_l0.csv",
    "leaf values": "paper_leaf.csv",
    "default sizes, proved": "large.csv",
    "default sizes, validated": "defaults.csv",
}


def table_text(results: Path) -> str:
    """What docs/comparison.md says about the results: what has no file yet is left out."""
    parts = [part for part in (_certified(results), _default_sizes(results)) if part]
    return "\n\n".join([*parts, _sources(results)]) if parts else ""


def _certified(results: Path) -> str:
    cells = main_cells(read_rows(results / FILES["CERTIFIED"]))
    if not cells:
        return ""
    by_leaf = where(read_rows(results / FILES["leaf values"]), objective="l0-leaf", depth=2)
    n_datasets, n_seeds = len(texts(cells, "dataset")), len(texts(cells, "seed"))
    return (
        f"**CERTIFIED.** XGBoost, 30 trees of depth 2, {n_datasets} data sets, {n_seeds} seeds: "
        f"{len(cells)} cells by the protocol of the paper's main table (its times: Gurobi on an "
        'Intel i7-11800H), with one weight per tree (`reweight="tree"`). One column shows what the '
        f"default, with refitted leaf values, removes.\n\n{summary(cells, by_leaf)}" + _answer_times(cells)
    )


def _answer_times(cells: Rows) -> str:
    """When the answer was there; nothing of files without these columns."""
    table = answer_times(cells)
    return f"\n\n{ANSWER_TIMES}\n\n{table}" if table else ""


def _default_sizes(results: Path) -> str:
    table = default_sizes(results)
    if not table:
        return ""
    return (
        "**CERTIFIED and VALIDATED at default sizes.** 100 trees, the libraries' own settings, "
        "leaves removed in percent: median and range over data sets. Proved at alpha 0.1: a model that is refused or "
        "not proved in time counts as 0. Validated: 99 % at 95 % confidence, or the highest share that a data set "
        f"with few rows supports.\n\n{table}"
    )


def _sources(results: Path) -> str:
    """Which command, which commits, which machine."""
    machine = results / "machine.txt"
    where = machine.read_text(encoding="utf-8").strip() if machine.exists() else "see results"
    by_commit: dict[str, list[str]] = {}
    for file in FILES.values():
        if (results / file).exists():
            commit = ", ".join(commits_of(results, file)) or "an unknown commit"
            by_commit.setdefault(commit, []).append(f"`{file}`")
    wrote = "; ".join(f"{commit} ({', '.join(files)})" for commit, files in by_commit.items())
    return (
        f"Written by `python -m benchmarks.readme` from `benchmarks/results`; pine_boost of {wrote}. Machine: {where}."
    )


def expected(results: Path) -> str:
    """What README.md says: one table and where it comes from."""
    table = expected_in_short(results)
    if not table:
        return ""
    return (
        f"{table}\n\nHow many times as fast as the model's own `predict` (processor time of one thread), or the share "
        "removed (trees of the 30-tree models, leaves of the others), on 12 public data sets. "
        "[Every data set and library](docs/limits.md#what-to-expect), "
        "[compared with the alternatives](docs/comparison.md)."
    )


README = Block("README.md", "what to expect", expected)
COMPARISON = Block("docs/comparison.md", "benchmark table", table_text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, metavar="FOLDER", help="of README.md")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    print(f"wrote {README.update(options.results, options.root)}")
    if options.root == ROOT:
        for page in [COMPARISON.update(options.results), *update_docs(options.results)]:
            print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
