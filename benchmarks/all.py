"""Run everything in the plan, resumably (python -m benchmarks.all, or make benchmarks).

A run that the clock stopped is published only with --partial. The same command continues where it stopped as long as
pine_boost has not changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import ROOT
from benchmarks.ledger import Entry, code_commit, finished_runs, publish, write_finished
from benchmarks.machine import describe_machine
from benchmarks.paper import listed
from benchmarks.plan import PLAN, Run
from benchmarks.runner import ONE_THREAD, RESULTS

RUNNING = ROOT / "benchmarks" / "running"
AFTERWARDS = (("growth", "--draw"), ("tables",), ("readme",))
GRACE = 20.0  # seconds from Ctrl-C to the end of a run


def command_of(run: Run, work: Path, cores: int) -> list[str]:
    """What is started: the running file in the working folder, cores where the run takes them."""
    jobs = [] if run.is_serial else ["--jobs", str(cores)]
    return [
        sys.executable,
        "-m",
        f"benchmarks.{run.module}",
        *run.options.split(),
        *jobs,
        "--out",
        str(work / run.file),
    ]


def words_of(run: Run, cores: int) -> str:
    """The command as commands.txt and a reader have it."""
    command = command_of(run, Path("benchmarks/results"), cores)
    return " ".join(["python", *command[1:]])


@dataclass
class _Started:
    run: Run
    process: subprocess.Popen[bytes]
    since: float
    log: Path


class Driver:
    """Starts runs in order, two serial ones side by side, until all are done or time is up."""

    def __init__(self, work: Path, results: Path, cores: int, deadline: float, partial: bool = False) -> None:
        self.work, self.results = work, results
        self.cores, self.deadline, self.partial = cores, deadline, partial
        self.commit = work.name
        self._started: list[_Started] = []

    def go(self, runs: list[Run]) -> list[str]:
        """Run them; returns the names of those that are not finished."""
        finished = finished_runs(self.work)
        waiting = [run for run in runs if run.name not in finished]
        try:
            while (waiting or self._started) and time.monotonic() < self.deadline:
                while waiting and self._has_room(waiting[0]):
                    self._start(waiting.pop(0))
                self._collect()
                time.sleep(0.2)
        finally:
            left = [started.run.name for started in self._started]
            self._stop()
        return left + [run.name for run in waiting]

    def _has_room(self, run: Run) -> bool:
        taken = sum(1 if s.run.is_serial else self.cores for s in self._started)
        # two runs that add to one file would write over each other
        shares = any(s.run.file == run.file for s in self._started)
        return not shares and taken + (1 if run.is_serial else self.cores) <= self.cores

    def _start(self, run: Run) -> None:
        log = self.work / f"{run.name}.log"
        print(f"{_clock()} {run.name}: {words_of(run, self.cores)}", flush=True)
        with log.open("ab") as file:
            process = subprocess.Popen(
                command_of(run, self.work, self.cores),
                cwd=ROOT,
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={**os.environ, **ONE_THREAD},
            )
        self._started.append(_Started(run, process, time.monotonic(), log))

    def _collect(self) -> None:
        for started in list(self._started):
            code = started.process.poll()
            if code is None:
                continue
            self._started.remove(started)
            run, seconds = started.run, time.monotonic() - started.since
            if not (self.work / run.file).exists():
                print(f"{_clock()} {run.name}: wrote nothing (exit {code}), see {started.log}")
                continue
            write_finished(self.work, run.name)
            self._publish(started)
            failed = f" (exit {code}: some cells failed, see {started.log})" if code else ""
            print(f"{_clock()} {run.name}: {run.file} after {seconds:.0f} s{failed}", flush=True)

    def _publish(self, started: _Started, remark: str = "") -> None:
        run, seconds = started.run, time.monotonic() - started.since
        words = words_of(run, self.cores) + remark
        entry = Entry(run.file, self.commit, _date(), f"{seconds:.0f}", words)
        publish(self.work, self.results, entry)

    def _stop(self) -> None:
        """Ctrl-C for what still runs; its cells stay in the working folder."""
        for started in self._started:
            started.process.send_signal(signal.SIGINT)
        for started in self._started:
            try:
                started.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                started.process.kill()
                started.process.wait()
            if self.partial and (self.work / started.run.file).exists():
                self._publish(started, " (stopped by the clock)")


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _date() -> str:
    return time.strftime("%Y-%m-%d")


def chosen(names: list[str], parser: argparse.ArgumentParser) -> list[Run]:
    """The runs of these names, in the order of the plan."""
    known = [run.name for run in PLAN]
    for name in names:
        if name not in known:
            parser.error(f"no run {name!r}; accepted are {', '.join(known)}")
    return [run for run in PLAN if run.name in names]


def main(arguments: list[str] | None = None) -> int:
    """Run, publish, then write tables, figures and README."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all", description=__doc__)
    parser.add_argument("--runs", type=listed, default=[run.name for run in PLAN], metavar="A,B")
    parser.add_argument("--jobs", type=int, default=2, help="cores to use")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop then")
    parser.add_argument("--partial", action="store_true", help="publish stopped runs too")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--running", type=Path, default=RUNNING, metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="print the plan, run nothing")
    options = parser.parse_args(arguments)
    runs = chosen(options.runs, parser)
    if options.list:
        for run in runs:
            print(f"{run.core_minutes:5.0f} core-minutes  {words_of(run, options.jobs)}")
        print(f"{sum(run.core_minutes for run in runs):5.0f} core-minutes in all")
        return 0
    work = options.running / code_commit()
    work.mkdir(parents=True, exist_ok=True)
    (options.results / "machine.txt").write_text(describe_machine() + "\n", encoding="utf-8")
    deadline = time.monotonic() + 60 * options.minutes
    left = Driver(work, options.results, options.jobs, deadline, options.partial).go(runs)
    for words in AFTERWARDS if options.results == RESULTS else ():
        subprocess.run([sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]], cwd=ROOT)
    if left:
        print(f"not finished: {', '.join(left)}; the same command goes on", flush=True)
    else:
        shutil.rmtree(work)
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
