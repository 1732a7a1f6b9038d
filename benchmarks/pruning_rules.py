"""The two pruning rules without a guarantee that benchmarks.glance draws, each from the paper it is named after.

A member of a booster is a round; its score is what it adds to the classes. Kept rounds keep their weights and the
model its intercept: nothing is refitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import Forest
from pine_boost.model.reference import find_leaves

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Members:
    """Members of an ensemble on labelled rows; of equal scores the lower class wins.

    Attributes
    ----------
    scores : float64 (n_members, n_rows, n_classes)
    y : int64 (n_rows,)
        Class indices.
    offset : float64 (n_classes,) or 0
        Added to the scores of every sub-ensemble: a booster's intercept.
    """

    scores: FloatArray
    y: IntArray
    offset: FloatArray | float = 0.0

    @property
    def n_members(self) -> int:
        """The number of members."""
        return len(self.scores)

    @property
    def errors(self) -> FloatArray:
        """Share of wrong votes per member."""
        return np.asarray((self.scores.argmax(axis=2) != self.y).mean(axis=1))

    def decide(self, kept: list[int]) -> IntArray:
        """Classes by the summed scores of some members; by the offset alone without any."""
        summed = self.scores[kept].sum(axis=0) + self.offset
        return np.asarray(summed.argmax(axis=1), dtype=np.int64)


def error_ambiguity(members: Members, n_kept: int) -> IntArray:
    """Jiang, Liu, Fu, Wu 2017: members with a small loss that are far from the ensemble."""
    return np.argsort(ambiguity_losses(members), kind="stable")[:n_kept]


def ambiguity_losses(members: Members) -> FloatArray:
    """Loss minus ambiguity per member: what it adds to the loss of the mean of all.

    The loss of the mean is the mean loss minus half the second derivative times the squared distance from the
    mean. Logistic loss per class, one against the rest.
    """
    sign = np.where(np.arange(members.scores.shape[2]) == members.y[:, None], 1.0, -1.0)
    loss = np.logaddexp(0.0, -sign * members.scores)
    probability = 1 / (1 + np.exp(-members.scores))
    distance = (members.scores - members.scores.mean(axis=0)) ** 2
    ambiguity = probability * (1 - probability) * distance / 2
    return np.asarray((loss - ambiguity).sum(axis=(1, 2)))


def reduced_error(members: Members, n_kept: int) -> IntArray:
    """Margineantu, Dietterich 1997: add the member with which the sub-ensemble errs least."""
    kept = [int(np.argmin(members.errors))]
    while len(kept) < n_kept:
        rest = np.setdiff1d(np.arange(members.n_members), kept)
        joint = members.scores[kept].sum(axis=0) + members.offset + members.scores[rest]
        errors = (joint.argmax(axis=2) != members.y).sum(axis=1)
        kept.append(int(rest[int(np.argmin(errors))]))
    return np.array(kept[:n_kept], dtype=np.int64)


RULES: dict[str, Callable[[Members, int], IntArray]] = {
    "error_ambiguity": error_ambiguity,
    "reduced_error": reduced_error,
}


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a model on some rows: ``margins`` (n_rounds, n_rows, n_outputs) and ``intercept``."""

    margins: FloatArray
    intercept: FloatArray

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.margins)

    def members(self, y: IntArray) -> Members:
        """What a rule sees of these rows and their labels."""
        return Members(class_scores(self.margins), y, class_scores(self.intercept))

    def predict(self, kept: IntArray) -> IntArray:
        """Classes of the kept rounds, with the original intercept and weights."""
        margins = self.margins[kept].sum(axis=0) + self.intercept
        if margins.shape[-1] == 1:
            return (margins[..., 0] > 0).astype(np.int64)
        return np.asarray(np.argmax(margins, axis=-1), dtype=np.int64)


def class_scores(margins: FloatArray) -> FloatArray:
    """One score per class; a binary margin counts for class 1 and against class 0."""
    return margins if margins.shape[-1] > 1 else np.concatenate([-margins, margins], axis=-1)


def rounds_of(forest: Forest, X: Any) -> Rounds:
    """Evaluate every round of a model on rows."""
    leaves = find_leaves(forest, np.asarray(X, dtype=np.float64))
    value = forest.leaf_vectors().astype(np.float64)
    rounds = np.unique(forest.tree_round, return_inverse=True)[1]
    margins = np.zeros((rounds.max() + 1, len(X), forest.n_outputs))
    for tree in range(forest.n_trees):
        margins[rounds[tree]] += value[leaves[:, tree]]
    return Rounds(margins, forest.intercept.astype(np.float64))
