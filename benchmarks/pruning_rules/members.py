"""What a pruning rule sees of an ensemble.

In come every member's class scores on labelled rows; out go votes, right and wrong answers and the
decision of a part of the ensemble. A member of a booster is a round, its score what it adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Members:
    """Members of an ensemble on labelled rows; equal scores count as the lower class.

    Attributes
    ----------
    scores : float64 (n_members, n_rows, n_classes)
    y : int64 (n_rows,)
        Class indices.
    offset : float64 (n_classes,) or 0
        What is added to every sub-ensemble's scores: a booster's intercept.
    """

    scores: FloatArray
    y: IntArray
    offset: FloatArray | float = 0.0

    @property
    def n_members(self) -> int:
        """How many members there are."""
        return len(self.scores)

    @cached_property
    def votes(self) -> IntArray:
        """Class that each member favours, (n_members, n_rows)."""
        return np.asarray(self.scores.argmax(axis=2), dtype=np.int64)

    @cached_property
    def is_right(self) -> BoolArray:
        """Whose vote is the label, (n_members, n_rows)."""
        return np.asarray(self.votes == self.y)

    @cached_property
    def errors(self) -> FloatArray:
        """Share of wrong votes per member."""
        return np.asarray(1.0 - self.is_right.mean(axis=1))

    @cached_property
    def vote_counts(self) -> FloatArray:
        """Votes per row and class, (n_rows, n_classes)."""
        classes = np.arange(self.scores.shape[2])
        return np.asarray((self.votes[:, :, None] == classes).sum(axis=0), dtype=np.float64)

    def decide(self, kept: list[int]) -> IntArray:
        """Classes by the summed scores of some members; by the offset alone without any."""
        summed = self.scores[kept].sum(axis=0) + self.offset
        return np.asarray(summed.argmax(axis=1), dtype=np.int64)


def lowest(values: FloatArray, n_kept: int) -> IntArray:
    """Positions of the lowest values, best first; ties go to the earlier member."""
    return np.argsort(values, kind="stable")[:n_kept]
