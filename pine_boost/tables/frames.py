"""Convert pandas, polars and pyarrow tables to a float64 matrix; each column is read as the native library reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray
from pine_boost.model.rules import CategoryRule
from pine_boost.parsers.traits import Reader
from pine_boost.tables.categories import (
    check_booleans,
    code_of,
    recode,
    refuse_unencoded,
    refuse_unstored,
    require_text,
)
from pine_boost.tables.columns import model_columns
from pine_boost.tables.numbers import Casting, TableKind, cast_numbers, cast_objects, casting_of
from pine_boost.tables.schema import InputSchema, check_shape


def read_pandas(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a pandas DataFrame to the matrix."""
    if getattr(X, "ndim", 0) != 2:
        raise InvalidInputError(f"{name} is a pandas {type(X).__name__}; pass a DataFrame (one row: X.iloc[[i]]).")
    X = model_columns(X, schema, name)
    check_shape(X.shape, schema, name, columns=[str(column) for column in X.columns])
    if len(X) == 0:  # columns without values have no type, for example those of a CSV file
        return np.empty(X.shape, dtype=np.float64)
    plain = [dtype for dtype in X.dtypes if isinstance(dtype, np.dtype)]
    early = any(dtype.kind == "b" for dtype in plain) or any(
        not isinstance(dtype, np.dtype) and dtype.kind in "iufb" and not _is_sparse(dtype) for dtype in X.dtypes
    )
    casting = casting_of(schema, TableKind.PANDAS, plain or [np.dtype(np.float64)], early)
    matrix = np.empty(X.shape, dtype=np.float64, order="F")
    for feature in range(schema.n_features):
        column = X.iloc[:, feature]
        label = f"column {column.name!r} of {name}"
        known = schema.categories_of(feature)
        if hasattr(column, "cat") and hasattr(column.dtype, "categories"):
            if known is None:
                raise refuse_unstored(label)
            kinds = column.cat.categories.dtype
            is_text = kinds.kind in "OUST" and len(column.cat.categories) > 0
            require_text(is_text, f"category of {kinds}", known, schema, label)
            own = column.cat.categories.to_numpy(dtype=object)
            matrix[:, feature] = recode(column.cat.codes.to_numpy(), own, known, schema, label)
        elif known is not None and schema.category_rule is CategoryRule.KNOWN:
            require_text(column.dtype.kind in "OUST", str(column.dtype), known, schema, label)
            is_plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub"
            values = column.to_numpy() if is_plain else column.to_numpy(dtype=object)
            matrix[:, feature] = code_of(values, known, schema, label)
        elif known is not None:
            raise refuse_unencoded(str(column.dtype), known, label)
        else:
            matrix[:, feature] = _pandas_numbers(column, casting, label)
    return matrix


def _is_sparse(dtype: Any) -> bool:
    return hasattr(dtype, "fill_value")


def _pandas_numbers(column: Any, casting: Casting, label: str) -> FloatArray:
    dtype, reader = column.dtype, casting.schema.reader
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return cast_numbers(column.to_numpy(), casting, label)
    if dtype.kind in "fiub":  # nullable, arrow-backed or sparse
        if reader is Reader.LIGHTGBM and type(dtype).__name__ == "ArrowDtype":
            raise InvalidInputError(
                f"The {label} has dtype {dtype}, which LightGBM refuses. Convert to "
                "float64/float32 first: X.astype('float64')."
            )
        if _is_sparse(dtype):
            return cast_numbers(column.to_numpy(), casting, label)
        present = column.notna().to_numpy()
        plain = np.dtype(f"{dtype.kind}{dtype.itemsize}" if dtype.kind != "b" else bool)
        return cast_numbers(column.to_numpy(dtype=plain, na_value=0), casting, label, present)
    numbers = cast_objects(column.to_numpy(dtype=object), label, casting.schema)
    if reader in (Reader.XGBOOST, Reader.LIGHTGBM):
        raise InvalidInputError(
            f"The {label} has dtype {dtype}, which {reader.value} refuses. Convert to "
            "float64/float32 first: X.astype('float64')."
        )
    return numbers


