"""Check the user's thresholds, which mean the same for all libraries.

They are probabilities of class 1 for classifiers, and raw margins (before any link) for all other models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError

Thresholds = float | Sequence[float] | None


def read_thresholds(threshold: Thresholds, *, probabilities: bool) -> tuple[float, ...]:
    """Return the thresholds as an ascending tuple, empty for None.

    Raises
    ------
    InvalidInputError
        They are not finite numbers, not strictly ascending, or not probabilities.
    """
    if threshold is None:
        return ()
    given = np.atleast_1d(np.asarray(threshold, dtype=object))
    if given.ndim != 1 or given.size == 0 or not all(_is_number(item) for item in given):
        raise InvalidInputError(
            f"threshold={threshold!r} must be one finite number or a list of them.", option="threshold"
        )
    numbers = tuple(float(item) for item in given)
    if any(b <= a for a, b in pairwise(numbers)):
        raise InvalidInputError(
            f"threshold={threshold!r} must be strictly ascending; sort the thresholds and remove repeats.",
            option="threshold",
        )
    if probabilities and not (numbers[0] > 0 and numbers[-1] < 1):
        raise InvalidInputError(
            f"threshold={threshold!r} must lie strictly between 0 and 1: the thresholds of a "
            "classifier are probabilities.",
            option="threshold",
        )
    return numbers


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of float64
        return False


def no_class_decision(what: str, scale: str = "raw margin") -> UnsupportedModelError:
    """Return the error for a model that predicts a value where a class is needed."""
    return UnsupportedModelError(
        f"{what} predicts no class. To prune it as 'above a threshold or not', pass threshold=<{scale}>; to make "
        "it smaller and keep its values, compress it (compress_booster) with a tolerance.",
        option="threshold",
    )
