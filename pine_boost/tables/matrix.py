"""Convert users' tables to the float64 matrix that the trees compare.

numpy, pandas, polars, pyarrow and scipy.sparse tables give exactly the numbers that the native library reads, with
categories as codes and NaN for missing. A table that the native predict rejects, or might read differently, raises.
Unknown categories become missing, as natively; for XGBoost they raise, as they do natively from 3.3 on. Boolean
categories raise if the model was trained on numbers, and the reverse, unless the library matches them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, class_with_article
from pine_boost.model.exact import FLOAT32_MAX, LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.parsers.traits import Reader, plain_key, traits_of
from pine_boost.tables.numbers import (
    FloatType,
    TableKind,
    cast_numbers,
    is_missing,
    object_numbers,
    require_read_alike,
    whole_cast,
)
from pine_boost.tables.schema import InputSchema, check_shape, listing, model_columns


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
    found = "missing" if X is None else f"{class_with_article(X)}, not a table"
    return InvalidInputError(
        f"{name} is {found}; pass a table of rows (in Python a numpy array, a pandas or polars DataFrame, a pyarrow "
        "Table, a scipy.sparse matrix or a list of rows).",
        option=name,
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
            codes = known_codes(matrix[:, feature], categories)
            raw[codes >= 0, feature] = [categories[code] for code in codes[codes >= 0]]
    return raw


def known_codes(values: FloatArray, categories: Sequence[Any]) -> IntArray:
    """Return the codes that name a category, -1 for all other numbers."""
    inside = (values >= 0) & (values < len(categories))
    return np.where(inside, values, -1).astype(np.int64)


def _read_array(X: Any, schema: InputSchema, name: str) -> FloatArray:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a table of equally long rows: {error}.") from error
    check_shape(array.shape, schema, name)
    raw_categories = schema.category_rule is CategoryRule.KNOWN and any(schema.feature_categories)
    kind = TableKind.ARRAY if isinstance(X, np.ndarray) else TableKind.SEQUENCE
    whole = whole_cast(schema, kind)
    if array.dtype.kind not in "OUS" and not raw_categories:
        return cast_numbers(array, whole, schema, f"table {name}")
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
            matrix[:, feature] = cast_numbers(array[:, feature], whole, schema, label)
    for label, numbers in objects.items():  # only after all columns were checked for text
        require_read_alike(numbers, label, schema)
    return matrix


def _read_sparse(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a scipy.sparse matrix to a dense one."""
    if not hasattr(X, "tocoo"):
        raise InvalidInputError(f"{name} is {class_with_article(X)}; pass a scipy.sparse matrix.")
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
            f"{name} is {class_with_article(X)} without column names, which XGBoost refuses for a model trained on "
            "named columns. Pass X.tocsr(), or a DataFrame with the model's columns."
        )
    entries = X.tocoo(copy=True)
    position = entries.row.astype(np.int64) * X.shape[1] + entries.col
    if len(np.unique(position)) < len(position):
        raise InvalidInputError(
            f"{name} stores some entries more than once; libraries differ in whether they add them "
            "up. Call X.sum_duplicates() first."
        )
    numbers = cast_numbers(entries.data, whole_cast(schema, TableKind.SPARSE), schema, label)
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


def _checked_values(matrix: FloatArray, schema: InputSchema, name: str, is_frame: bool) -> FloatArray:
    if not np.isnan(schema.missing_value):
        with np.errstate(over="ignore"):
            # XGBoost compares both as float32
            equal = matrix.astype(np.float32) == np.float32(schema.missing_value)
        # categories of a frame were already compared by their own codes
        equal[:, [is_frame and schema.categories_of(j) is not None for j in range(schema.n_features)]] = False
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


