"""Evaluate a model behind a guard: with the native library, or with a proved scorer that gives the same classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pine_boost import kernels
from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.native.predict import load_native, predict_classes, predict_margins, predict_probabilities
from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.native_sum import leaf_nodes
from pine_boost.scoring.proved_parts import proved_parts
from pine_boost.tables.matrix import to_matrix

BACKENDS = ("native", "kernel")


class Engine(Protocol):
    """A model loaded once and evaluated on many batches."""

    def classes(self, X: Any) -> IntArray:
        """Class index (or score band) of every row, as the native ``predict`` gives it."""

    def margins(self, X: Any) -> FloatArray:
        """Margins, (n_rows, n_outputs)."""

    def probabilities(self, X: Any) -> FloatArray:
        """Class probabilities, (n_rows, n_classes)."""


def make_engine(model: Model, backend: str) -> Engine:
    """Return the engine of a model.

    Raises
    ------
    InvalidInputError
        An unknown backend.
    MissingDependencyError
        The library of the model is not installed; the kernel does not need it.
    """
    if backend not in BACKENDS:
        raise InvalidInputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}.")
    return KernelEngine(model) if backend == "kernel" else NativeEngine(replace(model, native=load_native(model)))


@dataclass(frozen=True, eq=False)
class NativeEngine:
    """Evaluate with the native library."""

    model: Model

    def classes(self, X: Any) -> IntArray:
        """Class index (or score band) by the native ``predict``."""
        return predict_classes(self.model, X)

    def margins(self, X: Any) -> FloatArray:
        """Margins as the library returns them."""
        return predict_margins(self.model, X)[0]

    def probabilities(self, X: Any) -> FloatArray:
        """``predict_proba``, or what a booster's ``predict`` returns, one column per class."""
        return predict_probabilities(self.model, X)


class KernelEngine:
    """Evaluate with a scorer whose early exits are proved: it returns the native classes on every input."""

    def __init__(self, model: Model) -> None:
        self._model = model
        parts = proved_parts(model)
        self._scorer = FastScorer(parts)
        forest = model.forest
        # the sums that the cuts and distances of the Forest refer to; scikit-learn's own may differ by a threshold
        values = forest.value[leaf_nodes(forest)].astype(forest.arithmetic)
        sums = replace(parts.native, value=values, intercept=forest.intercept.astype(forest.arithmetic))
        self._sums = kernels.bind(parts.flat, sums)

    def classes(self, X: Any) -> IntArray:
        """Class index (or score band) that the native ``predict`` gives."""
        return self._scorer.class_indices(X).astype(np.int64)

    def margins(self, X: Any) -> FloatArray:
        """Sums of the leaves in the library's order and type."""
        return self._sums.margins(to_matrix(X, self._scorer.parts.schema))[0]

    def probabilities(self, X: Any) -> FloatArray:
        """``predict_proba``; computed natively if it is not a function of the sums."""
        if self._scorer.parts.probability.form == "none":
            return NativeEngine(replace(self._model, native=load_native(self._model))).probabilities(X)
        return np.asarray(self._scorer.predict_proba(X), dtype=np.float64)
