"""What `accelerate_booster` returns: the scorer, what is claimed of it, and how fast it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pine_boost import kernels
from pine_boost.certificate.claims import NOT_VALIDATED, Statement
from pine_boost.compression.record import Segment
from pine_boost.model.forest import Model
from pine_boost.native.child_process import try_in_child
from pine_boost.native.figures import SIZES, Figures, SideBySide, file_contents, is_quick, native_predict
from pine_boost.notebooks import displayed
from pine_boost.options import counted
from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.scorer_folder import scorer_files, write_scorer

_ALL_TREES = "predict_proba and decision_function evaluate all trees: they are those of the model itself."


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class AccelerateResult:
    """A fast scorer and the statement that holds for it.

    Attributes
    ----------
    scorer : FastScorer
    seconds : float
        What building and proving took.
    facts : mapping
        Status, claim, work, digests, versions: what the manifest records.
    native : callable
        The native ``predict`` of the model that was given.
    sample : array
        Rows for `speedup` where none are given.
    """

    scorer: FastScorer
    seconds: float
    facts: Mapping[str, Any] = field(repr=False)
    original: Model = field(repr=False)
    native: Callable[[Any], Any] = field(repr=False)
    sample: Any = field(repr=False)

    @property
    def status(self) -> str:
        """``"CERTIFIED"``, ``"VALIDATED"``, ``"MEASURED"`` or ``"NOT_VALIDATED"``.

        CERTIFIED: proved for every input. VALIDATED: a statistic about future inputs. MEASURED: only about the rows at
        hand, as X_val overlaps X_fit. NOT_VALIDATED: no earlier exits passed the test, so the scorer is the proved one.
        """
        return str(self.facts["status"])

    @property
    def claim(self) -> str:
        """The one sentence that may be said of the scorer."""
        return str(self.facts["claim"])

    @property
    def work(self) -> float:
        """Mean share of the trees that an input meets, on the rows that ``work_rows`` names."""
        return float(self.facts["work"])

    @property
    def work_rows(self) -> str:
        """``"X_fit"``, or ``"synthetic rows"`` drawn from the leaves where no data were given."""
        return str(self.facts["work_rows"])

    @cached_property
    def side_by_side(self) -> SideBySide:
        """Size and work of the model and of the scorer, and what measures their speed."""
        before, after = self.facts["work_per_row"]
        flat, model = self.scorer.parts.flat, self.original
        files = scorer_files(self.scorer.parts, self.facts)
        return SideBySide(
            Figures(model.forest.n_trees, model.forest.n_leaves, len(file_contents(model)), before),
            Figures(flat.n_trees, flat.n_leaves, sum(map(len, files.values())), after),
            self.work_rows,
            self._calls,
            self.sample,
            is_quick(model),
            self.scorer.parts.prepare is None or self._is_inside,
            "the ensemble inside" if self._is_inside else "the original",
        )

    @property
    def _is_inside(self) -> bool:
        """Whether the sample was drawn from the leaves, behind the first steps of a Pipeline."""
        return self.scorer.parts.prepare is not None and self.work_rows != "X_fit"

    def _calls(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        try_in_child(self.original)
        if self._is_inside:
            inside = FastScorer(replace(self.scorer.parts, prepare=None, finish=None))
            return native_predict(self.original), inside.predict
        return self.native, self.scorer.predict

    def speedup(self, X: Any = None, sizes: Sequence[int] = SIZES) -> dict[int, float]:
        """How many times as fast as the native ``predict`` the scorer is, measured now.

        Parameters
        ----------
        X : table, optional
            Rows to score, repeated as often as needed; default: those that `work` was measured on. If those are
            synthetic rows for a Pipeline, the ensemble inside is timed without its first steps.
        sizes : sequence of int
            Numbers of rows per call.

        Returns
        -------
        dict
            Number of rows to ratio of times. Both are timed in turn, the best of several calls each.
        """
        side = self.side_by_side
        if X is not None and self._is_inside:
            side = replace(side, calls=lambda: (self.native, self.scorer.predict), takes_arrays=False)
        return {speed.n_rows: speed.ratio for speed in side.speeds(X, sizes)}

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the scorer's folder, which `load_scorer` reads and ``pine-boost verify`` proves again."""
        return write_scorer(scorer_files(self.scorer.parts, self.facts), folder, overwrite=overwrite)

    def headline(self) -> str:
        """One line: the status and what an input costs."""
        n_trees = self.original.forest.n_trees
        visited = self.work * n_trees
        trees = f"{self.status}: {counted(n_trees, 'tree')}"
        if round(visited) == n_trees:
            return f"{trees}; a typical input visits all of them ({self.work_rows})."
        if not self.scorer.parts.classes:
            return f"{trees}; every input visits the same {visited:.0f}."
        shown = f"{visited:.0f}" if visited >= 10 else f"{visited:.1f}"
        return f"{trees}; a typical input visits {shown} of them ({self.work_rows})."

    def summary(self) -> str:
        """What is claimed, what it costs, what runs."""
        flat = self.scorer.parts.flat
        return "\n".join(
            [
                self.headline(),
                self.promise(),
                *self._tested(),
                *self.side_by_side.summary(),
                f"{flat.n_leaves} leaves; kernel: {kernels.name()}; built and checked in {self.seconds:.2f} s.",
            ]
        )

    @property
    def statement(self) -> Statement | None:
        """The numbers of the test; None for a proved scorer."""
        tested = self.facts.get("validation")
        if tested is None:
            return None
        segments = [Segment(**segment) for segment in tested["segments"]]
        return replace(Statement.of_scorer(self.status, tested, self.original.forest), segments=segments)

    def promise(self) -> str:
        """The claim, for a tested scorer in two short sentences."""
        return self.claim if self.statement is None else self.statement.promise(self.claim)

    def _tested(self) -> list[str]:
        """What the validation rows showed; nothing for a proved scorer."""
        if self.statement is None or self.status == NOT_VALIDATED:
            return []
        is_smaller = "compressed_digest" in self.facts["validation"]
        return [*self.statement.evidence(), *(() if is_smaller else (_ALL_TREES,))]
