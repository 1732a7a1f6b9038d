"""Two commits measured on the same cells."""

import pandas as pd
import pytest
from sklearn.datasets import load_iris

from benchmarks import compare, runner

ROW = {"status": "CERTIFIED", "trees": "30", "pruning_rate": "50.0", "lower_bound": "10"}


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, "same"),
        ({"lower_bound": "12"}, "same rounds, higher bound"),
        ({"lower_bound": "9"}, "same rounds, lower bound"),
        ({"pruning_rate": "60.0"}, "fewer rounds"),
        ({"pruning_rate": "40.0"}, "more rounds"),
        ({"status": "NOT_CERTIFIED", "pruning_rate": "0"}, "CERTIFIED -> NOT_CERTIFIED"),
    ],
)
def test_answers_are_told_apart(change, answer):
    assert compare.answer_of(ROW, {**ROW, **change}) == answer


def test_the_summary_takes_the_geometric_mean_and_counts_other_answers():
    rows = [
        {
            "before": "a",
            "after": "b",
            "dataset": name,
            "time_before": before,
            "time_after": after,
            "ratio": str(float(before) / float(after)),
            "cpu_ratio": "2",
            "answer": answer,
        }
        for name, before, after, answer in (
            ("X", "4", "1", "same"),
            ("Y", "1", "1", "more rounds"),
            ("Y", "2", "1", "same"),
        )
    ]
    *_, both, everything = compare.summary(rows).splitlines()
    assert "| Y | 2 | 3.0 | 2.0 | 1.41 | 1.00 | 2.00 | 2.00 | 1 more rounds |" in both
    assert "| **all** | 3 | 7.0 | 3.0 | 2.00 | 1.00 | 4.00 |" in everything


def test_a_commit_and_the_working_tree_run_the_same_cells(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    pd.DataFrame(X).assign(label=y).to_csv(tmp_path / "Flowers.csv", index=False)
    out = tmp_path / "compare.csv"
    arguments = f"HEAD . --datasets Flowers --data {tmp_path} --seeds 1 --alphas 0.8 --trees 5 --out {out}".split()
    assert compare.main(arguments) == 0
    (row,) = runner.read_rows(out)
    assert row["status_before"] == row["status_after"] == "CERTIFIED"
    assert float(row["ratio"]) > 0
    assert "times as fast" in capsys.readouterr().out
    assert compare.main(arguments) == 0
    assert runner.read_rows(out) == [row]


def test_an_unknown_commit_is_refused():
    with pytest.raises(SystemExit, match="git knows no commit 'nonsense'"):
        compare.main(["nonsense", "--datasets", ""])
