"""Files of unknown origin: read whole, but only regular files and only up to a limit.

In comes a path; out go its bytes. Refuses what cannot be read, devices and pipes (which need not
end), and files larger than anything pine_boost or a training library writes for it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from pine_boost.errors import InvalidInputError, MalformedModelError, PineBoostError

MODEL_LIMIT = 2**30  # parsed, a text of this size already takes some 20 GB
REGION_LIMIT = 2**28
CERTIFICATE_LIMIT = 2**26
DOMAIN_LIMIT = 2**24
_PIECE = 2**22


def read_limited(
    path: str | os.PathLike[str],
    limit: int,
    what: str,
    too_large: type[PineBoostError] = MalformedModelError,
) -> bytes:
    """Read a file.

    Parameters
    ----------
    path : path
    limit : int
        Most bytes that are accepted.
    what : str
        What the errors call the file, for example ``"model file"``.
    too_large : type of exception
        Raised above the limit.

    Raises
    ------
    InvalidInputError
        There is no such regular file, or it may not be read.
    """
    try:
        path = Path(path)
        # without O_NONBLOCK opening a pipe waits for a writer that may never come
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidInputError(
                    f"{path} is a folder, pipe or device and cannot be read; pass the path of "
                    f"a {what}."
                )
            require_size(os.fstat(descriptor).st_size, limit, str(path), what, too_large)
            contents = _read_up_to(file, limit)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, PineBoostError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(
            f"{path} cannot be read ({reason}); pass the path of a {what}."
        ) from error
    require_size(len(contents), limit, str(path), what, too_large)
    return contents


def _read_up_to(file: BinaryIO, limit: int) -> bytes:
    """Piece by piece: asking for the limit at once would take that much memory for a small file."""
    pieces, size = [], 0
    while size <= limit and (piece := file.read(_PIECE)):  # the file may grow while it is read
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def require_size(
    size: int,
    limit: int,
    subject: str,
    what: str,
    too_large: type[PineBoostError] = MalformedModelError,
) -> None:
    """Refuse more bytes than the limit."""
    if size > limit:
        raise too_large(
            f"{subject} is larger than any {what} that is accepted ({limit // 2**20} MiB); it is "
            "damaged or something else."
        )
