"""Prove a lower bound on the number of units with cuts in exact integers.

Cuts that only floats support are never part of a bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pine_boost.budget import SECONDS, Budget, OutOfEffort, OutOfTime
from pine_boost.model.forest import IntArray
from pine_boost.proof.bound import Bound, Cut, Units, fewest_units, hitting_set
from pine_boost.search.constraints import Constraints
from pine_boost.search.exact_farkas import ExactCut, exclude
from pine_boost.search.greedy_cover import small_cover
from pine_boost.search.lp import UnsolvedProgramError
from pine_boost.search.lp_columns import Support
from pine_boost.search.pruner import Pruner

_PER_ROUND = 6  # cuts that are proved before the next hitting set
_MOST_ATTEMPTS = 5  # at excluding one set


def prove_bound(
    pruner: Pruner, target: int, known: Bound | None, budget: Budget, most_rounds: int | None = None
) -> Bound | None:
    """The largest bound up to ``target`` that exact cuts give; None if it is 1.

    Finds a set of fewer than ``target`` units that meets all cuts proved so far, proves a few of the
    believed cuts that it misses, and so on until there is no such set.
    """
    if target <= 1:
        return known
    n_units = pruner.n_units
    proved = _Proved(pruner.constraints, known)
    smaller: Support | bool | None = False
    try:
        for cut in [cut for cut in pruner.cuts if len(cut) == 1]:
            proved.prove(cut, pruner.cuts[cut], budget)
        for round_number in itertools.islice(itertools.count(), most_rounds):
            budget.check()
            smaller = small_cover(proved.units, n_units, target - 1, round_number)
            if smaller is None:  # only the solver can say that there is none
                smaller = hitting_set(proved.units, n_units, target - 1, budget)
            if not isinstance(smaller, np.ndarray):
                break
            if not _exclude(pruner, proved, smaller, round_number, budget):
                break
    except (OutOfTime, OutOfEffort, UnsolvedProgramError):
        smaller = False
    units = target if smaller is None else min(target, _fewest(proved.units, n_units, budget))
    if known is not None and units <= known.units:
        return known
    return proved.bound(units) if units > 1 else None


def _exclude(pruner: Pruner, proved: _Proved, support: Support, seed: int, budget: Budget) -> bool:
    """Prove cuts that a set misses: believed ones, then its own, then stronger ones."""
    kept = frozenset(np.flatnonzero(support).tolist())
    for attempt in range(_MOST_ATTEMPTS):
        missed = sorted((c for c in pruner.cuts if not c & kept and c not in proved.tried), key=len)
        for cut in missed[:_PER_ROUND]:
            proved.prove(cut, pruner.cuts[cut], budget)
        if any(not units & kept for units in proved.units):
            return True
        if missed:
            continue
        if pruner.solve(support) is not None:
            return False  # the set is enough after all
        against = frozenset(range(pruner.n_units)) - kept
        if against not in proved.tried and against not in pruner.cuts:
            believed = pruner.exclusion(support)
            proved.prove(against, believed, budget)
        else:
            pruner.strengthen(support, seed + attempt)
    return False


def _fewest(cuts: Sequence[Units], n_units: int, budget: Budget) -> int:
    """The bound that the proved cuts give; it may take a moment after the deadline."""
    moment = SECONDS["bound after deadline"]
    budget = budget if budget.remaining > moment else Budget.of(moment, budget.effort)
    return fewest_units(cuts, n_units, budget)


class _Proved:
    """Exact cuts, and the points and questions of their rows, each once."""

    def __init__(self, constraints: Constraints, known: Bound | None) -> None:
        self.constraints = constraints
        self.cuts: list[Cut] = []
        self.tried: set[Units] = set()
        self._position: dict[tuple[bytes, int], int] = {}
        self._states: list[np.ndarray] = []
        self._questions: list[int] = []
        for cut in known.cuts if known is not None else ():
            assert known is not None
            own = [self._row(known.states[k], int(known.questions[k])) for k in cut.rows]
            self.cuts.append(Cut(cut.units, tuple(own), cut.multipliers))

    @property
    def units(self) -> list[Units]:
        return [cut.units for cut in self.cuts]

    def prove(self, cut: Units, speaking: IntArray, budget: Budget) -> None:
        """Try to prove a believed cut from the rows that support it."""
        self.tried.add(cut)
        support = np.ones(self.constraints.columns.n_units, dtype=bool)
        support[sorted(cut)] = False
        found = exclude(self.constraints, support, speaking, budget)
        if found is not None and len(found.units) < self.constraints.columns.n_units:
            self._add(found)

    def _add(self, found: ExactCut) -> None:
        points, questions = self.constraints.point_of[found.rows], self.constraints.question_of[found.rows]
        own = [
            self._row(self.constraints.states[point], int(question))
            for point, question in zip(points, questions, strict=True)
        ]
        self.cuts.append(Cut(found.units, tuple(own), found.multipliers))

    def _row(self, states: np.ndarray, question: int) -> int:
        key = (states.tobytes(), question)
        if key not in self._position:
            self._position[key] = len(self._states)
            self._states.append(states)
            self._questions.append(question)
        return self._position[key]

    def bound(self, units: int) -> Bound:
        """The bound with the cuts that it needs: none that contains another."""
        needed: dict[Units, Cut] = {}
        for cut in sorted(self.cuts, key=lambda c: (len(c.units), sorted(c.units))):
            if not any(other <= cut.units for other in needed):
                needed[cut.units] = cut
        used = sorted({row for cut in needed.values() for row in cut.rows})
        position = {row: k for k, row in enumerate(used)}
        cuts = tuple(
            Cut(cut.units, tuple(position[row] for row in cut.rows), cut.multipliers) for cut in needed.values()
        )
        states = np.stack([self._states[row] for row in used])
        return Bound(units, states, np.array([self._questions[row] for row in used]), cuts)
