"""From an XGBoost objective and the caller's threshold to the decision rule in margin space.

In come the objective, who predicts (wrapper or Booster) and thresholds; out goes a `Decision`.
Refuses objectives without a class decision unless a threshold on the margin is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.exact import (
    SOFTMAX_GUARD_FLOAT32,
    UNIT_ROUNDOFF,
    XGBOOST_LOGISTIC_CUT,
    probability_guard,
)
from pine_boost.model.forest import Decision

Thresholds = float | Sequence[float] | None


def find_decision(objective: str, *, by_wrapper: bool, threshold: Thresholds) -> Decision:
    """The true boundary of the native class, or the caller's thresholds as margins.

    Parameters
    ----------
    objective : str
        A name of `LINKS`.
    by_wrapper : bool
        Whether ``XGBClassifier.predict`` decides; it compares the raw margin of binary:logitraw
        with 0.5, where whoever calls ``Booster.predict`` compares it with 0.
    threshold : float, sequence of float or None
        Probabilities for binary:logistic and binary:logitraw, raw margins for objectives that
        decide no class, None for the library's own rule.
    """
    thresholds = _check_thresholds(threshold)
    if objective.startswith("multi:"):
        if thresholds:
            raise InvalidInputError(
                "Per-class thresholds are not supported: a multiclass model takes threshold=None."
            )
        # softmax compares margins, softprob probabilities that are rounded before argmax
        return Decision((), guard=0.0 if objective == "multi:softmax" else SOFTMAX_GUARD_FLOAT32)
    if objective == "binary:hinge":
        if thresholds:
            raise InvalidInputError(
                "binary:hinge gives no probability, so it takes no threshold; leave it None."
            )
        return Decision((0.0,))
    if objective in ("binary:logistic", "binary:logitraw"):
        if thresholds:
            return _probability_decision(thresholds)
        if objective == "binary:logistic":
            return Decision((XGBOOST_LOGISTIC_CUT,))
        return Decision((0.5,) if by_wrapper else (0.0,))
    if not thresholds:
        raise UnsupportedModelError(
            f"The objective {objective!r} decides no class; pass threshold=<raw margin> to read "
            "the model as 'margin above the threshold or not'."
        )
    # numpy compares a float32 margin with a Python number as float32: the cut may be either
    guard = max(abs(cut - float(np.float32(cut))) for cut in thresholds)
    return Decision(thresholds, guard=guard, thresholds=thresholds)


def _probability_decision(probabilities: tuple[float, ...]) -> Decision:
    if not all(0 < p < 1 for p in probabilities):
        raise InvalidInputError(
            f"threshold {probabilities} must lie strictly between 0 and 1: a binary classifier's "
            "thresholds are probabilities."
        )
    cuts = tuple(math.log(p) - math.log1p(-p) for p in probabilities)
    # two logarithms within 1 ulp each and one subtraction: below 4u(|log p| + |log(1 - p)|)
    mapping = max(
        4 * UNIT_ROUNDOFF[np.float64] * (abs(math.log(p)) + abs(math.log1p(-p)))
        for p in probabilities
    )
    guard = mapping + max(probability_guard(p, np.float32) for p in probabilities)
    return Decision(cuts, guard=guard, thresholds=probabilities)


def _check_thresholds(threshold: Thresholds) -> tuple[float, ...]:
    if threshold is None:
        return ()
    try:
        given = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"threshold {threshold!r} is not a number or a sequence of numbers."
        ) from error
    values = tuple(float(value) for value in given.ravel())
    if given.ndim != 1 or not values or not all(map(math.isfinite, values)):
        raise InvalidInputError(f"threshold {threshold!r} must be one or several finite numbers.")
    if any(b <= a for a, b in pairwise(values)):
        raise InvalidInputError(f"thresholds {values} must ascend.")
    return values
