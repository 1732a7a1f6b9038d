"""The benchmark harness on small generated data: resumable, honest, and the README agrees."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xgboost")
pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")

from sklearn.datasets import load_breast_cancer, load_iris  # noqa: E402

from benchmarks import (  # noqa: E402
    data,
    fewest,
    guarded,
    large,
    paper,
    published,
    readme,
    rules,
    runner,
    search,
    selection,
    serving,
    sweeping,
    tables,
    throughput,
)
from benchmarks.cells import COLUMNS, train  # noqa: E402
from benchmarks.pruning_rules import RULES  # noqa: E402
from benchmarks.pruning_rules.heuristics import heuristic_orders  # noqa: E402
from benchmarks.rounds import rounds_of  # noqa: E402
from pine_boost.parsers import read_model  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small data sets as files: one with text, 0/1 and numeric columns, one with 3 classes."""
    place = tmp_path_factory.mktemp("data")
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:300, :3], columns=["a", "b", "c"])
    frame["flag"] = np.where(X[:300, 5] > 0.1, "yes", "no")
    frame["size"] = pd.cut(X[:300, 6], 3, labels=["small", "?", "large"]).astype(str)
    frame.assign(label=y[:300]).to_csv(place / "Toy.csv", index=False)
    X, y = load_iris(return_X_y=True)
    pd.DataFrame(X).assign(label=y).to_csv(place / "Flowers.csv.gz", index=False)
    return str(place)


@pytest.fixture(scope="module")
def results(folder, tmp_path_factory):
    """A results folder with a tiny run of the paper's experiment."""
    place = tmp_path_factory.mktemp("results")
    out = str(place / "paper_l0.csv")
    code = paper.main(
        ["--datasets", "Toy,Flowers", "--data", folder, "--seeds", "2", "--alphas", "faithful,0.2",
         "--trees", "30", "--time-limit", "600", "--jobs", "2", "--out", out]
    )  # fmt: skip
    assert code == 0
    return place


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
    options = ["--datasets", "Flowers", "--data", folder, "--seeds", "1", "--jobs", "0",
               "--time-limit", "600", "--out", str(out)]  # fmt: skip
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


def die_on_two(cell):
    if cell == 2:
        os._exit(3)
    if cell == 3:
        raise ValueError("three")
    return [{"cell": cell, "square": cell * cell}]


def test_a_dead_worker_costs_its_own_cell_only(tmp_path, capfd):
    jobs = [runner.Job((str(i),), i) for i in range(1, 6)]
    out = tmp_path / "rows.csv"
    failures = runner.run_jobs(die_on_two, jobs, out, ("cell", "square"), ("cell",), n_workers=2)
    assert failures == 2
    assert sorted(r["cell"] for r in runner.read_rows(out)) == ["1", "4", "5"]
    message = capfd.readouterr().err
    assert "FAILED 2: the worker died (exit code 3)" in message
    assert "FAILED 3: ValueError: three" in message


def sleep_long(cell):
    time.sleep(60)
    return []


def test_a_cell_over_the_hard_limit_is_ended_and_written_as_asked(tmp_path, capfd):
    out = tmp_path / "rows.csv"
    failures = runner.run_jobs(
        sleep_long,
        [runner.Job(("1",), 1)],
        out,
        ("cell", "why"),
        ("cell",),
        n_workers=1,
        hard_limit=0.2,
        on_failure=lambda cell, error: [{"cell": cell, "why": error}],
    )
    assert failures == 1
    assert runner.read_rows(out) == [{"cell": "1", "why": "hard time limit"}]


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
    frame = pd.DataFrame(
        {"a": [1.0, None, 3, 4, 5], "b": [5, 4, 3, 2, 1], "label": [0, 1, 0, 1, 0]}
    )
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
    assert [len(four.X_fit), len(four.X_cal), len(four.X_sel), len(four.X_test)] == [
        144,
        48,
        48,
        60,
    ]
    assert np.array_equal(three.X_test, four.X_test)


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


