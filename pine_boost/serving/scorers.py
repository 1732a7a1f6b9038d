"""What answers behind a guard: a scorer whose exits are proved, or the native library with the same methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import Model
from pine_boost.native.predict import load_native, predict_classes, predict_margins, predict_probabilities
from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.proved_parts import proved_parts

BACKENDS = ("kernel", "native")


@runtime_checkable
class Scorer(Protocol):
    """What every scorer offers: `FastScorer`, `GuardedModel`, and the native library behind a guard."""

    classes_: npt.NDArray[Any]
    n_features_in_: int
    n_jobs: int

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Class label of every row, or its score band."""

    def predict_proba(self, X: Any, *, exact: bool = ...) -> npt.NDArray[Any]:
        """Probabilities, one column per class."""

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Raw margins: (n_rows,), or (n_rows, n_classes) for several outputs."""


def make_scorer(model: Model, classes: tuple[Any, ...], backend: str = "kernel", n_jobs: int = 1) -> Scorer:
    """The scorer of a model, with these labels.

    Raises
    ------
    InvalidInputError
        An unknown backend, or threads for the library, which has a setting of its own.
    MissingDependencyError
        The library of the model is not installed; the kernel does not need it.
    UnsupportedModelError
        The kernel does not reproduce the decision of this model.
    """
    if backend not in BACKENDS:
        raise InvalidInputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}.", option="backend")
    if backend == "kernel":
        return FastScorer(replace(proved_parts(model), classes=classes), n_jobs)
    native = NativeScorer(model, classes)
    native.n_jobs = n_jobs
    return native


class NativeScorer:
    """A model evaluated by its own library, in the threads that it is set to."""

    def __init__(self, model: Model, classes: tuple[Any, ...]) -> None:
        self._model = replace(model, native=load_native(model))
        self.classes_ = np.asarray(classes)
        self.n_features_in_ = model.forest.n_features

    @property
    def n_jobs(self) -> int:
        """1: the threads of the library are set on the model."""
        return 1

    @n_jobs.setter
    def n_jobs(self, n_jobs: int) -> None:
        if n_jobs != 1:
            raise InvalidInputError(
                f"n_jobs={n_jobs!r} is for backend='kernel'; set the threads of the library on the model itself.",
                option="n_jobs",
            )

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Label (or score band) by the native ``predict``."""
        return self.classes_[predict_classes(self._model, X)]

    def predict_proba(self, X: Any, *, exact: bool = True) -> npt.NDArray[Any]:
        """``predict_proba``, or what a booster's ``predict`` returns, one column per class; ``exact`` has no effect."""
        return predict_probabilities(self._model, X)

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Margins as the library returns them."""
        margins = predict_margins(self._model, X)[0]
        return margins[:, 0] if margins.shape[1] == 1 else margins
