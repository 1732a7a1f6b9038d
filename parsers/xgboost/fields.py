"""Typed access to the sections of an XGBoost file, as strict as XGBoost's own loader.

Errors name the field. Arrays have element types in UBJSON, and XGBoost refuses every other type there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MalformedModelError

MAX_INTEGER = 2**31 - 1
_INTEGER_TEXT = re.compile(r"-?[0-9]{1,18}\Z")


def fault(where: str, found: str) -> MalformedModelError:
    """The error for a damaged field."""
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
    """An array of anything; not one with an element type, which XGBoost does not take for it."""
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
    """An integer within bounds."""
    if type(value) is not int:
        raise fault(where, f"is {_kind(value)}, not an integer")
    if not low <= value <= high:
        raise fault(where, f"is {value}, outside {low}..{high}")
    return value


def as_parameter(value: Any, where: str, low: int, high: int) -> int:
    """The text of an integer within bounds: XGBoost's parameters are texts, and it refuses numbers."""
    if not (isinstance(value, str) and _INTEGER_TEXT.match(value)):
        raise fault(where, f"is {_kind(value)}, not the text of an integer")
    return as_integer(int(value), where, low, high)


def as_integers(value: Any, where: str, length: int | None = None) -> npt.NDArray[np.int64]:
    """A plain array of integers within 32 bits."""
    return as_array(as_list(value, where), where, np.int32, length, typed=False).astype(np.int64)


def as_array(value: Any, where: str, dtype: Any, length: int | None = None, *, typed: bool) -> npt.NDArray[Any]:
    """An array of numbers of one type, NaN and infinity included.

    Parameters
    ----------
    value : list or numpy array
    where : str
        The field, for errors.
    dtype : numpy type
        Element type in UBJSON; in JSON all numbers must fit it.
    length : int, optional
        Expected number of entries.
    typed : bool
        Whether the file is UBJSON, where the array must have this element type.
    """
    expected = np.dtype(dtype)
    if typed:
        if not isinstance(value, np.ndarray):
            raise fault(where, f"is {_kind(value)}, not an array of {expected.name}")
        if value.dtype != expected:
            raise fault(where, f"is an array of {value.dtype.name}, not of {expected.name}")
        array = value
    elif expected.kind == "f":
        array = _narrow(as_list(value, where), where)
    else:
        items = as_list(value, where)
        # bool is an int to Python, and XGBoost refuses it: compare the types themselves
        if not set(map(type, items)) <= {int}:
            raise fault(where, "holds something that is not an integer")
        limits = np.iinfo(expected)
        if items and not limits.min <= min(items) <= max(items) <= limits.max:
            raise fault(where, f"holds an integer outside {limits.min}..{limits.max}")
        array = np.array(items, dtype=expected)
    if length is not None and len(array) != length:
        raise fault(where, f"has {len(array)} entries, expected {length}")
    return array


def as_floats(value: Any, where: str, length: int | None = None) -> npt.NDArray[np.float32]:
    """A plain array of float32 numbers."""
    return as_array(value, where, np.float32, length, typed=False)


def _narrow(items: list[Any], where: str) -> npt.NDArray[np.float32]:
    # XGBoost refuses integers here ("Invalid cast, from Integer")
    if not set(map(type, items)) <= {float}:
        raise fault(where, "holds something that is not a number with a decimal point")
    wide = np.array(items, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    _refuse_midpoints(wide, narrow, where)
    return narrow


def _refuse_midpoints(wide: npt.NDArray[np.float64], narrow: npt.NDArray[np.float32], where: str) -> None:
    # XGBoost's own parser rounds exact float32 midpoints up or down, not to even; files that XGBoost
    # wrote contain float32 numbers only
    inexact = np.flatnonzero(np.isfinite(narrow) & (narrow != wide))
    value, near = wide[inexact], narrow[inexact]
    with np.errstate(over="ignore"):
        other = np.nextafter(near, np.where(value > near, np.inf, -np.inf).astype(np.float32))
    if np.any(value - near == other.astype(np.float64) - value):
        raise fault(where, "holds a number exactly between two float32 numbers")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