def test_the_paper_table_has_the_means_that_the_issue_asks_for():
    paper_table = published.paper_l0()
    for alpha, required in published.REQUIRED_MEAN.items():
        rates = [paper_table[name, alpha, "pruning_rate"][0] for name in data.DATASETS]
        assert abs(np.mean(rates) - required) < 0.06


def test_search_judges_its_cells():
    target = search.target_of("Spambase", "0.05")
    assert (target.rate, target.seconds, target.prototype) == (3, 60, 3.3)
    assert search.verdict(3.33, 59, "CERTIFIED", target) == "ok"
    assert search.verdict(0.0, 61, "NOT_CERTIFIED", target) == (
        "not certified, fewer trees removed, slower"
    )
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
    runner.run_jobs(
        selection.run_candidate, [job], out, selection.COLUMNS, selection.KEY_COLUMNS, n_workers=0
    )
    (row,) = runner.read_rows(out)
    assert int(row["n_selection"]) == 48
    assert row["status"] == "CERTIFIED"


def test_sweeping_runs_and_keeps_what_single_calls_keep(folder, tmp_path):
    out = tmp_path / "sweep.csv"
    assert (
        sweeping.main(["--datasets", "Toy", "--data", folder, "--jobs", "0", "--out", str(out)])
        == 0
    )
    (row,) = runner.read_rows(out)
    assert row["kept_single"] == row["kept_sweep"]
    assert len(row["kept_sweep"].split()) == 7
    assert "## A sweep over seven alphas" in tables.render(tmp_path)


def test_large_models_and_serving_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "MEASURE_SECONDS", 0.01)
    pytest.importorskip("lightgbm")
    pytest.importorskip("tl2cgen")
    out = tmp_path / "large.csv"
    arguments = ["--datasets", "Toy", "--data", folder, "--trees", "4", "--time-limit", "600"]
    large.main([*arguments, "--jobs", "0", "--indifference", "0", "--out", str(out)])
    rows = runner.read_rows(out)
    assert [row["model"] for row in rows] == list(large.MODELS)
    for row in rows:
        assert row["status"] == "CERTIFIED"
        assert float(row["fidelity_in_region"]) == 100
        assert int(row["bytes_before"]) > 0
        assert float(row["native_ratio"]) > 0
    served = tmp_path / "serving.csv"
    serving.main(
        [*arguments, "--models", "xgboost", "--alpha", "0.4", "--indifference", "0",
         "--batches", "1,50", "--out", str(served)]
    )  # fmt: skip
    rows = runner.read_rows(served)
    assert [(r["engine"], r["batch"]) for r in rows] == [
        (engine, batch)
        for engine in ("native", "treelite gtil", "tl2cgen")
        for batch in ("1", "50")
    ]
    text = tables.render(tmp_path)
    assert "## Inference" in text
    assert "## Models of default size\n" in text
    removed = float(runner.read_rows(out)[0]["pruning_rate"])
    assert f"| xgboost | 0 | 1/1 | {int(removed > 0)} | {removed:.1f} |" in text


def test_guarded_scorers_run_and_give_the_original_classes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "MEASURE_SECONDS", 0.01)
    out = tmp_path / "guarded.csv"
    guarded.main(
        ["--datasets", "Toy", "--data", folder, "--backends", "native,gtil", "--batches", "1,50",
         "--time-limit", "5", "--trees", "4", "--fidelity", "0.9", "--out", str(out)]
    )  # fmt: skip
    rows = runner.read_rows(out)
    assert {row["guard"] for row in rows} >= {"region"}
    for row in rows:
        assert float(row["same_class"]) == 1 or row["guard"] == "margin"
        assert 0 <= float(row["share_fallbacks"]) <= 1


