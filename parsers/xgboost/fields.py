"""Typed access to the sections of an XGBoost file: the parsed JSON or UBJSON tree.

In come a section and the name of a field; out goes a value of the declared type.
Refuses missing and unknown fields, wrong types, numbers out of range or not exact in float32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MalformedModelError

MAX_INTEGER = 2**31 - 1
_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_INTEGER_TEXT = re.compile(r"-?[0-9]{1,18}\Z")


def fault(where: str, found: str) -> MalformedModelError:
    """The error for a damaged field, in the words of every other one."""
    return MalformedModelError(f"XGBoost file: {where} {found}. Save the model again with XGBoost (1.7 to 3.x).")


def check_names(section: Mapping[str, Any], where: str, required: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Require exactly the declared fields: an unknown one may change what the model means."""
    required = set(required)
    missing = sorted(required - section.keys())
    unknown = sorted(section.keys() - required - set(optional))
    if missing:
        raise fault(where, f"lacks {', '.join(missing)}")
    if unknown:
        raise fault(where, f"has the unknown field {unknown[0][:60]!r}")


def as_section(value: Any, where: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise fault(where, f"is {_kind(value)}, not an object")
    return value


def as_list(value: Any, where: str) -> list[Any]:
    """A JSON array of anything; an empty typed array is an empty list."""
    if isinstance(value, np.ndarray) and len(value) == 0:
        return []
    if not isinstance(value, list):
        raise fault(where, f"is {_kind(value)}, not an array")
    return value


def as_text(value: Any, where: str) -> str:
    """A text that can be written again as UTF-8."""
    if not isinstance(value, str):
        raise fault(where, f"is {_kind(value)}, not a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise fault(where, "is not a valid Unicode text") from error
    return value


def as_texts(value: Any, where: str) -> tuple[str, ...]:
    """An array of texts."""
    return tuple(as_text(item, where) for item in as_list(value, where))


def as_integer(value: Any, where: str, low: int, high: int) -> int:
    """An integer, or the text of one (XGBoost's parameters are texts), within bounds."""
    if isinstance(value, str) and _INTEGER_TEXT.match(value):
        value = int(value)
    if type(value) is not int:
        raise fault(where, f"is {_kind(value)}, not an integer")
    if not low <= value <= high:
        raise fault(where, f"is {value}, outside {low}..{high}")
    return value


def as_integers(value: Any, where: str, length: int | None = None) -> npt.NDArray[np.int64]:
    """An array of integers, all within 32 bits (64 in category values)."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            raise fault(where, "holds numbers that are not integers")
        array = value.astype(np.int64)
    else:
        items = as_list(value, where)
        # bool is an int to Python, and XGBoost refuses it: compare the types themselves
        if not set(map(type, items)) <= {int}:
            raise fault(where, "holds something that is not an integer")
        try:
            array = np.array(items, dtype=np.int64)
        except OverflowError as error:
            raise fault(where, "holds an integer beyond 64 bits") from error
    return _checked_length(array, where, length)


def as_floats(value: Any, where: str, length: int | None = None) -> npt.NDArray[np.float32]:
    """An array of float32 numbers, NaN and infinity included."""
    if isinstance(value, np.ndarray):
        if value.dtype != np.float32:
            raise fault(where, "is not an array of float32")
        return _checked_length(value, where, length)
    items = as_list(value, where)
    # XGBoost refuses integers here ("Invalid cast, from Integer")
    if not set(map(type, items)) <= {float}:
        raise fault(where, "holds something that is not a number with a decimal point")
    wide = np.array(items, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    _refuse_midpoints(wide, narrow, where)
    return _checked_length(narrow, where, length)


def _refuse_midpoints(wide: npt.NDArray[np.float64], narrow: npt.NDArray[np.float32], where: str) -> None:
    # XGBoost's own parser rounds exact float32 midpoints up or down as it likes (facts,
    # xgb_roundtrip); files that XGBoost wrote contain float32 numbers only
    inexact = np.flatnonzero(np.isfinite(narrow) & (narrow != wide))
    value, near = wide[inexact], narrow[inexact]
    with np.errstate(over="ignore"):
        other = np.nextafter(near, np.where(value > near, np.inf, -np.inf).astype(np.float32))
    if np.any(value - near == other.astype(np.float64) - value):
        raise fault(where, "holds a number exactly between two float32 numbers")


def _checked_length(array: _Array, where: str, length: int | None) -> _Array:
    if length is not None and len(array) != length:
        raise fault(where, f"has {len(array)} entries, expected {length}")
    return array


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
