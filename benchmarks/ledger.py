"""Which commit wrote which results file: commands.txt, one line per run.

Files of another commit are replaced, never added to.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.commits import git

COMMANDS = "commands.txt"
FINISHED = "finished.txt"
BAR = " | "


@dataclass(frozen=True)
class Entry:
    """A line of commands.txt: what wrote a file, or a part of it."""

    file: str
    commit: str
    date: str
    seconds: str
    command: str


def code_commit() -> str:
    """The last commit that changed pine_boost, with a plus where the working tree differs.

    Commits that only add results or documents do not change it.

    Raises
    ------
    SystemExit
        This is no clone of the repository.
    """
    code = ("--", "pine_boost", "parsers")
    try:
        short = git("log", "-1", "--format=%h", *code).strip()
        is_changed = git("status", "--porcelain", *code)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        raise SystemExit(f"benchmarks say which commit they measured; git says: {error}") from None
    return f"{short}+" if is_changed else short


def read_entries(results: Path) -> list[Entry]:
    """The lines of commands.txt; empty where there is none."""
    path = results / COMMANDS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Entry(*line.split(BAR, 4)) for line in lines if line.count(BAR) >= 4]


def commits_of(results: Path, *files: str) -> list[str]:
    """Commits that wrote these files, each once, in order of appearance."""
    found = [entry.commit for entry in read_entries(results) if entry.file in files]
    return list(dict.fromkeys(found))


def publish(work: Path, results: Path, entry: Entry) -> None:
    """Copy a running file into the results folder and note what wrote it.

    Lines of other commits about the file go: the file holds nothing of theirs any more.
    """
    shutil.copyfile(work / entry.file, results / entry.file)
    kept = [old for old in read_entries(results) if old.file != entry.file or old.commit == entry.commit]
    note(results, entry, kept)


def note(results: Path, entry: Entry, among: list[Entry] | None = None) -> None:
    """Write a line of commands.txt, in place of one of the same file, commit and command."""
    known = read_entries(results) if among is None else among
    same = (entry.file, entry.commit, entry.command)
    kept = [old for old in known if (old.file, old.commit, old.command) != same]
    lines = [BAR.join(astuple(line)) for line in sorted([*kept, entry], key=lambda e: e.file)]
    (results / COMMANDS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def finished_runs(work: Path) -> set[str]:
    """Names of the runs that ended by themselves in this working folder."""
    path = work / FINISHED
    return set(path.read_text(encoding="utf-8").split()) if path.exists() else set()


def write_finished(work: Path, name: str) -> None:
    """Note that a run ended by itself."""
    with (work / FINISHED).open("a", encoding="utf-8") as file:
        file.write(f"{name}\n")
