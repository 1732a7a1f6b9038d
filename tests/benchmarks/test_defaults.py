"""The benchmark of compression runs, resumes and says what was reached."""

from __future__ import annotations

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("xgboost")

from sklearn.datasets import make_classification  # noqa: E402

from benchmarks import defaults, runner  # noqa: E402


def test_two_models_run_once_and_are_compared(tmp_path):
    for name, n_classes in (("Toy", 2), ("Three", 3)):
        X, y = make_classification(500, 6, n_informative=4, n_classes=n_classes, random_state=0)
        pd.DataFrame(X).assign(label=y).to_csv(tmp_path / f"{name}.csv", index=False)
    out = tmp_path / "defaults.csv"
    arguments = (
        f"--datasets Toy,Three --data {tmp_path} --models xgboost-0.3 --trees 5 --seeds 1 --jobs 0 --out {out}"
    ).split()
    assert defaults.main(arguments) == 0
    rows = runner.read_rows(out)
    assert [row["size"] for row in rows] == 2 * ["returned", "50", "25", "10"]
    for row in rows:
        assert 0 < int(row["leaves_after"]) <= int(row["leaves_before"])
        assert all(0 <= float(row[name]) <= 100 for name in defaults.COLUMNS[14:18])
        if row["size"] != "returned":
            assert int(row["leaves_after"]) <= float(row["size"]) / 100 * int(row["leaves_before"])
    returned = [row for row in rows if row["size"] == "returned"]
    # 80 validation rows: the highest target that they can carry
    assert all(0.95 < float(row["target"]) < 0.97 for row in returned)
    before = out.read_bytes()
    assert defaults.main(arguments) == 0  # nothing is run again
    assert out.read_bytes() == before
    assert "| xgboost-0.3 | Three | 1 |" in defaults.table(rows)


def test_the_targets_are_computed_from_the_lines():
    line = {
        "model": "xgboost-0.1",
        "size": "returned",
        "seed": "0",
        "n_fresh": "1000",
        "time_s": "10",
        "cpu_s": "5",
        "target": "0.99",
    }
    rows = [
        {**line, "dataset": "Adult", "leaves_gone": "40", "fidelity": "99.5"},
        {**line, "dataset": "HTRU2", "leaves_gone": "90", "fidelity": "97.0"},
    ]
    text = defaults.reached(rows)
    assert "65.0 % of the leaves gone in the mean" in text
    assert "least Adult 40.0 %" in text
    assert "HTRU2 seed 0: 97.0 %" in text
