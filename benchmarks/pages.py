"""Tables in the pages of the documentation, each between two markers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy import table as accuracy_table
from benchmarks.data import ROOT
from benchmarks.defaults import table as compression_table
from benchmarks.frames import Rows, markdown, texts, values
from benchmarks.ledger import commits_of
from benchmarks.runner import RESULTS, read_rows
from benchmarks.size_tables import library_table, what_to_expect
from benchmarks.tables import growth, limits


@dataclass(frozen=True)
class Block:
    """A page, the name in its markers, and what stands between them.

    ``write`` turns a results folder into Markdown; an empty text where there is no file yet.
    """

    page: str
    name: str
    write: Callable[[Path], str]

    @property
    def markers(self) -> tuple[str, str]:
        """The lines before and after the block."""
        return f"<!-- {self.name} -->", f"<!-- end of {self.name} -->"

    def text(self, results: Path) -> str:
        """What stands between the markers."""
        written = self.write(results)
        return f"\n\n{written}\n\n" if written else "\n"

    def update(self, results: Path, root: Path = ROOT) -> Path:
        """Write the page again; returns its path."""
        path = root / self.page
        before, _, after = between_markers(path.read_text(encoding="utf-8"), *self.markers)
        start, end = self.markers
        text = before + start + self.text(results) + end + after
        path.write_text(text, encoding="utf-8")
        return path


def between_markers(page: str, start: str, end: str) -> tuple[str, str, str]:
    """Text before, between and after the markers.

    Raises
    ------
    SystemExit
        A marker is missing, doubled or out of order.
    """
    if page.count(start) != 1 or page.count(end) != 1 or page.find(end) < page.find(start):
        raise SystemExit(f"The page needs one line {start!r} and after it one line {end!r}.")
    before, rest = page.split(start)
    inside, after = rest.split(end)
    return before, inside, after


def _sourced(table: str, results: Path, command: str, file: str) -> str:
    if not table:
        return ""
    commits = ", ".join(commits_of(results, file)) or "an unknown commit"
    return f"{table}\n\n`python -m benchmarks.{command}`, pine_boost of {commits}."


def compressed(results: Path) -> str:
    """What compress_booster makes of XGBoost with 100 trees of depth 6."""
    table = library_table(results, "xgboost-0.1")
    return _sourced(table, results, "defaults", "defaults.csv")


def growing(results: Path) -> str:
    """Every size of benchmarks.growth."""
    return _sourced(growth(results), results, "growth", "growth.csv")


def limited(results: Path) -> str:
    """Limits asked for and kept."""
    return _sourced(limits(results), results, "limits", "limits.csv")


def slow_tests(results: Path) -> str:
    """Time and result of the slow tests, the latest run of each file."""
    latest = {row["file"]: row for row in read_rows(results / "slow_tests.csv")}
    rows = list(latest.values())
    if not rows:
        return ""
    lines = [(row["file"], row["tests"], row["failed"], row["seconds"], row["date"], row["commit"]) for row in rows]
    totals = [f"{values(rows, name).sum():.0f}" for name in ("tests", "failed", "seconds")]
    lines.append(("together", totals[0], totals[1], totals[2], "", ""))
    header = ("file", "slow tests", "failed or skipped", "s", "date", "pine_boost of")
    return markdown(header, lines)


def scored(results: Path, file: str = "scoring.csv") -> str:
    """How many times as fast as other engines a proved scorer is."""
    rows = read_rows(results / file)
    lines = []
    for model in texts(rows, "model"):
        own = [row for row in rows if row["model"] == model]
        works = {row["dataset"]: float(row["work"]) for row in own}
        cells = [_times(own, batch, ("native predict",)) for batch in ("1", "100", "100000")]
        others = [name for name in texts(own, "engine") if not name.startswith("scorer")]
        lines.append((model, str(len(works)), _spread(list(works.values())), *cells, _times(own, "1", others)))
    header = ("model", "data sets", "trees met", "1 row", "100 rows", "100 000 rows", "1 row, fastest other engine")
    return _sourced(markdown(header, lines) if lines else "", results, "scoring", file)


def catboost_scored(results: Path) -> str:
    """The same for CatBoost, whose symmetric trees are a case of their own."""
    return scored(results, "catboost_scoring.csv")


def catboost_compressed(results: Path) -> str:
    """What compress_booster makes of CatBoost with 100 trees."""
    rows = read_rows(results / "catboost_compression.csv")
    return _sourced(compression_table(rows) if rows else "", results, "defaults", "catboost_compression.csv")


def validated_scored(results: Path) -> str:
    """Work, changed classes and speed of validated scorers on fresh rows."""
    rows = read_rows(results / "validated_scoring.csv")
    lines = []
    for model, fidelity in sorted({(row["model"], row["fidelity"]) for row in rows}):
        own = [row for row in rows if (row["model"], row["fidelity"]) == (model, fidelity)]
        names = ("work", "plain_work", "changed_percent", "times_native")
        lines.append((model, fidelity, str(len(own)), *(_spread(values(own, name).tolist()) for name in names)))
    header = (
        *("model", "fidelity", "data sets", "trees met", "without refitted leaves", "changed, %"),
        "100 000 rows, times native",
    )
    return _sourced(markdown(header, lines) if lines else "", results, "validated_scoring", "validated_scoring.csv")


def _times(rows: Rows, batch: str, engines: Sequence[str]) -> str:
    """Ratios against the fastest of some engines on each data set."""
    own = [row for row in rows if row["batch"] == batch and row["engine"] in engines]
    fastest = [
        min(float(row["times_as_fast"]) for row in own if row["dataset"] == name) for name in texts(own, "dataset")
    ]
    return _spread(fastest)


def _spread(numbers: Sequence[float]) -> str:
    """Median and range."""
    if not numbers:
        return "-"
    middle, low, high = (
        f"{number:.0f}" if number >= 100 else f"{number:.2g}"
        for number in (float(np.median(numbers)), min(numbers), max(numbers))
    )
    return f"{middle} ({low} to {high})"


def kept_accuracy(results: Path) -> str:
    """Leaves that are left if only accuracy must be kept."""
    rows = read_rows(results / "accuracy.csv")
    return _sourced(accuracy_table(rows) if rows else "", results, "accuracy", "accuracy.csv")


SLOW_TESTS = Block("docs/robustness.md", "slow tests", slow_tests)
DOCS = (
    Block("docs/compress.md", "compressed models", compressed),
    Block("docs/fast-scoring.md", "proved scorers", scored),
    Block("docs/fast-scoring.md", "validated scorers", validated_scored),
    Block("docs/libraries/catboost.md", "scorers of CatBoost", catboost_scored),
    Block("docs/libraries/catboost.md", "compressed models of CatBoost", catboost_compressed),
    Block("docs/comparison.md", "kept accuracy", kept_accuracy),
    Block("docs/limits.md", "what to expect", what_to_expect),
    Block("docs/limits.md", "growth", growing),
    Block("docs/limits.md", "limits", limited),
    SLOW_TESTS,
)


def update_docs(results: Path = RESULTS) -> list[Path]:
    """Write every page of the documentation that has a block."""
    return [block.update(results) for block in DOCS]
