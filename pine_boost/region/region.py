"""The region: the set of inputs that a certificate covers, as an object that answers questions about any input.

Needs neither a solver nor the training library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.files import REGION_LIMIT, path_of, read_limited, save_file
from pine_boost.json_fields import canonical, digest_of
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import BoolArray, Decision, FloatArray, Forest, Int32Array, IntArray, Model
from pine_boost.model.routing import route
from pine_boost.model.states import StateSpace
from pine_boost.options import require_share
from pine_boost.region import storage
from pine_boost.region.conformal import Coverage, calibrate
from pine_boost.region.explanation import Explanation, explain_row
from pine_boost.region.margins import ServingMargin, float_margins, read_margins
from pine_boost.region.membership import Membership, compile_membership
from pine_boost.region.region_ladder import RegionLadder
from pine_boost.region.score_tables import RegionTables, ScoreTables
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.overlap import Overlap
from pine_boost.tables.schema import InputSchema


@dataclass(frozen=True, eq=False, repr=False)
class Region:
    """The inputs that a certificate covers.

    An input x belongs to the region if the domain allows it, ``score(x) <= tau`` and, with ``delta``, the
    original model is at least ``delta`` away from its decision boundary. A new input that is exchangeable with the
    calibration rows lies in the region with probability at least ``1 - alpha``, over the draw of the
    calibration rows and the new input together. Nothing is said about inputs from another distribution, or
    if the calibration rows were used to train or to choose anything.

    Attributes
    ----------
    space : StateSpace
    schema : InputSchema
    tables : RegionTables
        The region over states, without the indifference.
    score_tables : ScoreTables or None
        The fitted score; also in ``tables`` unless tau is infinite. None if no score was fitted.
    score_name : str
    alpha : float
    tau : int or None
        In units of ``1 / score_tables.scale``; None is infinity.
    n_fit, n_cal : int
        0 for ``alpha=0`` without data.
    calibration : int64
        Scores of the calibration rows that can lie inside, ascending.
    indifference : float
        Share of X_fit whose distance set ``delta``; with ``nesting`` the part of alpha that was
        meant for undecided inputs.
    delta : float or None
        In units of the native margin. Distances are computed in float64 from the leaves, or from the margins
        that are passed in; proofs therefore start at delta minus the rounding band of the model.
    cuts : tuple of float
        The decision boundaries that delta refers to; empty for several outputs.
    n_outputs : int
    thresholds : tuple of float
        The user's own decision thresholds, with which the original must be read.
    overlap : Overlap or None
        Calibration rows that also occur in X_fit; None without data.
    model_digest : str
        Digest of the original.
    nesting : RegionLadder or None
        The ladder from which calibration chose tau and delta together; ``calibration`` then holds steps of
        the ladder instead of scores.
    prepare : callable or None
        The first steps of a Pipeline around the model; `contains` and the like then take the rows of the Pipeline.
        Not saved.
    """

    space: StateSpace
    schema: InputSchema
    tables: RegionTables
    score_tables: ScoreTables | None
    score_name: str
    alpha: float
    n_fit: int
    n_cal: int
    calibration: IntArray
    indifference: float
    delta: float | None
    cuts: tuple[float, ...]
    n_outputs: int
    thresholds: tuple[float, ...] = ()
    overlap: Overlap | None = None
    model_digest: str = ""
    nesting: RegionLadder | None = None
    prepare: Callable[[Any], Any] | None = None

    @property
    def tau(self) -> int | None:
        """The calibrated threshold of the score; None is infinity."""
        return self.tables.tau

    def matrix(self, X: Any, name: str = "X") -> FloatArray:
        """The matrix of a table (`tables.to_matrix`), checked against the model's columns."""
        return to_matrix(X if self.prepare is None else self.prepare(X), self.schema, name)

    def states(self, X: Any) -> Int32Array:
        """State rows of a table."""
        return self.space.states(self.matrix(X))

    def score(self, X: Any) -> IntArray:
        """Integer plausibility score of every row, comparable with ``tau``; smaller is more plausible."""
        if self.score_tables is None:
            raise InvalidInputError(
                "This region was made with alpha=0 and without X_fit, so it has no score; pass "
                "X_fit and X_cal to fit_region.",
                option=("alpha", "X_fit", "X_cal"),
            )
        return self.compiled.score(self.matrix(X))

    def contains(
        self, X: Any, *, model: Any = None, margins: npt.ArrayLike | None = None, serving: ServingMargin | None = None
    ) -> BoolArray:
        """Whether each row lies in the region.

        Parameters
        ----------
        X : table
            Any table with the model's columns.
        model : optional
            The original model or its Forest; only needed if the region has a ``delta``.
        margins : array, optional
            The original's native margins of these rows instead: raw scores, not probabilities.
        serving : ServingMargin, optional
            ``certificate.serving``. ``model`` is then the pruned model, and the answer says where the pruned
            model alone gives the original's class: on plausible inputs far enough from its own decision boundary.
            Accepted for the region of that certificate and for regions of the same fit with a smaller tau.

        Raises
        ------
        InvalidInputError
            The region has a ``delta`` and neither model nor margins were given, the model is not the
            original, or the table does not fit it. With ``serving``: margins were given, the model is not
            the pruned one, or the margin was not proved in this region.
        """
        if serving is not None:
            return self._serves(X, model, margins, serving)
        matrix = self.matrix(X)
        forest = self._original(model)
        inside = self.compiled.contains(matrix)
        if self.delta is not None:
            inside &= self._distance(matrix, forest, margins) >= self.delta
        return inside

    def coverage(
        self, X: Any, *, model: Any = None, margins: npt.ArrayLike | None = None, confidence: float = 0.95
    ) -> Coverage:
        """Share of rows inside, with the exact binomial interval of the underlying probability."""
        require_share(confidence, "confidence")
        inside = self.contains(X, model=model, margins=margins)
        if len(inside) == 0:
            raise InvalidInputError("X has no rows; coverage needs at least one.")
        return Coverage.of(len(inside), int(inside.sum()), confidence)

    def explain(self, x: Any, *, model: Any = None, margins: npt.ArrayLike | None = None) -> Explanation:
        """Why one input is or is not in the region, most surprising part first.

        ``x`` is a table of one row or a plain sequence of values. A region with ``delta`` needs the model or
        the margins, as `contains` does.
        """
        row = [x] if np.ndim(x) == 1 and type(x).__module__.partition(".")[0] != "pandas" else x
        matrix = self.matrix(row, "x")
        if len(matrix) != 1:
            raise InvalidInputError(f"explain takes one row, got {len(matrix)}.")
        forest, distance = self._original(model), None
        if self.delta is not None:
            distance = float(self._distance(matrix, forest, margins)[0])
        return explain_row(self, self.space.states(matrix), distance)

    def with_alpha(self, alpha: float) -> Region:
        """The same fit, recalibrated for another alpha; cheap."""
        if self.score_tables is None and alpha != 0:
            raise InvalidInputError(
                "This region was made without data and cannot be recalibrated; call fit_region with X_fit and X_cal.",
                option=("X_fit", "X_cal"),
            )
        n_outside = self.n_cal - len(self.calibration)
        nesting, delta, indifference = self.nesting, self.delta, self.indifference
        if delta is not None and alpha == 0 and nesting is None:
            raise InvalidInputError(
                "alpha=0 means every input and needs indifference=0.", option=("alpha", "indifference")
            )
        tau = calibrate(self.calibration, alpha, n_outside=n_outside)
        if nesting is not None:
            tau, delta = (None, None) if tau is None else nesting.limits(tau)
            indifference = nesting.share * float(alpha)
        score = self.score_tables if tau is not None else None
        tables = replace(self.tables, tau=tau, score=score)
        return replace(self, alpha=float(alpha), tables=tables, delta=delta, indifference=indifference)

    def is_narrowed(self) -> bool:
        """Whether the domain excludes inputs that the model could be given."""
        reachable = (axis.reachable for axis in self.space.axes)
        allowed = zip(self.tables.allowed, reachable, strict=True)
        return bool(
            self.tables.forbidden
            or self.tables.at_least_one
            or any(r is not None and bool(np.any(r & ~a)) for a, r in allowed)
        )

    def to_json(self) -> dict[str, Any]:
        """The region as plain JSON data; `from_json` returns an equal region."""
        return storage.region_to_json(self)

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any]) -> Region:
        """Read what `to_json` returned; raises MalformedModelError if anything is inconsistent."""
        return cls(**storage.region_fields(document))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the region to a JSON file; an existing file is replaced only when complete."""
        save_file(path_of(path, "file"), canonical(self.to_json()).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Region:
        """Read a file written by `save`."""
        return cls.from_json(read_limited(path, REGION_LIMIT, "region file"))

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON; equal for equal regions only."""
        return digest_of(self.to_json())

    @cached_property
    def tables_digest(self) -> str:
        """Digest of the fit and the model; regions that share it are nested, whatever their alpha and X_cal."""
        document = self.to_json()
        return digest_of({name: document[name] for name in storage.UNCALIBRATED})

    def __repr__(self) -> str:
        tau = "infinite" if self.tau is None else str(self.tau)
        return (
            f"<Region alpha={self.alpha:g}, score={self.score_name}, tau={tau}, "
            f"n_fit={self.n_fit}, n_cal={self.n_cal}, indifference={self.indifference:g}>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    @cached_property
    def compiled(self) -> Membership:
        """Membership without the indifference, bound to the kernel once for batch after batch."""
        return compile_membership(self.space, self.tables, self.score_tables)

    def _serves(self, X: Any, model: Any, margins: npt.ArrayLike | None, serving: ServingMargin) -> BoolArray:
        if margins is not None:
            raise InvalidInputError(
                "With serving=, the pruned model's own margin decides and is computed here; "
                "pass model=<the pruned model> and no margins."
            )
        serving.require_region(self.tables_digest, self.tau)
        pruned = None if model is None else self._forest_of(model)
        if pruned is not None and pruned.decision.thresholds != self.thresholds:
            raise InvalidInputError(
                f"The pruned model was read with threshold={pruned.decision.thresholds}, the "
                f"region with {self.thresholds}; use the same threshold for both.",
                option="threshold",
            )
        matrix = self.matrix(X)
        return self.compiled.contains(matrix) & serving.is_sure(pruned, self.space, self.space.states(matrix))

    def _original(self, model: Any) -> Forest | None:
        """The Forest of the original model; raises if the model is another one."""
        if model is None:
            return None
        forest = self._forest_of(model, self.model_digest)
        if forest.n_features != self.space.n_features or forest.n_outputs != self.n_outputs:
            raise InvalidInputError(
                f"The model has {forest.n_features} features and {forest.n_outputs} outputs, "
                f"the region {self.space.n_features} and {self.n_outputs}; pass the original."
            )
        if forest_digest(forest) != self.model_digest:
            raise InvalidInputError(
                "This model is not the one that the region was made for (its digest differs); pass the original."
            )
        return forest

    def _forest_of(self, model: Any, digest: str | None = None) -> Forest:
        if isinstance(model, Forest):
            return model
        if isinstance(model, Model):
            return model.forest
        if self.prepare is not None and hasattr(model, "named_steps"):
            raise UnsupportedModelError(
                "The region prepares the rows of the Pipeline itself, and takes the ensemble inside as the model: pass "
                "model=result.original (with serving=, model=result.pruned), and the rows as they are."
            )
        from pine_boost.parsers import read_model

        forest: Forest = read_model(model, threshold=self.thresholds or None, digest=digest).forest
        return forest

    def _distance(self, matrix: FloatArray, forest: Forest | None, margins: npt.ArrayLike | None) -> FloatArray:
        if margins is not None:
            read = read_margins(margins, len(matrix), self.n_outputs)
        elif forest is not None:
            read = float_margins(forest, route(forest, self.space), self.space.states(matrix))
        else:
            raise InvalidInputError(
                f"This region leaves out inputs on which the original is undecided (indifference="
                f"{self.indifference}); pass model=<the original> or margins=<its raw scores>.",
                option="indifference",
            )
        return Decision(self.cuts).distance(read)
