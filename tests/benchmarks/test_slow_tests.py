"""The slow tests as a benchmark: run by file, counted, written into their page."""

from __future__ import annotations

from pathlib import Path

from benchmarks import pages, runner, slow_tests

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
    out, page = tmp_path / "slow_tests.csv", tmp_path / "docs" / "robustness.md"
    start, end = pages.SLOW_TESTS.markers
    page.parent.mkdir()
    page.write_text(f"top\n{start}\n{end}\nbottom\n")
    arguments = ["--files", str(tmp_path / "test_some.py"), "--jobs", "0", "--out", str(out)]
    arguments += ["--root", str(tmp_path)]
    assert slow_tests.main(arguments) == 1
    (row,) = runner.read_rows(out)
    assert (row["tests"], row["failed"]) == ("3", "1")
    text = page.read_text()
    assert "| together | 3 | 1 |" in text
    assert text.startswith("top\n")
    assert text.endswith("\nbottom\n")
    assert slow_tests.main(arguments) == 1  # not run again, and still a failure
    assert len(runner.read_rows(out)) == 1
