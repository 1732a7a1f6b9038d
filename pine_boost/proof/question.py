"""The questions: which side of which boundary a pruned model must keep.

In comes a Forest; out go questions, which say on which side of a cut margins lie and who wins a
tie. Every other module asks them.
"""

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
    """One side that the pruned model must keep: ``plus`` over ``minus``, or a side of a cut.

    With several outputs: the original decides class ``plus``, the pruned model must score it above
    ``minus``; ``cut`` is -1. With one output: ``sign`` = +1 asks about inputs above ``cut``, -1
    below.
    """

    index: int
    name: str
    plus: int
    minus: int
    sign: int
    cut: int

    def side(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values per output (the last axis) as the question sees them, larger is safer."""
        if self.cut >= 0:
            return np.asarray(self.sign * values[..., 0])
        return np.asarray(values[..., self.plus] - values[..., self.minus])

    def side_of(self, constant: IntArray) -> int:
        """One constant per output as the question sees it."""
        return int(self.side(constant))

    def cut_side(self, decision: Decision) -> Fraction:
        """Where the side begins: the cut with the question's sign, 0 between two classes."""
        return self.sign * Fraction(decision.cuts[self.cut]) if self.cut >= 0 else Fraction(0)

    def cut_int(self, cuts_int: IntArray) -> int:
        """The same in whole units, from every cut in such units."""
        return self.sign * int(cuts_int[self.cut]) if self.cut >= 0 else 0

    def beyond_first(self, cuts: Sequence[_Number]) -> _Number:
        """How far its cut lies beyond the first one, with its sign; as exact as the cuts are."""
        return self.sign * (cuts[self.cut] - cuts[0])

    def wins_tie(self, decision: Decision) -> bool:
        """Whether an input exactly on the boundary falls to this side."""
        if self.cut >= 0:
            return decision.wins_tie(self.sign, -self.sign)
        return decision.wins_tie(self.plus, self.minus)

    def is_mirror(self, other: Question) -> bool:
        """Whether the other question asks for the opposite side of the same boundary."""
        if self.cut >= 0:
            return self.cut == other.cut and self.sign == -other.sign
        return self.plus == other.minus and self.minus == other.plus

    def is_rival(self, other: Question) -> bool:
        """Whether the other question asks for the same class, over another one."""
        return self.cut < 0 and self.plus == other.plus and self.minus != other.minus

    def asks_for(self, index: int) -> bool:
        """Whether it asks for this class over some other."""
        return self.cut < 0 and self.plus == index

    @property
    def asks_above(self) -> bool:
        """Whether it asks for the upper side of a cut."""
        return self.cut >= 0 and self.sign > 0

    @property
    def is_first_of_mirrors(self) -> bool:
        """Whether it is the one of the two questions about a boundary that is listed first."""
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
    """What one attempt at a question ended with."""

    PROVED = "no counterexample exists"
    FOUND = "counterexample"
    UNKNOWN = "budget ran out"


@dataclass(frozen=True, eq=False)
class Proof:
    """The outcome of one method on one question.

    Attributes
    ----------
    question : Question
    method : str
    answer : Answer
    seconds : float
    states : int32 (n_features,) or None
        The counterexample, checked on exact integers, where the answer is FOUND.
    covered : float or None
        Share of the region that was looked at, where the method knows it.
    """

    question: Question
    method: str
    answer: Answer
    seconds: float
    states: npt.NDArray[np.int32] | None = None
    covered: float | None = None
