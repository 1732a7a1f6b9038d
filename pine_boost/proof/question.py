"""What has to be proved: one question per side of a decision boundary, and the answer of a method to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pine_boost.model.digits import exactly
from pine_boost.model.forest import Decision, Forest, IntArray

_Number = TypeVar("_Number", float, Fraction)


@dataclass(frozen=True)
class Question:
    """One side of a decision boundary that the pruned model must keep.

    With several outputs: where the original decides for class ``plus``, the pruned model must score ``plus``
    above ``minus``; ``cut`` is -1. With one output: ``sign`` is +1 for inputs above ``cut``, -1 for those below.
    """

    index: int
    name: str
    plus: int
    minus: int
    sign: int
    cut: int

    def side(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The signed margin of the question, from values per output (last axis); larger is safer."""
        if self.cut >= 0:
            return np.asarray(self.sign * values[..., 0])
        return np.asarray(values[..., self.plus] - values[..., self.minus])

    def side_of(self, constant: IntArray) -> int:
        """The signed margin of one constant per output, such as an intercept."""
        return int(self.side(constant))

    def cut_side(self, decision: Decision) -> Fraction:
        """The side at which the boundary lies: the signed cut, or 0 between two classes."""
        return self.sign * Fraction(decision.cuts[self.cut]) if self.cut >= 0 else Fraction(0)

    def cut_int(self, cuts_int: IntArray) -> int:
        """`cut_side` in integer units, from all cuts in such units."""
        return self.sign * int(cuts_int[self.cut]) if self.cut >= 0 else 0

    def beyond_first(self, cuts: Sequence[_Number]) -> _Number:
        """The signed distance of its cut from the first cut; exact if the cuts are."""
        return self.sign * (cuts[self.cut] - cuts[0])

    def wins_tie(self, decision: Decision) -> bool:
        """Whether an input exactly on the boundary belongs to this side."""
        if self.cut >= 0:
            return decision.wins_tie(self.sign, -self.sign)
        return decision.wins_tie(self.plus, self.minus)

    def is_mirror(self, other: Question) -> bool:
        """Whether the other question is about the opposite side of the same boundary."""
        if self.cut >= 0:
            return self.cut == other.cut and self.sign == -other.sign
        return self.plus == other.minus and self.minus == other.plus

    def is_rival(self, other: Question) -> bool:
        """Whether the other question is about the same class against another one."""
        return self.cut < 0 and self.plus == other.plus and self.minus != other.minus

    def asks_for(self, index: int) -> bool:
        """Whether the question is about this class against another one."""
        return self.cut < 0 and self.plus == index

    @property
    def asks_above(self) -> bool:
        """Whether the question is about the upper side of a cut."""
        return self.cut >= 0 and self.sign > 0

    @property
    def is_first_of_mirrors(self) -> bool:
        """Whether the question comes before its mirror."""
        return self.sign > 0 and self.plus <= self.minus


def questions_of(forest: Forest) -> tuple[Question, ...]:
    """Both sides of every cut, or every ordered pair of classes."""
    questions: list[Question] = []
    if forest.n_outputs == 1:
        named = forest.decision.thresholds
        for cut in range(len(forest.decision.cuts)):
            for sign in (1, -1):
                if named:
                    name = f"{'above' if sign > 0 else 'below'} {exactly(named[cut])}"
                else:
                    ordered = forest.classes[::-1] if sign > 0 else forest.classes
                    name = f"class {ordered[0]} over {ordered[1]}"
                questions.append(Question(len(questions), name, 0, 0, sign, cut))
        return tuple(questions)
    for plus in range(forest.n_outputs):
        for minus in range(forest.n_outputs):
            if plus != minus:
                name = f"class {forest.classes[plus]} over {forest.classes[minus]}"
                questions.append(Question(len(questions), name, plus, minus, 1, -1))
    return tuple(questions)


class Answer(Enum):
    """How one attempt to answer a question ended."""

    PROVED = "no counterexample exists"
    FOUND = "counterexample"
    UNKNOWN = "budget ran out"


@dataclass(frozen=True, eq=False)
class Proof:
    """The answer of one method to one question.

    Attributes
    ----------
    question : Question
    method : str
    answer : Answer
    seconds : float
    states : int32 (n_features,) or None
        The counterexample, checked on exact integers, if the answer is FOUND.
    covered : float or None
        Share of the region that was covered, if the method knows it.
    """

    question: Question
    method: str
    answer: Answer
    seconds: float
    states: npt.NDArray[np.int32] | None = None
    covered: float | None = None
