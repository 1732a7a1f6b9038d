"""Copies of what a fitted object carries besides its trees.

In comes a value; out goes a deep copy, or the value itself where there can be none. Nothing that
a user attached to a model may cost a search its result.
"""

from __future__ import annotations

import copy
from typing import Any


def copy_value(value: Any, copied: dict[int, Any] | None = None) -> Any:
    """A deep copy; what cannot be copied (files, locks, in callbacks too) is shared.

    ``copied`` is the memo of `copy.deepcopy`. What a copy that failed left in it is taken out
    again: objects in there are half filled, and other values may refer to them.
    """
    copied = {} if copied is None else copied
    n_before = len(copied)
    try:
        return copy.deepcopy(value, copied)
    except MemoryError:
        raise
    except Exception:  # an object's own __deepcopy__ or __reduce__ may raise anything
        while len(copied) > n_before:
            copied.popitem()  # the last one first, and deepcopy only adds
        return value
