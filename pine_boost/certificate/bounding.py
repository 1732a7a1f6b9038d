"""Between the bound that the search proved and the one that a certificate states.

In comes a `Bound` of the search, or a record of one; out goes the other. A record that would be
too large is not made: then the bound is not claimed. Proves nothing; `proof.bound` does.
"""

from __future__ import annotations

import numpy as np

from pine_boost.certificate.bound_record import BoundRecord, CutRecord
from pine_boost.proof.bound import Bound, Cut
from pine_boost.proof.problem import Problem

MOST_NUMBERS = 200_000  # a few megabytes of JSON


def write_bound(problem: Problem, bound: Bound | None) -> BoundRecord | None:
    """The record of a bound; None where there is none or it would be too large."""
    if bound is None:
        return None
    numbers = bound.states.size + sum(len(cut.rows) * 2 + len(cut.units) for cut in bound.cuts)
    if numbers > MOST_NUMBERS:
        return None
    outside = ~problem.region.contains(bound.states)
    cuts = (CutRecord(tuple(sorted(cut.units)), cut.rows, tuple(str(p) for p in cut.multipliers)) for cut in bound.cuts)
    return BoundRecord(
        states=tuple(tuple(int(state) for state in row) for row in bound.states),
        questions=tuple(int(question) for question in bound.questions),
        outside=int(outside.sum()),
        cuts=tuple(cuts),
    )


def read_bound(problem: Problem, units: int, written: BoundRecord) -> Bound | None:
    """The bound that a record describes; None where it does not fit the problem."""
    n_rows, n_features = len(written.states), problem.space.n_features
    if len(written.questions) != n_rows or any(len(row) != n_features for row in written.states):
        return None
    states = np.array(written.states, dtype=np.int64).reshape(n_rows, n_features)
    fits = bool(np.all((states >= 0) & (states < problem.space.n_states)))
    fits &= all(0 <= question < len(problem.questions) for question in written.questions)
    fits &= all(0 <= row < n_rows for cut in written.cuts for row in cut.rows)
    fits &= all(len(cut.rows) == len(cut.multipliers) for cut in written.cuts)
    if not fits or written.outside != int((~problem.region.contains(states)).sum()):
        return None
    cuts = tuple(
        Cut(frozenset(cut.units), cut.rows, tuple(int(text) for text in cut.multipliers)) for cut in written.cuts
    )
    questions = np.array(written.questions, dtype=np.int64)
    return Bound(units, states.astype(np.int32), questions, cuts)
