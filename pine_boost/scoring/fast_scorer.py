"""FastScorer: classes, margins and probabilities of a tree ensemble, from the kernel alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost import kernels
from pine_boost.errors import UnsupportedModelError
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, FloatArray, Int32Array, Link, NativeSum
from pine_boost.model.rules import CategoryRule
from pine_boost.options import worker_count
from pine_boost.parsers.traits import Reader
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import InputSchema

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True)
class ProbabilityRule:
    """How ``predict_proba`` follows from the library's sums.

    Attributes
    ----------
    form : str
        ``"pair"``: the linked score is the probability of class 1. ``"columns"``: linked scores are
        the probabilities. ``"softmax"``: numpy's, as scikit-learn computes it. ``"votes"``: that of
        AdaBoost. ``"catboost"``: CatBoost's softmax. ``"none"``: the model has no probabilities.
    link : Link
    is_original : bool
        Whether the trees are those of the original: a smaller model within a tolerance has other probabilities.
    """

    form: Annotated[str, f.text(("pair", "columns", "softmax", "votes", "catboost", "none"))]
    link: Link = Link.IDENTITY
    is_original: bool = True


@dataclass(frozen=True, eq=False)
class ScorerParts:
    """Everything a scorer is made of; what its folder holds.

    Attributes
    ----------
    flat : FlatForest
    native : NativeSum
    plan : ExitPlan
    schema : InputSchema
        What a table of inputs looks like.
    classes : tuple
        Labels, or numbers of score bands; empty for values.
    probability : ProbabilityRule
    prepare, finish : callable or None
        What a Pipeline does to the rows before the trees see them, and a calibrator to the
        probabilities.
    """

    flat: FlatForest
    native: NativeSum
    plan: ExitPlan
    schema: InputSchema
    classes: tuple[Any, ...]
    probability: ProbabilityRule
    prepare: Callable[[Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None


class FastScorer:
    """A tree ensemble that answers in microseconds and stops as soon as the class is certain.

    Made by `accelerate_booster` or `load_scorer`. Safe to use from several threads at once: the
    kernel runs without the interpreter lock. Can be pickled.

    Parameters
    ----------
    parts : ScorerParts
    n_jobs : int
        Threads for batches of several thousand rows; -1 for all cores.

    Attributes
    ----------
    classes_ : array
    n_features_in_ : int
    feature_names_in_ : array
        Only where the model has names.
    """

    def __init__(self, parts: ScorerParts, n_jobs: int = 1) -> None:
        self.parts = parts
        self.n_jobs = n_jobs
        self._trees = kernels.bind(parts.flat, parts.native, parts.plan)
        self._class_of_row = self._trees.class_of_row
        self.n_features_in_ = parts.flat.n_features
        self.classes_ = np.asarray(parts.classes)
        #: functions that make the answer to a single row
        self._answers = [self.classes_[k : k + 1].copy().copy for k in range(len(self.classes_))]
        if parts.schema.feature_names is not None:
            self.feature_names_in_ = np.asarray(parts.schema.feature_names, dtype=object)
        schema = parts.schema
        by_value = schema.category_rule is CategoryRule.KNOWN and any(schema.feature_categories)
        # arrays of floats are what the trees compare, unless categories come as raw values
        self._reads_arrays = parts.prepare is None and not by_value
        self._row_shape = (1, self.n_features_in_) if self._reads_arrays and parts.classes else None

    @property
    def n_jobs(self) -> int:
        """Threads for batches of several thousand rows; -1 for all cores."""
        return self._n_jobs

    @n_jobs.setter
    def n_jobs(self, n_jobs: int) -> None:
        worker_count(n_jobs)
        self._n_jobs = n_jobs

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it was made of; the kernel is bound again where it arrives."""
        return type(self), (self.parts, self.n_jobs)

    def __repr__(self) -> str:
        flat = self.parts.flat
        return f"FastScorer({flat.n_trees} trees, {flat.n_leaves} leaves, {flat.n_features} features)"

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Class label of every row, score band, or value: what the native ``predict`` returns.

        Raises
        ------
        InvalidInputError
            A table that the native ``predict`` would refuse, or with other columns.
        """
        if X.__class__ is np.ndarray and X.shape == self._row_shape:
            dtype, found = X.dtype, -1  # the types of most arrays are these very objects: comparing takes 100 ns
            is_float32 = dtype is _FLOAT32 or (dtype is not _FLOAT64 and dtype == _FLOAT32)
            if is_float32 or dtype is _FLOAT64 or dtype == _FLOAT64:
                found = self._class_of_row(X.tobytes(), is_float32)
            if found >= 0:
                return self._answers[found]()
        if not self.parts.classes:
            native = self.parts.native
            if native.link is Link.EXP and self.parts.schema.reader is not Reader.LIGHTGBM:
                return np.asarray(np.exp(self._scores(X, None)[:, 0]))  # numpy's, an ulp from that of the C library
            return self._scores(X, native.link)[:, 0].astype(native.value.dtype)
        return self.classes_[self.class_indices(X)]

    def predict_proba(self, X: Any, *, exact: bool = True) -> npt.NDArray[Any]:
        """Probabilities, one column per class; every tree is evaluated.

        They are the original's own, except where ``tolerance`` made the scorer of a smaller model: ``exact=False``
        returns the smaller model's. The default of a `GuardedModel` differs: without ``exact=True`` some probabilities
        are the smaller model's.

        Raises
        ------
        UnsupportedModelError
            The model has no probabilities, or the scorer is that of a smaller model and ``exact``.
        """
        rule, native = self.parts.probability, self.parts.native
        if rule.form == "none":
            raise UnsupportedModelError("This model has no probabilities; use predict or decision_function.")
        if exact and not rule.is_original:
            raise UnsupportedModelError(
                "This scorer has a smaller model within a tolerance; its probabilities differ from the original's. "
                "Use predict_proba of the original model, predict_proba(X, exact=False) for those of the smaller one, "
                "or accelerate without tolerance=."
            )
        if rule.form in ("softmax", "votes"):
            found = _softmax(self._scores(X, None), rule.form, native)
        elif rule.form == "catboost":
            from pine_boost.scoring.catboost_softmax import catboost_softmax

            found = catboost_softmax(self._scores(X, None))
        else:
            found = self._scores(X, rule.link).astype(native.value.dtype)
            if rule.form == "pair":
                found = np.concatenate([1 - found, found], axis=1)
        return found if self.parts.finish is None else np.asarray(self.parts.finish(found))

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Raw margins as the library adds them: (n_rows,), or (n_rows, n_classes) for several outputs.

        scikit-learn's: its ``decision_function``. Averaged forests, which have none: the sum of the shares before it
        is divided by the number of trees.
        """
        margins = self._scores(X, None).astype(self.parts.native.value.dtype)
        if self.parts.probability.form == "votes":
            margins = _decision_of_votes(margins, self.parts.native)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def trees_met(self, X: Any) -> Int32Array:
        """How many trees each row has seen when its class is certain."""
        matrix = self._matrix(X)
        met = np.zeros(len(matrix), dtype=np.int32)
        self._trees.classes(matrix, n_jobs=worker_count(self.n_jobs), met=met)
        return met

    def _is_raw(self, X: Any) -> bool:
        """Whether the kernel can read a table where it is."""
        return (
            self._reads_arrays
            and type(X) is np.ndarray
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
            and X.dtype in (_FLOAT32, _FLOAT64)
            and X.dtype.isnative
        )

    def _matrix(self, X: Any) -> FloatArray:
        table = X if self.parts.prepare is None else self.parts.prepare(X)
        return to_matrix(table, self.parts.schema)

    def class_indices(self, X: Any) -> Int32Array:
        """Index of every row's class among ``classes_``."""
        if self._is_raw(X):
            found = self._trees.classes(X, is_raw=True, n_jobs=worker_count(self.n_jobs))
            if not (found < 0).any():
                return found
        return self._trees.classes(self._matrix(X), n_jobs=worker_count(self.n_jobs))

    def _scores(self, X: Any, link: Link | None) -> FloatArray:
        if self._is_raw(X):
            found, is_refused = self._trees.margins(X, link=link, is_raw=True, n_jobs=worker_count(self.n_jobs))
            if not is_refused:
                return found
        return self._trees.margins(self._matrix(X), link=link, n_jobs=worker_count(self.n_jobs))[0]


def _softmax(sums: FloatArray, form: str, native: NativeSum) -> FloatArray:
    """The softmax of scikit-learn, of margins or of the decision of AdaBoost."""
    scores = sums
    if form == "votes":
        decision = _decision_of_votes(sums, native)
        n_classes = max(decision.shape[1], 2)
        scores = np.concatenate([-decision, decision], axis=1) / 2 if n_classes == 2 else decision / (n_classes - 1)
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _decision_of_votes(sums: FloatArray, native: NativeSum) -> FloatArray:
    """AdaBoost's ``decision_function``: for two classes, the shares of the votes for class 1 and against class 0."""
    shares = sums / native.divisor
    return 2 * shares if shares.shape[1] == 1 else shares