def read_polars(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a polars DataFrame to the matrix."""
    if type(X).__name__ != "DataFrame":
        raise _no_table(X, name)
    X = model_columns(X, schema, name)
    check_shape(X.shape, schema, name, columns=list(X.columns))
    return _read_columns([X.to_series(j) for j in range(X.width)], TableKind.POLARS, schema, name)


def read_arrow(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a pyarrow Table or RecordBatch to the matrix."""
    if type(X).__name__ not in ("Table", "RecordBatch"):
        raise _no_table(X, name)
    import pyarrow as pa

    X = model_columns(X, schema, name)
    check_shape((X.num_rows, X.num_columns), schema, name, columns=list(X.schema.names))
    table = X if type(X).__name__ == "Table" else pa.Table.from_batches([X])
    columns = [
        column.cast(pa.float32()) if column.type == pa.float16() else column  # narwhals has no float16
        for column in table.columns
    ]
    return _read_columns(columns, TableKind.ARROW, schema, name)


def _no_table(X: Any, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} is a {type(X).__module__}.{type(X).__name__}; pass a table with all columns "
        "(collect a lazy frame first)."
    )


def _read_columns(columns: list[Any], kind: TableKind, schema: InputSchema, name: str) -> FloatArray:
    names = schema.feature_names or range(schema.n_features)
    labels = [f"column {column!r} of {name}" for column in names]
    read = [_values_of(column) for column in columns]
    casting = casting_of(schema, kind)
    matrix = np.empty((len(columns[0]), schema.n_features), dtype=np.float64, order="F")
    for feature, (column, (values, present)) in enumerate(zip(columns, read, strict=True)):
        known, label = schema.categories_of(feature), labels[feature]
        if values.dtype.kind in "fiub" and not _is_category(column, kind) and known is None:
            matrix[:, feature] = cast_numbers(values, casting, label, present)
        elif known is None:
            if _is_category(column, kind):
                raise refuse_unstored(label)
            raise InvalidInputError(
                f"The {label} has type {_type_of(column, kind)}; numbers are accepted. Encode it "
                "as in training, or convert to float64/float32 first."
            )
        else:
            _check_categories(column, kind, schema, known, label, bool(present.all()))
            raw = values.astype(object)
            check_booleans(raw[present].tolist(), known, schema, label)
            raw[~present] = None
            matrix[:, feature] = code_of(raw, known, schema, label)
    return matrix


def _values_of(column: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the values of a column and a mask of those present; numbers stay numbers, all else becomes objects."""
    import narwhals.stable.v1 as nw

    series = nw.from_native(column, series_only=True)
    present = np.asarray((~series.is_null()).to_numpy(), dtype=bool)
    kind = str(series.dtype)  # numpy has no decimals and no 128-bit integers
    if series.dtype.is_numeric() and not kind.startswith("Decimal") and not kind.endswith("128"):
        return np.asarray(series.fill_null(0).to_numpy()), present
    if series.dtype == nw.Boolean:
        return np.asarray(series.fill_null(value=False).to_numpy(), dtype=bool), present
    return np.array([*series.to_list(), None], dtype=object)[:-1], present


def _type_of(column: Any, kind: TableKind) -> str:
    return str(column.dtype if kind is TableKind.POLARS else column.type)


def _is_category(column: Any, kind: TableKind) -> bool:
    return _type_of(column, kind).startswith(("Categorical", "Enum", "dictionary"))


def _check_categories(
    column: Any, kind: TableKind, schema: InputSchema, known: Sequence[Any], label: str, complete: bool
) -> None:
    """Raise on categories that the library rejects, or reads differently, in this kind of table."""
    reader = schema.reader
    found = _type_of(column, kind)
    is_text = "string" in found.lower() or found.startswith(("Categorical", "Enum")) or found == "null"
    require_text(is_text, found, known, schema, label)
    if schema.category_rule is not CategoryRule.KNOWN and not _is_category(column, kind):
        raise refuse_unencoded(found, known, label)
    if reader is Reader.XGBOOST:
        if not np.isnan(schema.missing_value):
            raise InvalidInputError(
                f"The {label} is a category of a {kind.value}, and the model counts "
                f"{schema.missing_value:g} as missing, which XGBoost compares with codes of its "
                "own there. Pass a pandas DataFrame with .astype('category')."
            )
        if kind is TableKind.ARROW and "values=string" not in found.replace("large_", ""):
            raise InvalidInputError(
                f"The {label} is {found}; XGBoost takes only text as categories of a pyarrow "
                "Table. Pass a pandas DataFrame with .astype('category')."
            )
    if reader is Reader.HISTOGRAM and kind is TableKind.ARROW and not complete:
        raise InvalidInputError(
            f"The {label} is a category of a pyarrow Table and has nulls, which "
            "HistGradientBoosting does not read as missing. Pass a pandas DataFrame."
        )
