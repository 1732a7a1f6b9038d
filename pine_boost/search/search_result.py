"""The best model during a search and what a search returns.

A model that is proved once waits for its second proof, since the next one is often smaller.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pine_boost.budget import Budget, OutOfEffort, OutOfTime, StopReason, to_report
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.model.trimming import Trimming
from pine_boost.proof.bound import Bound
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.problem import Answer, Proof
from pine_boost.proof.two_proofs import second_proof
from pine_boost.search.constraints import DistinctFitRows
from pine_boost.search.lp_columns import Columns, Support


@dataclass(frozen=True, eq=False)
class ProvedModel:
    """A model that was proved at least once; ``pruned`` is None for the original."""

    pruned: PrunedForest | None
    proofs: tuple[Proof, ...]
    n_kept: int


class Moment(NamedTuple):
    """A point of the anytime curve: by then a model with ``units`` and ``leaves`` was proved ``proofs`` times."""

    seconds: float
    units: int
    proofs: int
    lower_bound: int
    leaves: int = 0


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The outcome of a search: the best certified model, and what ended the search there.

    Attributes
    ----------
    pruned : PrunedForest or None
        None: the original itself is the answer.
    proofs : tuple of Proof
        Two for every question.
    n_kept : int
        Units kept.
    rounds : int
        How often the Oracle was asked.
    rows : int
        Points that constrained the search.
    ended : frozenset of StopReason
        What ended a part of the search early. TIME: the clock ended a part that could have found a
        smaller model; EFFORT: a proof or a program exceeded its share. Empty if everything was tried.
    undecided : bool or None
        Whether the region holds an input that the original itself does not decide for certain;
        None: unknown.
    seconds : float
    history : tuple of Moment
        When which size was proved, once and twice.
    bound : Bound or None
        Rows and multipliers that prove the lower bound of models of this form; None if it is 1.
    points : int32 (n_points, n_features) or None
        The points that constrained the search.
    reweight : {"tree", "leaf"}
        Whether trees of ``pruned`` keep the ratios of their leaves, or have leaf values of their
        own; the bound is about models of the same form.
    remaining : Trimming or None
        The original without its redundant nodes; None if there are none.
    """

    pruned: PrunedForest | None
    proofs: tuple[Proof, ...]
    n_kept: int
    rounds: int = 0
    rows: int = 0
    ended: frozenset[StopReason] = frozenset()
    undecided: bool | None = None
    seconds: float = 0.0
    history: tuple[Moment, ...] = ()
    bound: Bound | None = field(default=None, repr=False)
    fit: DistinctFitRows | None = field(default=None, repr=False)
    points: States | None = field(default=None, repr=False)
    reweight: str = "tree"
    remaining: Trimming | None = field(default=None, repr=False)

    @property
    def lower_bound(self) -> int:
        """No model of this form that keeps all known points has fewer units; ``bound`` proves it."""
        return 1 if self.bound is None else min(self.bound.units, self.n_kept)

    @property
    def is_fewest(self) -> bool:
        """Whether no model of this form has fewer units."""
        return self.n_kept <= self.lower_bound

    @property
    def stopped(self) -> StopReason:
        """The one reason to report.

        A model that is proved to be the smallest of its form is OPTIMAL even if the clock ended the
        search for models of another form; the original is not.
        """
        is_optimal = self.is_fewest and (self.pruned is not None or StopReason.TIME not in self.ended)
        return to_report(self.ended | {StopReason.OPTIMAL} if is_optimal else self.ended)

    def with_ends(self, *reasons: StopReason) -> SearchResult:
        """The same, with more reasons why a part ended."""
        return replace(self, ended=self.ended | set(reasons))

    def without_model(self, n_units: int, reason: StopReason) -> SearchResult:
        """The original with its units as the answer, for one more reason."""
        return replace(self.with_ends(reason), pruned=None, proofs=(), n_kept=n_units, reweight="tree")

    def without_bound(self) -> SearchResult:
        """The same without a lower bound, then or now: it was proved for models of another form."""
        history = tuple(moment._replace(lower_bound=1) for moment in self.history)
        return replace(self, bound=None, history=history)

    def with_model_of(self, other: SearchResult) -> SearchResult:
        """The model and points of a larger region instead of these; bounds are not about its form."""
        model = {name: getattr(other, name) for name in ("pruned", "proofs", "n_kept", "reweight", "points")}
        return replace(self.without_bound(), **model)

    def followed_by(self, later: SearchResult) -> SearchResult:
        """The outcome of this search and a later one over leaf values that started from its model.

        The later result if it is smaller; bounds of the earlier search do not hold for its form. If
        the later one is proved to be the smallest, time that was missing before does not matter.
        """
        is_smaller = later.n_kept < self.n_kept
        first, second = (later, self) if is_smaller else (self, later)
        # what else ended the search whose model is not the answer says nothing about this model
        ended = first.ended | second.ended & {StopReason.TIME, StopReason.INTERRUPTED}
        counted: dict[str, Any] = {
            "seconds": later.seconds,
            "rounds": self.rounds + later.rounds,
            "points": later.points,
            "rows": later.rows,
            "ended": ended - {StopReason.TIME} if later.is_fewest else ended,
        }
        if not is_smaller:
            return replace(self, **counted)
        history = (*self.without_bound().history, *later.history)
        return replace(later, reweight="leaf", history=history, **counted)


