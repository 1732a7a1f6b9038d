"""Run a fleet: a list of jobs, joblib's loop over them, a summary table, and resume.

A job's folder appears complete or not at all. An error becomes a row of the summary and stops no
other job. A job is done if its folder holds a result for the same inputs and options.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import socket
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pine_boost import json_fields as f
from pine_boost._version import __version__
from pine_boost.budget import StopReason, finishing
from pine_boost.certificate.saved import digests, table_csv
from pine_boost.errors import InvalidInputError, MissingDependencyError, PineBoostError, install_with
from pine_boost.files import file_digest, path_of, read_limited, require_free_file, save_file
from pine_boost.folders import owned_in, remove_leftovers, require_writable, write_folder
from pine_boost.notebooks import displayed
from pine_boost.options import METHODS, Option, counted, fleet_options, option_of
from pine_boost.report.pages import beginning_of, render

RECORD = "job.json"
FORMAT = "pine_boost fleet job"
FAILED, NOT_RUN = "FAILED", "NOT_RUN"
_GOOD = ("CERTIFIED", "VALIDATED", "NON_INFERIOR")
TABLES = {"prune": ("fit", "cal"), "compress": ("fit", "val"), "accelerate": ("fit", "val")}
SUMMARIES = SUMMARY_CSV, SUMMARY_HTML = "summary.csv", "summary.html"
FILES = ("domain", "spent")  # options that name a file
_SIZES = ("trees_before", "trees_after", "leaves_before", "leaves_after")
_PATHS = ("model", "fit", "cal", "val")
_LIST_LIMIT = 2**26
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MODEL_SUFFIXES = (".json", ".ubj", ".txt", ".pkl", ".pickle", ".joblib")


@dataclass(frozen=True)
class Job:
    """One model to make smaller or faster.

    Attributes
    ----------
    name : str
        Name of the job and of its folder in the output.
    model, fit : str
        Paths of the model file and of the rows to fit on.
    cal, val : str
        Paths of the unseen rows to calibrate on (prune) or to validate on (compress, accelerate).
    options : mapping
        The job's own options, which take precedence over those for all jobs.
    """

    name: str
    model: str
    fit: str = ""
    cal: str = ""
    val: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, str]:
        """Paths by what they are, without those that were not given."""
        return {what: path for what in _PATHS if (path := getattr(self, what))}


def read_jobs(path: str | os.PathLike[str]) -> tuple[Job, ...]:
    """Read a list of jobs.

    Parameters
    ----------
    path : path
        A CSV file with the columns ``name, model`` and as needed ``fit, cal, val`` and the names
        of options, paths relative to the file; or a folder that holds a folder for each job, with
        files called ``model.*``, ``fit.*``, ``cal.*`` and ``val.*``.

    Returns
    -------
    tuple of Job

    Raises
    ------
    InvalidInputError
        There are no jobs, columns are unknown, or names are not unique or not plain.
    """
    path = path_of(path, "list of jobs")
    return check_jobs(_from_folder(path) if path.is_dir() else _from_csv(path))


def check_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs with absolute paths; raises for a list that cannot be run.

    A file that does not exist fails when its job is run, and stops no other job.
    """
    jobs = tuple(jobs)
    if not jobs:
        raise InvalidInputError("There are no jobs in the list.")
    seen: dict[str, str] = {}
    for job in jobs:
        if not isinstance(job, Job):
            raise InvalidInputError(f"jobs must be a path or Jobs, got {job!r:.60}.")
        if not (isinstance(job.name, str) and _NAME.fullmatch(job.name)):
            raise InvalidInputError(
                f"Job {job.name!r}: a name becomes a folder, so it must consist of up to 100 letters, digits, '.', '_' "
                "and '-' and begin with a letter or digit."
            )
        if job.name.lower() in SUMMARIES:
            raise InvalidInputError(f"Job {job.name!r}: the summary of the fleet has this name; choose another.")
        if job.name.lower() in seen:
            raise InvalidInputError(
                f"Two jobs are called {seen[job.name.lower()]!r} and {job.name!r}; names must be unique, ignoring case."
            )
        seen[job.name.lower()] = job.name
    # a worker may have been started in another folder
    return tuple(_absolute(job) for job in jobs)


