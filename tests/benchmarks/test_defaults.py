"""The benchmark of compression runs, resumes and prints its table."""

from __future__ import annotations

import pandas as pd
from sklearn.datasets import make_classification

from benchmarks import defaults, runner


def test_two_models_run_once(tmp_path):
    for name, n_classes in (("Toy", 2), ("Three", 3)):
        X, y = make_classification(500, 6, n_informative=4, n_classes=n_classes, random_state=0)
        pd.DataFrame(X).assign(label=y).to_csv(tmp_path / f"{name}.csv", index=False)
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
