"""The command line in this process, and the files that its commands read."""

import pickle
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.cli import main


def write_inputs(folder: Path, model: Any, **tables: Any) -> None:
    """model.json of XGBoost or model.pkl, and a .npy file of every table."""
    if hasattr(model, "save_model"):
        model.save_model(folder / "model.json")
    else:
        (folder / "model.pkl").write_bytes(pickle.dumps(model))
    for name, rows in tables.items():
        np.save(folder / f"{name}.npy", rows)


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


def printed(capsys: Any, line: str, *arguments: Any) -> str:
    """Stdout of a command that does its work."""
    return expect(capsys, 0, line, *arguments)[0]


def refused(capsys: Any, line: str, *arguments: Any) -> str:
    """Stderr of a command that ends with an error."""
    return expect(capsys, 1, line, *arguments)[1]


def expect(capsys: Any, code: int, line: str, *arguments: Any) -> tuple[str, str]:
    """Stdout and stderr of a command that ends with this exit code."""
    found, out, err = run(capsys, line, *arguments)
    assert found == code, err
    return out, err
