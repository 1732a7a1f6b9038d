"""Peel the layers around a model from the outside in, pass rows through them, and rebuild them around another model.

Steps of a Pipeline that change the number of rows, or that give a different result when called again, raise: the
original class of a row would not be defined.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.model.exact import SAME_PREPARED
from pine_boost.parsers.traits import find_class
from pine_boost.tables.native import take_rows
from pine_boost.tables.rows import is_large

_ASKED_AGAIN = 50
_TAKEN = "compress_booster takes it as it is, and accelerate_booster with fidelity below 1"


@dataclass(frozen=True, eq=False)
class Layer:
    """One estimator around another.

    Attributes
    ----------
    kind : str
        The name of its class in scikit-learn.
    model : object
        The estimator itself.
    inner : object
        The estimator inside it.
    prepare : callable or None
        Transforms rows before they reach ``inner``.
    calibrators : tuple
        Transform the score of ``inner``.
    """

    kind: str
    model: Any
    inner: Any
    prepare: Callable[[Any], Any] | None = None
    calibrators: tuple[Any, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether it turns the scores of ``inner`` into classes by its own rule."""
        return self.kind not in ("Pipeline", "FrozenEstimator")

    def rebuild(self, new: Any) -> Any:
        """Return a copy of the estimator around another model; nothing that was given is changed."""
        made = copy.copy(self.model)
        if self.kind == "Pipeline":
            made.steps = [*self.model.steps[:-1], (self.model.steps[-1][0], new)]
            return made
        if hasattr(self.model, "estimator_"):
            made.estimator_ = new
        if self.kind == "CalibratedClassifierCV":
            pair = copy.copy(self.model.calibrated_classifiers_[0])
            pair.estimator = new
            made.calibrated_classifiers_ = [pair]
        if self.model.estimator is self.inner:  # was passed fitted, so the parameter is the same object
            made.estimator = new
        return made


def peel(model: Any) -> Layer | None:
    """Return the outermost layer of a model, None if its class is not that of a layer.

    Raises
    ------
    UnsupportedModelError
        The classes of a layer do not follow from one score of the model inside.
    InvalidInputError
        A layer that is not fitted.
    """
    kind = kind_of(model)
    if kind is None:
        return None
    return _PEELERS[kind](model)


def peel_all(model: Any) -> tuple[tuple[Layer, ...], Any]:
    """Return all layers of a model, from the outside in, and the model inside them."""
    layers = []
    while (layer := peel(model)) is not None:
        layers.append(layer)
        model = layer.inner
    return tuple(layers), model


def rebuild(layers: Sequence[Layer], inner: Any) -> Any:
    """Return the same layers around another model; nothing that was given is changed."""
    for layer in reversed(layers):
        inner = layer.rebuild(inner)
    return inner


def kind_of(model: Any) -> str | None:
    """Return the kind of a layer by its class or a base class; None if it is not a layer."""
    return find_class(model, "sklearn", _PEELERS)


def _peel_pipeline(model: Any) -> Layer:
    if not model.steps:
        raise InvalidInputError("The Pipeline has no steps.")
    name, inner = model.steps[-1]
    if inner is None or inner == "passthrough":
        raise UnsupportedModelError(
            f"The last step {name!r} of the Pipeline is 'passthrough'; it must be a tree ensemble."
        )
    prepare = model[:-1].transform if len(model.steps) > 1 else None
    return Layer("Pipeline", model, inner, prepare)


def _peel_threshold(model: Any) -> Layer:
    kind = str(kind_of(model))
    is_tuned = kind == "TunedThresholdClassifierCV"
    if is_tuned and not hasattr(model, "best_threshold_"):
        raise InvalidInputError(f"The {kind} is not fitted; call fit first.")
    inner = getattr(model, "estimator_", model.estimator)
    classes = _two_classes(model, kind)
    positive = model._curve_scorer._get_pos_label() if is_tuned else model.pos_label
    if positive is not None and positive != classes[1]:
        raise UnsupportedModelError(
            f"{kind} with pos_label={positive!r}: its threshold is on the probability of the first "
            f"class. Accepted is the second one, {classes[1]!r}."
        )
    return Layer(kind, model, inner)


def _peel_calibrated(model: Any) -> Layer:
    if not hasattr(model, "calibrated_classifiers_"):
        raise InvalidInputError("The CalibratedClassifierCV is not fitted; call fit first.")
    if len(model.calibrated_classifiers_) != 1:
        raise UnsupportedModelError(
            f"CalibratedClassifierCV holds {len(model.calibrated_classifiers_)} models whose probabilities are "
            "averaged, which cannot be pruned or surveyed as one model. Fit the model, and calibrate "
            f"CalibratedClassifierCV(FrozenEstimator(model)), or use ensemble=False; {_TAKEN}."
        )
    _two_classes(model, "CalibratedClassifierCV")
    (pair,) = model.calibrated_classifiers_
    for calibrator in pair.calibrators:
        _require_monotone(calibrator)
    return Layer("CalibratedClassifierCV", model, pair.estimator, calibrators=tuple(pair.calibrators))


