"""The paper's experiment, resumable and honest; models of default size, and the figures that are taken from them."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from benchmarks import data, frames, large, paper, runner, tables, throughput
from benchmarks.cells import COLUMNS
from benchmarks.runner import RESULTS
from benchmarks.size_tables import at_default_size
from pine_boost.certificate.claims import AT_DEFAULT_SIZE, LARGE_TREES


def test_encoder_scales_numbers_and_knows_its_groups(folder):
    table = data.load("Toy", folder)
    assert table.names[:4] == ("a", "b", "c", "flag")
    assert table.binary == (3,)
    assert table.one_hot == ((4, 5, 6),)
    assert (table.X[:, 4:7].sum(axis=1) == 1).all()
    assert table.X[:, 0].min() == 0
    assert table.X[:, 0].max() == 10_000
    assert (table.X[:, :3] == np.round(table.X[:, :3])).all()
    raw = data.load("Toy", folder, "raw")
    frame = pd.read_csv(Path(folder) / "Toy.csv")
    assert np.array_equal(raw.X[:, 0], frame["a"].to_numpy(np.float32))
    assert table.domain().never_missing is True


def test_gaps_are_dropped_or_kept_as_asked(tmp_path):
    frame = pd.DataFrame({"a": [1.0, None, 3, 4, 5], "b": [5, 4, 3, 2, 1], "label": [0, 1, 0, 1, 0]})
    frame.to_csv(tmp_path / "Gaps.csv", index=False)
    assert len(data.load("Gaps", str(tmp_path)).X) == 4
    kept = data.load("Gaps", str(tmp_path), "raw", True)
    assert np.isnan(kept.X).sum() == 1
    assert kept.domain().never_missing == [1]


def test_splits_have_the_shares_of_the_paper(folder):
    table = data.load("Toy", folder)
    three = data.split(table, 0)
    assert [len(three.X_fit), len(three.X_cal), len(three.X_test)] == [192, 48, 60]
    four = data.split(table, 0, selection=True)
    assert [len(four.X_fit), len(four.X_cal), len(four.X_sel), len(four.X_test)] == [144, 48, 48, 60]
    assert np.array_equal(three.X_test, four.X_test)


def test_the_paper_table_has_the_means_that_the_issue_asks_for():
    paper_table = frames.paper_l0()
    for alpha, required in frames.REQUIRED_MEAN.items():
        rates = [paper_table[name, alpha, "pruning_rate"][0] for name in data.DATASETS]
        assert abs(np.mean(rates) - required) < 0.06


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


def test_leaf_values_are_cells_of_their_own_and_no_worse(tmp_path):
    frame = datasets.load_breast_cancer(as_frame=True).frame
    columns = [*frame.columns[:6], "target"]
    frame[columns].to_csv(tmp_path / "Toy.csv", index=False)
    out = tmp_path / "results" / "cells.csv"
    options = (
        f"--datasets Toy --data {tmp_path} --seeds 1 --jobs 0 --trees 15 --time-limit 600 --alphas 0.2 --out {out}"
    ).split()
    assert paper.main(options) == 0
    assert paper.main([*options, "--reweight", "leaf"]) == 0
    tree, leaf = runner.read_rows(out)
    assert (tree["objective"], leaf["objective"]) == ("l0", "l0-leaf")
    assert leaf["status"] == "CERTIFIED"
    assert float(leaf["fidelity_in_region"]) == 100
    assert float(leaf["pruning_rate"]) >= float(tree["pruning_rate"])
    before = out.read_bytes()
    assert paper.main([*options, "--reweight", "leaf"]) == 0
    assert out.read_bytes() == before


def test_leaves_are_counted_in_cells_of_their_own(tmp_path):
    frame = datasets.load_breast_cancer(as_frame=True).frame
    frame[[*frame.columns[:4], "target"]].to_csv(tmp_path / "Toy.csv", index=False)
    out = tmp_path / "cells.csv"
    options = (
        f"--datasets Toy --data {tmp_path} --seeds 1 --jobs 0 --trees 6 --depth 3 --time-limit 600 "
        f"--alphas 0.4 --out {out}"
    ).split()
    assert paper.main([*options, "--unit", "leaf"]) == 0
    assert paper.main([*options, "--unit", "leaf", "--indifference", "0.1"]) == 0
    leaves, without_undecided = runner.read_rows(out)
    assert (leaves["objective"], without_undecided["objective"]) == ("l0-leaves", "l0-leaves-i0.1")
    for row in (leaves, without_undecided):
        assert row["status"] == "CERTIFIED"
        assert float(row["fidelity_in_region"]) == 100
        assert row["pruning_rate"] == row["leaf_pruning_rate"]
        assert float(row["leaf_pruning_rate"]) > 0
    with pytest.raises(SystemExit):
        paper.main([*options, "--indifference", "often"])


def test_large_models_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "MEASURE_SECONDS", 0.01)
    out = tmp_path / "large.csv"
    arguments = ["--datasets", "Toy", "--data", folder, "--trees", "4", "--time-limit", "600"]
    once = ["--jobs", "0", "--indifference", "0", "--fit", "training", "--out", str(out)]
    large.main([*arguments, *once])
    rows = runner.read_rows(out)
    assert [row["model"] for row in rows] == list(large.MODELS)
    for row in rows:
        assert row["status"] == "CERTIFIED"
        assert float(row["fidelity_in_region"]) == 100
        assert int(row["bytes_before"]) > 0
        assert float(row["native_ratio"]) > 0
    text = tables.render(tmp_path)
    removed = float(runner.read_rows(out)[0]["leaf_pruning_rate"])
    assert "| data set | proved, region of training rows | seeds |" in text
    assert f"| Toy | {removed:.1f} | - |" in text
    assert f"| XGBoost | {removed:.1f} ({removed:.1f} to {removed:.1f}) | - |" in text


def test_a_large_cell_that_is_refused_says_so(folder, tmp_path):
    out = tmp_path / "large.csv"
    code = large.main(
        (
            f"--datasets Toy --data {folder} --trees 3 --models xgboost --jobs 0 --indifference 0.5 "
            f"--fit unseen --out {out}"
        ).split()
    )
    (row,) = runner.read_rows(out)
    assert code == 1
    assert row["status"].startswith("REFUSED RegionError: indifference=0.5")
    assert float(row["pruning_rate"]) == 0


def test_the_figures_for_large_models_are_those_of_the_results():
    """After a new run of benchmarks.large: copy the left side into claims.py."""
    assert at_default_size(RESULTS, LARGE_TREES) == AT_DEFAULT_SIZE
