"""Decisions from the user's thresholds and the library's own rule; the numbers are those of each library.

Thresholds mean the same for all libraries: probabilities of class 1 for classifiers, and raw margins (before any link)
for all other models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.exact import UNIT_ROUNDOFF, probability_guard
from pine_boost.model.forest import Decision
from pine_boost.options import is_real

Thresholds = float | Sequence[float] | None
_UNIT = UNIT_ROUNDOFF[np.float64]


def find_decision(
    threshold: Thresholds,
    own: Decision | None,
    what: str,
    *,
    n_outputs: int,
    is_probability: bool,
    cut: Callable[[float], tuple[float, float]],
    values: bool,
    scale: str = "raw margin",
) -> Decision:
    """Return the decision on the margin.

    Parameters
    ----------
    threshold : float, sequence of float or None
    own : Decision or None
        The library's own decision; None if it predicts no class.
    what : str
        The model in messages.
    n_outputs : int
    is_probability : bool
        Whether thresholds are probabilities.
    cut : callable
        ``cut(threshold)``: the margin at which the native comparison with it changes, and the guard
        around that margin.
    values : bool
        Whether a model that predicts no class is accepted without a threshold.
    scale : str
        What a threshold is, in messages.

    Raises
    ------
    InvalidInputError
        A threshold that does not fit.
    UnsupportedModelError
        There is neither a threshold nor a decision.
    """
    if n_outputs > 1 and threshold is not None:
        raise InvalidInputError(
            f"threshold was given for {what} with {n_outputs} classes; per-class thresholds are not supported. "
            "Leave threshold out, or pass a binary model.",
            option="threshold",
        )
    thresholds = read_thresholds(threshold, probabilities=is_probability)
    if thresholds:
        cuts, guards = zip(*map(cut, thresholds), strict=True)
        return Decision(cuts, guard=max(guards), thresholds=thresholds)
    if own is None and not values:
        raise no_class_decision(what, scale)
    return own or Decision(())


def logit_cut(probability: float, float_type: Any = np.float64) -> tuple[float, float]:
    """Return the logit of a probability, and the guard around it if a sigmoid of ``float_type`` is compared.

    The argument p / (1 - p) is within 2u, so its logarithm within 2u + u * |log|; the guard adds twice
    that to `exact.probability_guard`.
    """
    logit = math.log(probability / (1 - probability))
    return logit, probability_guard(probability, float_type) + 4 * _UNIT * (1 + abs(logit))


def class_labels(decision: Decision, n_outputs: int, labels: Sequence[Any] | None) -> tuple[Any, ...]:
    """Return the labels of the classes in order, the numbers of the classes or score bands if there are none.

    Empty for a value.

    Raises
    ------
    UnsupportedModelError
        The labels are not as many as the classes.
    """
    if n_outputs == 1 and not decision.cuts:
        return ()
    n_classes = n_outputs if n_outputs > 1 else len(decision.cuts) + 1
    if labels is None or len(decision.cuts) > 1:
        return tuple(range(n_classes))
    if len(labels) != n_classes:
        raise UnsupportedModelError(
            f"The model has {len(labels)} class labels for {n_classes} classes; train on data that contains every "
            "class."
        )
    return tuple(labels)


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
            "classifier are probabilities (0.3 for 30 %).",
            option="threshold",
        )
    return numbers


def _is_number(value: Any) -> bool:
    try:
        return is_real(value) and math.isfinite(value)
    except OverflowError:  # an integer beyond the range of float64
        return False


def no_class_decision(what: str, scale: str = "raw margin") -> UnsupportedModelError:
    """Return the error for a model that predicts a value where a class is needed."""
    return UnsupportedModelError(
        f"{what} predicts no class. To prune it as 'above a threshold or not', pass threshold=<{scale}>; to make "
        "it smaller and keep its values, compress it (compress_booster) with a tolerance.",
        option="threshold",
    )
