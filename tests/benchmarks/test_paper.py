"""Cells of the paper's experiment: resumable and honest."""

from __future__ import annotations

import csv

import pytest

from benchmarks import paper
from benchmarks.cells import COLUMNS


def test_cells_have_the_columns_of_the_issue_and_are_certified(results):
    with (results / "paper_l0.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert {(r["dataset"], r["seed"], r["alpha"]) for r in rows} == {
        (d, s, a) for d in ("Toy", "Flowers") for s in "01" for a in ("faithful", "0.2")
    }
    for row in rows:
        assert row["status"] == "CERTIFIED"
        assert float(row["fidelity_in_region"]) == 100
        assert 0 <= float(row["pruning_rate"]) < 100
        assert 1 <= int(row["lower_bound"]) <= 30
        if row["alpha"] == "faithful":
            assert float(row["fidelity"]) == 100
            assert float(row["coverage"]) == 100


def test_a_finished_cell_is_not_run_again(folder, results, tmp_path):
    out = tmp_path / "again.csv"
    out.write_bytes((results / "paper_l0.csv").read_bytes())
    options = f"--datasets Flowers --data {folder} --seeds 1 --jobs 0 --time-limit 600 --out {out}".split()
    before = out.read_bytes()
    assert paper.main([*options, "--alphas", "faithful,0.2"]) == 0
    assert out.read_bytes() == before
    assert paper.main([*options, "--alphas", "faithful,0.2,0.4"]) == 0
    assert out.read_bytes().startswith(before)
    assert len(out.read_bytes().splitlines()) == len(before.splitlines()) + 1


def test_a_file_with_other_columns_is_left_alone(folder, tmp_path):
    out = tmp_path / "other.csv"
    out.write_text("x,y\n1,2\n")
    with pytest.raises(SystemExit, match="other file with --out"):
        paper.main(["--datasets", "Toy", "--data", folder, "--jobs", "0", "--out", str(out)])
    assert out.read_text() == "x,y\n1,2\n"


def test_absent_data_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        paper.main(["--datasets", "Adult", "--data", str(tmp_path), "--out", str(tmp_path / "o")])
    message = capsys.readouterr().err
    assert str(tmp_path) in message
    assert "Adult.csv" in message
    assert "--data" in message
