"""A fleet: many jobs, a few processes or a cluster, one summary.

In come jobs, an output folder and a policy; out go a folder per job, summary.csv and summary.html.
joblib does the scheduling here, Dask on a cluster; what is done already is not done again.
"""

from __future__ import annotations

import os
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pine_boost.errors import InvalidInputError, MissingDependencyError
from pine_boost.files import clear_errors, require_writable, write_file
from pine_boost.fleet.jobs import SUMMARY_CSV, SUMMARY_HTML, Job, check_jobs, read_jobs
from pine_boost.fleet.page import CSV_START, PAGE_START, summary_csv, summary_page
from pine_boost.fleet.work import FAILED, NOT_RUN, Policy, Row, failed_row, run_job
from pine_boost.options import counted

CONNECT_SECONDS = 20
METHODS = ("prune", "compress")
Progress = Callable[[Row, int, int], None]


@dataclass(frozen=True)
class FleetResult:
    """All rows of a fleet, failures first.

    Attributes
    ----------
    folder : Path
    rows : tuple of Row
    """

    folder: Path
    rows: tuple[Row, ...]

    @property
    def failed(self) -> tuple[Row, ...]:
        """Jobs that failed."""
        return tuple(row for row in self.rows if row.status == FAILED)

    @property
    def ok(self) -> bool:
        """Whether no job failed."""
        return not self.failed

    def summary(self) -> str:
        """One line."""
        counts: dict[str, int] = {}
        for row in self.rows:
            counts[row.status] = counts.get(row.status, 0) + 1
        listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        again = sum(row.done_before for row in self.rows)
        done = f" ({again} done before)" if again else ""
        return f"{counted(len(self.rows), 'job')}: {listed}{done}"


def run_fleet(
    jobs: str | os.PathLike[str] | Iterable[Job],
    folder: str | os.PathLike[str],
    *,
    method: str = "prune",
    options: Mapping[str, Any] | None = None,
    n_jobs: int = -1,
    dask: str | None = None,
    trust_pickle: bool = False,
    reports: bool = False,
    callback: Progress | None = None,
) -> FleetResult:
    """Make many models smaller with one policy.

    Every job writes a folder of its own, complete or not at all. A job is done when its folder
    holds a result for the same inputs (by digest) and the same policy, with all files unchanged:
    run the same call again after an interruption and only the rest is done. A job that fails, or
    whose process dies, becomes a row of the summary and stops no other. Ctrl-C ends the whole run;
    jobs that are under way then are not done.

    Parameters
    ----------
    jobs : path or iterable of Job
        What `read_jobs` reads, or the jobs themselves.
    folder : path
        Where the folders of the jobs, summary.csv and summary.html are written.
    method : {"prune", "compress", "accelerate"}
        What is done to every model.
    options : mapping, optional
        Options of the method for all jobs, plain values; a job's own options take precedence.
    n_jobs : int
        Number of processes on this machine, -1 for one per core. It is not used on a cluster.
    dask : str, optional
        Address of a Dask scheduler to run on; its workers must see the same files under the same
        paths. Without it joblib's current backend is used (``joblib.parallel_config("dask")``
        works).
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.
    reports : bool
        Write a report.html for every job, which takes some seconds each.
    callback : callable, optional
        Called with a row, the number of jobs done and the number of all jobs.

    Returns
    -------
    FleetResult

    Raises
    ------
    InvalidInputError
        The list, the method or an option is not one that could be run.
    OutputError
        The folder cannot be written.
    MissingDependencyError
        joblib, or for ``dask`` its distributed scheduler, is not installed.
    KeyboardInterrupt
        After Ctrl-C, once the summary is written; it says how far the run came.
    """
    listed = read_jobs(jobs) if isinstance(jobs, (str, os.PathLike)) else check_jobs(jobs)
    if method not in METHODS:
        raise InvalidInputError(f"method={method!r}: 'prune' and 'compress' are accepted.")
    policy = Policy(method, dict(options or {}), bool(trust_pickle), bool(reports))
    _check_policy(policy)
    folder = Path(folder)
    require_writable(folder)
    _require_own_summaries(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Row] = {}
    is_interrupted = False
    try:
        for row in _rows(listed, str(folder.resolve()), policy, n_jobs, dask):
            rows[row.name] = row
            if callback is not None:
                callback(row, len(rows), len(listed))
    except KeyboardInterrupt:
        is_interrupted = True
    finally:  # an interrupted run still says how far it came
        for job in listed:
            rows.setdefault(job.name, Row(job.name, NOT_RUN))
        found = FleetResult(folder, _sorted(rows[job.name] for job in listed))
        with clear_errors(folder):
            write_file(folder / SUMMARY_CSV, summary_csv(found.rows))
            write_file(folder / SUMMARY_HTML, summary_page(found.rows, policy).encode())
    if is_interrupted:
        raise KeyboardInterrupt(found.summary())
    return found


