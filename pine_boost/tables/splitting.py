"""Split X_fit 80/20 (seeded) into rows to fit on and rows to calibrate on if no X_cal is given."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np

from pine_boost.errors import HoldoutWarning, InvalidInputError
from pine_boost.model.forest import Forest
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import first_rows, row_count, take_rows
from pine_boost.tables.rows import is_large
from pine_boost.tables.schema import schema_of

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
