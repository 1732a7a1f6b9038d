"""Read files with a size limit, and write them under a temporary name and rename them.

Files that pine_boost did not write are replaced only if the user asks for it, and never removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pine_boost.errors import InvalidInputError, MalformedModelError, OutputError, PineBoostError

MODEL_LIMIT = 2**30  # a text of this size already takes about 20 GB when parsed
REGION_LIMIT = 2**28
CERTIFICATE_LIMIT = 2**26
DOMAIN_LIMIT = 2**24
_PIECE = 2**22
UNFINISHED = ".pine_boost"  # suffix of the name of a folder while it is written


def read_limited(
    path: str | os.PathLike[str], limit: int, what: str, too_large: type[PineBoostError] = MalformedModelError
) -> bytes:
    """Read a file.

    Parameters
    ----------
    path : path
    limit : int
        Largest accepted number of bytes.
    what : str
        Name of the file in error messages, for example ``"model file"``.
    too_large : type of exception
        Raised above the limit.

    Raises
    ------
    InvalidInputError
        There is no regular file at the path, or it cannot be read.
    """
    try:
        path = Path(path)
        # without O_NONBLOCK, opening a pipe would wait for a writer that may never come
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidInputError(
                    f"{path} is a folder, pipe or device and cannot be read; pass the path of a {what}."
                )
            require_size(os.fstat(descriptor).st_size, limit, str(path), what, too_large)
            contents = _read_up_to(file, limit)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, PineBoostError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"{path} cannot be read ({reason}); pass the path of a {what}.") from error
    require_size(len(contents), limit, str(path), what, too_large)
    return contents


def model_bytes(model: Any) -> bytes | None:
    """Return the contents of a model file, given as its path or as bytes; None for a live model."""
    if isinstance(model, (str, os.PathLike)):
        return read_limited(model, MODEL_LIMIT, "model file")
    return bytes(model) if isinstance(model, (bytes, bytearray, memoryview)) else None


def _read_up_to(file: BinaryIO, limit: int) -> bytes:
    """Read in pieces: requesting the limit at once would allocate that much memory for a small file."""
    pieces, size = [], 0
    while size <= limit and (piece := file.read(_PIECE)):  # the file may grow while it is read
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def require_size(
    size: int, limit: int, subject: str, what: str, too_large: type[PineBoostError] = MalformedModelError
) -> None:
    """Raise unless the size is within the limit."""
    if size > limit:
        raise too_large(
            f"{subject} is larger than any {what} ({limit // 2**20} MiB at most); it is damaged or something else."
        )


def write_folder(
    folder: str | os.PathLike[str],
    files: Mapping[str, bytes],
    *,
    last: Collection[str] = (),
    owned: Collection[str] = (),
    overwrite: bool = False,
) -> Path:
    """Write files so that a new folder appears complete, and an old one never looks complete.

    A folder with only ``owned`` files is moved aside as a whole and removed when the new one is in
    its place. If there are other files, each file is replaced individually; the ``last`` ones
    (certificates) are removed first and written last.

    Parameters
    ----------
    folder : path
    files : mapping
        Names within the folder (with ``/`` for subfolders) and contents.
    last : names
    owned : names
        Files of an earlier result in this folder. They may be replaced and removed; no other
        file is removed, and none is replaced unless ``overwrite``.
    overwrite : bool
        Replace files of the same names, regardless of who wrote them.

    Raises
    ------
    InvalidInputError
        The name is empty or not a path, a file of that name exists, or the folder holds files of
        others under names that would be written.
    OutputError
        The system refused: no space, no permission. Nothing that looks complete is left.
    """
    folder = path_of(folder)
    require_free(folder, files, owned=owned, overwrite=overwrite)
    with clear_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # everything that can fail for lack of space happens before the old files are changed
        temporary = Path(tempfile.mkdtemp(UNFINISHED, dir=folder.parent, prefix=f".{folder.name}."))
        try:
            is_new = not folder.exists()
            temporary.chmod(0o755 if is_new else folder.stat().st_mode & 0o7777)
            for name, contents in files.items():
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                write_file(temporary / name, contents)
            if is_new:
                os.rename(temporary, folder)
            elif not (_names_in(folder) <= set(owned) and _put_aside(folder, temporary)):
                _replace_files(temporary, folder, list(files), last, owned)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def require_free(
    folder: str | os.PathLike[str],
    names: Iterable[str],
    *,
    owned: Collection[str] = (),
    overwrite: bool = False,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Raise if a file that pine_boost did not write would be replaced.

    ``inputs`` are files that are read: they are never replaced, not even with ``overwrite``.
    """
    folder = path_of(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file; name a folder to write to.")
    names = list(names)
    for path in inputs:
        for name in names:
            if _is_same(folder / name, Path(path)):
                raise InvalidInputError(
                    f"{path} is read here and would be replaced by the result; name another folder to write to."
                )
    theirs = sorted(n for n in names if os.path.lexists(folder / n) and n not in set(owned))
    if theirs and not overwrite:
        raise InvalidInputError(
            f"{folder} already holds {', '.join(theirs)}, which no certificate in it names by "
            "digest: replacing might destroy what is not a result of pine_boost. Name another "
            "folder, or say overwrite=True.",
            option="overwrite",
        )


def require_free_file(
    path: str | os.PathLike[str],
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    beginning: bytes | None = None,
    overwrite: bool = False,
    remedy: str = "name another file, or say --force",
) -> None:
    """Raise if a file would be replaced that is an input, or that pine_boost did not write.

    ``beginning`` is the start of files written here: an earlier one may be replaced.
    """
    path = Path(path)
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; name a file to write to.")
    for source in inputs:
        if _is_same(path, Path(source)):
            raise InvalidInputError(f"{source} is read here; name another file to write to.")
    if overwrite or not os.path.lexists(path):
        return
    if beginning is None or not _begins(path, beginning):
        which = "exists" if beginning is None else "exists and is not an earlier output"
        raise InvalidInputError(f"{path} {which}; {remedy}.")


def require_writable(folder: str | os.PathLike[str]) -> None:
    """Raise unless files can be written where the folder is or would be; leave nothing behind."""
    folder = path_of(folder)
    with clear_errors(folder):
        place = folder
        while not place.exists() and place != place.parent:
            place = place.parent
        # create the whole path: this finds a file in it, or a file system that takes no folders
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{folder.name}.") as tried:
            Path(tried, "try").write_bytes(b"pine_boost")
        if place == folder:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}."):
                pass


