"""Probabilities on X_fit before and after pruning, to choose the free scale of a pruned model.

They play no part in any proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, Forest, IntArray, PrunedForest
from pine_boost.model.margin_probabilities import VOTES, probabilities_of
from pine_boost.proof.problem import Problem, leaf_sums

# how objectives of classifiers begin: of XGBoost, LightGBM and CatBoost, of boosting, of forests
_OF_CLASSES = (
    "binary",
    "multi",
    "softmax",
    "cross_entropy",
    "Logloss",
    "CrossEntropy",
    "MultiClass",
    "xentropy",
    "log_loss",
    "deviance",
    "exponential",
    "gini",
    "entropy",
    VOTES,
)

_CHUNK = 2000  # rows


@dataclass(frozen=True, eq=False)
class Reference:
    """Leaves, multiplicities and margins of distinct rows of X_fit, to which the scale is fitted."""

    leaves: npt.NDArray[np.int32]
    counts: IntArray
    margins: FloatArray  # of the original, (n_rows, n_outputs)


@dataclass(frozen=True)
class ProbabilityShift:
    """How far the pruned model's probabilities moved on X_fit."""

    mean: float
    maximum: float
    brier: float


def has_probabilities(forest: Forest) -> bool:
    """Whether margins become probabilities, as they do except for regressors and rankers."""
    return forest.n_outputs > 1 or forest.objective.startswith(_OF_CLASSES)


def build_reference(problem: Problem, leaves: npt.NDArray[np.int32], counts: IntArray) -> Reference:
    """Margins of the original on distinct fit rows, as real numbers."""
    value = problem.forest.leaf_vectors()[problem.leaf_node]
    chunks = range(0, len(leaves), _CHUNK)  # tree by tree over few rows at a time: they stay in the cache
    sums = [leaf_sums(value, leaves[start : start + _CHUNK], problem.trees.leaf_offset) for start in chunks]
    margins = problem.forest.intercept + np.concatenate([np.zeros((0, value.shape[1])), *sums])
    return Reference(leaves, counts, margins)


def probability_shift(problem: Problem, pruned: PrunedForest, reference: Reference) -> ProbabilityShift:
    """Mean and largest change of a probability and the Brier distance, on X_fit."""
    leaf_value = problem.pruned_leaves_int(pruned) / 2.0**pruned.grid
    margins = problem.pruned_margins_int(pruned, reference.leaves) / 2.0**pruned.grid
    original = problem.forest.leaf_vectors()[problem.leaf_node]
    n_trees = problem.trees.n_trees
    divisors = _divisor(problem, original, n_trees), _divisor(problem, leaf_value, len(pruned.kept))
    before = probabilities_of(problem.forest, reference.margins, divisors[0])
    after = probabilities_of(problem.forest, margins, divisors[1])
    shift = np.abs(after - before)
    mean = np.average(shift.max(axis=1), weights=reference.counts)
    brier = np.average((shift**2).sum(axis=1), weights=reference.counts)
    return ProbabilityShift(float(mean), float(shift.max()), float(brier))


def _divisor(problem: Problem, leaf_value: FloatArray, n_trees: int) -> float:
    """What the native library divides a sum by: the weights of all votes, or the trees."""
    if problem.forest.objective != VOTES:
        return float(n_trees)
    weight = np.maximum.reduceat(np.abs(leaf_value).max(axis=1), problem.trees.leaf_offset[:-1])
    return float(weight.sum())
