"""Tables and figures of the benchmarks: what is shown is what was measured, and what is committed agrees."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import data, defaults, frames, large, pages, readme, runner, size_tables, slow_tests, tables
from benchmarks.cells import answer_times
from pine_boost.search.search_result import Moment


def test_the_first_moment_of_the_final_size_counts():
    history = (Moment(0.1, 12, 1, 1), Moment(0.2, 9, 1, 1), Moment(0.3, 9, 1, 9), Moment(0.4, 9, 2, 9))
    search = SimpleNamespace(history=history, n_kept=9, pruned=object())
    assert answer_times(search) == {"once_s": "0.200", "twice_s": "0.400", "fewest_s": "0.300"}


def test_the_original_needs_no_proof_and_an_open_bound_has_no_time():
    history = (Moment(0.3, 30, 2, 29),)
    search = SimpleNamespace(history=history, n_kept=30, pruned=None)
    assert answer_times(search) == {"once_s": "0.000", "twice_s": "0.000", "fewest_s": ""}


def test_rows_of_before_these_columns_are_left_out():
    old = {"alpha": "0.1", "time_s": "2.0"}
    assert frames.answer_times([old]) == ""
    new = [
        {"alpha": "0.1", "once_s": once, "twice_s": "0.5", "fewest_s": "", "time_s": "1.0"}
        for once in ("0.1", "0.2", "0.3")
    ]
    lines = frames.answer_times([old, *new]).splitlines()
    assert lines[-1].split("|")[1:-1] == [" 0.1 ", " 3 ", " 0.20 ", " 0.50 ", " - ", " 1.00 "]


def test_tables_from_the_results(results):
    assert tables.main(["--results", str(results)]) == 0
    text = (results / "TABLES.md").read_text()
    rows = runner.read_rows(results / "paper_l0.csv")
    rates = [float(r["pruning_rate"]) for r in rows if r["alpha"] == "0.2" and r["dataset"] == "Toy"]
    assert f"{np.mean(rates):.1f}±{np.std(rates):.1f}" in text
    assert "Not run yet: " in text


def test_a_page_is_written_between_its_markers_only(results, tmp_path):
    page = tmp_path / "README.md"
    start, end = readme.README.markers
    page.write_text(f"top\n{start}\nold\n{end}\nbottom\n")
    arguments = ["--root", str(tmp_path), "--results", str(results)]
    assert readme.main(arguments) == 0
    first = page.read_text()
    assert first.startswith("top\n")
    assert first.endswith("\nbottom\n")
    assert "old" not in first
    assert pages.between_markers(first, start, end)[1] == readme.README.text(results)
    assert readme.main(arguments) == 0
    assert page.read_text() == first
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="what to expect"):
        readme.main(arguments)


BLOCKS = [readme.README, readme.COMPARISON, *pages.DOCS]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}, {block.name}")
def test_committed_pages_agree_with_the_committed_results(block):
    text = (data.ROOT / block.page).read_text(encoding="utf-8")
    inside = pages.between_markers(text, *block.markers)[1]
    assert inside == block.text(runner.RESULTS), "run python -m benchmarks.readme"


TESTS = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_slow(number):
    assert number < 3
def test_fast():
    pass
"""


