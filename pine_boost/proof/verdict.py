"""What a complete method says of one question.

In comes nothing; here are the words: proved, counterexample found, or no answer within the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from pine_boost.proof.question import Question


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