def _require_own_summaries(folder: Path) -> None:
    """Refuse to replace a summary that no fleet wrote; asked before any work."""
    for name, start in ((SUMMARY_CSV, CSV_START), (SUMMARY_HTML, PAGE_START)):
        path = folder / name
        if not os.path.lexists(path):
            continue
        if not path.is_file() or not path.read_bytes()[: len(start)] == start:
            raise InvalidInputError(f"{path} is not the summary of a fleet and would be replaced; name another folder.")


def _check_policy(policy: Policy) -> None:
    import inspect
    import json

    from pine_boost.compress import compress_booster
    from pine_boost.prune import prune_booster

    takes = inspect.signature(prune_booster if policy.method == "prune" else compress_booster)
    known = [name for name, p in takes.parameters.items() if p.kind is p.KEYWORD_ONLY]
    known.remove("trust_pickle")  # that of the fleet
    odd = sorted(set(policy.options) - set(known))
    if odd:
        raise InvalidInputError(f"options={odd!r}: {policy.method} takes {', '.join(known)}.")

    try:
        json.dumps(policy.describe(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"options hold something that cannot be written down ({error}); plain numbers, text "
            "and lists are accepted, so that a later run can tell whether a job is done."
        ) from error
    if policy.options.get("callback") is not None:
        raise InvalidInputError("A callback cannot be handed to other processes; leave it out.")


def _rows(jobs: tuple[Job, ...], folder: str, policy: Policy, n_jobs: int, dask: str | None) -> Iterator[Row]:
    """Rows as they come. A process that dies takes only its own job with it."""
    if dask is not None:
        yield from _on_cluster(dask, jobs, folder, policy)
        return
    try:
        import joblib
    except ImportError as error:
        raise MissingDependencyError("A fleet needs joblib; install it with: pip install joblib") from error
    left = {job.name: job for job in jobs}
    try:
        for row in _parallel(joblib, jobs, folder, policy, n_jobs):
            del left[row.name]
            yield row
    except Exception as error:  # a pool whose process died, or a job that killed its workers
        for job in list(left.values()):
            yield _alone(joblib, job, folder, policy, error)


def _parallel(joblib: Any, jobs: Iterable[Job], folder: str, policy: Policy, n_jobs: int) -> Iterator[Row]:
    parallel = joblib.Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    call = joblib.delayed(_run_or_stop)
    rows: Iterator[Row] = parallel(call(run_job, job, folder, policy) for job in jobs)
    yield from rows


def _run_or_stop(run: Callable[..., Row], job: Job, folder: str, policy: Policy) -> Row:
    """One job, in whatever process; Ctrl-C there ends the pool and what waits for it."""
    row = run(job, folder, policy)
    if row.status == NOT_RUN:
        raise KeyboardInterrupt
    return row


def _alone(joblib: Any, job: Job, folder: str, policy: Policy, cause: Exception) -> Row:
    """One job in a process of its own, after the death of another stopped the pool."""
    try:
        # two workers, because joblib runs a single one in this process
        (row,) = _parallel(joblib, [job], folder, policy, 2)
    except Exception as error:  # it was this one
        return failed_row(job, _died(error), 0.0, f"after {type(cause).__name__}")
    return row


def _died(error: BaseException) -> RuntimeError:
    what = type(error).__name__
    return RuntimeError(f"its process died ({what}); out of memory, or a crash in a library")


def _on_cluster(address: str, jobs: tuple[Job, ...], folder: str, policy: Policy) -> Iterator[Row]:
    """Rows from the workers of a Dask cluster, which itself runs a lost job on another one."""
    try:
        from dask.distributed import Client, as_completed
    except ImportError as error:
        raise MissingDependencyError(
            'A cluster needs dask and distributed; install them with: pip install "pine-boost[dask]"'
        ) from error
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"No Dask scheduler answers at {address!r} ({error}); start one with dask scheduler."
        ) from error
    with client:
        # not pure: equal calls are asked for anew, whatever the cluster remembers
        waiting = {client.submit(run_job, job, folder, policy, pure=False): job for job in jobs}
        for future in as_completed(list(waiting)):
            job = waiting.pop(future)
            try:
                row: Row = future.result()
            except (Exception, CancelledError) as error:  # it killed every worker it was given to
                row = failed_row(job, _died(error), 0.0, "a worker of the cluster")
            yield row


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Failures first, then what promises nothing, then the rest; by name within."""
    order = {FAILED: 0, NOT_RUN: 1, "NOT_CERTIFIED": 2, "NOT_VALIDATED": 2}
    return tuple(sorted(rows, key=lambda row: (order.get(row.status, 3), row.name)))
