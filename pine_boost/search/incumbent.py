"""The best model so far, proved twice, and smaller ones that are proved once.

A model that is proved once waits for its second proof, since the next one is often smaller.
"""

from __future__ import annotations

import time
from dataclasses import replace

from pine_boost.budget import Budget, OutOfEffort, OutOfTime
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.bound import Bound
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.question import Answer, Proof
from pine_boost.proof.two_proofs import second_proof
from pine_boost.search.columns import Columns, Support
from pine_boost.search.search_result import Candidate, Moment


class Incumbent:
    """The best answer during a search.

    Attributes
    ----------
    best : Candidate
        Proved twice; at first the original itself.
    waiting : list of Candidate
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
        self.best = Candidate(None, (), columns.size_of(None))
        self.waiting: list[Candidate] = []
        self.bound: Bound | None = None
        self.believed_bound = 1
        self.undecided: bool | None = None
        self.history: list[Moment] = []
        self._started = started

    @property
    def smallest(self) -> Candidate:
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
            self.waiting.append(Candidate(pruned, proofs, n_kept))
            self.note(1)

    def prefer(self, pruned: PrunedForest, proofs: tuple[Proof, ...]) -> None:
        """Keep a model of the same size, proved once, in preference to the smallest."""
        self.waiting.append(Candidate(pruned, proofs, self.smallest.n_kept))

    def adopt(self, larger: Candidate, undecided: bool | None) -> None:
        """Adopt a model that was proved on a larger region, unless a smaller one is known."""
        self.undecided = undecided if undecided is False else None
        if larger.pruned is not None and larger.n_kept < self.best.n_kept:
            self.best = larger
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

    def leaves_of(self, found: Candidate) -> int:
        """The number of leaves of a model."""
        return replace(self.columns, name="leaf").size_of(found.pruned)


def require_answers(proofs: list[Proof], budget: Budget) -> None:
    """Raise if a proof did not end and none found a counterexample."""
    answers = {proof.answer for proof in proofs}
    if Answer.FOUND not in answers and Answer.UNKNOWN in answers:
        raise OutOfTime if budget.remaining < 0.5 else OutOfEffort
