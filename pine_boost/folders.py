"""Output that is old or new and never in between, and what to say when it cannot be written.

In come names and contents; out go files, each written under a temporary name and renamed. Refuses
a target that is no folder; a full disk or a missing permission is one OutputError.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pine_boost.errors import InvalidInputError, OutputError, PineBoostError

MODEL_SUFFIXES = ("json", "ubj", "txt", "pkl")
_AT_FDCWD, _EXCHANGE = -100, 2  # of Linux's renameat2


def write_folder(
    folder: str | os.PathLike[str], files: Mapping[str, bytes], last: str | None = None
) -> Path:
    """Write files so that a new folder appears complete, and an old one never looks complete.

    An existing folder that holds nothing else is exchanged for the new one in one step. Where that
    cannot be done (files of the user's own, another system than Linux), the file ``last`` is
    removed first and replaced last; model files of another format are removed.

    Raises
    ------
    InvalidInputError
        The name is empty or no path, or there is a file of that name.
    OutputError
        The system refused: no space, no permission. Nothing that looks complete was left.
    """
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise InvalidInputError(f"{folder!r} names no folder to write to.")
    folder = Path(folder)
    with clear_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise InvalidInputError(f"{folder} is a file; name a folder to write to.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        _stage(folder, files, last)
    return folder


def _stage(folder: Path, files: Mapping[str, bytes], last: str | None) -> None:
    """Write a complete folder beside the target, then put it in its place."""
    # everything that can fail for want of space happens before the old files are touched
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        is_new = not folder.exists()
        temporary.chmod(0o755 if is_new else folder.stat().st_mode & 0o7777)
        for name, contents in files.items():
            write_file(temporary / name, contents)
        if is_new:
            os.rename(temporary, folder)
        elif not (_holds_only_results(folder, files) and _exchange(temporary, folder)):
            _replace_files(temporary, folder, list(files), last)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _holds_only_results(folder: Path, files: Mapping[str, bytes]) -> bool:
    ours = {*files, *(f"model.{suffix}" for suffix in MODEL_SUFFIXES)}
    names = {path.name for path in folder.iterdir() if not path.is_symlink() and path.is_file()}
    return not folder.is_symlink() and names <= ours and len(os.listdir(folder)) == len(names)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return int(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)) == 0


def _replace_files(source: Path, folder: Path, names: list[str], last: str | None) -> None:
    if last is not None:
        (folder / last).unlink(missing_ok=True)
    if any(name.startswith("model.") for name in names):
        for suffix in MODEL_SUFFIXES:
            if f"model.{suffix}" not in names:
                (folder / f"model.{suffix}").unlink(missing_ok=True)
    for name in sorted(names, key=lambda name: name == last):
        os.replace(source / name, folder / name)


def write_file(path: Path, contents: bytes) -> None:
    """Write under a temporary name in the same folder, then replace in one step."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp makes files that only their owner reads
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def clear_errors(target: Path) -> Iterator[None]:
    """Say in one line where nothing could be written, and why."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, PineBoostError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise OutputError(
            f"{str(target)!r} cannot be written ({reason}); free some space or name another place."
        ) from error
