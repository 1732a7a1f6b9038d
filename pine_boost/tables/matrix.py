"""Convert users' tables to the float64 matrix that the trees compare.

numpy, pandas, polars, pyarrow and scipy.sparse tables give exactly the numbers that the native library reads, with
categories as codes and NaN for missing. A table that the native predict rejects, or might read differently, raises.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import FLOAT32_MAX, LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.parsers.traits import Reader
from pine_boost.tables.categories import code_of
from pine_boost.tables.frames import read_arrow, read_pandas, read_polars
from pine_boost.tables.numbers import TableKind, cast_numbers, casting_of, object_numbers, require_read_alike
from pine_boost.tables.schema import InputSchema, check_shape


def to_matrix(X: Any, schema: InputSchema, name: str = "X") -> FloatArray:
    """Convert a user's table to the matrix that the trees compare.

    Parameters
    ----------
    X : numpy array, pandas or polars DataFrame, pyarrow Table, scipy.sparse, sequence of rows
        Columns in the model's order. In a bare array the categories of XGBoost and LightGBM are
        codes, those of HistGradientBoosting raw values, as natively. A pandas categorical is
        matched by its values, regardless of the order of its categories.
    schema : InputSchema
    name : str
        What the errors call the table.

    Returns
    -------
    float64 (n_rows, n_features)
        Categories as codes, NaN for missing. May share memory with ``X``: do not write to it.

    Raises
    ------
    InvalidInputError
        The columns are not the model's; the table holds text, or a category that the library
        rejects; or it has infinite or missing values for which the native ``predict`` raises.

    Examples
    --------
    >>> import numpy as np
    >>> from pine_boost.tables.matrix import to_matrix
    >>> from pine_boost.tables.schema import InputSchema
    >>> from pine_boost.model.rules import CategoryRule, Comparison
    >>> schema = InputSchema(2, None, (), "xgboost", Comparison.FLOAT32_LESS, CategoryRule.EXACT,
    ...                      -1.0, True, True)
    >>> to_matrix(np.array([[3, -1]]), schema)
    array([[ 3., nan]])
    """
    if isinstance(X, (list, tuple)) or type(X) in (np.ndarray, np.memmap):
        matrix = _read_array(X, schema, name)
    elif (module := type(X).__module__.partition(".")[0]) in _READERS:
        matrix = _READERS[module](X, schema, name)
    else:
        raise _no_table(X, name)
    return _checked_values(matrix, schema, name, is_frame=hasattr(X, "columns"))


def _no_table(X: Any, name: str) -> InvalidInputError:
    if isinstance(X, np.ma.MaskedArray):
        return InvalidInputError(f"{name} is a masked array; fill it with NaN where it is masked.")
    if isinstance(X, (str, os.PathLike)):
        return InvalidInputError(
            f"{name} is the path {os.fspath(X)!r}. Of files, only Parquet (.parquet) and folders of Parquet files are "
            "read here; read any other file first, for example with pandas.read_csv. The command line reads CSV itself."
        )
    found = "missing" if X is None else f"a {type(X).__name__}, no table"
    return InvalidInputError(
        f"{name} is {found}; pass a numpy array, a pandas or polars DataFrame, a pyarrow Table, a "
        "scipy.sparse matrix or a list of rows."
    )


def raw_values(matrix: FloatArray, schema: InputSchema) -> npt.NDArray[Any]:
    """Invert `to_matrix` for display: codes become category values, in an object array.

    If the model stores no categories, the matrix is returned unchanged.
    """
    if not any(schema.feature_categories):
        return matrix
    raw = matrix.astype(object)
    for feature, categories in enumerate(schema.feature_categories):
        if categories is not None:
            for row, code in enumerate(matrix[:, feature]):
                if not np.isnan(code) and 0 <= code < len(categories):
                    raw[row, feature] = categories[int(code)]
    return raw


def _read_array(X: Any, schema: InputSchema, name: str) -> FloatArray:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a table of equally long rows: {error}.") from error
    check_shape(array.shape, schema, name)
    raw_categories = schema.category_rule is CategoryRule.KNOWN and any(schema.feature_categories)
    kind = TableKind.ARRAY if isinstance(X, np.ndarray) else TableKind.SEQUENCE
    casting = casting_of(schema, kind)
    if array.dtype.kind not in "OUS" and not raw_categories:
        return cast_numbers(array, casting, f"table {name}")
    matrix = np.empty(array.shape, dtype=np.float64)
    objects: dict[str, FloatArray] = {}
    for feature in range(schema.n_features):
        known = schema.categories_of(feature) if raw_categories else None
        label = f"column {schema.name_of(feature)!r} of {name}"
        if known is not None:
            matrix[:, feature] = code_of(array[:, feature], known, schema, label)
        elif array.dtype.kind in "OUS":
            objects[label] = matrix[:, feature] = object_numbers(array[:, feature], label)
        else:
            matrix[:, feature] = cast_numbers(array[:, feature], casting, label)
    for label, numbers in objects.items():  # only after all columns were checked for text
        require_read_alike(numbers, label, schema)
    return matrix


def _read_sparse(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a scipy.sparse matrix to a dense one."""
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
            # tiny values of a dense array become 0 before they are compared, those of CSR do not
            raise InvalidInputError(
                f"{name} has the entry {numbers[tiny][0]!r}; LightGBM reads values within 1e-35 of "
                "zero in a sparse matrix otherwise than in an array. Set them to 0 first."
            )
    matrix = np.full(X.shape, np.nan if schema.sparse_zero_is_missing else 0.0)
    matrix[entries.row, entries.col] = numbers
    return matrix


def _recoded(schema: InputSchema, is_frame: bool) -> list[int]:
    """Return the features whose categories were matched by value."""
    if not is_frame:
        return []
    return [j for j in range(schema.n_features) if schema.categories_of(j) is not None]


def _checked_values(matrix: FloatArray, schema: InputSchema, name: str, is_frame: bool) -> FloatArray:
    if not np.isnan(schema.missing_value):
        with np.errstate(over="ignore"):
            # XGBoost compares both as float32
            equal = matrix.astype(np.float32) == np.float32(schema.missing_value)
        # categories of a frame were already compared by their own codes
        equal[:, _recoded(schema, is_frame)] = False
        if equal.any():
            matrix = np.where(equal, np.nan, matrix)
    if not schema.accepts_missing and np.isnan(matrix).any():
        row, feature = np.argwhere(np.isnan(matrix))[0]
        raise InvalidInputError(
            f"{name} has a missing value (row {row}, {schema.name_of(feature)!r}), and this model "
            "does not accept any. Impute it as in training."
        )
    if schema.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        with np.errstate(invalid="ignore"):
            too_large = np.abs(matrix) > FLOAT32_MAX
        if too_large.any():
            row, feature = np.argwhere(too_large)[0]
            raise InvalidInputError(
                f"{name} has {matrix[row, feature]} (row {row}, {schema.name_of(feature)!r}); "
                "scikit-learn's trees refuse infinity and values beyond float32. Clip it first."
            )
    return matrix


_READERS = {"pandas": read_pandas, "polars": read_polars, "pyarrow": read_arrow, "scipy": _read_sparse}