def keep_elsewhere(
    folder: str | os.PathLike[str], files: Mapping[str, bytes], last: Collection[str] = ()
) -> Path | None:
    """Write files that could not be written to a folder to another place; None if there is none."""
    folder = path_of(folder)
    for parent in (folder.parent, Path.cwd(), Path(tempfile.gettempdir())):
        for number in range(1, 100):
            other = parent / f"{folder.name}-kept-{number}"
            if not os.path.lexists(other):
                break
        try:
            return write_folder(other, files, last=last)
        except PineBoostError:
            continue
    return None


def write_file(path: Path, contents: bytes) -> None:
    """Write a file under a temporary name in the same folder, then replace in one step."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp creates files that only their owner can read
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def clear_errors(target: Path) -> Iterator[None]:
    """Turn system errors into one line that says what could not be written, and why."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, PineBoostError):
            raise
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, FileNotFoundError) and not target.parent.exists():
            raise OutputError(
                f"{str(target)!r} cannot be written: there is no folder {str(target.parent)!r}; "
                "make it, or name another place."
            ) from error
        raise OutputError(
            f"{str(target)!r} cannot be written ({reason}); free some space or name another place."
        ) from error


def path_of(named: str | os.PathLike[str], what: str = "folder") -> Path:
    """Return the path of a folder or of a file; raise if it is not a path."""
    if not isinstance(named, (str, os.PathLike)) or not os.fspath(named):
        raise InvalidInputError(f"{named!r} is not the path of a {what}; pass a string or a pathlib.Path.")
    return Path(named)


def _begins(path: Path, beginning: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(len(beginning)) == beginning
    except OSError:
        return False


def unchanged(folder: Path, digests: Mapping[str, str]) -> set[str]:
    """Return the names of the files in a folder, without links, that have their stated SHA-256."""
    names = {Path(name).name: digest for name, digest in digests.items()}
    return {name for name, digest in names.items() if sha256_of(folder / name) == digest}


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of a regular file; None for a link or a file that cannot be read."""
    try:
        contents = None if path.is_symlink() else read_limited(path, MODEL_LIMIT, "file")
    except PineBoostError:
        return None
    return None if contents is None else hashlib.sha256(contents).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def _names_in(folder: Path) -> set[str]:
    """Return the names of everything in a folder, including links and empty folders."""
    if folder.is_symlink():
        return {"a link to a folder is never moved"}
    found = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
            found.add(path.relative_to(folder).as_posix())
    return found


def _put_aside(folder: Path, new: Path) -> bool:
    """Move a folder aside and the new one into its place; return False if it cannot be moved."""
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
    try:
        os.rename(folder, aside)
    except OSError:  # the current folder of another process, or a mount point
        aside.rmdir()
        return False
    try:
        os.rename(new, folder)
    except BaseException:
        os.rename(aside, folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _replace_files(source: Path, folder: Path, names: list[str], last: Collection[str], owned: Collection[str]) -> None:
    for name in (*last, *(name for name in owned if name not in names)):
        if name in owned or name in names:
            (folder / name).unlink(missing_ok=True)
    for name in sorted(names, key=lambda name: name in last):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(source / name, folder / name)
