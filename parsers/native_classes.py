"""From what a native ``predict`` returns to class indices, for the traits of all libraries.

In come labels or scores; out go indices into ``forest.classes``. Refuses labels that the model
does not list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import IntArray


def index_of(labels: npt.NDArray[Any], classes: tuple[Any, ...]) -> IntArray:
    """Position of each label among the classes."""
    known = np.asarray(classes)
    order = np.argsort(known, kind="stable")
    position = np.searchsorted(known[order], labels)
    position = np.minimum(position, len(known) - 1)
    if not np.array_equal(known[order][position], labels):
        raise InvalidInputError("The native predict returned a label that the model does not list.")
    return order[position]


def band_of(scores: npt.NDArray[Any], thresholds: tuple[float, ...]) -> IntArray:
    """How many of the user's thresholds each score exceeds."""
    return np.asarray(np.sum([scores.reshape(-1) > cut for cut in thresholds], axis=0), np.int64)
