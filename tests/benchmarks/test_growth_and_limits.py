"""Growth and limits: children are measured, interrupted and killed; rows are judged."""

import numpy as np
import pytest

from benchmarks import growth, limits, runner, tables
from benchmarks.growth import draw
from benchmarks.measuring import measured, run_child

SLEEPER = "tests.benchmarks.sleeper"


def test_a_child_tells_its_memory_and_is_interrupted():
    said, _ = run_child(SLEEPER, {"megabytes": 200, "seconds": 0}, hard_limit=120)
    assert said["answer"] == f"slept with {200 * 2**20}"
    assert 190 < said["peak_mb"] < 260
    said, seconds = run_child(SLEEPER, {"megabytes": 1, "seconds": 600}, hard_limit=120, interrupt_after=0.5)
    assert said["answer"].startswith("interrupted")
    assert seconds > 0


def test_a_child_that_overruns_or_says_nothing_is_an_error():
    with pytest.raises(RuntimeError, match="code -9 and said nothing"):
        run_child(SLEEPER, {"megabytes": 1, "seconds": 600}, hard_limit=0.3)
    with pytest.raises(RuntimeError, match="code 0 and said nothing"):
        run_child(SLEEPER, {"megabytes": 1, "seconds": 0, "is_silent": True}, hard_limit=120)


def test_memory_that_was_given_back_before_is_not_counted_again():
    measured(lambda: len(bytearray(300 * 2**20)))
    assert 90 < measured(lambda: len(bytearray(100 * 2**20))).peak_mb < 150


def test_a_compression_may_end_by_itself_and_few_rows_get_a_target_that_fits():
    sizes = growth.sizes_of(["trees", "depth"], ["prune", "compress"], 5.0)
    assert {(size.call, size.time_limit) for size in sizes} == {("prune", 5.0), ("compress", 60.0)}
    assert max(size.trees for size in sizes if size.call == "compress") == 1000
    small = growth.Size("rows", "compress", trees=4, rows=600, features=6, time_limit=60.0)
    (row,) = growth.run_steps(small)
    assert row["answer"] in ("VALIDATED", "NOT_VALIDATED")
    assert row["size_before"] >= row["size_after"] > 0


def test_growth_measures_each_step_of_a_size_and_draws(tmp_path, monkeypatch):
    monkeypatch.setitem(growth.AXES, "trees", (4, 8))
    monkeypatch.setattr(
        growth,
        "sizes_of",
        lambda axes, calls, limit: [
            growth.Size(axis, call, trees=trees, rows=3000, features=6, time_limit=limit)
            for call in calls
            for axis in axes
            for trees in growth.AXES["trees"]
        ],
    )
    in_child = growth.run_size
    asked = []

    def run_size(size):
        asked.append(size.key)
        return in_child(size) if len(asked) == 1 else growth.run_steps(size)  # a child is slow

    monkeypatch.setattr(growth, "run_size", run_size)
    out = tmp_path / "growth.csv"
    arguments = ["--axes", "trees", "--time-limit", "600", "--out", str(out)]
    assert growth.main(arguments) == 0
    rows = runner.read_rows(out)
    steps = [row["step"] for row in rows if row["size"] == "8"]
    assert steps == ["prune", "contains", "verify", "compress"]
    for row in rows:
        assert row["seconds"] or row["answer"].startswith("REFUSED"), row
    prune = rows[0]
    assert (prune["answer"], prune["size_before"]) == ("CERTIFIED", "4")
    assert 1 <= int(prune["size_after"]) <= 4
    assert {row["answer"] for row in rows if row["step"] == "verify"} == {"agrees"}
    assert growth.main(arguments) == 0
    assert runner.read_rows(out) == rows
    table = tables.growth(tmp_path)
    assert f"| trees | 4 | 4 to {prune['size_after']} rounds, CERTIFIED |" in table
    assert draw(out, tmp_path / "growth.svg").read_text().startswith("<?xml")


def test_generated_classes_are_balanced():
    _, y = growth.generate(growth.Size("classes", classes=5, rows=1000))
    assert np.bincount(y).tolist() == [200] * 5


def test_limits_judge_by_the_issue(monkeypatch, tmp_path):
    said = {"trees": 10, "leaves": 20, "seconds": 12.9, "cpu_s": 5, "peak_mb": 3.0, "answer": "x"}
    monkeypatch.setattr(limits, "run_child", lambda *_, **__: (said, 1.9))
    (row,) = limits.ask(limits.Question("LightGBM 500", "prune", "10", "."))
    assert (row["seconds"], row["ratio"], row["is_kept"]) == ("12.90", "1.29", "yes")
    (row,) = limits.ask(limits.Question("LightGBM 500", "interrupt", "", "."))
    assert (row["seconds"], row["ratio"], row["is_kept"]) == ("1.90", "", "yes")
    runner.append_rows(tmp_path / "limits.csv", limits.COLUMNS, [row])
    expected = "| LightGBM 500 | 10 | 20 | interrupt | Ctrl-C | 1.90 | 5.00 | yes | 3 | x |"
    assert expected in tables.limits(tmp_path)
    (row,) = limits.ask(limits.Question("LightGBM 500", "verify", "10", "."))
    assert row["is_kept"] == "yes"  # nothing was certified: what pruning answers
    said["answer"] = "agrees: None"
    (row,) = limits.ask(limits.Question("LightGBM 500", "verify", "10", "."))
    assert row["is_kept"] == "no"  # in time, but nothing was verified
    said["answer"] = "agrees: True"
    (row,) = limits.ask(limits.Question("LightGBM 500", "verify", "10", "."))
    assert row["is_kept"] == "yes"
    said["seconds"] = 13.1
    (row,) = limits.ask(limits.Question("LightGBM 500", "prune", "10", "."))
    assert row["is_kept"] == "no"


@pytest.mark.parametrize("call", ["prune", "verify", "compress", "survey", "accelerate"])
def test_a_question_is_answered_from_the_file_to_the_written_result(call, tmp_path, monkeypatch):
    def small():
        from xgboost import XGBClassifier

        X, y = limits.generate(2)
        return XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:500], y[:500])

    monkeypatch.setitem(limits.MODELS, "small", small)
    monkeypatch.setattr(limits, "N_ROWS", 1000)
    monkeypatch.setattr(limits, "VERIFY_AFTER", 600.0)
    answer = limits.answer_of(limits.Question("small", call, "600", str(tmp_path)))
    assert answer["trees"] == 5
    expected = {
        "prune": "CERTIFIED, 5 to ",
        "verify": "agrees: True",
        "compress": "NOT_VALIDATED, 20 ",
        "survey": "20 to ",
        "accelerate": "VALIDATED, ",
    }
    assert answer["answer"].startswith(expected[call])
    assert (tmp_path / "small.pickle").exists()
