"""One job, in whatever process: run it, or find that it has been done.

In come a Job, the output folder and the policy; out goes one row of the summary. A job's folder
appears complete or not at all; an error becomes a row and never stops the others. After Ctrl-C
nothing is written: the best answer by then is not the one that was asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pine_boost.errors import InvalidInputError, PineBoostError
from pine_boost.files import UNFINISHED, write_folder
from pine_boost.fleet.jobs import Job, require_inputs
from pine_boost.json_fields import FieldError, parse

RECORD = "job.json"
FORMAT = "pine_boost fleet job"
FAILED = "FAILED"
NOT_RUN = "NOT_RUN"


@dataclass(frozen=True)
class Policy:
    """What is done to every model.

    Attributes
    ----------
    method : {"prune", "compress"}
    options : mapping
        Keyword arguments of `prune_booster` or `compress_booster`; plain JSON values.
    trust_pickle : bool
    reports : bool
        Whether every job gets a report.html.
    """

    method: str = "prune"
    options: Mapping[str, Any] = field(default_factory=dict)
    trust_pickle: bool = False
    reports: bool = False

    def describe(self) -> dict[str, Any]:
        """What decides the result, as plain data; a done job must have had the same."""
        return {"method": self.method, "options": dict(sorted(self.options.items())), "reports": self.reports}


@dataclass(frozen=True)
class Row:
    """One line of the summary.

    Attributes
    ----------
    name : str
    status : str
        That of the result, ``FAILED``, or ``NOT_RUN`` where the run was interrupted.
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
    trees_before: int | None = None
    trees_after: int | None = None
    leaves_before: int | None = None
    leaves_after: int | None = None
    seconds: float = 0.0
    done_before: bool = False
    where: str = ""
    error: str = ""


def run_job(job: Job, folder: str, policy: Policy) -> Row:
    """Run one job; never raises for what is the matter with the job."""
    started = time.monotonic()
    where = f"{socket.gethostname()}:{os.getpid()}"
    try:
        target = Path(folder) / job.name
        require_inputs(job)
        asked = {"inputs": digests_of(job), "threshold": job.threshold, **policy.describe()}
        done = read_done(target, asked)
        if done is not None:
            return done
        _sweep_up(target)
        with _heard() as presses:
            result = _make_smaller(job, policy)
            if presses or _was_interrupted(result):
                raise KeyboardInterrupt
        row = _row_of(job, result, time.monotonic() - started, where)
        done = read_done(target, asked)  # by a worker that was given up for lost, meanwhile
        if done is not None:
            return done
        _write(target, result, asked, row, policy)
    except KeyboardInterrupt:
        seconds = round(time.monotonic() - started, 3)
        return Row(job.name, NOT_RUN, seconds=seconds, where=where, error="interrupted")
    except Exception as error:  # a model that fails, for whatever reason, stops no other
        return failed_row(job, error, time.monotonic() - started, where)
    return row


@contextmanager
def _heard() -> Iterator[list[int]]:
    """Every Ctrl-C that reaches this process meanwhile.

    Alone, the work would answer one with the best so far, and one at its end not at all.
    """
    presses: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield presses  # the program has plans of its own
        return

    def note(number: int, frame: Any) -> None:
        presses.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _was_interrupted(result: Any) -> bool:
    """Whether Ctrl-C ended the search, whatever it had found by then."""
    if hasattr(result, "record"):
        return bool(result.record.stopped == "interrupted")
    return bool(result.search.interrupted or result.search.stopped == "interrupted")


def digests_of(job: Job) -> dict[str, str]:
    """SHA-256 of every input; of a folder over the names and contents of its files."""
    return {what: _digest(Path(path)) for what, path in sorted(job.inputs.items())}


def read_done(target: Path, asked: Mapping[str, Any]) -> Row | None:
    """The row of a job that is done: same inputs, same policy, all files there and unchanged."""
    record = _read_record(target)
    if record is None or {key: record.get(key) for key in asked} != _plain(asked):
        return None
    if any(_file_digest(target / name) != digest for name, digest in record["files"].items()):
        return None
    return Row(**{**record["row"], "done_before": True})


