"""The slow tests as a benchmark: run by file, counted, written into their page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import data, readme, runner, slow_tests

TESTS = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_slow(number):
    assert number < 3
def test_fast():
    pass
"""


def test_failures_are_counted_and_written(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    out, page = tmp_path / "slow_tests.csv", tmp_path / "page.md"
    page.write_text(f"top\n{slow_tests.START}\n{slow_tests.END}\nbottom\n")
    arguments = ["--files", str(tmp_path / "test_some.py"), "--jobs", "0", "--out", str(out)]
    arguments += ["--page", str(page)]
    assert slow_tests.main(arguments) == 1
    (row,) = runner.read_rows(out)
    assert (row["tests"], row["failed"]) == ("3", "1")
    text = page.read_text()
    assert "| together | 3 | 1 |" in text
    assert text.startswith("top\n")
    assert text.endswith("\nbottom\n")
    assert slow_tests.main(arguments) == 1  # not run again, and still a failure
    assert len(runner.read_rows(out)) == 1


def test_the_page_agrees_with_the_committed_results() -> None:
    page = (data.ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    inside = readme.between_markers(page, slow_tests.START, slow_tests.END)[1]
    assert inside == slow_tests.table_text(runner.RESULTS), "run python -m benchmarks.slow_tests"


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(SystemExit, match="slow tests"):
        readme.replace_between(page, slow_tests.START, slow_tests.END, "text")
