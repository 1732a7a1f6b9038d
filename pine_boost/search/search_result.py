"""What a search leaves: the best model with its proofs, and what another search may begin with.

In comes nothing but other stages' values; out go frozen records. Nothing here searches.
"""

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
    """A point of the anytime curve: by then a model of ``units`` was proved ``proofs`` times.

    ``leaves`` are those of this model, whatever its units are.
    """

    seconds: float
    units: int
    proofs: int
    lower_bound: int
    leaves: int = 0


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What a finished search leaves to that of a larger region of the same model.

    Rows, cuts and bounds stay true there; ``support`` is where to begin.
    The next search works on copies.
    """

    constraints: Constraints
    cuts: Cuts
    bound: Bound | None
    believed_bound: int
    support: Support


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best certified model.

    Attributes
    ----------
    pruned : PrunedForest or None
        None: the original itself is the answer.
    proofs : tuple of Proof
        Two for every question.
    n_kept : int
        Units kept.
    lower_bound : int
        No model of this form that keeps all rows found has fewer units; proved by ``bound``.
    rounds : int
        Times the Oracle was asked.
    rows : int
        Points that spoke in the search.
    stopped : StopReason
    undecided : bool or None
        Whether the region holds an input that the original itself does not decide for certain;
        None: not known.
    seconds : float
    history : tuple of Moment
        When which size was proved, once and twice.
    bound : Bound or None
        Rows and multipliers that prove the lower bound; None where it is 1.
    points : int32 (n_points, n_features) or None
        The points that spoke in the search.
    gave_up : bool
        A proof or a program took more than its share.
    interrupted : bool
        Ctrl-C ended it, though what was found by then may be the fewest; nothing goes on from it.
    out_of_time : bool
        The clock ended a part that could have found a smaller model.
    reweight : {"tree", "leaf"}
        Whether trees of ``pruned`` keep the ratios of their leaves, or have values of their own;
        the bound is about models of the same form.
    remaining : Trimming or None
        The original without what no input can tell from the rest; None where that is all of it.
    """

    pruned: PrunedForest | None
    proofs: tuple[Proof, ...]
    n_kept: int
    lower_bound: int
    rounds: int
    rows: int
    stopped: StopReason
    undecided: bool | None = None
    seconds: float = 0.0
    history: tuple[Moment, ...] = ()
    bound: Bound | None = field(default=None, repr=False)
    reference: Reference | None = field(default=None, repr=False)
    points: States | None = field(default=None, repr=False)
    gave_up: bool = False
    interrupted: bool = False
    out_of_time: bool = False
    reweight: str = "tree"
    remaining: Trimming | None = field(default=None, repr=False)

    @property
    def best(self) -> Candidate:
        """The model that is proved twice."""
        return Candidate(self.pruned, self.proofs, self.n_kept)

    @property
    def is_last(self) -> bool:
        """Whether no search should go on from here: Ctrl-C, or no memory for it."""
        return self.interrupted or self.stopped is StopReason.MEMORY

    def followed_by(self, later: SearchResult) -> SearchResult:
        """What remains of this and a later search over leaf values that began with this model.

        The later result if it is smaller; bounds of the earlier search do not hold for its form.
        """
        counted: dict[str, Any] = {
            "seconds": later.seconds,
            "rounds": self.rounds + later.rounds,
            "points": later.points,
            "rows": later.rows,
            "interrupted": later.interrupted,
        }
        is_fewest = later.stopped is StopReason.OPTIMAL  # with any leaf values
        counted["out_of_time"] = not is_fewest and (self.out_of_time or later.out_of_time)
        if later.n_kept >= self.n_kept:
            if later.stopped is StopReason.INTERRUPTED:
                counted["stopped"] = later.stopped
            return replace(self, **counted)
        before = (moment._replace(lower_bound=1) for moment in self.history)
        return replace(later, reweight="leaf", history=(*before, *later.history), **counted)

    def timed(self) -> SearchResult:
        """The same, stopped by the time where the clock ended any part of the whole search.

        That a model is the fewest of one form stays said of it; of the original, which would
        come back as the answer, it says nothing about the forms that were not searched.
        """
        is_open = self.stopped is StopReason.EFFORT
        is_unanswered = self.stopped is StopReason.OPTIMAL and self.pruned is None
        if self.out_of_time and (is_open or is_unanswered):
            return replace(self, stopped=StopReason.TIME)
        return self
