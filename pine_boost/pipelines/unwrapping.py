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
from pine_boost.pipelines.layers import Layer, peel
from pine_boost.pipelines.preparation import Prepared, prepare_rows
from pine_boost.pipelines.scores import EchoMargin, EchoProbability
from pine_boost.pipelines.switch_point import switch_point
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
        for layer in reversed(self.layers):
            inner = layer.rebuild(inner)
        return inner

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
        for layer in reversed(self.layers):
            inner = layer.rebuild(inner) if layer.decides else inner
        return inner


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
    layers, inner = [], model
    while (layer := peel(inner)) is not None:
        layers.append(layer)
        inner = layer.inner
    deciding = [layer for layer in layers if layer.decides]
    if deciding:
        if threshold is not None:
            raise InvalidInputError(
                f"threshold={threshold!r} was given for a {deciding[0].kind}, which decides by a "
                "rule of its own; leave it out, or pass the model inside.",
                option="threshold",
            )
        threshold = _threshold_of(deciding, inner)
    return Wrapper(model, inner, tuple(layers), threshold)


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
        raise UnsupportedModelError(f"{len(calibrators)} calibrators lie around one another; one is accepted.")
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
    chain: Any = (EchoMargin if on_margin else EchoProbability)(inner.classes_)
    for layer in reversed(deciding):
        chain = layer.rebuild(chain)
    return chain


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