def _refuse_vote(model: Any) -> Layer:
    raise UnsupportedModelError(
        f"VotingClassifier combines {len(model.estimators)} models, which cannot be pruned or surveyed as one model. "
        f"With voting='soft', {_TAKEN}."
    )


def _require_monotone(calibrator: Any) -> None:
    name = type(calibrator).__name__
    falls = {
        "_SigmoidCalibration": lambda: not calibrator.a_ < 0,
        "IsotonicRegression": lambda: not getattr(calibrator, "increasing_", True),
        "_TemperatureScaling": lambda: not calibrator.beta_ > 0,
    }
    if name not in falls:
        raise UnsupportedModelError(
            f"The calibrator {name} is not known to be monotone, so that no threshold of the model "
            "inside follows from it; accepted are sigmoid, isotonic and temperature."
        )
    if falls[name]():
        raise UnsupportedModelError(
            f"The calibrator ({name}) falls where the model's score rises: it turns the model "
            "around. Calibrate on rows that the model predicts better than chance."
        )


def _two_classes(model: Any, kind: str) -> Any:
    classes = model.classes_
    if len(classes) != 2:
        raise UnsupportedModelError(
            f"{kind} with {len(classes)} classes: its class depends on several scores at once. "
            "Accepted are two classes; pass the model inside it instead."
        )
    return classes


_PEELERS: dict[str, Callable[[Any], Layer]] = {
    "Pipeline": _peel_pipeline,
    "FrozenEstimator": lambda model: Layer("FrozenEstimator", model, model.estimator),
    "FixedThresholdClassifier": _peel_threshold,
    "TunedThresholdClassifierCV": _peel_threshold,
    "CalibratedClassifierCV": _peel_calibrated,
    "VotingClassifier": _refuse_vote,
}


@dataclass(frozen=True)
class Prepared:
    """Several steps in sequence (a class, so that it can be pickled into a folder)."""

    steps: tuple[Callable[[Any], Any], ...]

    def __call__(self, X: Any) -> Any:
        """Apply all steps to rows."""
        for step in self.steps:
            X = step(X)
        return X


def prepare_rows(prepare: Callable[[Any], Any], X: Any) -> Any:
    """Prepare rows for the ensemble.

    Raises
    ------
    InvalidInputError
        The steps reject these rows, or the table is one that is read in chunks.
    UnsupportedModelError
        The steps add or drop rows, or give a different result for the same rows.
    """
    if is_large(X):
        raise InvalidInputError(
            "This table is read in chunks, and the first steps of a Pipeline take a table as a "
            "whole. Pass it in memory; or pass the last step of the Pipeline, and chunks that "
            "pipeline[:-1].transform prepared, written as Parquet."
        )
    rows = _ask(prepare, X)
    n_given, n_made = _length(X), _length(rows)
    if n_given is None or n_made is None:
        return rows
    if n_given != n_made:
        raise UnsupportedModelError(
            f"The first steps of the Pipeline make {n_made} rows of {n_given}; accepted are steps "
            "that keep every row, so that it has a class."
        )
    if hasattr(X, "shape") and n_given:
        some = np.arange(min(n_given, _ASKED_AGAIN))
        if not _alike(_ask(prepare, take_rows(X, some)), take_rows(rows, some)):
            raise UnsupportedModelError(
                f"The first steps of the Pipeline were asked about the first {len(some)} rows "
                "again, without the others, and gave other numbers: they are random, or look at "
                "the whole table. Such a model has no class of one row that could be kept."
            )
    return rows


def _ask(prepare: Callable[[Any], Any], X: Any) -> Any:
    try:
        return prepare(X)
    except PineBoostError:
        raise
    except Exception as error:  # a user's own steps may raise anything
        raise InvalidInputError(
            f"The first steps of the Pipeline cannot prepare these rows "
            f"({type(error).__name__}: {' '.join(str(error).split())[:300]}); pass what its "
            "predict takes, and a Pipeline that is fitted."
        ) from error


def _length(table: Any) -> int | None:
    shape = getattr(table, "shape", None)
    if shape:
        return int(shape[0])
    return len(table) if hasattr(table, "__len__") else None


def _alike(one: Any, other: Any) -> bool:
    first, second = (np.asarray(table.toarray() if hasattr(table, "toarray") else table) for table in (one, other))
    if first.shape != second.shape:
        return False
    try:
        numbers = [table.astype(np.float64) for table in (first, second)]
    except (TypeError, ValueError):  # text categories
        same = (first == second) | ((first != first) & (second != second))
        return bool(np.all(same))
    return bool(np.allclose(numbers[0], numbers[1], rtol=SAME_PREPARED, atol=SAME_PREPARED, equal_nan=True))
