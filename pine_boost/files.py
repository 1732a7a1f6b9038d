"""Read files with a size limit, and write them under a temporary name and rename them."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pine_boost.errors import InvalidInputError, MalformedModelError, OutputError, PineBoostError

MODEL_LIMIT = 2**30  # a text of this size already takes about 20 GB when parsed
REGION_LIMIT = 2**28
CERTIFICATE_LIMIT = 2**26
DOMAIN_LIMIT = 2**24
_PIECE = 2**22
AVERAGE = "average.json"  # what a folder of an average of several ensembles holds


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
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInputError(
                    f"{path} is a folder, pipe or device and cannot be read; pass the path of a {what}."
                )
            require_size(status.st_size, limit, str(path), what, too_large)
            return file.read(status.st_size)  # no more, even if the file grows meanwhile
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, PineBoostError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"{path} cannot be read ({reason}); pass the path of a {what}.") from error


def require_size(
    size: int, limit: int, subject: str, what: str, too_large: type[PineBoostError] = MalformedModelError
) -> None:
    """Raise unless the size is within the limit."""
    if size > limit:
        raise too_large(
            f"{subject} is larger than any {what} ({limit // 2**20} MiB at most); it is damaged or something else."
        )


def require_free_file(
    path: str | os.PathLike[str],
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    beginning: bytes | None = None,
    overwrite: bool = False,
    remedy: str = "choose another file, or pass --force",
) -> None:
    """Raise if a file would be replaced that is an input, or that pine_boost did not write.

    ``beginning`` is the start of files written here: an earlier one may be replaced.
    """
    path = Path(path)
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; choose a file to write to.")
    for source in inputs:
        if is_same(path, Path(source)):
            raise InvalidInputError(f"{source} is an input of this command; write to another file.")
    if overwrite or not os.path.lexists(path):
        return
    if beginning is None or not _begins(path, beginning):
        which = "exists" if beginning is None else "exists and is not an earlier output"
        raise InvalidInputError(f"{path} {which}; {remedy}.")


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


def save_file(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file like `write_file`; a system error becomes one line that says what could not be written."""
    path = Path(path)
    with clear_errors(path):
        write_file(path, contents)


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
                "make it, or choose another place."
            ) from error
        raise OutputError(
            f"{str(target)!r} cannot be written ({reason}); free some space or choose another place."
        ) from error


def path_of(named: str | os.PathLike[str], what: str = "folder") -> Path:
    """Return the path of a folder or of a file; raise if it is not a path."""
    if not isinstance(named, (str, os.PathLike)) or not os.fspath(named):
        raise InvalidInputError(f"{named!r} is not the path of a {what}; pass a string or a pathlib.Path.")
    return Path(named)


_SEAL, _END = b"<!-- written by pine_boost; SHA-256 of the text above: ", b" -->\n</html>\n"


def sealed_page(page: str) -> str:
    """An HTML page with the digest of its own text in a comment at its end."""
    text = page.removesuffix("</html>\n").encode()
    return (text + _SEAL + hashlib.sha256(text).hexdigest().encode() + _END).decode()


def is_sealed_page(contents: bytes) -> bool:
    """Whether these are the bytes of a page that was written here and not changed since."""
    text, seal, rest = contents.rpartition(_SEAL)
    return bool(seal) and rest == hashlib.sha256(text).hexdigest().encode() + _END


def _begins(path: Path, beginning: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(len(beginning)) == beginning
    except OSError:
        return False


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths are of one file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def refuse_average(folder: Path) -> None:
    """Raise for the folder of an average of several ensembles, which no command but parity reads."""
    if (folder / AVERAGE).is_file():
        whole = folder / "whole_model.pkl"
        raise InvalidInputError(
            f"{folder} holds an average of several ensembles, which was tested as a whole and has no certificate, "
            f"region or scorer of its own (see {AVERAGE}). To predict, load {whole} in Python; to count changed rows "
            f"again: pine-boost parity ORIGINAL {whole} DATA --trust-pickle."
        )