def _read_record(target: Path) -> dict[str, Any] | None:
    try:
        record = parse((target / RECORD).read_bytes())
        if record["format"] != FORMAT or not isinstance(record["files"], dict):
            return None
        if any(Path(name).name != name for name in record["files"]):
            return None  # a file of another folder is none of this job
        Row(**record["row"])
    except (OSError, FieldError, KeyError, TypeError):
        return None
    return dict(record)


def _make_smaller(job: Job, policy: Policy) -> Any:
    from pine_boost.pipelines.given import read_given

    options = dict(policy.options)
    if job.threshold is not None:
        options["threshold"] = job.threshold
    threshold = options.get("threshold")
    decision = "value" if policy.method == "compress" else "class"
    given = read_given(job.model, threshold=threshold, trust_pickle=policy.trust_pickle, decision=decision)
    given.require_writable()
    X_fit = given.read_rows(job.fit)
    if policy.method == "compress":
        from pine_boost.compress import compress_booster

        if not job.val:
            raise InvalidInputError("compress needs rows to validate on; the job has no val.")
        return compress_booster(given.source, X_fit, given.read_rows(job.val), **options)
    from pine_boost.prune import prune_booster

    if not job.cal:
        raise InvalidInputError("prune needs unseen rows to calibrate on; the job has no cal.")
    return prune_booster(given.source, X_fit, given.read_rows(job.cal), **options)


def _row_of(job: Job, result: Any, seconds: float, where: str) -> Row:
    before, after = result.original.forest, smaller_of(result).forest
    return Row(
        job.name,
        result.status,
        before.n_trees,
        after.n_trees,
        before.n_leaves,
        after.n_leaves,
        round(seconds, 3),
        False,
        where,
    )


def smaller_of(result: Any) -> Any:
    """The smaller model of a result of either kind, as parsed."""
    return result.pruned if hasattr(result, "pruned") else result.compressed


def _write(target: Path, result: Any, asked: Mapping[str, Any], row: Row, policy: Policy) -> None:
    files = dict(result.files())
    if policy.reports and policy.method == "prune":
        from pine_boost.report.report import render_report

        files["report.html"] = render_report(getattr(result, "inner", result), None, ()).encode()
    record = {
        "format": FORMAT,
        **_plain(asked),
        "row": asdict(row),
        "files": {name: hashlib.sha256(contents).hexdigest() for name, contents in files.items()},
    }
    files[RECORD] = (json.dumps(record, indent=1, sort_keys=True) + "\n").encode()
    write_folder(target, files, last=[RECORD], owned=_owned(target))


def _owned(target: Path) -> list[str]:
    """Files of an earlier run of this job, as its record names them by digest."""
    record = _read_record(target)
    if record is None:
        return []
    same = [n for n, digest in record["files"].items() if _file_digest(target / n) == digest]
    return [*same, RECORD]


def _sweep_up(target: Path) -> None:
    """Remove what a process that was killed while writing this job left behind."""
    for left in target.parent.glob(f".{target.name}.*"):
        # mkdtemp adds eight characters: another job may be called "name.more"
        is_new = left.name.endswith(UNFINISHED) and (len(left.name) == len(target.name) + 10 + len(UNFINISHED))
        # an old result that was moved aside says whose it is
        record = None if is_new or not left.name.startswith(f".{target.name}.old.") else (_read_record(left))
        is_old = record is not None and record["row"]["name"] == target.name
        if left.is_dir() and (is_new or is_old):
            shutil.rmtree(left, ignore_errors=True)


def failed_row(job: Job, error: BaseException, seconds: float, where: str) -> Row:
    """The row of a job that failed."""
    text = " ".join(str(error).split())[:2000]
    if not isinstance(error, PineBoostError):
        text = f"{type(error).__name__}: {text}"
    return Row(job.name, FAILED, seconds=round(seconds, 3), where=where, error=text)


def _digest(path: Path) -> str:
    if not path.is_dir():
        return _file_digest(path)
    digest = hashlib.sha256()
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\n{_file_digest(file)}\n".encode())
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    """SHA-256 of a file; empty where there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


def _plain(asked: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from JSON: tuples are lists there."""
    plain: dict[str, Any] = json.loads(json.dumps(asked))
    return plain
