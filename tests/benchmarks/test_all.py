"""The driver of all benchmarks: order, resuming, publishing, the ledger of commits; cells in worker processes."""

import argparse
import importlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import all as driver
from benchmarks import ledger, plan, runner
from benchmarks.ledger import Entry

SLOW = plan.Run("slow", "measuring", "slow.csv", "", 1.0)


def _script(seconds, text):
    """A program that takes its time, then writes its last argument."""
    return (
        "import pathlib, sys, time\n"
        f"time.sleep({seconds})\n"
        f"with pathlib.Path(sys.argv[-1]).open('a') as file: file.write({text!r})\n"
    )


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working folder, and runs whose module is a program of its own."""

    def command(run, folder, cores):
        return [driver.sys.executable, "-c", run.module, str(folder / run.file)]

    monkeypatch.setattr(driver, "command_of", command)
    monkeypatch.setattr(driver, "words_of", lambda run, cores: f"a program called {run.name}")
    (tmp_path / "results").mkdir()
    folder = tmp_path / "abc1234"
    folder.mkdir()
    return folder


def _drive(work, runs, seconds=60.0):
    deadline = time.monotonic() + seconds
    return driver.Driver(work, work.parent / "results", 2, deadline).go(runs)


def test_runs_are_published_once_and_named_with_their_commit(work):
    results = work.parent / "results"
    ledger.note(results, Entry("a.csv", "0ld", "2026-01-01", "", "python -m benchmarks.old"))
    ledger.note(results, Entry("b.csv", "0ld", "2026-01-01", "", "python -m benchmarks.other"))
    runs = [
        replace(SLOW, name="first", module=_script(0, "x,y\n1,2\n"), file="a.csv"),
        replace(SLOW, name="second", module=_script(0, "3,4\n"), file="a.csv"),
    ]
    assert _drive(work, runs) == []
    assert (results / "a.csv").read_text() == "x,y\n1,2\n3,4\n"
    assert ledger.commits_of(results, "a.csv") == ["abc1234"]
    assert ledger.commits_of(results, "b.csv") == ["0ld"]
    assert [entry.file for entry in ledger.read_entries(results)] == ["a.csv", "a.csv", "b.csv"]
    assert _drive(work, runs) == []  # nothing is run again
    assert (work / "a.csv").read_text() == "x,y\n1,2\n3,4\n"


def test_a_run_that_is_stopped_is_not_published_and_goes_on_later(work):
    runs = [replace(SLOW, module=_script(30, "late"))]
    assert _drive(work, runs, seconds=0.5) == ["slow"]
    assert not (work.parent / "results" / "slow.csv").exists()
    assert ledger.finished_runs(work) == set()
    (work / "slow.csv").write_text("a part\n")
    results = work.parent / "results"
    stopped = driver.Driver(work, results, 2, time.monotonic() + 0.5, partial=True)
    assert stopped.go(runs) == ["slow"]
    assert (results / "slow.csv").read_text() == "a part\n"
    assert ledger.read_entries(results)[0].command.endswith(" (stopped by the clock)")
    (work / "slow.csv").unlink()
    assert _drive(work, [replace(SLOW, module=_script(0, "in time"))]) == []
    assert (work.parent / "results" / "slow.csv").read_text() == "in time"


def test_a_run_that_writes_nothing_is_named(work, capsys):
    _drive(work, [replace(SLOW, module="raise SystemExit(3)")])
    assert "slow: wrote nothing (exit 3)" in capsys.readouterr().out
    assert ledger.finished_runs(work) == set()


def test_serial_runs_go_side_by_side_and_others_wait():
    room = driver.Driver(Path("w"), Path("r"), 2, 0.0)
    serial = replace(SLOW, is_serial=True)
    assert room._has_room(SLOW)
    room._started.append(driver._Started(serial, None, 0.0, Path("log")))
    assert room._has_room(replace(serial, file="other.csv"))
    assert not room._has_room(serial)  # the same file
    assert not room._has_room(replace(SLOW, file="other.csv"))


class Parsed(Exception):
    """Raised instead of running: the options that the command does not know."""


def _parse_only(self, arguments):
    raise Parsed(self.parse_known_args(arguments)[1])


@pytest.mark.parametrize("run", plan.PLAN, ids=lambda run: run.name)
def test_every_run_of_the_plan_is_a_command_that_exists(run, monkeypatch):
    module = importlib.import_module(f"benchmarks.{run.module}")
    readme = (runner.RESULTS.parent / "README.md").read_text(encoding="utf-8")
    assert f"`{run.file}`" in readme, f"{run.file} is not in benchmarks/README.md"
    command = driver.command_of(run, runner.RESULTS, 2)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", _parse_only)
    with pytest.raises(Parsed) as parsed:
        module.main(command[3:])
    assert parsed.value.args == ([],)


def test_the_plan_is_listed_with_its_cost(capsys):
    names = [run.name for run in plan.PLAN]
    assert len(set(names)) == len(names)
    assert driver.main(["--list"]) == 0
    total = sum(run.core_minutes for run in plan.PLAN)
    assert f"{total:5.0f} core-minutes in all" in capsys.readouterr().out


def test_unknown_runs_are_refused(capsys):
    with pytest.raises(SystemExit):
        driver.main(["--runs", "nothing", "--list"])
    assert "no run 'nothing'; accepted are paper, " in capsys.readouterr().err


def test_the_commit_is_that_of_the_code():
    commit = ledger.code_commit()
    assert 7 <= len(commit.rstrip("+")) <= 12


def test_committed_results_name_what_wrote_them():
    known = {entry.file for entry in ledger.read_entries(runner.RESULTS)}
    published = {path.name for path in runner.RESULTS.glob("published_*.csv")}
    files = {path.name for path in runner.RESULTS.glob("*.csv")} - published
    assert files <= known


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
