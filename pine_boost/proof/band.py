"""The band in which the original is undecided: the library's own rounding, and ours.

In come a Forest and the scale of its integers; out goes the smallest integer side from which a
class is certain. Exact fractions throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pine_boost.model import exact
from pine_boost.model.forest import Decision, Forest
from pine_boost.proof.question import Question


@dataclass(frozen=True)
class Band:
    """Where the original's class is certain, as exact fractions in units of ``2**-scale``.

    The native margin differs from the exact sum by at most `exact.summation_band`, the integers
    from 2**scale times the exact sum by half a unit per tree and for the intercept. Beyond both,
    and the guard of the decision, the original's class is certain. A region with indifference
    starts at ``delta`` instead; there everything whose native or real margin might be at delta or
    beyond is asked about, so both roundings are subtracted.
    """

    unit: Fraction
    native: Fraction
    rounding: Fraction
    inside: Fraction
    is_exact: bool
    has_delta: bool

    @classmethod
    def of(cls, forest: Forest, scale: int, is_whole: bool, is_exact: bool, delta: float) -> Band:
        """The band of a model; ``is_whole``: its leaves are integers, ``is_exact``: sums too."""
        n_sums = 1 if forest.n_outputs == 1 else 2  # a gap is the difference of two sums
        unit = Fraction(2) ** scale
        rounding = Fraction(0) if is_whole else n_sums * Fraction(forest.n_trees + 1, 2)
        summation = n_sums * Fraction(exact.summation_band(forest))
        native = Fraction(0) if is_exact else summation + Fraction(forest.decision.guard)
        inside = (Fraction(delta) - summation) * unit - rounding - 1
        return cls(unit, native * unit, rounding, inside, is_exact, delta > 0)

    def least(self, decision: Decision, question: Question, undecided: float) -> int:
        """Smallest integer side that is decided for certain."""
        cut = question.cut_side(decision) * self.unit
        if self.is_exact and not self.has_delta:
            # decided iff cut < side, or cut <= side for the one that wins ties
            return math.ceil(cut) if question.wins_tie(decision) else math.floor(cut) + 1
        needed = self.native + self.rounding
        wider = Fraction(undecided) * self.unit - self.rounding
        return math.floor(cut + max(needed, self.inside, wider)) + 1

    def parts(self, undecided: float) -> tuple[float, float]:
        """What the library's rounding and what the integers leave undecided, as margins."""
        if self.is_exact or self.inside >= self.native + self.rounding:
            return 0.0, 0.0
        native = math.nextafter(float(self.native / self.unit), math.inf)
        solver = float((2 * self.rounding + 1) / self.unit) if self.rounding else 0.0
        return native, max(solver, undecided - native)