def test_lossless_prints_its_table(folder, capsys):
    from benchmarks import lossless

    models = ["AdaBoost 50x3", "XGBoost 100x6, gamma 1"]
    assert lossless.main(["--datasets", "Flowers", "--data", str(folder), "--models", *models]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("| dataset | model | trees | leaves |")
    leaves = [int(number) for number in lines[2].split("|")[4].split(" -> ")]
    assert leaves[1] < leaves[0]
    trees = [int(number) for number in lines[3].split("|")[5].split(" -> ")]
    assert trees[1] < trees[0]


def test_a_large_cell_that_is_refused_says_so(folder, tmp_path):
    out = tmp_path / "large.csv"
    code = large.main(
        ["--datasets", "Toy", "--data", folder, "--trees", "3", "--models", "xgboost", "--jobs",
         "0", "--indifference", "0.5", "--out", str(out)]
    )  # fmt: skip
    (row,) = runner.read_rows(out)
    assert code == 1
    assert row["status"].startswith("REFUSED RegionError: indifference=0.5")
    assert float(row["pruning_rate"]) == 0


def test_tables_and_figures_from_the_results(folder, results):
    pytest.importorskip("matplotlib")
    assert rules.main(
        ["--datasets", "Toy,Flowers", "--data", folder, "--jobs", "0",
         "--results", str(results / "paper_l0.csv"), "--out", str(results / "rules.csv")]
    ) == 0  # fmt: skip
    assert tables.main(["--results", str(results)]) == 0
    text = (results / "TABLES.md").read_text()
    rows = runner.read_rows(results / "paper_l0.csv")
    rates = [
        float(r["pruning_rate"]) for r in rows if r["alpha"] == "0.2" and r["dataset"] == "Toy"
    ]
    assert f"{np.mean(rates):.1f}±{np.std(rates):.1f}" in text
    assert "| **pine_boost** |" in text
    assert "Not run yet: " in text
    assert {p.name for p in (results / "figures").glob("*.png")} >= {
        "tradeoff_accuracy.png", "tradeoff_fidelity.png", "coverage.png",
    }  # fmt: skip


def test_cells_with_a_gap_are_searched_further(folder, tmp_path):
    out, further = tmp_path / "trees.csv", tmp_path / "fewest.csv"
    arguments = ["--datasets", "Toy,Flowers", "--data", folder, "--seeds", "1", "--alphas", "0.8",
                 "--trees", "10", "--depth", "3", "--time-limit", "600", "--jobs", "0"]  # fmt: skip
    assert paper.main([*arguments, "--out", str(out)]) == 0
    flowers, toy = sorted(runner.read_rows(out), key=lambda row: row["dataset"])
    assert fewest.kept_of(toy) == int(toy["lower_bound"]) > 1  # proved to be the fewest
    options = ["--results", str(out), "--data", folder, "--trees", "10", "--time-limit", "600",
               "--jobs", "0", "--out", str(further)]  # fmt: skip
    assert fewest.main(options) == 0
    assert runner.read_rows(further) == []  # no gap, nothing to do
    out.unlink()
    runner.append_rows(out, COLUMNS, [{**toy, "lower_bound": "1"}, flowers])
    assert fewest.main(options) == 0
    (row,) = runner.read_rows(further)
    assert (row["dataset"], row["stopped"]) == ("Toy", "optimal")
    assert row["kept"] == row["lower_bound"] == toy["lower_bound"]
    rates = [100 - 10 * fewest.kept_of(r) for r in (toy, flowers)]
    reached = f"| 10 | {np.mean(rates):.2f} | {np.mean(rates):.2f} | 39.17 |"
    assert f"{reached} {np.mean(rates):.2f} |" in tables.render(tmp_path)
    further.unlink()
    assert f"{reached} {np.mean([90, rates[1]]):.2f} |" in tables.render(tmp_path)


def test_readme_script_writes_between_its_markers_only(results, tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"top\n{readme.START}\nold\n{readme.END}\nbottom\n")
    arguments = ["--readme", str(page), "--results", str(results)]
    assert readme.main(arguments) == 0
    first = page.read_text()
    assert first.startswith("top\n")
    assert first.endswith("\nbottom\n")
    assert "old" not in first
    assert readme.between_markers(first)[1] == readme.table_text(results)
    assert readme.main(arguments) == 0
    assert page.read_text() == first
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="benchmark table"):
        readme.main(arguments)


def test_the_project_readme_agrees_with_the_committed_results():
    text = (data.ROOT / "README.md").read_text(encoding="utf-8")
    inside = readme.between_markers(text)[1]
    assert inside == readme.table_text(runner.RESULTS), "run python -m benchmarks.readme"
