"""The benchmark of real sizes compresses and accelerates what it trained, and resumes."""

from __future__ import annotations

from benchmarks import real_sizes, runner


def test_cells_are_made_smaller_and_not_run_again(tmp_path, monkeypatch, few_synthetic_rows):
    monkeypatch.setitem(real_sizes.MODELS, "small", real_sizes._xgboost(8, 4))
    monkeypatch.setattr(
        real_sizes, "run_child", lambda _, cell, **__: (real_sizes.answer_of(real_sizes.Cell(**cell)), 0.0)
    )
    out = tmp_path / "real_sizes.csv"
    arguments = ["--models", "small", "--rows", "3000", "--minimize", "work,exits", "--out", str(out)]
    assert real_sizes.main(arguments) == 0
    rows = runner.read_rows(out)
    assert [row["minimize"] for row in rows] == ["work", "exits"]
    for row in rows:
        assert row["trees_before"] == "8"
        assert 0 < float(row["work_after"]) <= float(row["work_before"])
        assert (row["load_ms"] != "") == (row["minimize"] == "exits")
    assert real_sizes.main(arguments) == 0
    assert runner.read_rows(out) == rows