def absolute_files(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with absolute paths."""
    if not isinstance(options, Mapping):
        raise InvalidInputError(f"options must be a mapping of names to values, got {options!r:.60}.")
    named = {name: value for name in FILES if isinstance(value := options.get(name), (str, os.PathLike))}
    return {**options, **{name: os.path.abspath(path) for name, path in named.items()}}


def _absolute(job: Job) -> Job:
    paths: dict[str, Any] = {what: os.path.abspath(path_of(path, what)) for what, path in job.inputs.items()}
    return replace(job, **paths, options=absolute_files(job.options))


def _from_csv(path: Path) -> list[Job]:
    contents = read_limited(path, _LIST_LIMIT, "list of jobs", InvalidInputError)
    try:
        lines = csv.DictReader(io.StringIO(contents.decode("utf-8-sig")), strict=True)
        rows = list(lines)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} is not a CSV file of jobs: {error}.") from error
    columns = list(lines.fieldnames or ())
    known = {name: option_of("", name) for method in METHODS for name in fleet_options(method)}
    unknown = [column for column in columns if column not in ("name", *_PATHS, *known)]
    if unknown or "name" not in columns or "model" not in columns:
        raise InvalidInputError(
            f"{path} has the columns {', '.join(map(str, columns)) or 'none'}; name and model are needed, accepted are "
            f"name, {', '.join(_PATHS)} and the options {', '.join(known)}."
        )
    jobs = []
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise InvalidInputError(f"{path}, line {number}: not as many cells as columns.")
        cells = {column: cell.strip() for column, cell in row.items() if cell.strip()}
        for column in ("name", "model"):
            if column not in cells:
                raise InvalidInputError(f"{path}, line {number}: {column} is empty.")
        base = path.resolve().parent
        cells |= {what: str(base / cells[what]) for what in (*_PATHS, *FILES) if what in cells}
        options = {n: _value(known[n], cells.pop(n), f"{path}, line {number}") for n in known if n in cells}
        jobs.append(Job(**cells, options=options))
    return jobs


def _value(option: Option, cell: str, where: str) -> Any:
    """The value of an option in a cell; several thresholds have spaces between them."""
    name = option.name
    try:
        if option.default is False:
            return {"true": True, "false": False}[cell.lower()]
        values = tuple(option.parse(part) for part in cell.split()) if name == "threshold" else (option.parse(cell),)
    except (ValueError, KeyError) as error:
        raise InvalidInputError(f"{where}: {name} must not be {cell!r}.", option=name) from error
    return values[0] if len(values) == 1 else values


def _from_folder(path: Path) -> Iterator[Job]:
    for folder in sorted(entry for entry in path.resolve().iterdir() if entry.is_dir()):
        found: dict[str, Any] = {}
        for file in sorted(folder.iterdir()):
            what = file.stem
            if what not in _PATHS or (what == "model" and file.suffix not in _MODEL_SUFFIXES):
                continue
            if what in found:
                raise InvalidInputError(
                    f"{folder} has several files for {what}: {Path(found[what]).name}, {file.name}."
                )
            found[what] = str(file)
        if "model" in found or "fit" in found:  # else a folder of something else
            yield Job(folder.name, **{"model": "", **found})


@dataclass(frozen=True)
class Policy:
    """What is done to every model.

    Attributes
    ----------
    method : {"prune", "compress", "accelerate"}
    options : mapping
        Options for all jobs; plain JSON values.
    trust_pickle : bool
    reports : bool
        Whether every job gets a report.html.
    """

    method: str = "prune"
    options: Mapping[str, Any] = field(default_factory=dict)
    trust_pickle: bool = False
    reports: bool = False

    def of(self, job: Job) -> dict[str, Any]:
        """The options of one job."""
        return {**self.options, **job.options}


@dataclass(frozen=True)
class Row:
    """One line of the summary.

    Attributes
    ----------
    name : str
    status : str
        That of the result, ``FAILED``, or ``NOT_RUN`` if the run was interrupted.
    trees_before, trees_after, leaves_before, leaves_after : int or None
    seconds : float
        Of the run that made the result.
    done_before : bool
        Whether an earlier run had done it.
    where : str
        Machine and process.
    error : str
    """

    name: str
    status: str
    trees_before: f.Count | None = None
    trees_after: f.Count | None = None
    leaves_before: f.Count | None = None
    leaves_after: f.Count | None = None
    seconds: f.Size = 0.0
    done_before: bool = False
    where: str = ""
    error: str = ""


# job.json: what was asked for, decided by `_asked`, and what came of it
_FIELDS: dict[str, f.Reader] = {
    "inputs": f.mapping(f.digest),
    "method": f.text(METHODS),
    "options": f.mapping(f.anything),
    "reports": f.flag,
    "row": f.record_of(Row),
    "files": f.mapping(f.digest),
}
# how both summaries begin, by which a later run recognises its own
_STARTS = {SUMMARY_CSV: ",".join(entry.name for entry in fields(Row)).encode(), SUMMARY_HTML: beginning_of("Fleet: ")}


@displayed
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
        counts = Counter(row.status for row in self.rows)
        listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        again = sum(row.done_before for row in self.rows)
        return f"{counted(len(self.rows), 'job')}: {listed}{f' ({again} done before)' if again else ''}"


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
    callback: Callable[[Row, int, int], None] | None = None,
) -> FleetResult:
    """Make many models smaller, with one policy and per-job options.

    Every job writes a folder of its own, complete or not at all. A job is done if its folder holds
    a result for the same inputs (by digest) and the same options, with all files unchanged: the
    same call after an interruption does only the rest. A job that fails, or whose process dies,
    becomes a row of the summary and stops no other. Ctrl-C ends the whole run; jobs that were
    running then are not done.

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
        The list, the method or an option cannot be run.
    OutputError
        The folder cannot be written.
    MissingDependencyError
        joblib, or Dask for ``dask``, is not installed.
    KeyboardInterrupt
        After Ctrl-C, once the summary is written; it says how far the run came.
    """
    given = {"method": method, "n_jobs": n_jobs, "dask": dask, "trust_pickle": trust_pickle, "reports": reports}
    for name, value in (given | {"callback": callback}).items():
        option_of("run_fleet", name).require(value)
    if isinstance(jobs, (str, os.PathLike)):
        listed = read_jobs(jobs)
    else:
        listed = check_jobs(jobs if isinstance(jobs, Iterable) else [jobs])
    policy = Policy(method, absolute_files({} if options is None else options), trust_pickle, reports)
    _check_options(policy, listed)
    folder = path_of(folder)
    require_writable(folder)
    for name, start in _STARTS.items():
        remedy = "it is not the summary of a fleet: choose another folder"
        require_free_file(folder / name, beginning=start, remedy=remedy)
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
    finally:  # an interrupted run has a summary too
        order = {FAILED: 0, NOT_RUN: 1, "NOT_CERTIFIED": 2, "NOT_VALIDATED": 2}
        found = [rows.get(job.name, Row(job.name, NOT_RUN)) for job in listed]
        result = FleetResult(folder, tuple(sorted(found, key=lambda row: (order.get(row.status, 3), row.name))))
        save_file(folder / SUMMARY_CSV, table_csv([asdict(row) for row in result.rows]))
        save_file(folder / SUMMARY_HTML, _summary_page(result.rows, policy).encode())
    if is_interrupted:
        raise KeyboardInterrupt(result.summary())
    return result


def _check_options(policy: Policy, jobs: Iterable[Job]) -> None:
    """Raise for options that the method does not have or accept, or that cannot be written down."""
    known = fleet_options(policy.method)
    for where, options in [("options", policy.options), *((f"Job {job.name!r}", job.options) for job in jobs)]:
        odd = sorted(set(options) - set(known))
        if odd:
            raise InvalidInputError(f"{where}: {policy.method} does not have {odd!r}; it has {', '.join(known)}.")
        try:
            json.dumps(dict(options), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{where}: a value cannot be written down ({error}); use numbers, text, lists and paths, so that a "
                "later run can tell whether a job is done."
            ) from error
    for name, value in policy.options.items():  # a job's own values fail with the job
        option_of(f"{policy.method}_booster", name).require(value)


def _rows(jobs: tuple[Job, ...], folder: str, policy: Policy, n_jobs: int, dask: str | None) -> Iterator[Row]:
    """Rows as they come. A process that dies takes only its own job with it."""
    try:
        import joblib
    except ImportError as error:
        raise MissingDependencyError(f"A fleet needs joblib; {install_with('fleet')}") from error
    left = {job.name: job for job in jobs}
    with _backend(joblib, dask):
        try:
            for row in _parallel(joblib, jobs, folder, policy, n_jobs):
                del left[row.name]
                yield row
        except (Exception, CancelledError) as error:  # a worker died, and the pool with it
            for job in list(left.values()):
                yield _alone(joblib, job, folder, policy, error)


def _backend(joblib: Any, address: str | None) -> AbstractContextManager[Any]:
    """The workers of a Dask cluster, or joblib's current backend."""
    if address is None:
        return nullcontext()
    try:
        import distributed  # noqa: F401  # registers the backend

        cluster: AbstractContextManager[Any] = joblib.parallel_config("dask", scheduler_host=address)
    except ImportError as error:
        raise MissingDependencyError(f"A cluster needs dask and distributed; {install_with('dask')}") from error
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"No Dask scheduler answers at {address!r} ({error}); start one with dask scheduler.", option="dask"
        ) from error
    return cluster


