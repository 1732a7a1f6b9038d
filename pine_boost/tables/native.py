"""Build tables for the native library: some rows of a user's table, a split of it, or our float matrix as a table."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import HoldoutWarning, InvalidInputError
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.parsers.catboost.category_hash import CODED
from pine_boost.parsers.traits import Reader, traits_of
from pine_boost.tables.matrix import known_codes, to_matrix
from pine_boost.tables.rows import is_large, large_head
from pine_boost.tables.schema import InputSchema, schema_of


def take_rows(X: Any, rows: npt.NDArray[Any]) -> Any:
    """Return some rows of any table, as a table of the same kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):  # not every scipy.sparse format can be indexed by row
        return X.tocsr()[rows]
    if hasattr(X, "take") and type(X).__module__.partition(".")[0] == "pyarrow":
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def first_rows(X: Any, n_rows: int, names: Sequence[str] | None = None) -> Any:
    """Return at most ``n_rows`` first rows of any table; ``names`` are the model's columns."""
    if is_large(X):
        return large_head(X, n_rows, names)
    if not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
        return X  # not a table; the reader raises
    return take_rows(X, np.arange(min(n_rows, row_count(X))))


def row_count(X: Any) -> int:
    """Return the number of rows of a table in memory."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def as_table(matrix: FloatArray, schema: InputSchema) -> Any:
    """Invert `to_matrix` for the native library: columns get names, codes become categories.

    If the library accepts bare codes (XGBoost), the matrix itself is the table: in a frame, a code
    without a known category would become NaN, which is a different input.
    """
    is_hashed = schema.reader is Reader.CATBOOST and any(schema.feature_categories)
    is_plain = schema.feature_names is None and not any(schema.feature_categories)
    if is_plain or traits_of(schema.library).takes_codes:
        return matrix
    if schema.feature_names is None and schema.reader is Reader.HISTOGRAM:  # fitted on a plain matrix without names
        return _raw_matrix(matrix, schema)
    import pandas as pd

    columns: dict[Any, Any] = {}
    for feature in range(schema.n_features):
        known = schema.categories_of(feature)
        values: Any = matrix[:, feature]
        if known is not None and is_hashed:
            # texts that stand for the hashes that a CatBoost model stores; it knows no fractions
            texts = np.array([*(f"{CODED}{value}" for value in known), f"{CODED}none"], dtype=object)
            values = texts[known_codes(np.where(values == np.floor(values), values, -1.0), known)]
        elif known is not None:
            values = pd.Categorical.from_codes(known_codes(values, known), categories=list(known))
        columns[feature if schema.feature_names is None else schema.feature_names[feature]] = values
    return pd.DataFrame(columns)


def _raw_matrix(matrix: FloatArray, schema: InputSchema) -> npt.NDArray[Any]:
    """Replace codes by raw categories; the result is float if all categories are numbers."""
    table: npt.NDArray[Any] = matrix.astype(object)
    numeric = True
    for feature in range(schema.n_features):
        known = schema.categories_of(feature)
        if known is not None:
            raw = [*known, float("nan")]
            table[:, feature] = [raw[code] for code in known_codes(matrix[:, feature], known)]
            numeric &= all(isinstance(value, (int, float, np.number)) for value in known)
    return table.astype(np.float64) if numeric else table


_LOGGER = logging.getLogger("pine_boost")
_FEWEST_ROWS = 10


def split_tables(forest: Forest, X_fit: Any, X_cal: Any, seed: int, is_whole: bool = False) -> tuple[Any, Any]:
    """Return X_fit and X_cal, splitting X_cal off X_fit if it is None.

    With ``is_whole`` (alpha=0) the claim covers every input, so there is nothing to calibrate.
    """
    if X_cal is not None or is_whole:
        return X_fit, X_cal
    if is_large(X_fit):
        raise InvalidInputError(
            "X_fit is read in chunks and not split; pass X_cal, rows that nothing else has seen.",
            option=("X_fit", "X_cal"),
        )
    # one row is enough to check that it is a table; the whole table is converted once, after the split
    to_matrix(first_rows(X_fit, 1), schema_of(forest), "X_fit")
    n_rows = row_count(X_fit)
    if n_rows < _FEWEST_ROWS:
        raise InvalidInputError(
            f"X_fit has {n_rows} rows; at least {_FEWEST_ROWS} are needed to split off a calibration set. Pass X_cal.",
            option=("X_fit", "X_cal"),
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    n_fit = int(0.8 * n_rows)
    _LOGGER.info("no X_cal: %d rows to fit, %d to calibrate", n_fit, n_rows - n_fit)
    warnings.warn(
        HoldoutWarning(
            f"No X_cal was given: X_fit was split into {n_fit} rows to fit the score and {n_rows - n_fit} to "
            "calibrate. The guarantee holds only if the model was not trained on these rows.",
            option=("X_cal", "X_fit"),
        ),
        stacklevel=3,
    )
    return take_rows(X_fit, np.sort(order[:n_fit])), take_rows(X_fit, np.sort(order[n_fit:]))