def read_pandas(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a pandas DataFrame to the matrix."""
    if getattr(X, "ndim", 0) != 2:
        raise InvalidInputError(f"{name} is a pandas {type(X).__name__}; pass a DataFrame (one row: X.iloc[[i]]).")
    X = model_columns(X, schema, name)
    check_shape(X.shape, schema, name)
    if len(X) == 0:  # columns without values have no type, for example those of a CSV file
        return np.empty(X.shape, dtype=np.float64)
    plain = [dtype for dtype in X.dtypes if isinstance(dtype, np.dtype)]
    early = any(dtype.kind == "b" for dtype in plain) or any(
        not isinstance(dtype, np.dtype) and dtype.kind in "iufb" and not _is_sparse(dtype) for dtype in X.dtypes
    )
    whole = whole_cast(schema, TableKind.PANDAS, plain or [np.dtype(np.float64)], early)
    matrix = np.empty(X.shape, dtype=np.float64, order="F")
    for feature in range(schema.n_features):
        column = X.iloc[:, feature]
        label = f"column {column.name!r} of {name}"
        known = schema.categories_of(feature)
        if hasattr(column, "cat") and hasattr(column.dtype, "categories"):
            if known is None:
                raise refuse_unstored(schema, label)
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
            matrix[:, feature] = _pandas_numbers(column, whole, schema, label)
    return matrix


def _is_sparse(dtype: Any) -> bool:
    return hasattr(dtype, "fill_value")


def _pandas_numbers(column: Any, whole: FloatType | None, schema: InputSchema, label: str) -> FloatArray:
    dtype, reader = column.dtype, schema.reader
    if dtype.kind in "fiub":
        if reader is Reader.LIGHTGBM and type(dtype).__name__ == "ArrowDtype":
            raise InvalidInputError(
                f"The {label} has dtype {dtype}, which LightGBM refuses. Convert to "
                "float64/float32 first: X.astype('float64')."
            )
        if isinstance(dtype, np.dtype) or _is_sparse(dtype):
            return cast_numbers(column.to_numpy(), whole, schema, label)
        # nullable or arrow-backed
        present = column.notna().to_numpy()
        plain = np.dtype(f"{dtype.kind}{dtype.itemsize}" if dtype.kind != "b" else bool)
        return cast_numbers(column.to_numpy(dtype=plain, na_value=0), whole, schema, label, present)
    numbers = object_numbers(column.to_numpy(dtype=object), label)
    if reader in (Reader.XGBOOST, Reader.LIGHTGBM):
        raise InvalidInputError(
            f"The {label} has dtype {dtype}, which {reader.value} refuses. Convert to "
            "float64/float32 first: X.astype('float64')."
        )
    return numbers


def _read_collected(X: Any, schema: InputSchema, name: str) -> FloatArray:
    """Convert a polars DataFrame, or a pyarrow Table or RecordBatch, to the matrix."""
    is_polars = type(X).__module__.startswith("polars")
    if type(X).__name__ not in (("DataFrame",) if is_polars else ("Table", "RecordBatch")):
        raise InvalidInputError(
            f"{name} is a {type(X).__module__}.{type(X).__name__}; pass a table with all columns "
            "(collect a lazy frame first)."
        )
    X = model_columns(X, schema, name)
    check_shape(X.shape, schema, name)
    if is_polars:
        return _read_columns(X.get_columns(), TableKind.POLARS, schema, name)
    import pyarrow as pa

    table = X if type(X).__name__ == "Table" else pa.Table.from_batches([X])
    columns = [
        column.cast(pa.float32()) if column.type == pa.float16() else column  # narwhals has no float16
        for column in table.columns
    ]
    return _read_columns(columns, TableKind.ARROW, schema, name)


def _read_columns(columns: list[Any], kind: TableKind, schema: InputSchema, name: str) -> FloatArray:
    names = schema.feature_names or range(schema.n_features)
    whole = whole_cast(schema, kind)
    matrix = np.empty((len(columns[0]), schema.n_features), dtype=np.float64, order="F")
    for feature, (own_name, column) in enumerate(zip(names, columns, strict=True)):
        known, label = schema.categories_of(feature), f"column {own_name!r} of {name}"
        found = str(column.dtype if kind is TableKind.POLARS else column.type)
        is_category = found.startswith(("Categorical", "Enum", "dictionary"))
        values, present = _values_of(column)
        if known is not None:
            if schema.category_rule is not CategoryRule.KNOWN and not is_category:
                raise refuse_unencoded(found, known, label)
            _check_categories(found, kind, schema, known, label, bool(present.all()))
            raw = values.astype(object)
            check_booleans(raw[present].tolist(), known, schema, label)
            raw[~present] = None
            matrix[:, feature] = code_of(raw, known, schema, label)
        elif is_category:
            raise refuse_unstored(schema, label)
        elif values.dtype.kind in "fiub":
            matrix[:, feature] = cast_numbers(values, whole, schema, label, present)
        else:
            raise InvalidInputError(
                f"The {label} has type {found}; numbers are accepted. Encode it as in training, or convert to "
                "float64/float32 first."
            )
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


def _check_categories(
    found: str, kind: TableKind, schema: InputSchema, known: Sequence[Any], label: str, complete: bool
) -> None:
    """Raise on categories of a type (``found``) that the library rejects, or reads otherwise, in this kind of table."""
    reader = schema.reader
    is_text = "string" in found.lower() or found.startswith(("Categorical", "Enum")) or found == "null"
    require_text(is_text, found, known, schema, label)
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


_READERS = {"pandas": read_pandas, "polars": _read_collected, "pyarrow": _read_collected, "scipy": _read_sparse}


def recode(
    own_codes: IntArray, own_values: Sequence[Any], known: Sequence[Any], schema: InputSchema, label: str
) -> FloatArray:
    """Return the model's codes for a categorical column, matched by value and not by position.

    ``own_codes`` are positions in ``own_values``, negative for missing. XGBoost compares these
    codes, not the model's, with its ``missing=``.
    """
    if schema.reader is not Reader.LIGHTGBM or list(own_values) != list(known):
        check_booleans(own_values, known, schema, label)  # LightGBM keeps the codes of equal lists
    used = np.unique(own_codes[own_codes >= 0])
    if schema.reader is Reader.XGBOOST and not all(isinstance(v, str) for v in own_values):
        used = np.arange(len(own_values))  # XGBoost rejects an unknown number even if no row has it
    table = np.full(len(own_values) + 1, np.nan)  # the last entry is for missing
    table[used] = code_of(np.array(own_values, dtype=object)[used], known, schema, label)
    if schema.reader is Reader.CATBOOST and np.any(own_codes < 0):
        raise InvalidInputError(f"The {label} has missing categories, which CatBoost does not take; give them a name.")
    codes: FloatArray = table[np.where(own_codes < 0, len(own_values), own_codes)]
    if not np.isnan(schema.missing_value):
        codes[own_codes == schema.missing_value] = np.nan
    return codes


def code_of(values: npt.NDArray[Any], known: Sequence[Any], schema: InputSchema, label: str) -> FloatArray:
    """Return the codes of raw category values; unknown ones become missing or raise, as in the library."""
    if values.dtype.kind in "fiub":
        if known and all(isinstance(category, str) for category in known):
            raise refuse_unencoded(str(values.dtype), known, label)
        distinct, inverse = np.unique(values, return_inverse=True)
        return code_of(distinct.astype(object), known, schema, label)[inverse]
    code_of_value = {plain_key(category): float(code) for code, category in enumerate(known)}
    codes, traits = np.full(len(values), np.nan), traits_of(schema.library)
    for row, value in enumerate(values):
        if is_missing(value) and schema.reader is not Reader.CATBOOST:  # which takes no missing category
            continue
        code = code_of_value.get(traits.category_key(value))
        if code is not None:
            codes[row] = code
        elif traits.refuses_unknown_categories:
            # XGBoost 3.2, trained on the categories [1, 2], reads 0 of [0, 1] as 1 and refuses 3, texts likewise
            raise InvalidInputError(
                f"The {label} holds {value!r}, a category the model was not trained on; it knows {listing(known)}. "
                f"{traits.title} 3.3 and newer refuse such values; older versions take one for the next known "
                "category, and refuse it if there is none. Convert them to values seen in training, or to missing."
            )
        elif schema.reader is Reader.HISTOGRAM and value in (np.inf, -np.inf):
            raise InvalidInputError(
                f"The {label} holds {value!r}, which HistGradientBoosting refuses in a column of categories. "
                "Convert it to missing."
            )
        # LightGBM and HistGradientBoosting turn an unknown category into missing; CatBoost goes the same way for both
    return codes


def check_booleans(values: Sequence[Any], known: Sequence[Any], schema: InputSchema, label: str) -> None:
    """Raise if booleans meet numbers as categories and the library does not match the two.

    With LightGBM, pandas finds no boolean among numbers and no number among booleans, so every
    value would be missing. It does match them if one side mixes both or if numbers are stored as
    objects, but we raise in these cases too. XGBoost accepts no booleans at all.
    """
    own_kinds, known_kinds = _kinds(values), _kinds(known)
    if schema.reader is Reader.XGBOOST and "boolean" in own_kinds:
        reason = "XGBoost takes no booleans as categories"
    elif schema.reader is Reader.LIGHTGBM and (own_kinds, known_kinds) in (
        ({"boolean"}, {"number"}),
        ({"number"}, {"boolean"}),
    ):
        reason = "LightGBM would in most cases read every row as missing"
    else:
        return
    renaming = "bool" if known_kinds == {"boolean"} else "int"
    raise InvalidInputError(
        f"The {label} has the categories {listing(list(dict.fromkeys(values)))}, the model was "
        f"trained on {listing(known)}: {reason}. Convert the column to the values of training; "
        f"in pandas for example X[column].cat.rename_categories({renaming})."
    )


def _kinds(values: Sequence[Any]) -> set[str]:
    """Return the kinds of the values: boolean, number, other."""
    kinds = set()
    for kind in {type(value) for value in values}:
        if issubclass(kind, (bool, np.bool_)):
            kinds.add("boolean")
        else:
            kinds.add("number" if issubclass(kind, (int, float, np.number)) else "other")
    return kinds


def require_text(is_text: bool, found: str, known: Sequence[Any], schema: InputSchema, label: str) -> None:
    """Raise if a column holds numbers, booleans or dates but HistGradientBoosting was trained on text.

    Its encoder fails on any such column, even if all values are missing.
    """
    if schema.reader is Reader.HISTOGRAM and not is_text and known and all(isinstance(v, str) for v in known):
        raise InvalidInputError(
            f"The {label} has the type {found}, but the model was trained on the text categories {listing(known)} "
            "there, and HistGradientBoosting refuses anything else. Convert the column to text with the values of "
            "training, for example X[column].astype(str)."
        )


def refuse_unencoded(found: str, known: Sequence[Any], label: str) -> InvalidInputError:
    """Return the error for plain values in a column that was categorical in training."""
    return InvalidInputError(
        f"The {label} has dtype {found}, but the model was trained on a pandas categorical with "
        f"the values {listing(known)}; use .astype('category')."
    )


def refuse_unstored(schema: InputSchema, label: str) -> InvalidInputError:
    """Return the error for a categorical column for which the model stores no categories."""
    reason = ""
    if schema.reader is Reader.LIGHTGBM:
        reason = (
            " (the lists in pandas_categorical name no columns; they are used if there are as many of them as "
            "features in categorical_feature, which is not so with ordered categories)"
        )
    return InvalidInputError(
        f"The {label} is categorical, but the model stores no categories for it{reason}; pass the codes "
        "it was trained on as numbers."
    )
