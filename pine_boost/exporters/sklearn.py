"""Writes a pruned forest back as the scikit-learn estimator that came in.

In come the Model and the PrunedForest; out goes a new fitted estimator of the same class whose
leaves are ``value_int / 2**grid``. The original is never modified. Refuses leaves that the
estimator cannot hold: refitted AdaBoost leaves, a grid too fine for a mean.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.exact import UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, IntArray, Model, PrunedForest, SplitKind

__all__ = ["write_sklearn"]

UNIT = UNIT_ROUNDOFF[np.float64]
# Multiples of 2**-q below 2**(51 - q) add exactly and stay different after division by the number
# of trees (the inequality is in parsers/sklearn/rounding.py).
EXACT_BITS = 51

# What training left behind about trees that may be gone.
_STALE = (
    "oob_score_",
    "oob_scores_",
    "oob_improvement_",
    "oob_decision_function_",
    "oob_prediction_",
    "train_score_",
    "validation_score_",
)


def write_sklearn(model: Model, pruned: PrunedForest) -> Any:
    """Build the pruned estimator.

    Forests and single trees keep their leaves in ``tree_.value``: the sum over the trees is exact
    and ``predict_proba`` is that sum / number of trees (it adds up to 1 only if the caller scaled
    the weights to mean 1). Gradient boosting gets ``init='zero'`` and ``learning_rate=1.0``, and
    histogram boosting a zero baseline: the intercept is already in the leaves. A class tree that
    was dropped from a kept round becomes a single leaf. AdaBoost gets new ``estimator_weights_``.

    Parameters
    ----------
    model : Model
        As read by `read_sklearn`.
    pruned : PrunedForest
        Of ``model.forest``.

    Returns
    -------
    estimator
        New, fitted, of the class of ``model.native``. The native margin equals the integer sum /
        2**grid bit for bit (AdaBoost with 4, 6, 7, 8, ... classes: the votes are exact, but the
        native form with -1 / (K - 1) rounds, so an exact tie of two classes may fall either way;
        a gap of one grid unit never does).

    Raises
    ------
    InvalidInputError
        No tree is kept, the leaves do not fit the kind, or the grid is too fine for it.
    UnsupportedModelError
        The model was not read by `read_sklearn`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from pine_boost.parsers import read_model
    >>> forest = RandomForestClassifier(5, random_state=0).fit(*load_iris(return_X_y=True))
    >>> model = read_model(forest)
    >>> weights = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    >>> leaves = weights[model.forest.node_tree, None] * model.forest.value
    >>> pruned = PrunedForest(
    ...     model.forest,
    ...     kept=np.flatnonzero(weights),
    ...     value_int=np.rint(leaves * 2**20).astype(np.int64),
    ...     grid=20,
    ...     intercept_int=np.zeros(3, dtype=np.int64),
    ...     weights=weights,
    ... )
    >>> write_sklearn(model, pruned).n_estimators
    3
    """
    family = getattr(model.document, "family", None)
    writer = _WRITERS.get(str(family))
    if writer is None or model.native is None:
        raise UnsupportedModelError(
            f"{model.kind} cannot be written as a scikit-learn estimator; pass a Model from "
            "read_sklearn."
        )
    if len(pruned.kept) == 0 and family in ("average", "votes"):
        raise InvalidInputError(
            f"{model.kind} needs at least one tree, and no tree is kept; keep one."
        )
    if not pruned.forest.free_intercept and np.any(pruned.intercept_int):
        raise InvalidInputError(f"{model.kind} cannot carry an intercept without a tree.")
    return writer(model, pruned)


def _write_average(model: Model, pruned: PrunedForest) -> Any:
    has_threshold = bool(pruned.forest.decision.thresholds)
    if has_threshold:
        leaves = _leaves_about_threshold(pruned, model.document.offset)
    else:
        _refuse_fine_grid(model, pruned)
        leaves = _float_leaves(pruned)
    if hasattr(model.native, "tree_"):
        estimator = copy.deepcopy(model.native)
        _set_leaves(estimator, leaves[_nodes(pruned, 0)])
        return estimator
    estimator = _copy_without(model.native, "estimators_")
    estimator.estimators_ = []
    for tree in pruned.kept:
        kept = copy.deepcopy(model.native.estimators_[tree])
        _set_leaves(kept, leaves[_nodes(pruned, int(tree))])
        estimator.estimators_.append(kept)
    estimator.n_estimators = len(estimator.estimators_)
    return estimator


def _leaves_about_threshold(pruned: PrunedForest, threshold: float) -> FloatArray:
    """Leaves ``value + t`` whose native mean is above the threshold iff the integer sum is > 0.

    The threshold is rounded down to a finer grid 2**-fine, so that leaves and sums stay exact. A
    sum of one unit puts the mean at least 2**-grid / n - 2**-fine above t, which must exceed the
    rounding of the division; a sum of 0 leaves it at or below t, which is class 0 as it should.
    """
    n_kept = len(pruned.kept)
    leaves = _float_leaves(pruned)
    total = _largest_sum(pruned, leaves) + n_kept * (1 + abs(threshold))
    fine = EXACT_BITS - 1 - math.ceil(math.log2(total))
    rounded = math.ldexp(math.floor(math.ldexp(threshold, fine)), -fine)
    error = n_kept * (threshold - rounded) + 4 * UNIT * total
    if fine < pruned.grid or error >= math.ldexp(1.0, -pruned.grid):
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} with {n_kept} trees is too fine to keep the threshold "
            f"{threshold} in a mean of float64 numbers; use a coarser grid or a smaller scale."
        )
    about = leaves + rounded  # exact: both are multiples of 2**-fine below 2**(51 - fine)
    return about


def _write_gradient(model: Model, pruned: PrunedForest) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    native = model.native
    leaves = _float_leaves(pruned)
    constant = DecisionTreeRegressor().fit(
        np.zeros((1, native.n_features_in_), dtype=np.float32), [0.0]
    )
    rounds, constants = _rounds_and_constants(pruned)
    estimators = np.empty((len(rounds), pruned.forest.n_outputs), dtype=object)
    for row, trees in enumerate(rounds):
        for output, tree in enumerate(trees):
            if tree < 0:
                estimators[row, output] = copy.deepcopy(constant)
                # constants belong into one tree only: the first round's
                value = constants[output] if row == 0 else 0.0
                estimators[row, output].tree_.value[:] = value
            else:
                kept = copy.deepcopy(native.estimators_.ravel()[tree])
                _set_leaves(kept, leaves[_nodes(pruned, tree)])
                estimators[row, output] = kept
    estimator = _copy_without(native, "estimators_", "init_")
    estimator.estimators_ = estimators
    estimator.n_estimators = estimator.n_estimators_ = len(rounds)
    # predict_stages multiplies every leaf by the learning rate: only 1.0 keeps the grid
    estimator.learning_rate = 1.0
    estimator.init = estimator.init_ = "zero"
    return estimator


def _write_histogram(model: Model, pruned: PrunedForest) -> Any:
    native = model.native
    leaves = _float_leaves(pruned)
    predictors = [predictor for stage in native._predictors for predictor in stage]
    rounds, constants = _rounds_and_constants(pruned)
    stages = []
    for row, trees in enumerate(rounds):
        stage = []
        for output, tree in enumerate(trees):
            if tree < 0:
                stage.append(_constant_predictor(predictors[0], constants[output] * (row == 0)))
                continue
            predictor = copy.deepcopy(predictors[tree])
            is_leaf = predictor.nodes["is_leaf"].astype(bool)
            predictor.nodes["value"][is_leaf] = leaves[_nodes(pruned, tree)][is_leaf, 0]
            stage.append(predictor)
        stages.append(stage)
    estimator = _copy_without(native, "_predictors")
    estimator._predictors = stages
    estimator._baseline_prediction = np.zeros_like(native._baseline_prediction)
    estimator.max_iter = len(stages)
    return estimator


def _constant_predictor(template: Any, value: float) -> Any:
    """A predictor of one leaf."""
    nodes = np.zeros(1, dtype=template.nodes.dtype)
    nodes["is_leaf"] = True
    nodes["value"] = value
    nodes["count"] = template.nodes["count"][0]
    empty = np.zeros((0, 8), dtype=np.uint32)
    return type(template)(nodes, empty, empty.copy())


def _write_votes(model: Model, pruned: PrunedForest) -> Any:
    native, forest = model.native, pruned.forest
    weights_int = np.array([_vote_weight(pruned, int(tree)) for tree in pruned.kept])
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
    estimator = _copy_without(native, "estimators_")
    estimator.estimators_ = [copy.deepcopy(native.estimators_[tree]) for tree in pruned.kept]
    estimator.estimator_weights_ = np.ldexp(weights_int.astype(np.float64), -pruned.grid)
    if hasattr(native, "estimator_errors_"):
        estimator.estimator_errors_ = np.asarray(native.estimator_errors_)[pruned.kept].copy()
    estimator.n_estimators = len(estimator.estimators_)
    return estimator


def _vote_weight(pruned: PrunedForest, tree: int) -> int:
    """The one positive integer weight behind all leaves of a voting tree."""
    nodes = _nodes(pruned, tree)
    is_leaf = pruned.forest.kind[nodes] == SplitKind.LEAF
    value_int = pruned.value_int[nodes][is_leaf]
    vote = np.sign(pruned.forest.value[nodes][is_leaf])
    weight = int(np.abs(value_int).max())
    if weight == 0 or np.any(value_int != weight * vote):
        raise InvalidInputError(
            f"Tree {tree} of AdaBoostClassifier has leaves that are not one positive weight times "
            "its votes; AdaBoost trees vote, so only whole trees can be reweighted "
            "(reweight='tree'), on a grid that does not round the weight to 0."
        )
    return weight


def _rounds_and_constants(pruned: PrunedForest) -> tuple[list[list[int]], FloatArray]:
    """Trees of each kept round by output (-1 = dropped), and the constant of each output.

    Boosting needs one tree per output in every round, and at least one round.
    """
    forest = pruned.forest
    rounds: dict[int, list[int]] = {}
    for tree in pruned.kept:
        empty = [-1] * forest.n_outputs
        row = rounds.setdefault(int(forest.tree_round[tree]), empty)
        row[int(forest.tree_output[tree])] = int(tree)
    rows = [rounds[key] for key in sorted(rounds)] or [[-1] * forest.n_outputs]
    constants = np.ldexp(pruned.intercept_int.astype(np.float64), -pruned.grid)
    for output in np.flatnonzero(constants):
        if rows[0][output] >= 0:
            raise InvalidInputError(
                f"intercept_int of output {output} is not 0 although a tree of it is kept; fold "
                "it into the leaves."
            )
    return rows, constants


def _set_leaves(estimator: Any, leaves: FloatArray) -> None:
    """Write leaf values into ``tree_.value``, a writeable view of the tree's own memory."""
    tree = estimator.tree_
    is_leaf = tree.children_left < 0
    value = tree.value
    if leaves.shape[1] == value.shape[2]:
        value[is_leaf, 0, :] = leaves[is_leaf]
    else:  # one output of a binary classifier with a threshold: class 1, class 0 is the rest
        value[is_leaf, 0, 1] = leaves[is_leaf, 0]
        value[is_leaf, 0, 0] = 1.0 - leaves[is_leaf, 0]


