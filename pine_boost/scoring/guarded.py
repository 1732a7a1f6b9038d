"""The guarded scorer: the pruned model where its guarantee holds, the original everywhere else.

Either model is evaluated by a scorer whose exits are proved, or by the native library with the same methods. A loaded
folder needs numpy alone: what reads models and proofs is in `guards`, which is imported only for that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost import kernels
from pine_boost.errors import InvalidInputError
from pine_boost.kernels.flat_forest import FlatForest, NativeSum, TableSums
from pine_boost.model.forest import BoolArray, Decision, FloatArray
from pine_boost.options import worker_count
from pine_boost.scoring.fast_scorer import FastScorer, ScorerParts
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import InputSchema

if TYPE_CHECKING:
    from pine_boost.scoring.guards import Evidence, NativeScorer

    Scorer: TypeAlias = FastScorer | NativeScorer

BACKENDS = ("kernel", "native")


def require_backend(backend: str, n_jobs: int) -> None:
    """Raise on an unknown backend, and on threads for the library, which has a setting of its own."""
    if backend not in BACKENDS:
        raise InvalidInputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}.", option="backend")
    worker_count(n_jobs)
    if backend == "native" and n_jobs != 1:
        raise InvalidInputError(
            f"n_jobs={n_jobs!r} is for backend='kernel'; set the threads of the library on the model itself.",
            option="n_jobs",
        )


@dataclass(frozen=True)
class MarginGuard:
    """Inputs closer than ``distance`` to the pruned model's own decision boundary go to the original.

    Attributes
    ----------
    distance : float
        In units of the margin; for several classes, the gap between the two largest margins.
    fidelity, confidence : float
        The targets.
    n_val : int
    n_differ : int
        Rows of X_val that the pruned model answers with a different class.
    share_guarded : float
        Share of X_val that the pruned model answers.
    """

    distance: f.Size
    fidelity: f.Share
    confidence: f.Share
    n_val: f.Positive
    n_differ: f.Count
    share_guarded: f.Part


@dataclass(frozen=True, eq=False)
class RegionGuard:
    """A region as the kernel takes it."""

    flat: FlatForest
    sums: TableSums

    @cached_property
    def _trees(self) -> kernels.Trees:
        return kernels.bind(self.flat, sums=self.sums)

    def contains(self, X: FloatArray) -> BoolArray:
        """Whether each row lies in the region."""
        return self._trees.membership(X)[0]


@dataclass(frozen=True, eq=False)
class MarginTest:
    """A pruned model's own margin, which must be at least ``distance`` from its decision boundary."""

    flat: FlatForest
    sum: NativeSum
    distance: float

    @cached_property
    def _trees(self) -> kernels.Trees:
        return kernels.bind(self.flat, self.sum)

    def margins(self, X: FloatArray, n_jobs: int = 1) -> FloatArray:
        """The margins that are compared."""
        return self._trees.margins(X, n_jobs=n_jobs)[0]

    def is_met(self, X: FloatArray, n_jobs: int = 1) -> BoolArray:
        """Whether the margin of each row is far enough."""
        return Decision(tuple(self.sum.cuts)).distance(self.margins(X, n_jobs)) >= self.distance


