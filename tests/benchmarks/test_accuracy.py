"""The benchmarks of accuracy, default sizes and real sizes: every method runs, resumes and counts what was written."""

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from benchmarks import accuracy, defaults, real_sizes, runner


def write_tables(folder, n_rows):
    """Toy.csv of two classes and Three.csv of three."""
    for name, n_classes in (("Toy", 2), ("Three", 3)):
        X, y = make_classification(n_rows, 6, n_informative=4, n_classes=n_classes, random_state=0)
        pd.DataFrame(X).assign(label=y).to_csv(folder / f"{name}.csv", index=False)


def test_every_method_keeps_the_accuracy_on_validation_rows(tmp_path, monkeypatch, few_synthetic_rows):
    monkeypatch.setattr(accuracy, "_SIZES", ((1, 3), (1, 4)))
    write_tables(tmp_path, 400)
    out = tmp_path / "accuracy.csv"
    methods = ",".join(name for name in accuracy.METHODS if name != "compress (tested)")
    arguments = ["--datasets", "Toy,Three", "--data", str(tmp_path), "--models", "xgboost-4,random-forest"]
    arguments += ["--methods", methods, "--trees", "6", "--jobs", "0", "--out", str(out)]
    assert accuracy.main(arguments) == 0
    rows = runner.read_rows(out)
    assert len(rows) == 20
    for row in rows:
        assert float(row["val_after"]) >= float(row["val_before"]) - 100 * accuracy.MAX_LOSS - 1e-9, row
        assert int(row["leaves_after"]) <= int(row["leaves_before"]) or row["method"] == "retraining"
    assert any(int(row["leaves_after"]) < int(row["leaves_before"]) for row in rows if row["method"] == "LOP-style")
    before = out.read_bytes()
    assert accuracy.main(arguments) == 0  # nothing is run again
    assert out.read_bytes() == before
    assert "| xgboost-4 | slicing | 2 |" in accuracy.table(rows)


def test_shapes_are_the_model_itself(tmp_path):
    write_tables(tmp_path, 300)
    ensemble = accuracy.Ensemble(accuracy.Cell("Toy", "xgboost-4", 0, "slicing", str(tmp_path), 5))
    native = float(np.mean(ensemble.native.predict(ensemble.parts.X_test) == ensemble.parts.y_test))
    assert ensemble.accuracy(ensemble.original, "test") == native
    assert ensemble.leaves_of(ensemble.original) <= ensemble.forest.n_leaves


def test_two_models_run_once(tmp_path):
    write_tables(tmp_path, 500)
    out = tmp_path / "defaults.csv"
    arguments = (
        f"--datasets Toy,Three --data {tmp_path} --models xgboost-0.3 --trees 5 --seeds 1 --jobs 0 --out {out}"
    ).split()
    assert defaults.main(arguments) == 0
    rows = runner.read_rows(out)
    assert [row["dataset"] for row in rows] == ["Toy", "Three"]
    for row in rows:
        assert 0 < int(row["leaves_after"]) <= int(row["leaves_before"])
        assert all(0 <= float(row[name]) <= 100 for name in ("fidelity", "accuracy_before", "accuracy_after"))
    # 80 validation rows: the highest target that they can carry
    assert all(0.95 < float(row["target"]) < 0.97 for row in rows)
    before = out.read_bytes()
    assert defaults.main(arguments) == 0  # nothing is run again
    assert out.read_bytes() == before
    assert "| xgboost-0.3 | Three | 1 |" in defaults.table(rows)


def test_cells_are_made_smaller_and_not_run_again(tmp_path, monkeypatch, few_synthetic_rows):
    monkeypatch.setitem(real_sizes.MODELS, "small", ("xgboost", 8, {"max_depth": 4}))
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