def test_failures_are_counted_and_written(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    out, page = tmp_path / "slow_tests.csv", tmp_path / "docs" / "robustness.md"
    start, end = pages.SLOW_TESTS.markers
    page.parent.mkdir()
    page.write_text(f"top\n{start}\n{end}\nbottom\n")
    arguments = ["--files", str(tmp_path / "test_some.py"), "--jobs", "0", "--out", str(out)]
    arguments += ["--root", str(tmp_path)]
    assert slow_tests.main(arguments) == 1
    (row,) = runner.read_rows(out)
    assert (row["tests"], row["failed"]) == ("3", "1")
    text = page.read_text()
    assert "| together | 3 | 1 |" in text
    assert text.startswith("top\n")
    assert text.endswith("\nbottom\n")
    assert slow_tests.main(arguments) == 1  # not run again, and still a failure
    assert len(runner.read_rows(out)) == 1


PROVED = {"model": "xgboost", "alpha": "0.1", "seed": "0", "pruning_rate": "0"}


def _write(folder):
    rows = [
        {
            **PROVED,
            "dataset": "A",
            "indifference": "0",
            "fit": "training",
            "leaf_pruning_rate": "0.0",
            "status": "CERTIFIED",
        },
        {
            **PROVED,
            "dataset": "A",
            "indifference": "auto",
            "fit": "training",
            "pruning_rate": "40",
            "leaf_pruning_rate": "30.0",
            "status": "CERTIFIED",
        },
        {
            **PROVED,
            "dataset": "B",
            "indifference": "0",
            "fit": "training",
            "leaf_pruning_rate": "0.0",
            "status": "NOT_CERTIFIED",
        },
        {
            **PROVED,
            "dataset": "B",
            "indifference": "auto",
            "fit": "training",
            "status": "REFUSED RegionError: too many",
        },
        {
            **PROVED,
            "dataset": "A",
            "indifference": "0",
            "fit": "unseen",
            "pruning_rate": "10",
            "leaf_pruning_rate": "8.0",
            "status": "CERTIFIED",
        },
    ]
    runner.append_rows(folder / "large.csv", large.COLUMNS, rows)
    line = {"model": "xgboost-0.3", "seed": "0", "fidelity": "99.5"}
    validated = [
        {**line, "dataset": "A", "leaves_gone": "50"},
        {**line, "dataset": "A", "seed": "1", "leaves_gone": "70"},
    ]
    runner.append_rows(folder / "defaults.csv", defaults.COLUMNS, validated)


def test_training_rows_come_first_and_refusals_count_as_nothing(tmp_path):
    _write(tmp_path)
    header, _, line = size_tables.default_sizes(tmp_path).splitlines()
    assert header.startswith(
        "| 100 trees | proved, region of training rows | proved, indifference auto, region of "
        "training rows | proved, region of unseen rows | validated |"
    )
    assert line == (
        "| XGBoost | 0.0 (0.0 to 0.0) | 15.0 (0.0 to 30.0) | 8.0 (8.0 to 8.0) | 60.0 (60.0 to 60.0) "
        "| 2 on 1 data sets | 99.50 |"
    )


def test_every_data_set_says_why_nothing_went(tmp_path):
    _write(tmp_path)
    lines = size_tables.library_table(tmp_path, "xgboost-0.3").splitlines()
    assert lines[2].startswith("| A | 0.0 | 30.0 | 8.0 | 2 | 60.0 | 99.50 |")
    assert lines[3].startswith("| B | no proof in time | refused | - | - | - |")


def test_files_from_before_the_choice_used_unseen_rows(tmp_path):
    columns = [column for column in large.COLUMNS if column != "fit"]
    row = {**PROVED, "dataset": "A", "indifference": "0", "status": "CERTIFIED"}
    runner.append_rows(tmp_path / "large.csv", columns, [row])
    assert "proved, region of unseen rows" in size_tables.default_sizes(tmp_path)


def test_what_to_expect_at_99_percent_counts_only_data_sets_that_were_tested_for_it(tmp_path):
    line = {"model": "xgboost-0.3", "seed": "0", "fidelity": "99.5"}
    tested = [
        {**line, "dataset": "Large", "target": "0.99", "leaves_gone": "50"},
        {**line, "dataset": "Small", "target": "0.9759", "leaves_gone": "6"},
    ]
    runner.append_rows(tmp_path / "defaults.csv", defaults.COLUMNS, tested)
    last = size_tables.what_to_expect(tmp_path).splitlines()[-1]
    assert last.endswith("99 %, the 1 data sets with enough rows | 50 % | 50 % (Large) | 50 % (Large) | 0 of 1 |")
    assert [row.split("|")[-2].strip() for row in size_tables.library_table(tmp_path, "xgboost-0.3").splitlines()] == [
        "tested for %",
        "---:",
        "99.0",
        "97.6",
    ]
