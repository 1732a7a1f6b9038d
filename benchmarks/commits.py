"""Run cells with the pine_boost of another commit, in a process of its own.

Only pine_boost comes from the commit; cells, data and training are those of this working tree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.cells import Cell, measure_cell, warm_up
from benchmarks.data import ROOT
from benchmarks.runner import ONE_THREAD

HERE = "."
# pine_boost is imported from the commit's tree before this tree's benchmarks come into the path
_BOOT = """
import sys
tree, root = sys.argv[1:3]
sys.path[:] = [tree] + [entry for entry in sys.path if entry not in ("", tree)]
import pine_boost, pine_boost.parsers
for module in (pine_boost, pine_boost.parsers):
    assert module.__file__.startswith(tree), f"{module.__file__} is not in {tree}"
sys.path.insert(0, root)
from benchmarks.commits import serve
serve()
"""


def name_of(commit: str) -> str:
    """Short hash, with a plus where the working tree has changes; refuses what git does not know.

    Raises
    ------
    SystemExit
        The commit is unknown.
    """
    try:
        short = git("rev-parse", "--short", "HEAD" if commit == HERE else commit).strip()
    except subprocess.CalledProcessError:
        raise SystemExit(f"git knows no commit {commit!r}; name a commit, a branch or '.'.") from None
    is_changed = commit == HERE and git("status", "--porcelain", "--", "pine_boost", "parsers")
    return f"{short}+" if is_changed else short


def git(*arguments: str) -> str:
    """What a git command of this repository prints."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout


def serve() -> None:
    """Body of the process: cells as lines of JSON in, rows out, until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    warm_up()
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        try:
            row, spent = measure_cell(Cell(**json.loads(line)))
            answer = {**{key: str(value) for key, value in row.items()}, "cpu_s": f"{spent:.3f}"}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Commit:
    """A process with a commit's pine_boost; a context manager that ends it."""

    def __init__(self, commit: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pine_boost_commit_")
        tree = ROOT
        if commit != HERE:
            tree = Path(self._folder.name).resolve()
            packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", str(tree)], input=packed, check=True)
            parsers = tree / "pine_boost" / "parsers"
            if not parsers.exists():  # older commits are only installed, where setup.cfg maps it
                parsers.symlink_to(tree / "parsers")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(tree), str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(tree)},
        )
        if self._answer() != "ready":
            raise SystemExit(f"pine_boost of {commit} does not start; see the message above.")

    def run(self, cell: Cell) -> dict[str, Any]:
        """One cell's row, or its error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(cell)) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return dict(json.loads(answer)) if answer else {"error": "the process died"}

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Commit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()  # waits and closes the pipes
        self._folder.cleanup()
