"""Run cells of a benchmark in worker processes and append their rows to a CSV file.

A cell whose key is in the file is not run again. A worker that dies or overruns costs only its cell.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TextIO

from pine_boost.errors import PineBoostError

Row = Mapping[str, Any]
RESULTS = Path(__file__).resolve().parent / "results"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Job:
    """A cell and the text of its key columns, by which a finished one is known."""

    key: tuple[str, ...]
    cell: Any


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Lines of a results file as text; empty if there is none."""
    if not Path(path).exists():
        return []
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def finished_keys(path: Path, key_columns: Sequence[str]) -> set[tuple[str, ...]]:
    """Keys that a results file holds already."""
    return {tuple(row[c] for c in key_columns) for row in read_rows(path)}


def rows_of(path: Path, jobs: Iterable[Job], key_columns: Sequence[str]) -> list[dict[str, str]]:
    """Lines of a results file that are about these cells."""
    keys = {job.key for job in jobs}
    return [row for row in read_rows(path) if tuple(row[c] for c in key_columns) in keys]


def check_columns(path: Path, columns: Sequence[str]) -> None:
    """Refuse to append to a file with other columns."""
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file), [])
    if header != list(columns):
        raise SystemExit(
            f"{path} has the columns {', '.join(header)}; this benchmark writes "
            f"{', '.join(columns)}. Name another file with --out."
        )


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Append lines, with a header if the file is new, and flush them to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())


def show_and_replace(path: Path, columns: Sequence[str], rows: Iterable[Row], format_row: Callable[[Any], str]) -> None:
    """Print lines as they come; all of them take the place of an earlier run's."""
    shown = []
    for row in rows:
        shown.append(row)
        print(format_row(row), flush=True)
    path.unlink(missing_ok=True)
    append_rows(path, columns, shown)


def run_jobs(
    function: Callable[[Any], Sequence[Row]],
    jobs: Sequence[Job],
    out: Path,
    columns: Sequence[str],
    key_columns: Sequence[str],
    *,
    n_workers: int = 1,
    hard_limit: float = 3600.0,
    memory_limit: float | None = None,
    on_failure: Callable[[Any, str], Sequence[Row]] | None = None,
) -> int:
    """Run what is not in the file yet; returns the number of failed cells.

    Parameters
    ----------
    function : callable
        From a cell to its rows; importable, because it runs in another process.
    n_workers : int
        Processes, one thread each; 0 runs in this process (for tests and debugging).
    hard_limit : float
        Seconds after which a worker is ended; above the time limit that the cell itself keeps.
    memory_limit : float, optional
        Gigabytes of address space per worker.
    on_failure : callable, optional
        Rows to write for a cell that failed; without it nothing is written and a rerun retries.
    """
    check_columns(out, columns)
    done = finished_keys(out, key_columns)
    todo = [job for job in jobs if job.key not in done]
    progress = Progress(len(jobs), len(jobs) - len(todo))
    failures = 0

    def finish(job: Job, rows: Sequence[Row] | None, error: str) -> None:
        nonlocal failures
        if rows is None:
            failures += 1
            progress.note(f"FAILED {' '.join(job.key)}: {error}")
            rows = on_failure(job.cell, error) if on_failure else []
        append_rows(out, columns, rows)
        progress.step(" ".join(job.key))

    if n_workers == 0:
        for job in todo:
            finish(job, *_attempt(function, job.cell))
    else:
        _run_in_processes(function, todo, finish, n_workers, hard_limit, memory_limit)
    progress.close()
    return failures


def _attempt(function: Callable[[Any], Sequence[Row]], cell: Any) -> tuple[Sequence[Row] | None, str]:
    try:
        return function(cell), ""
    except Exception as error:
        if not isinstance(error, (MemoryError, PineBoostError)):  # these two explain themselves
            traceback.print_exc()
        return None, f"{type(error).__name__}: {error}".strip().splitlines()[0]


def _work(connection: Connection, function: Any, memory_limit: float | None) -> None:
    """Body of a worker: cells in, rows out, until the pipe closes."""
    if memory_limit is not None:
        import resource

        limit = int(memory_limit * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    while True:
        try:
            cell = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        connection.send(_attempt(function, cell))


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: Job
    deadline: float


def _run_in_processes(
    function: Any,
    todo: Sequence[Job],
    finish: Callable[[Job, Sequence[Row] | None, str], None],
    n_workers: int,
    hard_limit: float,
    memory_limit: float | None,
) -> None:
    os.environ.update(ONE_THREAD)
    # fork would copy OpenMP's threads half; spawn starts clean
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(todo))
    workers: list[_Worker] = []

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, function, memory_limit), daemon=True)
        process.start()
        theirs.close()
        hand_over(_Worker(process, ours, waiting[-1], 0.0))

    def hand_over(worker: _Worker) -> None:
        worker.job, worker.deadline = waiting.pop(), time.monotonic() + hard_limit
        worker.connection.send(worker.job.cell)
        workers.append(worker)

    try:
        while waiting or workers:
            while waiting and len(workers) < n_workers:
                start()
            nearest = min(worker.deadline for worker in workers) - time.monotonic()
            ready = wait([worker.connection for worker in workers], max(0.1, nearest))
            for worker in list(workers):
                overran = time.monotonic() > worker.deadline
                if worker.connection not in ready and not overran:
                    continue
                workers.remove(worker)
                rows, error, alive = _collect(worker, worker.connection in ready)
                finish(worker.job, rows, error)
                if alive and waiting:
                    hand_over(worker)
                else:
                    _end(worker)
    finally:
        for worker in workers:
            _end(worker)


def _collect(worker: _Worker, is_ready: bool) -> tuple[Sequence[Row] | None, str, bool]:
    if not is_ready:
        return None, "hard time limit", False
    try:
        rows, error = worker.connection.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join()
        return None, f"the worker died (exit code {worker.process.exitcode})", False
    return rows, error, True


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.terminate()
    worker.process.join()


class Progress:
    """A bar on a terminal, plain lines elsewhere; always on standard error."""

    def __init__(self, total: int, done: int, stream: TextIO | None = None) -> None:
        self.total, self.done, self.first = total, done, done
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        self.started = time.monotonic()
        if done:
            self.note(f"{done} of {total} cells are in the file already")

    def note(self, text: str) -> None:
        """A line of its own."""
        self.stream.write(f"\r\033[K{text}\n" if self.is_terminal else f"{text}\n")
        self.stream.flush()

    def step(self, name: str) -> None:
        """One more cell is done."""
        self.done += 1
        spent = time.monotonic() - self.started
        left = spent / (self.done - self.first) * (self.total - self.done)
        share = self.done / self.total
        text = f"{self.done}/{self.total} {spent:.0f} s, about {left:.0f} s left, {name}"
        if self.is_terminal:
            bar = "#" * int(24 * share) + "." * (24 - int(24 * share))
            self.stream.write(f"\r\033[K[{bar}] {text[:90]}")
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the bar's line."""
        if self.is_terminal:
            self.stream.write("\n")
