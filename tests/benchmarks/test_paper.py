"""Cells of the paper's experiment: resumable, honest, searched further where a gap is left."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from benchmarks import fewest, paper, runner, tables
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
    options = [
        "--datasets",
        "Flowers",
        "--data",
        folder,
        "--seeds",
        "1",
        "--jobs",
        "0",
        "--time-limit",
        "600",
        "--out",
        str(out),
    ]
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


def test_cells_with_a_gap_are_searched_further(folder, tmp_path):
    out, further = tmp_path / "trees.csv", tmp_path / "fewest.csv"
    arguments = [
        "--datasets",
        "Toy,Flowers",
        "--data",
        folder,
        "--seeds",
        "1",
        "--alphas",
        "0.8",
        "--trees",
        "10",
        "--depth",
        "3",
        "--time-limit",
        "600",
        "--jobs",
        "0",
    ]
    assert paper.main([*arguments, "--out", str(out)]) == 0
    flowers, toy = sorted(runner.read_rows(out), key=lambda row: row["dataset"])
    assert fewest.kept_of(toy) == int(toy["lower_bound"]) > 1  # proved to be the fewest
    options = [
        "--results",
        str(out),
        "--data",
        folder,
        "--trees",
        "10",
        "--time-limit",
        "600",
        "--jobs",
        "0",
        "--out",
        str(further),
    ]
    assert fewest.main(options) == 0
    assert runner.read_rows(further) == []  # no gap, nothing to do
    out.unlink()
    runner.append_rows(out, COLUMNS, [{**toy, "lower_bound": "1"}, flowers])
    assert fewest.main(options) == 0
    (row,) = runner.read_rows(further)
    assert (row["dataset"], row["stopped"]) == ("Toy", "optimal")
    assert row["kept"] == row["lower_bound"] == toy["lower_bound"]
    rates = [100 - 10 * fewest.kept_of(r) for r in (toy, flowers)]
    reached = f"| 10 | {np.mean(rates):.2f} | {np.mean(rates):.2f} | 39.17 |"
    assert f"{reached} {np.mean(rates):.2f} |" in tables.render(tmp_path)
    further.unlink()
    assert f"{reached} {np.mean([90, rates[1]]):.2f} |" in tables.render(tmp_path)
