"""The paper's experiment with leaf values of their own: cells beside those of whole trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import paper, runner

pytest.importorskip("xgboost")
datasets = pytest.importorskip("sklearn.datasets")
pytest.importorskip("pandas")


def test_leaf_values_are_cells_of_their_own_and_no_worse(tmp_path: Path) -> None:
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


def test_leaves_are_counted_in_cells_of_their_own(tmp_path: Path) -> None:
    frame = datasets.load_breast_cancer(as_frame=True).frame
    frame[[*frame.columns[:4], "target"]].to_csv(tmp_path / "Toy.csv", index=False)
    out = tmp_path / "cells.csv"
    options = (
        f"--datasets Toy --data {tmp_path} --seeds 1 --jobs 0 --trees 6 --depth 3 --time-limit 600 "
        f"--alphas 0.4 --out {out}"
    ).split()
    assert paper.main([*options, "--unit", "leaf"]) == 0
    assert paper.main([*options, "--unit", "leaf", "--indifference", "0.1"]) == 0
    leaves, without_tossups = runner.read_rows(out)
    assert (leaves["objective"], without_tossups["objective"]) == ("l0-leaves", "l0-leaves-i0.1")
    for row in (leaves, without_tossups):
        assert row["status"] == "CERTIFIED"
        assert float(row["fidelity_in_region"]) == 100
        assert row["pruning_rate"] == row["leaf_pruning_rate"]
        assert float(row["leaf_pruning_rate"]) > 0
    with pytest.raises(SystemExit):
        paper.main([*options, "--indifference", "often"])
