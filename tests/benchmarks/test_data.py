"""Data sets as the paper encodes and splits them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import data, published

pd = pytest.importorskip("pandas")


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
    paper_table = published.paper_l0()
    for alpha, required in published.REQUIRED_MEAN.items():
        rates = [paper_table[name, alpha, "pruning_rate"][0] for name in data.DATASETS]
        assert abs(np.mean(rates) - required) < 0.06
