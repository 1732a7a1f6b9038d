"""Tables of users: any of the usual kinds becomes the float64 matrix that the trees compare.

In come numpy, pandas, polars, pyarrow or scipy.sparse; out goes float64 with categories as codes
and NaN for missing, number for number what the native library would see. Refuses other columns,
other names or their order, text, and values on which the native predict raises: never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import CategoryRule, Comparison, FloatArray, Forest
from pine_boost.options import is_whole
from pine_boost.parsers.traits import traits_of

_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class InputSchema:
    """What a model knows of its input table.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        None when the model was trained without names (LightGBM's own Column_0, ... included).
    feature_categories : tuple
        Per feature None, or the raw category values whose position is the code; may be empty.
    library : str
    comparison : Comparison
    category_rule : CategoryRule
    missing_value : float
        Counts as missing besides NaN; NaN if none does.
    sparse_zero_is_missing : bool
    accepts_missing : bool
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    feature_categories: tuple[tuple[Any, ...] | None, ...]
    library: str
    comparison: Comparison
    category_rule: CategoryRule
    missing_value: float
    sparse_zero_is_missing: bool
    accepts_missing: bool

    def name_of(self, feature: int) -> str:
        """A feature's name for people: the model's own, or ``f<index>``."""
        return self.feature_names[feature] if self.feature_names else f"f{feature}"

    def index_of(self, feature: str | int) -> int:
        """Position of a feature given by name or position; refuses unknown ones."""
        if isinstance(feature, str):
            if self.feature_names is None:
                raise InvalidInputError(
                    f"Feature {feature!r} was named, but the model has no feature names; "
                    f"give positions 0 to {self.n_features - 1}."
                )
            if feature not in self.feature_names:
                raise InvalidInputError(
                    f"The model has no feature {feature!r}; it has {_listing(self.feature_names)}."
                )
            return self.feature_names.index(feature)
        if not is_whole(feature):
            raise InvalidInputError(f"A feature is a name or a position, not {feature!r}.")
        if not 0 <= feature < self.n_features:
            raise InvalidInputError(
                f"Feature {feature} is out of range; the model has {self.n_features} features."
            )
        return int(feature)

    def categories_of(self, feature: int) -> tuple[Any, ...] | None:
        """Raw category values of a feature, None where the model stores none."""
        return self.feature_categories[feature] if self.feature_categories else None


def schema_of(forest: Forest) -> InputSchema:
    """What the model of a Forest expects of its input."""
    names = forest.feature_names
    if names is not None and names == tuple(f"Column_{j}" for j in range(len(names))):
        names = None  # LightGBM's way of saying that it was trained on a bare array
    return InputSchema(
        n_features=forest.n_features,
        feature_names=names,
        feature_categories=forest.feature_categories,
        library=forest.library,
        comparison=forest.comparison,
        category_rule=forest.category_rule,
        missing_value=float(forest.missing_value),
        sparse_zero_is_missing=forest.sparse_zero_is_missing,
        accepts_missing=forest.accepts_missing,
    )


def to_matrix(X: Any, schema: InputSchema, name: str = "X") -> FloatArray:
    """Turn a user's table into the matrix that the trees compare.

    Parameters
    ----------
    X : numpy array, pandas or polars DataFrame, pyarrow Table, scipy.sparse, sequence of rows
        Columns in the model's order. In a bare array the categories of XGBoost and LightGBM are
        codes, those of HistGradientBoosting raw values, as natively. A pandas categorical is
        matched by its values, whatever the order of its categories.
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
        Other columns than the model's, text, a category that the library refuses, infinite or
        missing values where the native ``predict`` raises on them.

    Examples
    --------
    >>> import numpy as np
    >>> from pine_boost.tables.matrix import InputSchema, to_matrix
    >>> from pine_boost.model.forest import CategoryRule, Comparison
    >>> schema = InputSchema(2, None, (), "xgboost", Comparison.FLOAT32_LESS, CategoryRule.EXACT,
    ...                      -1.0, True, True)
    >>> to_matrix(np.array([[3, -1]]), schema)
    array([[ 3., nan]])
    """
    module = type(X).__module__.partition(".")[0]
    if module in ("polars", "pyarrow"):
        X, module = _through_pandas(X, name), "pandas"
    if module == "pandas":
        matrix = _from_frame(X, schema, name)
    elif module == "scipy":
        matrix = _from_sparse(X, schema, name)
    else:
        matrix = _from_array(X, schema, name)
    return _checked_values(matrix, schema, name)


def raw_values(matrix: FloatArray, schema: InputSchema) -> npt.NDArray[Any]:
    """The inverse of `to_matrix` for people: codes become category values, in an object array.

    A matrix of a model without stored categories comes back unchanged.
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


def _through_pandas(X: Any, name: str) -> Any:
    if not hasattr(X, "to_pandas") or not hasattr(X, "columns"):
        raise InvalidInputError(
            f"{name} is a {type(X).__module__}.{type(X).__name__}; pass a table with all columns "
            "(collect a lazy frame first)."
        )
    return X.to_pandas()


def _from_array(X: Any, schema: InputSchema, name: str) -> FloatArray:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a table of equally long rows: {error}.") from error
    if array.ndim == 0:
        found = "missing" if X is None else f"a {type(X).__name__}, no table"
        raise InvalidInputError(f"{name} is {found}; pass an array, a DataFrame or a list of rows.")
    _check_shape(array.shape, schema, name)
    if isinstance(X, np.ma.MaskedArray):
        raise InvalidInputError(f"{name} is a masked array; fill it with NaN where it is masked.")
    raw_categories = schema.category_rule is CategoryRule.KNOWN and any(schema.feature_categories)
    if array.dtype.kind in "OUS" or raw_categories:
        matrix = np.empty(array.shape, dtype=np.float64)
        for feature in range(schema.n_features):
            categories = schema.categories_of(feature) if raw_categories else None
            label = f"column {schema.name_of(feature)!r} of {name}"
            if categories is not None:
                matrix[:, feature] = _codes(array[:, feature], categories, schema, label)
            else:
                matrix[:, feature] = _numbers(array[:, feature], label)
        return matrix
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"{name} has dtype {array.dtype}; numbers (float, int, bool) are accepted."
        )
    if array.dtype.kind in "iu" and not _compares_doubles(schema):
        # these libraries cast an integer array straight to float32 (LightGBM too, though it
        # compares doubles); by way of float64 it would be rounded twice
        return array.astype(np.float32).astype(np.float64)
    return np.asarray(array, dtype=np.float64)


def _compares_doubles(schema: InputSchema) -> bool:
    is_double = schema.comparison is Comparison.FLOAT64_LESS_EQUAL
    return is_double and not traits_of(schema.library).casts_integers


def _from_sparse(X: Any, schema: InputSchema, name: str) -> FloatArray:
    if not hasattr(X, "tocoo"):
        raise InvalidInputError(f"{name} is a {type(X).__name__}; pass a scipy.sparse matrix.")
    _check_shape(X.shape, schema, name)
    entries = X.tocoo(copy=True)
    if entries.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has dtype {entries.dtype}; numbers are accepted.")
    entries.sum_duplicates()
    absent = np.nan if schema.sparse_zero_is_missing else 0.0
    matrix = np.full(X.shape, absent, dtype=np.float64)
    matrix[entries.row, entries.col] = entries.data
    return matrix


def _from_frame(X: Any, schema: InputSchema, name: str) -> FloatArray:
    if getattr(X, "ndim", 0) != 2:
        raise InvalidInputError(
            f"{name} is a pandas {type(X).__name__}; pass a DataFrame (one row: X.iloc[[i]])."
        )
    _check_shape(X.shape, schema, name, columns=[str(column) for column in X.columns])
    _check_names(X.columns, schema, name)
    matrix = np.empty(X.shape, dtype=np.float64, order="F")
    for feature in range(schema.n_features):
        column = X.iloc[:, feature]
        label = f"column {column.name!r} of {name}"
        categories = schema.categories_of(feature)
        is_categorical = hasattr(column, "cat") and hasattr(column.dtype, "categories")
        if categories is not None and is_categorical:
            position = column.cat.codes.to_numpy()
            used = np.unique(position[position >= 0])
            table = np.full(len(column.cat.categories) + 1, np.nan)  # the last for position -1
            values = column.cat.categories.to_numpy(dtype=object)[used]
            table[used] = _codes(values, categories, schema, label)
            matrix[:, feature] = table[position]
        elif categories is not None and schema.category_rule is CategoryRule.KNOWN:
            matrix[:, feature] = _codes(column.to_numpy(dtype=object), categories, schema, label)
        elif is_categorical:
            raise InvalidInputError(
                f"The {label} is categorical, but the model stores no categories for it; "
                "pass the codes it was trained on as numbers."
            )
        elif categories is not None:
            raise InvalidInputError(
                f"The {label} has dtype {column.dtype}, but the model was trained on a pandas "
                f"categorical with the values {_listing(categories)}; use .astype('category')."
            )
        elif column.dtype.kind in "iufb" and hasattr(column, "to_numpy"):
            matrix[:, feature] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            matrix[:, feature] = _numbers(column.to_numpy(dtype=object), label)
    return matrix


def _codes(
    values: npt.NDArray[Any], categories: Sequence[Any], schema: InputSchema, label: str
) -> FloatArray:
    """Codes of raw category values; what the library does with unknown ones."""
    if values.dtype.kind in "fiub":
        distinct, inverse = np.unique(values, return_inverse=True)
        return _codes(distinct.astype(object), categories, schema, label)[inverse]
    code_of = {_key(category): float(code) for code, category in enumerate(categories)}
    codes = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if _is_missing(value):
            continue
        code = code_of.get(_key(value))
        if code is not None:
            codes[row] = code
        elif traits_of(schema.library).refuses_unknown_categories:
            raise InvalidInputError(
                f"The {label} holds {value!r}, a category the model was not trained on; it knows "
                f"{_listing(categories)}. {traits_of(schema.library).title} refuses it as well."
            )
        # LightGBM and HistGradientBoosting turn an unknown category into missing
    return codes


def _key(value: Any) -> Any:
    """1, 1.0 and np.int64(1) are one category, "1" is another, True is not 1."""
    if isinstance(value, (bool, np.bool_)):
        return ("bool", bool(value))
    return value.item() if isinstance(value, np.generic) else value


def _is_missing(value: Any) -> bool:
    # pandas.NA and NaT are recognised without importing pandas: neither equals itself as True
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _numbers(values: npt.NDArray[Any], label: str) -> FloatArray:
    """Floats of an object column; None, NaN and pandas.NA are missing, text is refused."""
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        if _is_missing(value):
            numbers[row] = np.nan
        elif isinstance(value, (str, bytes)) or not _converts(value):
            found = value.item() if isinstance(value, np.generic) else value
            raise InvalidInputError(
                f"The {label} holds {found!r} in row {row}; numbers are accepted. Encode it the "
                "way the model's training data were encoded."
            )
        else:
            numbers[row] = float(value)
    return numbers


def _converts(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _checked_values(matrix: FloatArray, schema: InputSchema, name: str) -> FloatArray:
    if not np.isnan(schema.missing_value):
        with np.errstate(over="ignore"):
            # XGBoost compares the float32 of both
            equal = matrix.astype(np.float32) == np.float32(schema.missing_value)
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
            too_large = np.abs(matrix) > _FLOAT32_MAX
        if too_large.any():
            row, feature = np.argwhere(too_large)[0]
            raise InvalidInputError(
                f"{name} has {matrix[row, feature]} (row {row}, {schema.name_of(feature)!r}); "
                "scikit-learn's trees refuse infinity and values beyond float32. Clip it first."
            )
    return matrix


def _check_shape(
    shape: tuple[int, ...], schema: InputSchema, name: str, columns: Sequence[str] | None = None
) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"{name} has {len(shape)} dimension(s), a table has 2; for one row pass [row]."
        )
    if shape[1] != schema.n_features:
        differs = ""
        if columns is not None and schema.feature_names is not None:
            differs = _difference(columns, schema.feature_names)
        raise InvalidInputError(
            f"{name} has {shape[1]} columns, the model has {schema.n_features} features. {differs}"
            "Pass exactly the model's columns, in its order."
        )


def _check_names(columns: Any, schema: InputSchema, name: str) -> None:
    # a frame made from a bare array counts its columns 0, 1, ...: these are no names
    unnamed = all(column == j for j, column in enumerate(columns))
    if schema.feature_names is None or unnamed:
        return
    stored = traits_of(schema.library).column_name
    found = [stored(str(column)) for column in columns]
    if found == list(schema.feature_names):
        return
    differs = _difference(found, schema.feature_names)
    if not differs:
        first = next(j for j, column in enumerate(found) if column != schema.feature_names[j])
        differs = (
            f"The names are the same in another order (column {first} is {found[first]!r}, the "
            f"model has {schema.feature_names[first]!r} there). "
        )
    raise InvalidInputError(
        f"The columns of {name} are not the model's. {differs}Select them in the model's order: "
        "X[list(region.schema.feature_names)]."
    )


def _difference(found: Sequence[str], expected: Sequence[str]) -> str:
    missing = [column for column in expected if column not in set(found)]
    extra = [column for column in found if column not in set(expected)]
    text = f"Missing: {_listing(missing)}. " if missing else ""
    return text + (f"Not in the model: {_listing(extra)}. " if extra else "")


def _listing(values: Sequence[Any], limit: int = 8) -> str:
    shown = ", ".join(repr(value) for value in values[:limit])
    return shown + (f", ... ({len(values)} in all)" if len(values) > limit else "")