def _parallel(joblib: Any, jobs: Iterable[Job], folder: str, policy: Policy, n_jobs: int) -> Iterator[Row]:
    parallel = joblib.Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    rows: Iterator[Row] = parallel(joblib.delayed(_run_or_stop)(run_job, job, folder, policy) for job in jobs)
    return rows


def _run_or_stop(run: Callable[..., Row], job: Job, folder: str, policy: Policy) -> Row:
    """One job in a worker; Ctrl-C there ends the pool and what waits for it."""
    row = run(job, folder, policy)
    if row.status == NOT_RUN:
        raise KeyboardInterrupt
    return row


def _alone(joblib: Any, job: Job, folder: str, policy: Policy, cause: BaseException) -> Row:
    """One job by itself, after the death of another stopped the pool."""
    try:
        # two workers, because joblib runs a single one in this process
        (row,) = _parallel(joblib, [job], folder, policy, 2)
    except (Exception, CancelledError) as error:  # it was this one
        died = RuntimeError(f"its process died ({type(error).__name__}); out of memory, or a crash in a library")
        return _failed(job, died, f"after {type(cause).__name__}")
    return row


def run_job(job: Job, folder: str, policy: Policy) -> Row:
    """Run one job, or find that it has been done; an error becomes a row."""
    started = time.monotonic()
    row = Row(job.name, FAILED, where=f"{socket.gethostname()}:{os.getpid()}")
    target = Path(folder) / job.name
    try:
        asked = _asked(job, policy)
        if (done := _read_done(target, asked)) is not None:
            return done
        remove_leftovers(target)
        with finishing(ignored=0) as presses:  # the search alone would keep its best so far
            result, files = _make_smaller(job, policy)
            if presses or result.stopped == StopReason.INTERRUPTED:
                raise KeyboardInterrupt
        sizes = result.side_by_side.by_name()
        row = replace(_timed(row, started), status=result.status, **{name: sizes[name] for name in _SIZES})
        if (done := _read_done(target, asked)) is not None:  # by a worker that was believed lost
            return done
        record = f.write_document({**asked, "row": asdict(row), "files": digests(files)}, FORMAT, sealed=True)
        write_folder(target, {**files, RECORD: (json.dumps(record, indent=1, sort_keys=True) + "\n").encode()})
    except KeyboardInterrupt:  # the best answer by then is not the one that was asked for
        return _timed(Row(job.name, NOT_RUN, where=row.where, error="interrupted"), started)
    except Exception as error:
        return _timed(_failed(job, error, row.where), started)
    return row


