"""The figure people remember: every rule measured at the same size, worked by hand, and drawn."""

from __future__ import annotations

from math import exp, log
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import glance, glance_figure, readme, runner

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from benchmarks import data
from benchmarks.cells import train
from benchmarks.pruning_rules import RULES, Members, ambiguity_losses, rounds_of
from pine_boost.parsers import read_model


def test_every_way_is_measured_at_the_leaves_of_the_proved_model(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance, "ALPHAS", (0.2, 0.8))
    out = tmp_path / "glance.csv"
    options = ["--datasets", "Toy", "--data", folder, "--models", "30x2", "--jobs", "0"]
    assert glance.main([*options, "--time-limit", "600", "--out", str(out)]) == 0
    rows = runner.read_rows(out)
    methods = {"proved", "validated", "slicing", "retraining", *glance.BEST_RULES}
    assert {(row["size"], row["method"]) for row in rows} == {
        (size, method) for size in ("0.2", "0.8") for method in methods
    }
    for row in rows:
        (proved,) = [other for other in rows if other["size"] == row["size"] and other["method"] == "proved"]
        assert proved["status"] == "CERTIFIED"
        assert int(row["leaves_after"]) <= int(proved["leaves_after"]) < int(row["leaves_before"])
        assert 0 <= float(row["fidelity"]) <= 100


def _lines(model: str, sizes: dict[str, float]) -> list[dict[str, object]]:
    methods = ("proved", "validated", "slicing", "retraining", *glance.BEST_RULES)
    return [
        {
            "dataset": dataset,
            "model": model,
            "seed": 0,
            "size": size,
            "method": method,
            "leaves_before": 100,
            "leaves_after": kept,
            "leaves_kept": kept,
            "fidelity": 100 - position - extra,
            "status": "",
        }
        for dataset, extra in (("A", 0), ("B", 2))
        for size, kept in sizes.items()
        for position, method in enumerate(methods)
    ]


def test_curves_are_means_over_data_sets_and_the_best_rule_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "glance.csv"
    small = _lines("30x2", {"0.05": 60, "0.8": 30})
    large = _lines("100x6", {"50": 50, "25": 25, "10": 10, "returned": 40})
    runner.append_rows(out, glance.COLUMNS, [*small, *large])
    rows = runner.read_rows(out)
    curves = glance_figure.curves_of(rows, "30x2")
    assert curves["proved"] == [(60, 99), (30, 99)]
    assert curves["rule"] == [(60, 95), (30, 95)]  # the first of the two, 4 points lost and 1
    assert len(glance_figure.curves_of(rows, "100x6")["validated"]) == 3
    path = glance_figure.draw(out, tmp_path / "glance.svg")
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "prefers-color-scheme" in text
    assert glance_figure.INK not in text
    first = path.read_bytes()
    assert glance_figure.draw(out, path).read_bytes() == first
    assert "(glance.svg)" in readme.table_text(tmp_path)


def with_margins(margins, y=None):
    """Two classes; all rows of class 1 unless told."""
    margins = np.array(margins, dtype=float)
    y = np.ones(margins.shape[1], dtype=int) if y is None else np.array(y)
    return Members(np.stack([-margins, margins], axis=2), y)


def kept_by(rule, members, n_kept):
    return RULES[rule](members, n_kept).tolist()


def test_error_ambiguity():
    members = with_margins([[0.0], [2.0]])
    # the mean is 1, so both lie 1 away; two classes give each term twice
    sure = exp(-2) / (1 + exp(-2)) ** 2
    expected = [2 * log(2) - 0.25, 2 * log(1 + exp(-2)) - sure]
    assert ambiguity_losses(members) == pytest.approx(expected)
    assert kept_by("error_ambiguity", members, 1) == [1]


def test_reduced_error():
    members = with_margins([[-1, -1, 1, 1], [1, 1, 1, -1], [-0.5, -0.5, -0.5, 2]])
    # member 1 errs once; with 0 the sums are 0 0 2 0 (a tie is class 0), with 2 all are right
    assert kept_by("reduced_error", members, 2) == [1, 2]


def test_an_intercept_counts_in_the_decisions_of_a_sub_ensemble():
    scores = with_margins([[1, 1, -1], [0.1, 0.1, 0.1], [-0.5, -0.5, 1.5]]).scores
    members = Members(scores, np.ones(3, dtype=int))
    helped = Members(scores, np.ones(3, dtype=int), np.array([-0.95, 0.95]))
    # 1 is right everywhere, then 2 (sums -0.4 -0.4 1.6) or 0 (1.1 1.1 -0.9)
    assert kept_by("reduced_error", members, 2) == [1, 0]
    assert helped.decide([0, 1]).tolist() == [1, 1, 1]
    assert members.decide([0, 1]).tolist() == [1, 1, 0]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_keeps_as_many_as_asked_each_once(rule):
    random = np.random.default_rng(0)
    members = Members(random.normal(size=(8, 40, 3)), random.integers(0, 3, 40))
    for n_kept in range(1, 9):
        kept = kept_by(rule, members, n_kept)
        assert len(set(kept)) == len(kept) == n_kept
        assert set(kept) <= set(range(8))
    twins = Members(np.repeat(members.scores[:2], 4, axis=0), members.y)
    assert len(set(kept_by(rule, twins, 5))) == 5


@pytest.mark.parametrize("name", ["Toy", "Flowers"])
def test_all_rounds_are_the_model_and_the_first_ones_its_slice(folder, name):
    parts = data.split(data.load(name, folder), 0)
    native = train("xgboost", 12, 2, 0, parts.X_fit, parts.y_fit)
    forest = read_model(native).forest
    rounds = rounds_of(forest, parts.X_test)
    assert np.array_equal(rounds.predict(np.arange(12)), native.predict(parts.X_test))
    members = rounds_of(forest, parts.X_fit).members(parts.y_fit)
    assert np.array_equal(members.decide(list(range(12))), native.predict(parts.X_fit))
    margin = native.get_booster()[:5].inplace_predict(parts.X_test, predict_type="margin")
    expected = (margin > 0) if name == "Toy" else np.argmax(margin, axis=1)
    assert np.array_equal(rounds.predict(np.arange(5)), expected)
