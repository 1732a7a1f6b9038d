"""The benchmark of accuracy runs every method, resumes, and counts leaves as they are written."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from benchmarks import accuracy, runner


def test_every_method_keeps_the_accuracy_on_validation_rows(tmp_path, monkeypatch, few_synthetic_rows):
    monkeypatch.setattr(accuracy, "_SIZES", ((1, 3), (1, 4)))
    for name, n_classes in (("Toy", 2), ("Three", 3)):
        X, y = make_classification(400, 6, n_informative=4, n_classes=n_classes, random_state=0)
        pd.DataFrame(X).assign(label=y).to_csv(tmp_path / f"{name}.csv", index=False)
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
    X, y = make_classification(300, 5, random_state=0)
    pd.DataFrame(X).assign(label=y).to_csv(tmp_path / "Toy.csv", index=False)
    ensemble = accuracy.Ensemble(accuracy.Cell("Toy", "xgboost-4", 0, "slicing", str(tmp_path), 5))
    native = float(np.mean(ensemble.native.predict(ensemble.parts.X_test) == ensemble.parts.y_test))
    assert ensemble.accuracy(ensemble.original, "test") == native
    assert ensemble.leaves_of(ensemble.original) <= ensemble.forest.n_leaves
