"""What a search returns, and what another search may start from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pine_boost.budget import StopReason
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.model.trimming import Trimming
from pine_boost.proof.bound import Bound
from pine_boost.proof.question import Proof
from pine_boost.search.columns import Support
from pine_boost.search.constraints import Constraints
from pine_boost.search.probabilities import Reference
from pine_boost.search.pruner import Cuts


@dataclass(frozen=True, eq=False)
class Candidate:
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
class WarmStart:
    """What a finished search passes on to the search in a larger region of the same model.

    Rows, cuts and bounds stay true there; ``support`` is the first proposal. The next search works
    on copies.
    """

    constraints: Constraints
    cuts: Cuts
    bound: Bound | None
    believed_bound: int
    support: Support


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
    lower_bound : int
        No model of this form that keeps all known points has fewer units; ``bound`` proves it.
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
        Rows and multipliers that prove the lower bound; None if it is 1.
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
    lower_bound: int = 1
    rounds: int = 0
    rows: int = 0
    ended: frozenset[StopReason] = frozenset()
    undecided: bool | None = None
    seconds: float = 0.0
    history: tuple[Moment, ...] = ()
    bound: Bound | None = field(default=None, repr=False)
    reference: Reference | None = field(default=None, repr=False)
    points: States | None = field(default=None, repr=False)
    reweight: str = "tree"
    remaining: Trimming | None = field(default=None, repr=False)

    @property
    def best(self) -> Candidate:
        """The model that is proved twice."""
        return Candidate(self.pruned, self.proofs, self.n_kept)

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
        for reason in (StopReason.REFUSED, StopReason.INTERRUPTED, StopReason.NOT_WORTH_IT):
            if reason in self.ended:
                return reason
        if self.is_fewest and (self.pruned is not None or StopReason.TIME not in self.ended):
            return StopReason.OPTIMAL
        for reason in (StopReason.MEMORY, StopReason.UNSOLVED, StopReason.TIME):
            if reason in self.ended:
                return reason
        return StopReason.EFFORT

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended a part of it."""
        return StopReason.INTERRUPTED in self.ended

    @property
    def is_last(self) -> bool:
        """Whether no search should go on from here: Ctrl-C, or no memory."""
        return bool(self.ended & {StopReason.INTERRUPTED, StopReason.MEMORY})

    def with_ends(self, *reasons: StopReason) -> SearchResult:
        """The same, with more reasons why a part ended."""
        return replace(self, ended=self.ended | set(reasons))

    def with_model_of(self, other: SearchResult) -> SearchResult:
        """The model of a larger region instead of this one; bounds are not about its form."""
        return replace(
            self,
            pruned=other.pruned,
            proofs=other.proofs,
            n_kept=other.n_kept,
            reweight=other.reweight,
            lower_bound=1,
            bound=None,
        )

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
        before = (moment._replace(lower_bound=1) for moment in self.history)
        return replace(later, reweight="leaf", history=(*before, *later.history), **counted)
