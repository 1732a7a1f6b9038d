"""The command line in this process."""

from __future__ import annotations

import shlex
from typing import Any

from pine_boost.cli import main


def words(line: str, *more: Any) -> list[str]:
    """The arguments of a command line, as a shell splits them, and more of them."""
    return [*shlex.split(line), *map(str, more)]


def exit_code(line: str, *arguments: Any) -> int:
    """The exit code of a command: a line as a shell splits it, and more arguments."""
    return main(words(line, *arguments))


def run(capsys: Any, line: str, *arguments: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    capsys.readouterr()
    code = exit_code(line, *arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def expect(capsys: Any, code: int, line: str, *arguments: Any) -> tuple[str, str]:
    """Stdout and stderr of a command that ends with this exit code."""
    found, out, err = run(capsys, line, *arguments)
    assert found == code, err
    return out, err
