"""The threshold that the layers around a model imply: the exact score at which they switch from class 0 to class 1.

scikit-learn's own code evaluates the layers, around a classifier that returns its input as the score. Layers that never
switch, or switch more than once, raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pine_boost.errors import UnsupportedModelError, class_with_article
from pine_boost.model.exact import CALIBRATION_BLUR
from pine_boost.pipelines.layers import Layer, rebuild

# exp does not overflow here, and no meaningful boosted margin is larger
_LARGEST_MARGIN = 500.0
_MOST_ASKED = 2**21

Scores = npt.NDArray[Any]
Decide = Callable[[Scores], npt.NDArray[np.bool_]]
Value = Callable[[Scores], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Calibration:
    """The deciding layers as a function of the score of the ensemble."""

    chain: Any
    float_type: Any
    on_margin: bool

    def __call__(self, probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the probabilities of both classes after calibration."""
        if self.on_margin:
            raise UnsupportedModelError(
                "This calibrator reads the margin, which does not follow from a probability; ask "
                "the calibrated model itself for probabilities."
            )
        scores = np.asarray(probabilities[:, 1:2], dtype=self.float_type)
        return np.asarray(self.chain.predict_proba(scores))


def calibration_of(deciding: Sequence[Layer], inner: Any) -> Calibration:
    """Return the deciding layers around a model as a function of its score."""
    on_margin = _reads_margin(deciding, inner)
    is_xgboost = any(base.__module__.startswith("xgboost") for base in type(inner).__mro__)
    chain = rebuild(deciding, (EchoMargin if on_margin else EchoProbability)(inner.classes_))
    return Calibration(chain, np.float32 if is_xgboost else np.float64, on_margin)


def threshold_of(deciding: Sequence[Layer], inner: Any) -> float:
    """Return the threshold on the probability of class 1 that is equivalent to all deciding layers."""
    for method in ("predict_proba", "classes_"):
        if not hasattr(inner, method):
            raise UnsupportedModelError(
                f"{deciding[0].kind} around {class_with_article(inner)}: accepted are classifiers."
            )
    calibration = calibration_of(deciding, inner)
    chain, on_margin = calibration.chain, calibration.on_margin
    calibrators = [c for layer in deciding for c in layer.calibrators]
    if len(calibrators) > 1:
        raise UnsupportedModelError(f"{len(calibrators)} calibrators are nested; at most one is supported.")
    knots = getattr(calibrators[0], "X_thresholds_", None) if calibrators else None
    largest = _LARGEST_MARGIN if on_margin else 1.0
    found = switch_point(
        lambda s: np.asarray(chain.predict(s[:, None]) == inner.classes_[1]),
        calibration.float_type,
        -largest if on_margin else 0.0,
        largest,
        value=(lambda s: np.asarray(chain.predict_proba(s[:, None])[:, 1])) if calibrators and knots is None else None,
        knots=knots,
    )
    if on_margin:
        # within exact.probability_guard of the cut, like every threshold on a probability
        found = float(expit(_slope_of(inner) * found))
    if not 0 < found < 1:
        raise UnsupportedModelError(
            f"The layers around the model decide at its probability {found:g}; a threshold "
            "strictly between 0 and 1 is needed."
        )
    return found


def _reads_margin(deciding: Sequence[Layer], inner: Any) -> bool:
    """Return whether the innermost layer that reads a score reads decision_function."""
    if not hasattr(inner, "decision_function"):
        return False
    if any(layer.calibrators for layer in deciding):
        return True
    return str(getattr(deciding[0].model, "response_method", "auto")) == "decision_function"


def _slope_of(inner: Any) -> float:
    """Return the slope of the sigmoid between decision_function and predict_proba."""
    from pine_boost.parsers import read_model

    parsed = read_model(inner)
    if str(getattr(parsed.document, "family", "")) in ("average", "votes"):
        raise UnsupportedModelError(
            f"The layers around this {type(inner).__name__} read its decision_function, from which "
            "its probability does not follow; accepted are boosted trees, and models that have "
            "predict_proba alone."
        )
    return float(parsed.forest.slope)


