"""Decision rules of LightGBM objectives, as cuts on the raw score."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.errors import MalformedModelError, UnsupportedModelError
from pine_boost.model.exact import (
    LARGEST_EXPONENT,
    LIGHTGBM_BINARY_CUT,
    LIGHTGBM_HEADROOM,
    LIGHTGBM_SCALE_ERROR,
    SOFTMAX_GUARD_FLOAT64,
    UNIT_ROUNDOFF,
)
from pine_boost.model.forest import Decision, FloatArray
from pine_boost.parsers.decisions import find_decision, logit_cut
from pine_boost.parsers.lightgbm.tree import NUMBER

_UNIT = UNIT_ROUNDOFF[np.float64]

_OPTIONS = {
    "binary": re.compile(rf"binary sigmoid:(?P<sigmoid>{NUMBER})"),
    "multiclass": re.compile(r"multiclass num_class:(?P<classes>[0-9]{1,7})"),
    "multiclassova": re.compile(rf"multiclassova num_class:(?P<classes>[0-9]{{1,7}}) sigmoid:(?P<sigmoid>{NUMBER})"),
    "cross_entropy": re.compile(r"cross_entropy"),
}
PROBABILITY_OBJECTIVES = ("binary", "cross_entropy")
_SEVERAL = ("multiclass", "multiclassova")
OBJECTIVES_OF_CLASSES = (*PROBABILITY_OBJECTIVES, *_SEVERAL)


@dataclass(frozen=True)
class Objective:
    """The objective line of a LightGBM text: its name, classes and slope of the sigmoid."""

    name: str
    num_class: int
    sigmoid: float = 1.0


def read_objective(line: str | None, num_class: int) -> Objective:
    """Interpret the objective line; None is a custom objective."""
    if line is None:
        return Objective("custom", num_class)
    name = line.split(" ")[0]
    if name not in _OPTIONS:
        return Objective(name[:60], num_class)
    match = _OPTIONS[name].fullmatch(line)
    if not match:
        raise MalformedModelError(f"The objective {line[:80]!r} of the LightGBM text is damaged.")
    found = match.groupdict()
    classes = int(found.get("classes") or 1)
    if classes != num_class or (name in _SEVERAL and classes < 2):
        raise MalformedModelError(f"The objective {line[:80]!r} does not fit num_class={num_class} of the header.")
    sigmoid = float(found.get("sigmoid") or 1.0)
    if not (sigmoid > 0 and math.isfinite(sigmoid)):
        raise MalformedModelError(f"The objective {line[:80]!r} needs a sigmoid above 0.")
    return Objective(name, num_class, sigmoid)


def decide(
    objective: Objective,
    threshold: Any,
    *,
    is_classifier: bool,
    values: bool,
    divisor: int,
    lowest: FloatArray,
    highest: FloatArray,
) -> Decision:
    """Return the decision of the native ``predict`` on the sum of the leaves.

    Parameters
    ----------
    objective : Objective
    threshold : float, sequence of float or None
        Probabilities for binary and cross_entropy. For an objective without classes a raw score,
        compared with the sum of the leaves, or with their mean for random forests (which is what
        ``predict`` of such a regression returns).
    is_classifier : bool
        Whether an LGBMClassifier turns the output into classes.
    values : bool
        Whether an objective without classes is accepted without a threshold.
    divisor : int
        Rounds of a random forest (``predict`` divides the sum by it), else 1.
    lowest, highest : float64 (n_outputs,)
        Bounds on the margins of each output over all inputs.
    """
    name = objective.name
    if objective.num_class > 1 and name not in _SEVERAL:
        raise UnsupportedModelError(
            f"LightGBM objective {name!r} with {objective.num_class} outputs has no class "
            "decision; binary, multiclass and multiclassova are supported."
        )
    is_probability = name in PROBABILITY_OBJECTIVES
    scale = divisor / objective.sigmoid if is_probability else float(divisor)
    is_scaled = is_probability or divisor > 1

    def cut(given: float) -> tuple[float, float]:
        link, guard = logit_cut(given) if is_probability else (given, 0.0)
        return scale * link, scale * guard + abs(scale * link) * LIGHTGBM_SCALE_ERROR * is_scaled

    own = None
    if name in _SEVERAL:
        guard = class_gap(objective, divisor, lowest, highest)
        is_constant = name == "multiclass" and divisor == 1
        own = Decision((), guard=guard if is_constant else LIGHTGBM_HEADROOM * guard)
    elif name == "binary" or (name == "cross_entropy" and is_classifier):
        # class 1 iff fl(k * fl(sum / n)) > 0x1.8p-53, measured by bisection for k from 0.1 to 10
        half = LIGHTGBM_BINARY_CUT * divisor / objective.sigmoid
        is_plain = objective.sigmoid == 1.0 and divisor == 1
        own = Decision((half,), guard=0.0 if is_plain else half * LIGHTGBM_SCALE_ERROR)
    return find_decision(
        threshold,
        own,
        f"LightGBM objective {name!r}",
        n_outputs=objective.num_class,
        is_probability=is_probability,
        cut=cut,
        values=values,
        scale="probability above which the class is 1" if is_probability else "raw score",
    )


def class_gap(objective: Objective, divisor: int, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the gap of two margins within which rounding may hide their order from the native argmax.

    It is a constant for softmax, which subtracts the maximum, exactly for scores this close. Averaging
    rounds each score in proportion to its size; separate sigmoids flatten towards 1.
    """
    rounding = LIGHTGBM_SCALE_ERROR * float(max(np.abs(lowest).max(), np.abs(highest).max()))
    if objective.name == "multiclass":
        return divisor * SOFTMAX_GUARD_FLOAT64 + (rounding if divisor > 1 else 0.0)
    return one_against_all_guard(objective.sigmoid / divisor, lowest, highest) + rounding


def one_against_all_guard(slope: float, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the gap of two scores below which their float64 sigmoids may come out equal or swapped.

    Each class has its own sigmoid, p = 1 / (1 + exp(-slope * margin)), computed to 8u. The lower
    of the two best scores is at most M, the second largest of ``highest``, and for a gap g above
    it the probabilities differ by at least (1 - exp(-slope g)) exp(-slope M) / 4 of the larger
    one. That exceeds 16u once slope * g >= 2x with x = 64u exp(slope M) <= 1/4.

    Raises
    ------
    UnsupportedModelError
        The sigmoids of two classes can both round to 1 (or all to 0), so no gap decides.
    """
    second = max(float(np.sort(highest)[-2]), 0.0)
    if slope * second > LARGEST_EXPONENT or slope * float(lowest.max()) < -LARGEST_EXPONENT:
        x = math.inf
    else:
        x = 64 * _UNIT * math.exp(slope * second)
    if x > 0.25:
        raise UnsupportedModelError(
            f"multiclassova scores can reach {second:g}, where LightGBM rounds the probabilities "
            "of two classes to the same number and the label no longer follows the scores; "
            "train with objective='multiclass'."
        )
    return 2 * x / slope
