"""Cast numbers of a table to float64 as the native library casts them.

A library may round once or twice in the process. Where tests do not show that our cast agrees, the table raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray
from pine_boost.parsers.traits import Reader
from pine_boost.tables.schema import InputSchema

# Up to here every integer is exact in float32, so no chain of casts can change it.
EXACT_WHOLE = 2**24
FloatType = type[np.float32] | type[np.float64]


class TableKind(Enum):
    """The kind of table that the library receives; it converts each kind differently."""

    ARRAY = "numpy array"
    SEQUENCE = "list"
    PANDAS = "pandas DataFrame"
    POLARS = "polars DataFrame"
    ARROW = "pyarrow Table"
    SPARSE = "scipy.sparse matrix"


def whole_cast(
    schema: InputSchema, kind: TableKind, dtypes: Sequence[Any] = (), early: bool = False
) -> FloatType | None:
    """Return the type to which a library casts integers of a table first; None if unknown.

    Floats of up to 64 bits pass unchanged; a library that compares float32 casts them once, later.
    An integer beyond 2**53 may be rounded once or twice on its way to float32.

    ``dtypes`` are those of the columns of a frame; ``early`` is True if one of them is of a kind
    (bool, nullable) for which scikit-learn casts column by column.
    """
    reader = schema.reader
    if reader is Reader.HISTOGRAM:
        return np.float64
    if reader is Reader.XGBOOST:
        return np.float32
    if reader is Reader.CATBOOST:
        return None
    if reader is Reader.LIGHTGBM:
        return np.float32 if kind in (TableKind.ARRAY, TableKind.SEQUENCE) else np.float64
    if kind in (TableKind.ARRAY, TableKind.SPARSE) or early:
        return np.float32
    return _common_cast(dtypes) if kind is TableKind.PANDAS else None


def _common_cast(dtypes: Sequence[Any]) -> FloatType | None:
    """Return the type of the one array that scikit-learn makes of all columns before it casts to float32."""
    if any(dtype == np.dtype(object) for dtype in dtypes):
        return np.float64
    if any(dtype.kind not in "fiub" for dtype in dtypes):
        return None  # dates and similar types: their column raises
    return np.float32 if np.result_type(*dtypes).kind in "iub" else np.float64


def cast_numbers(
    values: npt.NDArray[Any],
    whole: FloatType | None,
    schema: InputSchema,
    label: str,
    present: npt.NDArray[Any] | None = None,
) -> FloatArray:
    """Cast an array of numbers (one column or a whole table) to float64, integers by way of ``whole``.

    Without ``whole``, integers that a library may round raise. ``present`` is False where a value is missing; the
    result is NaN there.
    """
    check_dtype(values.dtype, label)
    if values.dtype.kind not in "iu":
        numbers = values.astype(np.float64, copy=present is not None)
    elif whole is not None:
        numbers = values.astype(whole).astype(np.float64)
    else:
        given = values if present is None else values[present]
        if len(given) and not (given.max() <= EXACT_WHOLE and given.min() >= -EXACT_WHOLE):
            raise inexact(label, schema)
        numbers = values.astype(np.float64)
    if present is not None:
        numbers[~present] = np.nan
    return numbers


def check_dtype(dtype: Any, label: str) -> None:
    """Raise on number types that libraries read differently."""
    if dtype.kind not in "fiub":
        raise InvalidInputError(f"The {label} must hold numbers (float, int or bool), got dtype {dtype}.")
    if not dtype.isnative or dtype.itemsize > 8:
        found = "is not in this machine's byte order" if not dtype.isnative else "is beyond float64"
        raise InvalidInputError(
            f"The {label} has dtype {dtype.str}, which {found}: libraries differ in how they read "
            "it. Convert to float64/float32 first: X.astype(np.float64)."
        )


def inexact(label: str, schema: InputSchema) -> InvalidInputError:
    """Return the error for numbers that the library may round in an unknown way."""
    return InvalidInputError(
        f"The {label} holds numbers that float32 must round, in a table of a kind that "
        f"{schema.reader.value} may round otherwise than this library. Convert to float64/float32 "
        "first: a float64 array or DataFrame."
    )


def object_numbers(values: npt.NDArray[Any], label: str) -> FloatArray:
    """Cast an object column to float64; None, NaN and pandas.NA are missing, text raises."""
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        number = _number(value)
        if number is None:
            # in a column that was read as text, the numbers are text as well: name a value that is none
            others = ((at, other) for at, other in enumerate(values[row:], row) if not _spells_number(other))
            row, value = next(others, (row, value))
            found = value.item() if isinstance(value, np.generic) else value
            raise InvalidInputError(
                f"The {label} holds {found!r} in row {row}; numbers are accepted. Encode it the "
                "way the model's training data were encoded."
            )
        numbers[row] = number
    return numbers


def _spells_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return is_missing(value)
    return True


def _number(value: Any) -> float | None:
    if is_missing(value):
        return np.nan
    try:
        return None if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def require_read_alike(numbers: FloatArray, label: str, schema: InputSchema) -> None:
    """Raise on objects that LightGBM's Booster and its scikit-learn wrapper round differently."""
    if schema.reader is Reader.LIGHTGBM:
        # its Booster casts objects to float32, its scikit-learn wrapper to float64
        with np.errstate(over="ignore"):
            rounded = numbers.astype(np.float32).astype(np.float64)
        if not np.array_equal(rounded, numbers, equal_nan=True):
            raise inexact(label, schema)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, pandas.NA or NaT."""
    # recognised without importing pandas: comparing either with itself does not give True
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
