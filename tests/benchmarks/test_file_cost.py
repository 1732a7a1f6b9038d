"""The benchmark of what a model file costs runs and prints a line per library."""

from __future__ import annotations

import pytest

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

from benchmarks import file_cost


def test_a_line_per_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert file_cost.main(["--trees", "3", "--repeats", "1"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["xgboost", "lightgbm"]
    assert all(len(line.split()) == len(header.split()) for line in lines)
