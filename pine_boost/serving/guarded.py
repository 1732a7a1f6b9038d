"""The guarded scorer: the pruned model where its guarantee holds, the original everywhere else.

A guard that would need the original for every row raises, and so does a result without a guarantee.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.certificate.claims import margin_guard_claim, region_guard_claim, serving_guard_claim
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.serving.engines import Engine, make_engine
from pine_boost.serving.guards import GuardedParts, parts_of
from pine_boost.serving.margin_guard import MarginGuard
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import take_rows
from pine_boost.tables.schema import schema_of


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

    Thread-safe. Create one per process, for example with `load_scorer`.

    Parameters
    ----------
    result : PruneResult or CompressResult
    X_val : table, optional
        Rows that nothing else has seen, for the margin guard. Without it, the region is the guard.
    fidelity, confidence : float
        With X_val: a future input keeps the original's class with probability ``fidelity``.
    backend : {"native", "kernel"}
        What evaluates both models: the library, or proved scorers (see `accelerate_booster`), which
        need no library. Classes do not depend on it.

    Attributes
    ----------
    classes_ : array
    n_features_in_ : int
    claim : str
    margin : MarginGuard or None
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
        backend: str = "native",
    ) -> None:
        self._assemble(parts_of(result, X_val, fidelity, confidence), backend)

    @classmethod
    def of_parts(cls, parts: GuardedParts, backend: str = "native") -> GuardedModel:
        """Build a guarded model from parts that were already checked (see `load_scorer`)."""
        guarded = cls.__new__(cls)
        guarded._assemble(parts, backend)
        return guarded

    def _assemble(self, parts: GuardedParts, backend: str) -> None:
        self.parts = parts
        self.backend = backend
        self.classes_ = np.asarray(parts.classes)
        self.n_features_in_ = parts.original.forest.n_features
        self._schema = schema_of(parts.original.forest)
        self._original: Engine = make_engine(parts.original, backend)
        self._pruned: Engine = make_engine(parts.pruned, backend)
        self._contains: Callable[[FloatArray], npt.NDArray[np.bool_]] | None = None
        if parts.region is not None:
            self._contains = parts.region.compiled.contains
        self._lock = threading.Lock()
        self._counts = GuardCounts()

    @property
    def status(self) -> str:
        """CERTIFIED if the region is the guard, VALIDATED if the margin is."""
        return "CERTIFIED" if self.parts.margin is None else "VALIDATED"

    @property
    def claim(self) -> str:
        """The exact guarantee of this model, as one sentence."""
        if self.parts.margin is not None:
            guard = self.parts.margin
            thresholds = self.parts.original.forest.decision.thresholds
            return margin_guard_claim(guard.fidelity, guard.confidence, guard.n_val, thresholds)
        assert self.parts.certificate is not None
        if self.parts.own_distance is not None:
            return serving_guard_claim(self.parts.certificate)
        return region_guard_claim(self.parts.certificate)

    @property
    def margin(self) -> MarginGuard | None:
        """The margin guard, None if the region is the guard."""
        return self.parts.margin

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
        return self._inside(self._prepared(X))[0]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class label of every row; with several thresholds, its score band."""
        table = self._prepared(X)
        inside, classes = self._inside(table)
        rows, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        if classes is None:
            classes = np.zeros(len(inside), dtype=np.int64)
            if len(rows):
                classes[rows] = self._pruned.classes(_some(table, rows, len(inside)))
        if len(others):
            classes[others] = self._original.classes(_some(table, others, len(inside)))
        self._count(inside)
        return self._labels(classes)

    def predict_proba(self, X: Any, *, exact: bool = False) -> FloatArray:
        """Return the probabilities of the model that answers each row, or with ``exact`` those of the original.

        The columns are those of ``classes_``. The guarantee covers classes, not probabilities: those
        of the pruned model differ slightly from the original's.
        """
        table = self._prepared(X)
        inside, _ = self._inside(table)
        original = self._original
        if exact:
            inside, original = np.zeros_like(inside), self._exact
        rows, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        answers: FloatArray | None = None
        for engine, part in ((self._pruned, rows), (original, others)):
            if len(part):
                some = engine.probabilities(_some(table, part, len(inside)))
                if answers is None:
                    answers = np.empty((len(inside), some.shape[1]))
                answers[part] = some
        self._count(inside)
        if answers is None:
            return np.zeros((0, len(self.classes_)))
        return answers if self.parts.finish is None else np.asarray(self.parts.finish(answers))

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write both models, the guard and a manifest of digests; `load_scorer` reads them.

        Parameters
        ----------
        folder : path
        overwrite : bool
            Replace files of these names that are not of an earlier guarded model, too.
        """
        from pine_boost.serving.folder import save_guarded

        return save_guarded(self, folder, overwrite=overwrite)

    @cached_property
    def _exact(self) -> Engine:
        """The kernel of the original: probabilities with the library's own bits, also those of a bare booster."""
        return make_engine(self.parts.original, "kernel")

    def __repr__(self) -> str:
        before, after = (m.forest.n_trees for m in (self.parts.original, self.parts.pruned))
        guard = "region" if self.parts.margin is None else f"margin {self.parts.margin.distance:g}"
        return f"GuardedModel({before} -> {after} trees, guard: {guard}, backend: {self.backend})"

    def _prepared(self, X: Any) -> Any:
        table = X if self.parts.prepare is None else self.parts.prepare(X)
        return table if hasattr(table, "shape") else to_matrix(table, self._schema)

    def _inside(self, table: Any) -> tuple[npt.NDArray[np.bool_], IntArray | None]:
        """Return which rows the pruned model answers, and its classes if they were computed for that."""
        matrix = to_matrix(table, self._schema)
        least = self.parts.own_distance
        plausible = None if self._contains is None else self._contains(matrix)
        if plausible is not None and least is None:
            return plausible, None
        assert least is not None
        if len(matrix) == 0:
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)
        decision = self.parts.pruned.forest.decision
        margins = self._pruned.margins(table)
        is_sure = decision.distance(margins) >= least
        return is_sure if plausible is None else plausible & is_sure, decision.classes(margins)

    def _labels(self, classes: IntArray) -> npt.NDArray[Any]:
        n_bands = len(self.parts.original.forest.decision.thresholds) + 1
        return classes if n_bands > 2 else self.classes_[classes]

    def _count(self, inside: npt.NDArray[np.bool_]) -> None:
        with self._lock:
            c = self._counts
            self._counts = GuardCounts(c.n_batches + 1, c.n_rows + len(inside), c.n_guarded + int(inside.sum()))


def _some(table: Any, rows: IntArray, n_rows: int) -> Any:
    """Return some rows of a table; all rows without a copy."""
    return table if len(rows) == n_rows else take_rows(table, rows)
