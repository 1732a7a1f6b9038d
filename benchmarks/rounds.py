"""A model's rounds one by one, for rules that keep some of them.

In come a parsed model and rows; out goes what every round adds to the margins. Kept rounds keep
their weights and the model its intercept: nothing is refitted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import Forest
from pine_boost.model.reference import find_leaves

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rounds:
    """A model's rounds on some rows.

    Attributes
    ----------
    margins : float64 (n_rounds, n_rows, n_outputs)
        What each round adds.
    intercept : float64 (n_outputs,)
    """

    margins: FloatArray
    intercept: FloatArray

    @property
    def n_rounds(self) -> int:
        """How many rounds there are."""
        return len(self.margins)

    def scores(self) -> FloatArray:
        """One score per class, (n_rounds, n_rows, n_classes); a binary margin counts for and
        against.
        """
        if self.margins.shape[-1] > 1:
            return self.margins
        return np.concatenate([-self.margins, self.margins], axis=-1)

    def predict(self, kept: IntArray) -> IntArray:
        """Classes of the rounds kept, with the original intercept and weights."""
        return classes_of(self.margins[kept].sum(axis=0) + self.intercept)


def classes_of(margins: FloatArray) -> IntArray:
    """Class by margin: the sign for one output, the largest for several."""
    if margins.shape[-1] == 1:
        return (margins[..., 0] > 0).astype(np.int64)
    return np.asarray(np.argmax(margins, axis=-1), dtype=np.int64)


def round_of_tree(forest: Forest) -> IntArray:
    """Position of every tree's round."""
    return np.unique(forest.tree_round, return_inverse=True)[1].astype(np.int64)


def rounds_of(forest: Forest, X: Any) -> Rounds:
    """Evaluate every round of a model on rows."""
    leaves = find_leaves(forest, np.asarray(X, dtype=np.float64))
    value = forest.leaf_vectors().astype(np.float64)
    rounds = round_of_tree(forest)
    margins = np.zeros((rounds.max() + 1, len(X), forest.n_outputs))
    for tree in range(forest.n_trees):
        margins[rounds[tree]] += value[leaves[:, tree]]
    return Rounds(margins, forest.intercept.astype(np.float64))
