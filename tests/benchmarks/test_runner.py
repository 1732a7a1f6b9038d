"""Cells in worker processes: a worker that dies or overruns costs its own cell only."""

from __future__ import annotations

import os
import time

from benchmarks import runner


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
