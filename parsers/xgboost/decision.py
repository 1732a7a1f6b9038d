"""From an XGBoost objective and the caller's threshold to the decision rule in margin space.

In come the objective, who predicts (wrapper or Booster) and thresholds; out goes a `Decision`.
Refuses objectives without a class decision unless a threshold on the margin is given.
"""

from __future__ import annotations

import math

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import SOFTMAX_GUARD_FLOAT32, UNIT_ROUNDOFF, XGBOOST_LOGISTIC_CUT, probability_guard
from pine_boost.model.forest import Decision
from pine_boost.parsers.thresholds import Thresholds, no_class_decision, read_thresholds


def find_decision(objective: str, *, by_wrapper: bool, threshold: Thresholds, values: bool = False) -> Decision:
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
    values : bool
        Whether an objective that decides no class may do without a threshold.
    """
    is_probability = objective in ("binary:logistic", "binary:logitraw")
    thresholds = read_thresholds(threshold, probabilities=is_probability)
    if objective.startswith("multi:"):
        if thresholds:
            raise InvalidInputError(
                "Per-class thresholds are not supported; leave threshold out for a multiclass model.",
                option="threshold",
            )
        # softmax compares margins, softprob probabilities that are rounded before argmax
        return Decision((), guard=0.0 if objective == "multi:softmax" else SOFTMAX_GUARD_FLOAT32)
    if objective == "binary:hinge":
        if thresholds:
            raise InvalidInputError("binary:hinge gives no probability, so it takes no threshold; leave it None.")
        return Decision((0.0,))
    if is_probability:
        if thresholds:
            return _probability_decision(thresholds)
        if objective == "binary:logistic":
            return Decision((XGBOOST_LOGISTIC_CUT,))
        return Decision((0.5,) if by_wrapper else (0.0,))
    if not thresholds and values:
        return Decision(())
    if not thresholds:
        raise no_class_decision(f"The objective {objective!r}")
    # numpy compares a float32 margin with a Python number as float32: the cut may be either
    guard = max(abs(cut - float(np.float32(cut))) for cut in thresholds)
    return Decision(thresholds, guard=guard, thresholds=thresholds)


def _probability_decision(probabilities: tuple[float, ...]) -> Decision:
    cuts = tuple(math.log(p) - math.log1p(-p) for p in probabilities)
    # two logarithms within 1 ulp each and one subtraction: below 4u(|log p| + |log(1 - p)|)
    mapping = max(4 * UNIT_ROUNDOFF[np.float64] * (abs(math.log(p)) + abs(math.log1p(-p))) for p in probabilities)
    guard = mapping + max(probability_guard(p, np.float32) for p in probabilities)
    return Decision(cuts, guard=guard, thresholds=probabilities)
