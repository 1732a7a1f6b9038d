"""Find the tree ensemble inside a Pipeline, threshold wrapper or calibrated classifier, and wrap a smaller one again.

A model without layers passes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.model.exact import CALIBRATION_BLUR
from pine_boost.pipelines.layers import Layer, peel_all, rebuild
from pine_boost.pipelines.preparation import Prepared, prepare_rows
from pine_boost.tables.native import take_rows

# exp does not overflow here, and no meaningful boosted margin is larger
_LARGEST_MARGIN = 500.0
_COMPARED_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Wrapper:
    """A model and the layers around it.

    Attributes
    ----------
    outer : object
        The model that was given.
    inner : object
        The tree ensemble (``outer`` itself if there are no layers).
    layers : tuple of Layer
        From the outside in.
    threshold : number, sequence of numbers or None
        For the inner model: the user's own, or the one that follows from the layers.
    """

    outer: Any
    inner: Any
    layers: tuple[Layer, ...]
    threshold: Any

    @property
    def prepare(self) -> Callable[[Any], Any] | None:
        """Maps the user's rows to those of the inner model; None if they are the same."""
        steps = [layer.prepare for layer in self.layers if layer.prepare is not None]
        if len(steps) <= 1:
            return steps[0] if steps else None
        return Prepared(tuple(steps))

    def rows(self, X: Any) -> Any:
        """Return the rows of the inner model; None stays None."""
        prepare = self.prepare
        return X if X is None or prepare is None else prepare_rows(prepare, X)

    def raw_column(self, given: Any, X: Any) -> Any:
        """Return the cells of a named raw column, which the ensemble does not have under that name."""
        is_raw = self.prepare is not None and isinstance(given, str)
        if is_raw and given in list(getattr(X, "columns", ())):
            return np.asarray(X[given])
        return given

    def rebuild(self, inner: Any) -> Any:
        """Return the same layers around another model; nothing that was given is changed."""
        return rebuild(self.layers, inner)

    def rewrap(self, result: Any, rows: Any = None) -> Any:
        """Turn a result about the inner model into one about the whole model.

        The two whole models are compared on those of ``rows`` (prepared for the inner model) that lie in the region.
        """
        if not self.layers:
            return result
        from pine_boost.pipelines.wrapped_result import WrappedResult

        if rows is not None and any(layer.decides for layer in self.layers):
            _compare(self, result, rows)
        return WrappedResult(result, self, self.rebuild(result.model))

    @property
    def finish(self) -> Calibration | None:
        """Maps the inner model's probabilities to calibrated ones; None without calibration."""
        deciding = [layer for layer in self.layers if layer.decides]
        if not self.calibrates:
            return None
        on_margin = _reads_margin(deciding, self.inner)
        chain = _chain(deciding, self.inner, on_margin)
        return Calibration(chain, _score_type(self.inner), on_margin)

    @property
    def calibrates(self) -> bool:
        """Whether a calibrator changes the probabilities of the inner model."""
        return any(layer.calibrators for layer in self.layers)

    def require_own_probabilities(self, tolerance: float | None) -> None:
        """Raise if a tolerance is given but a calibrator changes the probabilities of the inner model."""
        if tolerance is None or not self.calibrates:
            return
        kind = next(layer.kind for layer in self.layers if layer.calibrators)
        raise InvalidInputError(
            f"tolerance={tolerance!r} for a model with a {kind} around it: the calibrator may move "
            "probabilities farther than the ensemble inside does, which alone is tested. Leave "
            f"tolerance out, which keeps the classes of the {kind}; or compress the ensemble "
            "inside with it, and calibrate the smaller one.",
            option="tolerance",
        )

    def decider(self, inner: Any) -> Any:
        """Return a model with only the deciding layers around it; it takes prepared rows."""
        return rebuild([layer for layer in self.layers if layer.decides], inner)


@dataclass(frozen=True)
class Calibration:
    """Computes calibrated probabilities from those of the ensemble."""

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


def unwrap(model: Any, threshold: Any = None) -> Wrapper:
    """Find the tree ensemble inside Pipelines, threshold wrappers and calibration.

    Parameters
    ----------
    model : object
        Any model; one without layers is returned unchanged.
    threshold : number, sequence of numbers or None
        The user's own; raises if a layer already decides.

    Raises
    ------
    UnsupportedModelError
        The class of a layer does not follow from one threshold on the ensemble's score.
    InvalidInputError
        A layer is not fitted, or a threshold was given besides that of a layer.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(X, y)
    >>> type(unwrap(pipeline).inner).__name__
    'RandomForestClassifier'
    """
    layers, inner = peel_all(model)
    deciding = [layer for layer in layers if layer.decides]
    if deciding:
        if threshold is not None:
            raise InvalidInputError(
                f"threshold={threshold!r} was given for a {deciding[0].kind}, which decides by a "
                "rule of its own; leave it out, or pass the model inside.",
                option="threshold",
            )
        threshold = _threshold_of(deciding, inner)
    return Wrapper(model, inner, layers, threshold)