def _timed(row: Row, started: float) -> Row:
    return replace(row, seconds=round(time.monotonic() - started, 3))


def _failed(job: Job, error: BaseException, where: str) -> Row:
    text = " ".join(str(error).split())[:2000]
    if not isinstance(error, PineBoostError):
        text = f"{type(error).__name__}: {text}"
    return Row(job.name, FAILED, where=where, error=text)


def _asked(job: Job, policy: Policy) -> dict[str, Any]:
    """What decides the result, as it comes back from JSON; a done job must have had the same."""
    needed = () if policy.method == "accelerate" else TABLES[policy.method]
    options = policy.of(job)
    paths = job.inputs | {name: str(options[name]) for name in FILES if options.get(name) is not None}
    for what, path in paths.items():
        if not Path(path).exists():
            raise InvalidInputError(f"{what} {path} does not exist; correct the path and run the fleet again.")
    for what in ("model", *needed):
        if what not in job.inputs:
            raise InvalidInputError(f"The job has no {what}; {policy.method} needs {', '.join(('model', *needed))}.")
    inputs = {what: _digest(Path(path)) for what, path in sorted(paths.items())}
    asked = {"inputs": inputs, "method": policy.method, "options": options, "reports": policy.reports}
    plain: dict[str, Any] = json.loads(json.dumps(asked))
    return plain


