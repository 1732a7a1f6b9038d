"""Benchmarks over many searches: rules at the same size, selection, sweeps, the own table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import data, published, rules, runner, search, selection, sweeping, tables
from benchmarks.cells import train
from benchmarks.pruning_rules import RULES
from benchmarks.pruning_rules.heuristics import heuristic_orders
from benchmarks.rounds import rounds_of
from pine_boost.parsers import read_model


@pytest.mark.parametrize("name", ["Toy", "Flowers"])
def test_rules_keep_rounds_of_the_model_and_all_rounds_are_the_model(folder, name):
    parts = data.split(data.load(name, folder), 0)
    native = train("xgboost", 12, 2, 0, parts.X_fit, parts.y_fit)
    model = read_model(native)
    rounds = rounds_of(model.forest, parts.X_test)
    orders = heuristic_orders(model)
    assert set(RULES) | set(orders) == set(published.paper_rules()) - {"PINE-CL"} | {"Slice"}
    for order in orders.values():
        assert sorted(order) == list(range(12))
        assert np.array_equal(rounds.predict(order), native.predict(parts.X_test))
    trained = rules.Trained.of(rules.Sizes(name, "xgboost", 12, 2, 0, (), folder))
    members = trained.members(with_intercept=True)
    everyone = members.decide(list(range(12)))
    assert np.array_equal(everyone, native.predict(parts.X_fit))
    sliced = native.get_booster()[:5]
    margin = sliced.inplace_predict(parts.X_test, predict_type="margin")
    expected = (margin > 0) if name == "Toy" else np.argmax(margin, axis=1)
    assert np.array_equal(rounds.predict(orders["Slice"][:5]), expected)


def test_selection_rules_against_the_exact_binomial_bound():
    from scipy.stats import binomtest

    counts = {"0.05": (0, 400), "0.4": (2, 400), "0.8": (10, 400)}
    assert selection.selected(counts, 0.97, confident=False) == "0.8"
    assert selection.selected(counts, 0.99, confident=False) == "0.4"
    assert selection.selected(counts, 0.9999, confident=True) is None
    for target in (0.95, 0.98, 0.99):
        level = 1 - selection.FAILURE_PROBABILITY / len(counts)
        bounds = {
            alpha: binomtest(k, n, alternative="less").proportion_ci(level, method="exact").high
            for alpha, (k, n) in counts.items()
        }
        allowed = [alpha for alpha, bound in bounds.items() if bound <= 1 - target]
        expected = max(allowed, key=float) if allowed else None
        assert selection.selected(counts, target, confident=True) == expected


def test_search_judges_its_cells():
    target = search.target_of("Spambase", "0.05")
    assert (target.rate, target.seconds, target.prototype) == (3, 60, 3.3)
    assert search.verdict(3.33, 59, "CERTIFIED", target) == "ok"
    assert search.verdict(0.0, 61, "NOT_CERTIFIED", target) == ("not certified, fewer trees removed, slower")
    assert search.target_of("Seeds", "0.2").rate == 82.0


def test_search_prints_its_table(folder, monkeypatch, capsys):
    monkeypatch.setattr(search, "NAMES", ("Seeds",))
    place = Path(folder)
    (place / "Seeds.csv.gz").write_bytes((place / "Flowers.csv.gz").read_bytes())
    code = search.main(["--datasets", "Seeds", "--data", folder, "--alphas", "0.8"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "| Seeds " in printed
    assert "of 1 cells reach what is required; peak memory" in printed


def test_selection_runs(folder, tmp_path):
    out = tmp_path / "selection.csv"
    candidate = selection.Candidate("Toy", 0, "0.8", 600.0, folder)
    job = runner.Job(("Toy", "0", "0.8"), candidate)
    runner.run_jobs(selection.run_candidate, [job], out, selection.COLUMNS, selection.KEY_COLUMNS, n_workers=0)
    (row,) = runner.read_rows(out)
    assert int(row["n_selection"]) == 48
    assert row["status"] == "CERTIFIED"


def test_sweeping_runs_and_keeps_what_single_calls_keep(folder, tmp_path):
    out = tmp_path / "sweep.csv"
    assert sweeping.main(["--datasets", "Toy", "--data", folder, "--jobs", "0", "--out", str(out)]) == 0
    (row,) = runner.read_rows(out)
    assert row["kept_single"] == row["kept_sweep"]
    assert len(row["kept_sweep"].split()) == 7
    assert "## A sweep over seven alphas" in tables.render(tmp_path)