def _float_leaves(pruned: PrunedForest) -> FloatArray:
    """``value_int / 2**grid``, exact because |value_int| < 2**53."""
    return np.ldexp(pruned.value_int.astype(np.float64), -pruned.grid)


def _nodes(pruned: PrunedForest, tree: int) -> slice:
    offset: IntArray = pruned.forest.tree_offset
    return slice(int(offset[tree]), int(offset[tree + 1]))


def _largest_sum(pruned: PrunedForest, leaves: FloatArray) -> float:
    """The largest possible |sum| over the kept trees, per output the worst."""
    largest = np.maximum.reduceat(np.abs(leaves), pruned.forest.tree_offset[:-1], axis=0)
    return float(largest[pruned.kept].sum(axis=0).max())


def _refuse_fine_grid(model: Model, pruned: PrunedForest) -> None:
    total = _largest_sum(pruned, np.abs(pruned.value_int).astype(np.float64))
    if total >= 2.0**EXACT_BITS:
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} is too fine for {model.kind}: two different sums could become "
            "equal after division by the number of trees; use a coarser grid or a smaller scale."
        )


def _copy_without(native: Any, *heavy: str) -> Any:
    """A copy that shares nothing with the original; ``heavy`` attributes are left to the caller."""
    estimator = copy.copy(native)
    for name, value in list(vars(estimator).items()):
        if name in _STALE:
            delattr(estimator, name)
        elif name not in heavy:
            setattr(estimator, name, copy.deepcopy(value))
    return estimator


_WRITERS: dict[str, Callable[[Model, PrunedForest], Any]] = {
    "average": _write_average,
    "gradient": _write_gradient,
    "histogram": _write_histogram,
    "votes": _write_votes,
}
