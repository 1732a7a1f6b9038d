"""Sets of units whose outcome is known: what a linear program need not be asked again.

In come weights that win and cuts; out goes whether a set is known to win, because it contains one
that wins, or to lose, because it misses a cut. Proposals like everything in the search: a set that
wins is checked against every row that joined since, a cut stays true as rows grow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pine_boost.model.exact import PROGRAM_NOISE, SMALLEST_VALUE
from pine_boost.search.columns import Support
from pine_boost.search.linear_program import LinearProgram, Weights

_MOST_WINNERS = 256


def bits(support: Support) -> int:
    """A set of units as one whole number."""
    return int.from_bytes(np.packbits(support, bitorder="little").tobytes(), "little")


def unit_bits(units: Iterable[int]) -> int:
    """The same of a list of units."""
    whole = 0
    for unit in units:
        whole |= 1 << unit
    return whole


@dataclass(eq=False)
class _Winner:
    units: int
    weights: Weights
    n_rows: int  # of the program, against which it was checked


class KnownSets:
    """Winning and losing sets of one program."""

    def __init__(self, program: LinearProgram) -> None:
        self._program = program
        self._winners: list[_Winner] = []
        self._cuts: list[int] = []

    def add_cut(self, units: Iterable[int]) -> None:
        """At least one of these units is needed."""
        self._cuts.append(unit_bits(units))

    def add_winner(self, support: Support, weights: Weights) -> None:
        """Weights that win with the units of a support."""
        units = bits(support)
        kept = [w for w in self._winners if units & ~w.units]  # what contains it says less
        if all(w.units & ~units for w in kept):
            kept.append(_Winner(units, weights, len(self._program.rows)))
        self._winners = kept[-_MOST_WINNERS:]

    def loses(self, support: Support) -> bool:
        """Whether some known cut excludes the set."""
        units = bits(support)
        return any(not cut & units for cut in self._cuts)

    def wins(self, support: Support) -> bool:
        """Whether weights on some of these units are known to keep every row."""
        units = bits(support)
        for winner in [w for w in self._winners if not w.units & ~units]:
            if self._still_wins(winner):
                return True
            self._winners.remove(winner)
        return False

    def _still_wins(self, winner: _Winner) -> bool:
        program, first = self._program, winner.n_rows
        if first < len(program.rows):
            found = winner.weights
            sides = program.rows[first:] @ found.weights + program.free_rows[first:] @ found.free
            least = np.where(program.strict[first:], SMALLEST_VALUE, -PROGRAM_NOISE)
            if (sides < least).any():
                return False
            winner.n_rows = len(program.rows)
        return True