def _threshold_of(deciding: list[Layer], inner: Any) -> float:
    """Return the threshold on the probability of class 1 that is equivalent to all deciding layers."""
    for method in ("predict_proba", "classes_"):
        if not hasattr(inner, method):
            raise UnsupportedModelError(
                f"{deciding[0].kind} around a {type(inner).__name__}: accepted are classifiers."
            )
    on_margin = _reads_margin(deciding, inner)
    chain = _chain(deciding, inner, on_margin)
    calibrators = [c for layer in deciding for c in layer.calibrators]
    if len(calibrators) > 1:
        raise UnsupportedModelError(f"{len(calibrators)} calibrators are nested; at most one is supported.")
    knots = getattr(calibrators[0], "X_thresholds_", None) if calibrators else None
    largest = _LARGEST_MARGIN if on_margin else 1.0
    found = switch_point(
        lambda s: np.asarray(chain.predict(s[:, None]) == inner.classes_[1]),
        _score_type(inner),
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


def _chain(deciding: list[Layer], inner: Any, on_margin: bool) -> Any:
    """Return the deciding layers around a classifier that returns its input as the score."""
    return rebuild(deciding, (EchoMargin if on_margin else EchoProbability)(inner.classes_))


def _score_type(inner: Any) -> Any:
    """Return the float type of a model's scores."""
    is_xgboost = any(base.__module__.startswith("xgboost") for base in type(inner).__mro__)
    return np.float32 if is_xgboost else np.float64


def _reads_margin(deciding: list[Layer], inner: Any) -> bool:
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


def _compare(wrapper: Wrapper, result: Any, rows: Any) -> None:
    """Compare both models with the deciding layers; a difference would mean a bug in the threshold."""
    certificate = getattr(result, "certificate", None)
    if certificate is None or not certificate.claim or result.region.delta is not None:
        return
    if certificate.undecided and certificate.undecided_exists is not False:
        return  # nothing is claimed where rounding decides
    if not hasattr(rows, "shape"):
        return
    some = take_rows(rows, np.arange(min(rows.shape[0], _COMPARED_ROWS)))
    inside = result.region.contains(some)
    before, after = (wrapper.decider(model).predict(some) for model in (wrapper.inner, result.model))
    if bool(np.any((before != after) & inside)):
        raise PineBoostError(
            "Internal error: the whole models differ on a row of X_fit although the proof says "
            "that the ensembles inside cannot. Nothing was certified; please report this."
        )


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


# Find the exact score at which a chain of thresholds and calibrators switches from class 0 to class 1. scikit-learn's
# own code evaluates the chain. A chain that never switches, or switches more than once, raises.
Scores = npt.NDArray[Any]
Decide = Callable[[Scores], npt.NDArray[np.bool_]]
Value = Callable[[Scores], npt.NDArray[np.float64]]

_MOST_ASKED = 2**21


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
    low = _last(lambda s: ~decide(s), float_type, *_orders(ends))
    if value is not None:
        _require_one_switch(decide, value, float_type, low, _orders(ends))
    if knots is not None:
        inside = knots[(knots >= lowest) & (knots <= highest)].astype(float_type)
        beside = [_order(knot) + step for knot in inside for step in (-1, 0, 1)]
        _require_step(decide, float_type, low, np.unique(beside))
    return float(_from_order(low, float_type))


def _last(is_met: Decide, float_type: Any, low: int, high: int) -> int:
    """Return the last of the ordered floats that has a property; ``low`` has it, ``high`` does not.

    A thousand floats are evaluated per call, because scikit-learn's input checks dominate the cost.
    """
    while high - low > 1:
        asked = sorted({low + (high - low) * k // 1024 for k in range(1, 1024)} - {low, high})
        found = is_met(_from_order(np.array(asked, dtype=np.int64), float_type))
        first_false = len(asked) if found.all() else int(np.argmin(found))
        low = asked[first_false - 1] if first_false else low
        high = asked[first_false] if first_false < len(asked) else high
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


def _orders(values: Scores) -> tuple[int, int]:
    low, high = (_order(value) for value in values)
    return low, high


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
