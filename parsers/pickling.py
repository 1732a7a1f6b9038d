"""A live object as the bytes of a pickle.

In comes an object; out go bytes. Refuses what pickle cannot write, with a word on what to do.
"""

from __future__ import annotations

import pickle
from typing import Any

from pine_boost.errors import OutputError

_REMEDY = "Take out of it what no file can hold (a lock, an open file, a lambda) and write it again"


def pickled(model: Any, remedy: str = _REMEDY) -> bytes:
    """A model as it is written.

    Raises
    ------
    OutputError
        It holds something that pickle cannot write, such as a lambda.
    """
    try:
        return pickle.dumps(model)
    except MemoryError:
        raise
    except Exception as error:  # a user's own steps may raise anything
        reason = " ".join(str(error).split())[:200]
        raise OutputError(
            f"The {type(model).__name__} cannot be pickled ({type(error).__name__}: {reason}), so "
            f"it cannot be written as a whole. {remedy}."
        ) from error
