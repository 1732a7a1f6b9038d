"""The benchmark of what a model file costs runs and prints two lines per library."""

from __future__ import annotations

import pytest

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

from benchmarks import file_cost


def test_two_lines_per_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert file_cost.main(["--trees", "3", "--repeats", "1"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == 2 * ["xgboost"] + 2 * ["lightgbm"]
    assert all(len(line.split()) == len(header.split()) for line in lines)
