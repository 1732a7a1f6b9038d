"""Shared test helper: the command line in this process.

In come the arguments; out go exit code, stdout and stderr. Refuses nothing.
"""

from __future__ import annotations

from typing import Any

from pine_boost.cli import main


def run(capsys: Any, *arguments: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err