@dataclass(frozen=True, eq=False)
class GuardedParts:
    """The parts of a guarded model.

    Attributes
    ----------
    status : str
        CERTIFIED if a region is the guard, VALIDATED if a margin is.
    claim : str
    schema : InputSchema
    classes : tuple
        Labels that ``predict`` returns.
    region : object or None
        Its ``contains`` says which rows of a matrix are inside; None if the margin alone is the guard.
    own : MarginTest or None
        None if the region is enough.
    margin : MarginGuard or None
        None if the region is the guard.
    original, pruned : ScorerParts or None
        What the kernel evaluates; None where the library does.
    evidence : Evidence or None
        Models, region and certificate; None if they were not read, as the kernel does not need them.
    files : mapping or None
        The folder that it was loaded from.
    prepare : callable or None
        Maps the user's rows to the model's columns (the first steps of a Pipeline).
    finish : callable or None
        Maps the model's probabilities to the user's (a calibrator).
    """

    status: str
    claim: str
    schema: InputSchema
    classes: tuple[Any, ...]
    region: Any = None
    own: MarginTest | None = None
    margin: MarginGuard | None = None
    original: ScorerParts | None = None
    pruned: ScorerParts | None = None
    evidence: Evidence | None = None
    files: Mapping[str, bytes] | None = None
    prepare: Callable[[Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None

    @property
    def forests(self) -> tuple[Any, Any]:
        """The trees of both models."""
        if self.original is not None and self.pruned is not None:
            return self.original.flat, self.pruned.flat
        assert self.evidence is not None
        return self.evidence.original.forest, self.evidence.pruned.forest


@dataclass(frozen=True)
class GuardCounts:
    """Rows answered so far by each model.

    Attributes
    ----------
    n_batches, n_rows : int
    n_guarded : int
        Rows that the pruned model answered.
    n_fallbacks : int
        Rows that the original answered.
    """

    n_batches: int = 0
    n_rows: int = 0
    n_guarded: int = 0

    @property
    def n_fallbacks(self) -> int:
        """Rows that the original answered."""
        return self.n_rows - self.n_guarded

    @property
    def share_guarded(self) -> float:
        """Share of the rows that the pruned model answered; NaN before the first row."""
        return self.n_guarded / self.n_rows if self.n_rows else float("nan")


class GuardedModel:
    """The pruned model where its guarantee holds, the original elsewhere.

    **With a certified result** the region is the guard: inside it the pruned model answers, with a
    proof that it gives the original's class; outside, the original answers. So the class is the
    original's on *every* input, with proof (``claim`` states any exception for rounding).
    If the region leaves out inputs on which the original is undecided, a threshold on the pruned
    model's own margin replaces that test (``certificate.serving``), so the original is not needed.

    **With X_val** the pruned model's own margin is the guard: inputs closer to its decision
    boundary than ``margin.distance`` go to the original. The distance is the smallest one that
    reaches ``fidelity`` on X_val by an exact test: a statistical guarantee, not a proof.

    A scorer like `FastScorer`, with the same methods. Thread-safe. Can be pickled; the copy counts from zero.

    Parameters
    ----------
    result : PruneResult or CompressResult
        Or the checked parts of a folder (see `load_scorer`).
    X_val : table, optional
        Rows that nothing else has seen, for the margin guard. Without it, the region is the guard.
    fidelity, confidence : float
        With X_val: a future input keeps the original's class with probability ``fidelity``.
    backend : {"kernel", "native"}
        What evaluates both models: proved scorers (see `accelerate_booster`), which need no library, or
        the library. Classes do not depend on it.
    n_jobs : int
        Threads of the kernel for batches of several thousand rows; -1 for all cores. The membership test
        of a region runs in one thread.

    Attributes
    ----------
    classes_ : array
    n_features_in_ : int
    feature_names_in_ : array
        Only where the model has names.
    status : str
        CERTIFIED if the region is the guard, VALIDATED if the margin is.
    claim : str
        The exact guarantee of this model, as one sentence.
    margin : MarginGuard or None
        None if the region is the guard.
    counts : GuardCounts

    Raises
    ------
    InvalidInputError
        The result is not certified and no X_val was given; X_val is too small.

    Examples
    --------
    >>> import lightgbm, pine_boost
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> booster = lightgbm.LGBMClassifier(n_estimators=20, max_depth=2, verbose=-1)
    >>> booster = booster.fit(X[:300], y[:300])
    >>> result = pine_boost.prune_booster(booster, X[:300], X[300:450], alpha=0.2)
    >>> guarded = pine_boost.GuardedModel(result)
    >>> bool((guarded.predict(X) == booster.predict(X)).all())
    True
    >>> guarded.counts.n_rows
    569
    """

    def __init__(
        self,
        result: Any,
        X_val: Any = None,
        *,
        fidelity: float = 0.999,
        confidence: float = 0.95,
        backend: str = "kernel",
        n_jobs: int = 1,
    ) -> None:
        require_backend(backend, n_jobs)
        parts = result
        if not (isinstance(result, GuardedParts) and (backend == "native" or result.original is not None)):
            from pine_boost.scoring.guards import parts_of, with_scorers

            parts = result if isinstance(result, GuardedParts) else parts_of(result, X_val, fidelity, confidence)
            parts = with_scorers(parts) if backend == "kernel" else parts
        self.parts, self.backend = parts, backend
        self.status, self.claim, self.margin = parts.status, parts.claim, parts.margin
        self._original: Scorer
        self._pruned: Scorer
        if backend == "kernel":
            self._original, self._pruned = FastScorer(parts.original, n_jobs), FastScorer(parts.pruned, n_jobs)
        else:
            from pine_boost.scoring.guards import NativeScorer

            self._original = NativeScorer(parts.evidence.original, parts.classes)
            self._pruned = NativeScorer(parts.evidence.pruned, parts.classes)
        self.classes_, self.n_features_in_ = self._original.classes_, self._original.n_features_in_
        self._schema = parts.schema
        if self._schema.feature_names is not None:
            self.feature_names_in_ = np.asarray(self._schema.feature_names, dtype=object)
        self._lock, self._counts = threading.Lock(), GuardCounts()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"} | {"_counts": GuardCounts()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def n_jobs(self) -> int:
        """Threads of the kernel for batches of several thousand rows; -1 for all cores."""
        return self._original.n_jobs

    @n_jobs.setter
    def n_jobs(self, n_jobs: int) -> None:
        require_backend(self.backend, n_jobs)
        self._original.n_jobs = self._pruned.n_jobs = n_jobs

    @property
    def counts(self) -> GuardCounts:
        """A snapshot of the rows answered so far by each model."""
        with self._lock:
            return self._counts

    @property
    def share_guarded(self) -> float:
        """Share of all rows so far that the pruned model answered."""
        return self.counts.share_guarded

    @property
    def fallbacks(self) -> int:
        """Number of rows so far that the original answered."""
        return self.counts.n_fallbacks

    def reset_counts(self) -> GuardCounts:
        """Reset the counts to zero and return the old ones."""
        with self._lock:
            counted, self._counts = self._counts, GuardCounts()
        return counted

    def guarded(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return which rows the pruned model would answer, without counting them."""
        return self._inside(self._prepared(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class label of every row; with several thresholds, its score band."""
        return self._ask(X, "predict", self.classes_[:0])

    def predict_proba(self, X: Any, *, exact: bool = False) -> npt.NDArray[Any]:
        """Return the probabilities of the model that answers each row, or with ``exact`` those of the original.

        The columns are those of ``classes_``. The guarantee covers classes, not probabilities: those
        of the pruned model differ slightly from the original's. The default differs from `FastScorer`:
        without ``exact=True`` some probabilities are the smaller model's.
        """
        found = self._ask(X, "predict_proba", np.zeros((0, len(self.classes_))), self._exact if exact else None)
        return found if self.parts.finish is None or len(found) == 0 else np.asarray(self.parts.finish(found))

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the raw margins of the model that answers each row, as `FastScorer.decision_function` does."""
        return self._ask(X, "decision_function", np.zeros((0, self.parts.forests[0].n_outputs)).squeeze())

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write both models, the guard and a manifest of digests; `load_scorer` reads them.

        Parameters
        ----------
        folder : path
        overwrite : bool
            Replace files of these names that are not of an earlier guarded model, too.
        """
        from pine_boost.folders import write_folder
        from pine_boost.scoring.guards import guarded_files

        return write_folder(folder, self.parts.files or guarded_files(self.parts), overwrite=overwrite)

    @cached_property
    def _exact(self) -> Scorer:
        """The original with its library's own bits, which the kernel has also for a bare booster."""
        if isinstance(self._original, FastScorer) or self.parts.evidence is None:
            return self._original
        from pine_boost.scoring.guards import exact_scorer

        return exact_scorer(self.parts.evidence.original, self._original)

    def __repr__(self) -> str:
        before, after = (forest.n_trees for forest in self.parts.forests)
        guard = "region" if self.parts.margin is None else f"margin {self.parts.margin.distance:g}"
        return f"GuardedModel({before} -> {after} trees, guard: {guard}, backend: {self.backend})"

    def headline(self) -> str:
        """One line: the status, the sizes and what guards the smaller model."""
        before, after = (forest.n_trees for forest in self.parts.forests)
        guard = "the region" if self.parts.margin is None else f"a margin of {self.parts.margin.distance:.4g}"
        return f"{self.status}: {before} -> {after} trees, guarded by {guard}"

    def _prepared(self, X: Any) -> Any:
        table = X if self.parts.prepare is None else self.parts.prepare(X)
        return table if hasattr(table, "shape") else to_matrix(table, self._schema)

    def _inside(self, table: Any) -> npt.NDArray[np.bool_]:
        """Return which rows the pruned model answers."""
        matrix, parts = to_matrix(table, self._schema), self.parts
        inside = np.ones(len(matrix), dtype=bool)
        if parts.region is not None:
            inside = parts.region.contains(matrix)
        if parts.own is not None:
            inside &= parts.own.is_met(matrix, worker_count(self.n_jobs))
        return inside

    def _ask(self, X: Any, question: str, nothing: npt.NDArray[Any], only: Scorer | None = None) -> npt.NDArray[Any]:
        """Put a question to the model that answers each row, or to one for all rows, and count the rows."""
        from pine_boost.tables.native import row_count, take_rows  # a folder loads in milliseconds

        table = self._prepared(X)
        inside = self._inside(table) if only is None else np.zeros(row_count(table), dtype=bool)
        answers = nothing
        for scorer, rows in ((self._pruned, np.flatnonzero(inside)), (only or self._original, np.flatnonzero(~inside))):
            if len(rows) == len(inside) > 0:  # all rows, without a copy
                answers = getattr(scorer, question)(table)
            elif len(rows):
                found = getattr(scorer, question)(take_rows(table, rows))
                if not len(answers):
                    answers = np.empty((len(inside), *found.shape[1:]), dtype=found.dtype)
                answers[rows] = found
        with self._lock:
            c = self._counts
            self._counts = GuardCounts(c.n_batches + 1, c.n_rows + len(inside), c.n_guarded + int(inside.sum()))
        return answers
