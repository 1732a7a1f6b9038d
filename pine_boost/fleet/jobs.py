"""The list of jobs: one model and its tables each.

In comes a CSV file or a folder of folders; out go Jobs with absolute paths. Refuses names that are
no plain folder names or not unique, and columns nobody knows. Files that are not there are the
matter of their own job.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pine_boost.errors import InvalidInputError
from pine_boost.files import read_limited

COLUMNS = ("name", "model", "fit", "cal", "val", "threshold")
SUMMARIES = SUMMARY_CSV, SUMMARY_HTML = "summary.csv", "summary.html"
_LIST_LIMIT = 2**26
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MODEL_SUFFIXES = (".json", ".ubj", ".txt", ".pkl", ".pickle", ".joblib")


@dataclass(frozen=True)
class Job:
    """One model to make smaller.

    Attributes
    ----------
    name : str
        Of the job and of its folder in the output.
    model, fit : str
        Paths of the model file and of the rows to fit on.
    cal, val : str
        Paths of the unseen rows to calibrate (prune) or to validate (compress) on; may be empty.
    threshold : float or None
        The job's own decision threshold; None is the policy's.
    """

    name: str
    model: str
    fit: str
    cal: str = ""
    val: str = ""
    threshold: float | None = None

    @property
    def inputs(self) -> dict[str, str]:
        """Paths by what they are, without those that were not given."""
        given = {"model": self.model, "fit": self.fit, "cal": self.cal, "val": self.val}
        return {what: path for what, path in given.items() if path}


def read_jobs(path: str | os.PathLike[str]) -> tuple[Job, ...]:
    """Read a list of jobs.

    Parameters
    ----------
    path : path
        A CSV file with the columns ``name, model, fit`` and as needed ``cal, val, threshold``,
        paths relative to the file; or a folder that holds a folder for each job, with files
        called ``model.*``, ``fit.*``, ``cal.*`` and ``val.*``.

    Returns
    -------
    tuple of Job

    Raises
    ------
    InvalidInputError
        Nothing there, unknown columns, names that are not unique or no plain names.
    """
    path = Path(path)
    jobs = _from_folder(path) if path.is_dir() else _from_csv(path)
    return check_jobs(jobs)


def check_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Refuse a list that could not be run as it stands; problems of the list come before any work.

    A file of one job that is not there fails when the job is run, and stops no other. Paths come
    back absolute: a worker need not have been started in the same folder.
    """
    jobs = tuple(_absolute(job) for job in jobs)
    if not jobs:
        raise InvalidInputError("There are no jobs in the list.")
    seen: dict[str, str] = {}
    for job in jobs:
        if not _NAME.fullmatch(job.name):
            raise InvalidInputError(
                f"Job {job.name!r}: a name becomes a folder; letters, digits, '.', '_' and '-' are "
                "accepted, up to 100, the first a letter or digit."
            )
        if job.name.lower() in SUMMARIES:
            raise InvalidInputError(f"Job {job.name!r}: the fleet's own summary has this name; choose another.")
        if job.name.lower() in seen:
            raise InvalidInputError(
                f"Two jobs are called {seen[job.name.lower()]!r} and {job.name!r}; names must be "
                "unique, also without regard to case."
            )
        seen[job.name.lower()] = job.name
    return jobs


def require_inputs(job: Job) -> None:
    """Refuse a job one of whose files is not there."""
    for what in ("model", "fit"):
        if what not in job.inputs:
            raise InvalidInputError(f"The job has no {what}; every job needs a model and a fit.")
    for what, path in job.inputs.items():
        if not Path(path).exists():
            raise InvalidInputError(
                f"{what} {path} does not exist; correct the path in the list, or put the file "
                "there, and run the fleet again."
            )


def _absolute(job: Job) -> Job:
    if not isinstance(job, Job):
        raise InvalidInputError(f"{job!r:.60} is no Job; accepted are a path, and Jobs.")
    paths: dict[str, Any] = {what: os.path.abspath(path) for what, path in job.inputs.items()}
    return replace(job, **paths)


def _from_csv(path: Path) -> list[Job]:
    contents = read_limited(path, _LIST_LIMIT, "list of jobs", InvalidInputError)
    try:
        lines = csv.DictReader(io.StringIO(contents.decode("utf-8-sig")), strict=True)
        rows = list(lines)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} is no CSV file of jobs: {error}.") from error
    columns = list(lines.fieldnames or ())
    unknown = [column for column in columns if column not in COLUMNS]
    missing = [column for column in ("name", "model", "fit") if column not in columns]
    if unknown or missing:
        raise InvalidInputError(
            f"{path} has the columns {', '.join(map(str, columns)) or 'none'}; accepted are "
            f"{', '.join(COLUMNS)}, the first three are needed."
        )
    return [_job(row, number, path) for number, row in enumerate(rows, start=2)]


def _job(row: dict[str, str | None], line: int, path: Path) -> Job:
    if None in row or None in row.values():
        raise InvalidInputError(f"{path}, line {line}: not as many cells as columns.")
    cells = {column: (row.get(column) or "").strip() for column in COLUMNS}
    for column in ("name", "model", "fit"):
        if not cells[column]:
            raise InvalidInputError(f"{path}, line {line}: {column} is empty.")
    try:
        threshold = float(cells["threshold"]) if cells["threshold"] else None
    except ValueError as error:
        raise InvalidInputError(f"{path}, line {line}: threshold {cells['threshold']!r} is no number.") from error
    base = path.resolve().parent
    paths = {what: str(base / cells[what]) if cells[what] else "" for what in ("model", "fit", "cal", "val")}
    return Job(cells["name"], paths["model"], paths["fit"], paths["cal"], paths["val"], threshold)


def _from_folder(path: Path) -> list[Job]:
    jobs = []
    for folder in sorted(entry for entry in path.resolve().iterdir() if entry.is_dir()):
        files = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
        found = {what: _one(files, what, folder) for what in ("model", "fit", "cal", "val")}
        if not found["model"] and not found["fit"]:
            continue  # a folder of something else
        jobs.append(Job(folder.name, found["model"], found["fit"], found["cal"], found["val"]))
    return jobs


def _one(files: Sequence[Path], what: str, folder: Path) -> str:
    named = [file for file in files if file.stem == what]
    if what == "model":
        named = [file for file in named if file.suffix in _MODEL_SUFFIXES]
    if len(named) > 1:
        names = ", ".join(file.name for file in named)
        raise InvalidInputError(f"{folder} has several files for {what}: {names}.")
    return str(named[0]) if named else ""