def _make_smaller(job: Job, policy: Policy) -> tuple[Any, dict[str, bytes]]:
    """The result and its files."""
    import pine_boost
    from pine_boost.pipelines.unwrapping import read_given
    from pine_boost.region.domain import read_domain
    from pine_boost.report.prune_report import render_report

    method, options = policy.method, policy.of(job)
    if options.get("domain") is not None:
        options["domain"] = read_domain(options["domain"])
    threshold, decision = options.get("threshold"), "class" if method == "prune" else "value"
    given = read_given(job.model, threshold=threshold, trust_pickle=policy.trust_pickle, decision=decision)
    given.require_writable()
    fit, unseen = (getattr(job, what) for what in TABLES[method])
    label = options.pop("label", None)
    X_fit = given.read_rows(fit, label) if fit else None
    if label is not None:
        labelled = given.read_table(unseen, label)
        X_unseen, options["y_val"] = labelled.X, labelled.y
    else:
        X_unseen = given.read_rows(unseen) if unseen else None
    result = getattr(pine_boost, f"{method}_booster")(given.source, X_fit, X_unseen, verbose=False, **options)
    files = result.files(X_unseen) if policy.reports and method == "compress" else result.files()
    if policy.reports and method == "prune":
        files["report.html"] = render_report(getattr(result, "inner", result)).encode()
    return result, files


def _read_done(target: Path, asked: Mapping[str, Any]) -> Row | None:
    """The row of a job that is done: same inputs and options, all files there and unchanged."""
    try:
        record = f.read_sealed((target / RECORD).read_bytes(), FORMAT, _FIELDS)
    except (OSError, f.FieldError):
        return None
    if {key: record[key] for key in asked} != asked or record["row"].name != target.name:
        return None
    if not set(record["files"]) <= owned_in(target, RECORD):
        return None
    row: Row = record["row"]
    return replace(row, done_before=True)


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder."""
    if path.is_dir():
        inside = sorted(entry for entry in path.rglob("*") if entry.is_file())
        listed = "".join(f"{file.relative_to(path).as_posix()}\n{_digest(file)}\n" for file in inside)
        return hashlib.sha256(listed.encode()).hexdigest()
    return file_digest(path)


def _summary_page(rows: tuple[Row, ...], policy: Policy) -> str:
    good = [row for row in rows if row.status in _GOOD]
    before, after = (sum(getattr(row, f"leaves_{when}") or 0 for row in good) for when in ("before", "after"))
    options = ", ".join(f"{name}={value}" for name, value in sorted(policy.options.items()))
    return render(
        "fleet.html",
        f"Fleet: {len(rows)} models",
        rows=[asdict(row) for row in rows],
        failed=[(row.name, row.error) for row in rows if row.status == FAILED],
        good=_GOOD,
        n_good=len(good),
        shrunk=f", {before:,} → {after:,} leaves in all" if before else "",
        what=f"{policy.method} {options}".strip(),
        version=__version__,
    )
