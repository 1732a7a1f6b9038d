"""CP-SAT literals for "the state of a feature is in this set", created on demand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

Literal = Any  # a Boolean variable of CP-SAT or its negation; ortools exports no common type


class FeatureLiterals:
    """Literals "the state is in this set" of one feature.

    Allowed interval states form a chain of order literals ``state <= s``; allowed special states and categories
    have one literal each. A set is then a literal of the chain, or a new Boolean.
    """

    def __init__(self, model: cp_model.CpModel, n_intervals: int, allowed: npt.NDArray[np.bool_]) -> None:
        self.model = model
        self.allowed = np.flatnonzero(allowed)
        self.intervals = self.allowed[self.allowed < n_intervals]
        specials = self.allowed[self.allowed >= n_intervals]
        self.special = {int(state): model.new_bool_var("") for state in specials}
        self.order: dict[int, Literal] = {}
        self._sets: dict[bytes, Literal] = {}
        self._true = model.new_constant(1)
        self._false = ~self._true
        self._in_intervals: Literal = self._true
        if self.special:
            members = list(self.special.values())
            if len(self.intervals):
                self._in_intervals = model.new_bool_var("")
                members.append(self._in_intervals)
            else:
                self._in_intervals = self._false
            model.add_exactly_one(members)
        for state in self.intervals[:-1]:
            self.order[int(state)] = model.new_bool_var("")
        chain = [self.order[int(state)] for state in self.intervals[:-1]]
        for earlier, later in pairwise(chain):
            model.add_implication(earlier, later)
        # a special state counts as the first interval of the chain, which fixes the free literals
        for literal in self.special.values():
            for order in chain[:1]:
                model.add_implication(literal, order)

    def at_most(self, state: int) -> Literal:
        """A literal for "the interval state (the first one for a special state) is <= state"."""
        if len(self.intervals) == 0 or state >= self.intervals[-1]:
            return self._true
        if state < self.intervals[0]:
            return self._false
        return self.order[int(self.intervals[self.intervals <= state][-1])]

    def in_set(self, members: npt.NDArray[np.bool_]) -> Literal:
        """A literal equivalent to "the state is one of these"."""
        inside = members[self.allowed]
        if inside.all():
            return self._true
        if not inside.any():
            return self._false
        key = members.tobytes()
        if key not in self._sets:
            self._sets[key] = self._new_set(members)
        return self._sets[key]

    def _new_set(self, members: npt.NDArray[np.bool_]) -> Literal:
        intervals = members[self.intervals]
        specials = np.array([members[state] for state in self.special], dtype=bool)
        runs = np.flatnonzero(np.diff(intervals.astype(int)))
        if len(intervals) and not specials.any() and not self.special:
            if len(runs) == 1 and intervals[0]:
                return self.at_most(int(self.intervals[runs[0]]))
            if len(runs) == 1:
                return ~self.at_most(int(self.intervals[runs[0]]))
        model = self.model
        literal = model.new_bool_var("")
        parts = [self.special[state] for state in self.special if members[state]]
        others = [self.special[state] for state in self.special if not members[state]]
        for part in parts:
            model.add_implication(part, literal)
        for other in others:
            model.add_implication(other, ~literal)
        # for each run of intervals: the state is in the run only if the literal says so
        bounds = np.concatenate([[0], runs + 1, [len(intervals)]])
        for start, stop in pairwise(bounds):
            if stop == start:
                continue
            low = int(self.intervals[start])
            high = int(self.intervals[stop - 1])
            before = self.at_most(low - 1) if start > 0 else self._false
            here = [~self._in_intervals, before, ~self.at_most(high)]
            model.add_bool_or([*here, literal if intervals[start] else ~literal])
        return literal

    def state_of(self, solution: Any) -> int:
        """The state of this feature in a solution."""
        for state, literal in self.special.items():
            if solution.boolean_value(literal):
                return state
        for state in self.intervals[:-1]:
            if solution.boolean_value(self.order[int(state)]):
                return int(state)
        return int(self.intervals[-1])