class _Echo:
    """The interface that scikit-learn requires of a fitted classifier."""

    def __init__(self, classes: npt.ArrayLike) -> None:
        self.classes_ = np.asarray(classes)

    def fit(self, X: Any, y: Any) -> _Echo:
        """Do nothing; there is nothing to learn."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier", target_tags=TargetTags(required=True), classifier_tags=ClassifierTags()
        )


class EchoProbability(_Echo):
    """A classifier whose only column is the probability of class 1."""

    def predict_proba(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the probabilities of both classes."""
        return np.stack([1 - X[:, 0], X[:, 0]], axis=1)


class EchoMargin(_Echo):
    """A classifier whose only column is the margin."""

    def decision_function(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the margin of class 1."""
        return X[:, 0]


def switch_point(
    decide: Decide,
    float_type: Any,
    lowest: float,
    highest: float,
    *,
    value: Value | None = None,
    knots: Scores | None = None,
) -> float:
    """Return the largest float for which ``decide`` is False; it is True for all larger ones.

    Without ``value`` and ``knots`` the score itself is compared, which is exactly monotone.

    Parameters
    ----------
    decide : callable
        Maps scores to whether they give class 1; monotone except for rounding.
    float_type : numpy float type of the scores
    lowest, highest : float
        Range of the scores.
    value : callable, optional
        The smooth calibrated probability that ``decide`` compares: every float for which rounding
        could matter is tested.
    knots : array, optional
        Knots of a piecewise linear calibrator. Between two knots each of its float operations is
        monotone, so rounding can break the order only from one piece to the next.
    """
    ends = np.array([lowest, highest], dtype=float_type)
    is_low, is_high = decide(ends)
    if is_low or not is_high:
        raise UnsupportedModelError(
            "The threshold around this model gives every input the same class "
            f"({'1' if is_low else '0'}); there is nothing to keep."
        )
    bounds = _order(ends[0]), _order(ends[1])
    low = _last(lambda s: ~decide(s), float_type, *bounds)
    if value is not None:
        _require_one_switch(decide, value, float_type, low, bounds)
    if knots is not None:
        inside = knots[(knots >= lowest) & (knots <= highest)].astype(float_type)
        beside = [_order(knot) + step for knot in inside for step in (-1, 0, 1)]
        _require_step(decide, float_type, low, np.unique(beside))
    return float(_from_order(low, float_type))


def _last(is_met: Decide, float_type: Any, low: int, high: int) -> int:
    """Return the last of the ordered floats that has a property; ``low`` has it, ``high`` does not."""
    while high - low > 1:
        middle = low + (high - low) // 2
        if is_met(_from_order(np.array([middle]), float_type))[0]:
            low = middle
        else:
            high = middle
    return low


def _require_one_switch(decide: Decide, value: Value, float_type: Any, switch: int, ends: tuple[int, int]) -> None:
    at = float(value(_from_order(np.array([switch]), float_type))[0])
    blur = CALIBRATION_BLUR[float_type]
    lowest, highest = ends
    below, above = lowest, highest
    if value(_from_order(np.array([lowest]), float_type))[0] < at - blur:
        below = _last(lambda s: value(s) < at - blur, float_type, lowest, switch)
    if value(_from_order(np.array([highest]), float_type))[0] > at + blur:
        above = _last(lambda s: value(s) <= at + blur, float_type, switch, highest) + 1
    if above - below > _MOST_ASKED:
        raise UnsupportedModelError(
            "The calibrator is nearly flat where it changes the class, so that rounding decides "
            "over a whole range of scores; calibrate with more rows, or pass the model inside it "
            "and threshold=.",
            option="threshold",
        )
    _require_step(decide, float_type, switch, np.arange(below, above + 1, dtype=np.int64))


def _require_step(decide: Decide, float_type: Any, switch: int, asked: Any) -> None:
    answers = decide(_from_order(asked, float_type))
    if not np.array_equal(answers, asked > switch):
        raise UnsupportedModelError(
            "The calibrator switches between the classes more than once (rounding near its "
            "threshold); pass the model inside it and threshold=.",
            option="threshold",
        )


def _order(value: Any) -> int:
    """Return the position among all floats of its type: adjacent floats differ by one."""
    if value < 0:
        return -_order(-value)
    bits = np.int32 if value.dtype == np.float32 else np.int64
    return int(np.abs(value).view(bits))  # -0.0 is 0.0


def _from_order(order: Any, float_type: Any) -> Any:
    positions = np.asarray(order, dtype=np.int64)
    bits = np.int32 if float_type is np.float32 else np.int64
    magnitude = np.abs(positions).astype(bits).view(float_type)
    return np.where(positions < 0, -magnitude, magnitude)
