"""The proof of a lower bound as a certificate writes it down.

In comes a `Bound` of the search; out go plain lists and texts, and back. A record that would be
too large is not made: then the bound is not claimed. Proves nothing; `proof.bound` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.json_fields import record, require
from pine_boost.model.exact import LONGEST_MULTIPLIER
from pine_boost.proof.bound import Bound, Cut
from pine_boost.proof.problem import Problem

MOST_NUMBERS = 200_000  # a few megabytes of JSON


@dataclass(frozen=True)
class CutRecord:
    """At least one of ``units`` is kept: the sum of ``rows``, each times its multiplier, says so.

    Multipliers are texts: other readers of JSON would round large numbers.
    """

    units: tuple[int, ...]
    rows: tuple[int, ...]
    multipliers: tuple[str, ...]


@dataclass(frozen=True)
class BoundRecord:
    """Why there is no model of this form with fewer units than the certificate's lower bound.

    Attributes
    ----------
    states : tuple of tuples of int
        The points that speak, as states of the region's features.
    questions : tuple of int
        Which side each of them must keep.
    outside : int
        How many of the points lie outside the region: rows of X_fit.
    cuts : tuple of CutRecord
    """

    states: tuple[tuple[int, ...], ...]
    questions: tuple[int, ...]
    outside: int
    cuts: tuple[CutRecord, ...]


def write_bound(problem: Problem, bound: Bound | None) -> BoundRecord | None:
    """The record of a bound; None where there is none or it would be too large."""
    if bound is None:
        return None
    numbers = bound.states.size + sum(len(cut.rows) * 2 + len(cut.units) for cut in bound.cuts)
    if numbers > MOST_NUMBERS:
        return None
    outside = ~problem.region.contains(bound.states)
    cuts = (
        CutRecord(tuple(sorted(cut.units)), cut.rows, tuple(str(p) for p in cut.multipliers))
        for cut in bound.cuts
    )
    return BoundRecord(
        states=tuple(tuple(int(state) for state in row) for row in bound.states),
        questions=tuple(int(question) for question in bound.questions),
        outside=int(outside.sum()),
        cuts=tuple(cuts),
    )


def parse_bound(data: Mapping[str, Any] | None) -> BoundRecord | None:
    """The record in a certificate of unknown origin; raises where it is none."""
    if data is None:
        return None
    kinds = {"states": "tuple[tuple[int, ...], ...]", "questions": "tuple[int, ...]"}
    whole = record(data, {**kinds, "outside": "int", "cuts": "tuple[CutRecord, ...]"})
    kinds = {"units": "tuple[int, ...]", "rows": "tuple[int, ...]"}
    cuts = [record(cut, {**kinds, "multipliers": "tuple[str, ...]"}) for cut in whole["cuts"]]
    longest = LONGEST_MULTIPLIER // 3  # decimal digits of so many bits are fewer
    for cut in cuts:
        for text in cut["multipliers"]:
            require(text.isdecimal() and len(text) <= longest, "a multiplier is no whole number")
    states = tuple(tuple(row) for row in whole["states"])
    own = tuple(CutRecord(**cut) for cut in cuts)
    return BoundRecord(states, whole["questions"], whole["outside"], own)


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
        Cut(frozenset(cut.units), cut.rows, tuple(int(text) for text in cut.multipliers))
        for cut in written.cuts
    )
    questions = np.array(written.questions, dtype=np.int64)
    return Bound(units, states.astype(np.int32), questions, cuts)
