"""Sparse matrices: entries as the native library reads them.

In comes a scipy.sparse matrix; out goes the dense float64 matrix, absent entries zero or missing.
Refuses entries that are stored twice and those that the library reads otherwise than in an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray
from pine_boost.parsers.traits import Reader
from pine_boost.tables.numbers import TableKind, cast_numbers, casting_of
from pine_boost.tables.schema import InputSchema, check_shape


def read_sparse(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """The dense matrix of a scipy.sparse one."""
    if not hasattr(X, "tocoo"):
        raise InvalidInputError(f"{name} is a {type(X).__name__}; pass a scipy.sparse matrix.")
    check_shape(X.shape, schema, name)
    label = f"table {name}"
    if schema.reader is Reader.HISTOGRAM:
        raise InvalidInputError(f"{name} is sparse, and HistGradientBoosting takes no sparse table; use X.toarray().")
    if schema.reader is Reader.LIGHTGBM and X.dtype.kind != "f":
        raise InvalidInputError(
            f"{name} is a sparse matrix of {X.dtype}, and LightGBM takes only floats. Convert to "
            "float64/float32 first: X.astype(np.float64)."
        )
    if schema.reader is Reader.XGBOOST and schema.feature_names is not None and X.format != "csr":
        raise InvalidInputError(
            f"{name} is a {type(X).__name__} without column names, which XGBoost refuses for a model trained on named "
            "columns. Pass X.tocsr(), or a DataFrame with the model's columns."
        )
    entries = X.tocoo(copy=True)
    position = entries.row.astype(np.int64) * X.shape[1] + entries.col
    if len(np.unique(position)) < len(position):
        raise InvalidInputError(
            f"{name} stores some entries more than once; libraries differ in whether they add them "
            "up. Call X.sum_duplicates() first."
        )
    numbers = cast_numbers(entries.data, casting_of(schema, TableKind.SPARSE), label)
    if schema.reader is Reader.LIGHTGBM:
        tiny = (numbers != 0) & (np.abs(numbers) <= LIGHTGBM_ZERO)
        if tiny.any():
            # an array's tiny values become 0 before they are compared, those of CSR do not
            raise InvalidInputError(
                f"{name} has the entry {numbers[tiny][0]!r}; LightGBM reads values within 1e-35 of "
                "zero in a sparse matrix otherwise than in an array. Set them to 0 first."
            )
    matrix = np.full(X.shape, np.nan if schema.sparse_zero_is_missing else 0.0)
    matrix[entries.row, entries.col] = numbers
    return matrix
