"""Writes AdaBoost: every tree votes for one class with its weight.

In come the Model and a PrunedForest whose leaves are one positive weight times a vote; out goes a
new AdaBoostClassifier. Refuses leaves that are anything else, and a grid too fine for the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.exporters.fitted_trees import copy_without, trim_estimator
from pine_boost.model.exact import UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import Trimming, trim_pruned

UNIT = UNIT_ROUNDOFF[np.float64]


def write_votes(model: Model, pruned: PrunedForest) -> Any:
    """AdaBoost with fewer and smaller trees, the weight of each in ``estimator_weights_``."""
    native, forest = model.native, pruned.forest
    trimming = trim_pruned(pruned)
    votes = [_read_votes(pruned, trimming, index) for index in range(len(trimming.kept))]
    weights_int = np.array([weight for weight, _ in votes])
    n_classes = len(forest.classes)
    if n_classes > 2:
        # -w / (K - 1) and n additions round by at most (n + 2) u W per class, the division by W
        # by u W: two classes one unit apart must stay in order (facts 3, sklearn/rounding.py)
        blur = (2 * len(weights_int) + 8) * UNIT * float(weights_int.sum())
        if blur >= 1:
            raise InvalidInputError(
                f"Grid 2**-{pruned.grid} is too fine for AdaBoost with {n_classes} classes; use a "
                "coarser grid or a smaller scale."
            )
    estimator = copy_without(native, "estimators_")
    estimator.estimators_ = [
        trim_estimator(
            native.estimators_[tree],
            forest,
            trimming,
            index,
            _vote_values(native.estimators_[tree], forest, trimming, index, votes[index][1]),
        )
        for index, tree in enumerate(trimming.kept)
    ]
    estimator.estimator_weights_ = np.ldexp(weights_int.astype(np.float64), -pruned.grid)
    if hasattr(native, "estimator_errors_"):
        estimator.estimator_errors_ = np.asarray(native.estimator_errors_)[pruned.kept].copy()
    estimator.n_estimators = len(estimator.estimators_)
    return estimator


def _read_votes(pruned: PrunedForest, trimming: Trimming, index: int) -> tuple[int, IntArray]:
    """The one positive weight behind all leaves of a voting tree, and the class of each leaf.

    Classes are indices, given for every remaining node of the tree and read at the leaves.
    """
    part = trimming.part(index)
    is_leaf = trimming.is_leaf[part]
    value_int = pruned.value_int[trimming.node[part]]
    weight = int(np.abs(value_int[is_leaf]).max())
    if value_int.shape[1] == 1:
        voted = (value_int[:, 0] > 0).astype(np.int64)
        pure = np.where(voted == 1, weight, -weight)[:, None]
    else:
        voted = np.argmax(value_int, axis=1)
        pure = np.where(voted[:, None] == np.arange(value_int.shape[1]), weight, 0)
    # a leaf of the original keeps its vote: its value is in the estimator already
    old = pruned.forest.value[trimming.node[part]]
    kept = is_leaf & (pruned.forest.kind[trimming.node[part]] == SplitKind.LEAF)
    changed = np.any(np.sign(old[kept]) != np.sign(value_int[kept]))
    if weight == 0 or changed or np.any(value_int[is_leaf] != pure[is_leaf]):
        raise InvalidInputError(
            f"Tree {trimming.kept[index]} of AdaBoostClassifier has leaves that are not one "
            "positive weight times its votes; AdaBoost trees vote, so only whole trees can be "
            "reweighted (reweight='tree'), on a grid that does not round the weight to 0.",
            option="reweight",
        )
    return weight, voted


def _vote_values(estimator: Any, forest: Forest, trimming: Trimming, index: int, voted: IntArray) -> FloatArray:
    """``tree_.value`` of the remaining nodes: a new leaf is sure of the class it votes for."""
    part = trimming.part(index)
    local = trimming.node[part] - forest.tree_offset[trimming.kept[index]]
    values: FloatArray = estimator.tree_.value[local, 0, :].copy()
    is_new = trimming.is_leaf[part] & (forest.kind[trimming.node[part]] != SplitKind.LEAF)
    column = {label: i for i, label in enumerate(estimator.classes_.tolist())}
    for row in np.flatnonzero(is_new):
        label = forest.classes[int(voted[row])]
        if label not in column:
            raise InvalidInputError(
                f"A tree of AdaBoostClassifier that never saw the class {label!r} cannot vote for "
                "it; keep the vote of one of its leaves."
            )
        values[row] = np.arange(values.shape[1]) == column[label]
    return values
