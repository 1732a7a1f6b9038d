"""Default sizes: proved, proved with toss-ups given up and validated lie in one table."""

from __future__ import annotations

from pathlib import Path

from benchmarks import compression, large, runner, size_tables

PROVED = {"model": "xgboost", "alpha": "0.1", "seed": "0", "pruning_rate": "0"}


def _write(folder: Path) -> None:
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
    line = {
        "model": "xgboost-0.3",
        "seed": "0",
        "size": "returned",
        "fidelity": "99.5",
        "sliced_gone": "20",
        "slice_fidelity": "98",
        "retrained_fidelity": "97",
    }
    validated = [
        {**line, "dataset": "A", "leaves_gone": "50"},
        {**line, "dataset": "A", "seed": "1", "leaves_gone": "70"},
        {**line, "dataset": "A", "size": "50", "leaves_gone": "99"},
    ]
    runner.append_rows(folder / "defaults.csv", compression.COLUMNS, validated)


def test_training_rows_come_first_and_refusals_count_as_nothing(tmp_path: Path) -> None:
    _write(tmp_path)
    header, _, line = size_tables.default_sizes(tmp_path).splitlines()
    assert header.startswith(
        "| 100 trees | proved, region of training rows | proved, indifference auto, region of "
        "training rows | proved, region of unseen rows | validated |"
    )
    assert line == (
        "| XGBoost | 0.0 (0 of 2 smaller) | 15.0 (1 of 2 smaller) | 8.0 (1 of 1 smaller) | 60.0 "
        "| 2 on 1 data sets | 99.50 | 20.0 |"
    )


def test_every_data_set_says_why_nothing_went(tmp_path: Path) -> None:
    _write(tmp_path)
    lines = size_tables.library_table(tmp_path, "xgboost-0.3").splitlines()
    assert lines[2].startswith("| A | 0.0 | 30.0 | 8.0 | 2 | 60.0 | 99.50 |")
    assert lines[3].startswith("| B | no proof in time | refused | - | - | - |")


def test_files_from_before_the_choice_used_unseen_rows(tmp_path: Path) -> None:
    columns = [column for column in large.COLUMNS if column != "fit"]
    row = {**PROVED, "dataset": "A", "indifference": "0", "status": "CERTIFIED"}
    runner.append_rows(tmp_path / "large.csv", columns, [row])
    assert "proved, region of unseen rows" in size_tables.default_sizes(tmp_path)