class Incumbent:
    """The best answer during a search.

    Attributes
    ----------
    best : ProvedModel
        Proved twice; at first the original itself.
    waiting : list of ProvedModel
        Smaller than the best, proved once, the smallest last.
    bound : Bound or None
        Proof of a lower bound on the units of any answer.
    believed_bound : int
        The lower bound according to floats, at which the search stops; never reported.
    undecided : bool or None
        Whether the region holds inputs that the original leaves undecided; None: unknown.
    history : list of Moment
    """

    def __init__(self, columns: Columns, started: float) -> None:
        self.columns = columns
        self.best = ProvedModel(None, (), columns.size_of(None))
        self.waiting: list[ProvedModel] = []
        self.bound: Bound | None = None
        self.believed_bound = 1
        self.undecided: bool | None = None
        self.history: list[Moment] = []
        self._started = started

    @property
    def smallest(self) -> ProvedModel:
        """The smallest model that is proved, once or twice."""
        return self.waiting[-1] if self.waiting else self.best

    @property
    def lower_bound(self) -> int:
        """The proved lower bound."""
        return 1 if self.bound is None else self.bound.units

    @property
    def support(self) -> Support:
        """The units of the smallest model."""
        return self.columns.kept_units(self.smallest.pruned)

    @property
    def is_settled(self) -> bool:
        """Whether the smallest model meets the believed bound."""
        return self.believed_bound >= self.smallest.n_kept

    def raise_bound(self, bound: int) -> None:
        """Raise the believed bound."""
        self.believed_bound = max(self.believed_bound, bound)

    def accept(self, pruned: PrunedForest, proofs: tuple[Proof, ...]) -> None:
        """Keep a model that was proved once for its second proof, if it is smaller than the smallest."""
        n_kept = self.columns.size_of(pruned)
        if n_kept < self.smallest.n_kept:
            self.waiting.append(ProvedModel(pruned, proofs, n_kept))
            self.note(1)

    def prefer(self, pruned: PrunedForest, proofs: tuple[Proof, ...]) -> None:
        """Keep a model of the same size, proved once, in preference to the smallest."""
        self.waiting.append(ProvedModel(pruned, proofs, self.smallest.n_kept))

    def adopt(self, larger: SearchResult) -> None:
        """Adopt the model that was proved on a larger region, unless a smaller one is known."""
        self.undecided = larger.undecided if larger.undecided is False else None
        if larger.pruned is not None and larger.n_kept < self.best.n_kept:
            self.best = ProvedModel(larger.pruned, larger.proofs, larger.n_kept)
            self.waiting = [found for found in self.waiting if found.n_kept < larger.n_kept]
            self.note(2)

    def take_over(self, other: Incumbent) -> None:
        """Take over the models of a search over the same units, but not its bounds."""
        self.best, self.waiting = other.best, list(other.waiting)
        self.undecided, self.history = other.undecided, list(other.history)

    def prove_twice(self, prover: Prover, budget: Budget) -> None:
        """Prove the waiting models again: the smallest that passes becomes the best.

        If the second proof does not end within the effort, or finds a counterexample (then one of
        the two methods is wrong), the next larger model is tried.
        """
        while self.waiting:
            found = self.waiting[-1]
            assert found.pruned is not None
            try:
                second = second_proof(prover, found.pruned, budget)
                require_answers(second, budget)
            except OutOfEffort:
                self.waiting.pop()
                continue
            if any(proof.answer is Answer.FOUND for proof in second):
                self.waiting.pop()
                continue
            self.best = replace(found, proofs=(*found.proofs, *second))
            self.waiting.clear()
            self.note(2)

    def note(self, proofs: int) -> None:
        """Record when this size was proved."""
        noted = self.best if proofs == 2 else self.smallest
        seconds, size = time.monotonic() - self._started, noted.n_kept
        bound, leaves = min(self.lower_bound, size), self.leaves_of(noted)
        self.history.append(Moment(seconds, size, proofs, bound, leaves))

    def leaves_of(self, found: ProvedModel) -> int:
        """The number of leaves of a model."""
        return replace(self.columns, name="leaf").size_of(found.pruned)


def require_answers(proofs: list[Proof], budget: Budget) -> None:
    """Raise if a proof did not end and none found a counterexample."""
    answers = {proof.answer for proof in proofs}
    if Answer.FOUND not in answers and Answer.UNKNOWN in answers:
        raise OutOfTime if budget.remaining < 0.5 else OutOfEffort
