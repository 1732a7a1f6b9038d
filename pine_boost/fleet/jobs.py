"""The list of jobs of a fleet: a model, its tables and its own options each."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pine_boost.errors import InvalidInputError
from pine_boost.files import read_limited
from pine_boost.options import METHODS, Option, fleet_options, option_of

TABLES = {"prune": ("fit", "cal"), "compress": ("fit", "val"), "accelerate": ("fit", "val")}
SUMMARIES = SUMMARY_CSV, SUMMARY_HTML = "summary.csv", "summary.html"
FILES = ("domain", "spent")  # options that name a file
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
    path = Path(path)
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
        if not _NAME.fullmatch(job.name):
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
    paths = {
        name: os.path.abspath(options[name]) for name in FILES if isinstance(options.get(name), (str, os.PathLike))
    }
    return {**options, **paths}


def _absolute(job: Job) -> Job:
    paths: dict[str, Any] = {what: os.path.abspath(path) for what, path in job.inputs.items()}
    return replace(job, **paths, options=absolute_files(job.options))


def _from_csv(path: Path) -> list[Job]:
    contents = read_limited(path, _LIST_LIMIT, "list of jobs", InvalidInputError)
    try:
        lines = csv.DictReader(io.StringIO(contents.decode("utf-8-sig")), strict=True)
        rows = list(lines)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} is not a CSV file of jobs: {error}.") from error
    columns = list(lines.fieldnames or ())
    known: dict[str, Option] = {}
    for method in METHODS:
        known |= {n: option_of(f"{method}_booster", n) for n in fleet_options(method) if n not in known}
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


def _from_folder(path: Path) -> list[Job]:
    jobs = []
    for folder in sorted(entry for entry in path.resolve().iterdir() if entry.is_dir()):
        files = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
        found: dict[str, Any] = {what: _one(files, what, folder) for what in _PATHS}
        if found["model"] or found["fit"]:  # else a folder of something else
            jobs.append(Job(folder.name, **found))
    return jobs


def _one(files: Iterable[Path], what: str, folder: Path) -> str:
    named = [file for file in files if file.stem == what and (what != "model" or file.suffix in _MODEL_SUFFIXES)]
    if len(named) > 1:
        raise InvalidInputError(f"{folder} has several files for {what}: {', '.join(file.name for file in named)}.")
    return str(named[0]) if named else ""
