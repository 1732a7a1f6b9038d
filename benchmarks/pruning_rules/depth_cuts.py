"""ForestPrune: depth cuts under an accuracy bound (Liu, Mazumder 2023).

In come a trained XGBoost binary classifier and labelled rows; out go how deep every tree is kept
and with which weight. Keeps the accuracy on validation rows, not the classes: no guarantee.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cells import LEARNING_RATE
from pine_boost.model.forest import Forest
from pine_boost.model.reference import find_leaves

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
ABSOLUTE_ERROR = 0.005  # the accuracy that may be lost on the validation rows, as in the paper
N_PENALTIES = 40  # of the path, from every tree gone to every tree whole
SMALLEST_PENALTY = 1e-5
LARGEST_PENALTY = 10.0
POLISH_C = 100.0  # their ridge of 0.01


@dataclass(frozen=True, eq=False)
class Layers:
    """Every tree cut at every depth; depth 0 removes the tree.

    Attributes
    ----------
    node_value : float64 (n_nodes,)
        What a node would answer if it were a leaf.
    ancestor : int64 (depth + 1, n_nodes)
        The node at a depth above a node, or the node itself where it is not that deep.
    n_leaves : int64 (n_trees, depth + 1)
    """

    forest: Forest
    node_value: FloatArray
    ancestor: IntArray
    n_leaves: IntArray

    @property
    def depth(self) -> int:
        """Splits on the longest path."""
        return len(self.ancestor) - 1

    def answers(self, X: Any) -> FloatArray:
        """What each tree adds when cut at each depth, (n_trees, depth + 1, n_rows)."""
        leaves = find_leaves(self.forest, np.asarray(X, dtype=np.float64)).T
        cut = [self.node_value[self.ancestor[d][leaves]] for d in range(1, self.depth + 1)]
        return np.stack([np.zeros(leaves.shape), *cut], axis=1)


@dataclass(frozen=True, eq=False)
class CutForest:
    """Depth and weight of every tree, and an intercept."""

    layers: Layers
    cuts: IntArray
    weights: FloatArray
    intercept: float

    @property
    def n_leaves(self) -> int:
        """Leaves that are left."""
        return int(self.layers.n_leaves[np.arange(len(self.cuts)), self.cuts].sum())

    def predict(self, X: Any) -> IntArray:
        """Classes of the cut model."""
        kept = self.layers.answers(X)[np.arange(len(self.cuts)), self.cuts]
        return (self.weights @ kept + self.intercept > 0).astype(np.int64)


def layers_of(native: Any, forest: Forest) -> Layers:
    """Read the values of inner nodes, which XGBoost's JSON keeps without the learning rate."""
    model = json.loads(native.get_booster().save_raw("json"))
    trees = model["learner"]["gradient_booster"]["model"]["trees"]
    parent = np.arange(len(forest.feature))
    inner = np.flatnonzero(forest.left >= 0)
    parent[forest.left[inner]] = inner
    parent[forest.right[inner]] = inner
    level = np.zeros(len(parent), dtype=np.int64)
    for node in inner:  # parents come before their children
        level[forest.left[node]] = level[forest.right[node]] = level[node] + 1
    weights = np.concatenate([np.array(tree["base_weights"], dtype=float) for tree in trees])
    # a leaf's weight has the learning rate in it, an inner node's has not
    value = np.where(forest.left >= 0, weights * LEARNING_RATE, forest.value[:, 0])
    ancestor = [np.arange(len(parent))]
    for depth in range(int(level.max()), 0, -1):
        below = ancestor[-1]
        ancestor.append(np.where(level[below] >= depth, parent[below], below))
    ancestor.reverse()
    return Layers(forest, value, np.stack(ancestor), _count_leaves(forest, level))


def _count_leaves(forest: Forest, level: IntArray) -> IntArray:
    is_leaf = forest.left < 0
    counts = np.zeros((forest.n_trees, int(level.max()) + 1), dtype=np.int64)
    for depth in range(1, counts.shape[1]):
        ends = (level == depth) | (is_leaf & (level < depth))
        counts[:, depth] = np.bincount(forest.node_tree[ends], minlength=forest.n_trees)
    return counts


def forest_prune(
    layers: Layers, X: Any, y: IntArray, X_valid: Any, y_valid: IntArray, *, polish: bool = True
) -> CutForest:
    """The fewest leaves on a path of penalties that lose at most `ABSOLUTE_ERROR` of accuracy.

    For each penalty on the share of leaves, from the largest down, the mean logistic loss on
    (X, y) plus the penalty is lowered tree by tree until nothing changes; then the weights of the
    trees are polished. Their squared error and ridge are for regression, so both are logistic here.
    """
    answers = layers.answers(X)
    whole = _with_weights(layers, np.full(len(answers), layers.depth))
    needed = (whole.predict(X_valid) == y_valid).mean() - ABSOLUTE_ERROR
    cuts = np.zeros(len(answers), dtype=np.int64)
    for penalty in np.geomspace(LARGEST_PENALTY, SMALLEST_PENALTY, N_PENALTIES):
        cuts = _descend(layers, answers, np.where(y == 1, 1.0, -1.0), penalty, cuts)
        if not cuts.any():
            continue
        pruned = _polished(layers, cuts, answers, y) if polish else _with_weights(layers, cuts)
        if (pruned.predict(X_valid) == y_valid).mean() >= needed:
            return pruned  # smaller penalties keep more leaves
    return whole


def _with_weights(layers: Layers, cuts: IntArray) -> CutForest:
    return CutForest(layers, cuts, np.ones(len(cuts)), float(layers.forest.intercept[0]))


def _polished(layers: Layers, cuts: IntArray, answers: FloatArray, y: IntArray) -> CutForest:
    """Weights of the cut trees and the intercept by logistic regression."""
    from sklearn.linear_model import LogisticRegression

    kept = np.flatnonzero(cuts)
    fitted = LogisticRegression(C=POLISH_C, max_iter=2000).fit(answers[kept, cuts[kept]].T, y)
    weights = np.zeros(len(cuts))
    weights[kept] = fitted.coef_[0]
    return CutForest(layers, cuts, weights, float(fitted.intercept_[0]))


def _descend(layers: Layers, answers: FloatArray, sign: FloatArray, penalty: float, start: IntArray) -> IntArray:
    """Best depth of one tree after another, the others fixed, until a whole round changes none."""
    cuts = start.copy()
    trees = np.arange(len(cuts))
    margin = answers[trees, cuts].sum(axis=0) + layers.forest.intercept[0]
    cost = penalty * layers.n_leaves / layers.n_leaves[:, -1].sum()
    has_changed = True
    while has_changed:
        has_changed = False
        for tree in trees:
            rest = margin - answers[tree, cuts[tree]]
            loss = np.logaddexp(0.0, -sign * (rest + answers[tree])).mean(axis=1) + cost[tree]
            best = int(np.argmin(loss))
            if loss[best] < loss[cuts[tree]] - 1e-12:  # strictly, so that this ends
                cuts[tree], has_changed = best, True
                margin = rest + answers[tree, best]
    return cuts
