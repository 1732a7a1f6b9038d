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
from pine_boost.exporters.fitted_trees import (
    constant_predictor,
    copy_without,
    trim_estimator,
    trim_members,
    trim_predictor,
)
from pine_boost.exporters.votes import write_votes
from pine_boost.model.exact import AVERAGED_BITS, UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, Model, PrunedForest
from pine_boost.model.trimming import trim, trim_pruned

__all__ = ["write_sklearn"]

UNIT = UNIT_ROUNDOFF[np.float64]


def write_sklearn(model: Model, pruned: PrunedForest) -> Any:
    """Build the pruned estimator.

    Forests and single trees keep their leaves in ``tree_.value``: the sum over the trees is exact
    and ``predict_proba`` is that sum / number of trees (it adds up to 1 only if the caller scaled
    the weights to mean 1). A regressor's value is the mean over the trees of the original: trees
    that are gone are written as one leaf of 0. Gradient boosting gets ``init='zero'`` and
    ``learning_rate=1.0``, and histogram boosting a zero baseline: the intercept is already in the
    leaves. A class tree that was dropped from a kept round becomes a single leaf. AdaBoost gets
    new ``estimator_weights_``.

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
            f"{model.kind} cannot be written as a scikit-learn estimator; pass a Model from read_sklearn."
        )
    if len(pruned.kept) == 0 and family in ("average", "votes"):
        raise InvalidInputError(f"{model.kind} needs at least one tree, and no tree is kept; keep one.")
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
    trimming = trim_pruned(pruned)
    values = _tree_values(model.native, leaves[trimming.node])
    estimator = trim_members(model, trimming, values)
    if not pruned.forest.decides and len(trimming.kept) < pruned.forest.n_trees:
        # a value is the mean over the trees of the original: the divisor stays what it was
        zeros = _zero_estimator(model, int(pruned.kept[0]))
        n_missing = pruned.forest.n_trees - len(trimming.kept)
        estimator.estimators_ += [copy.deepcopy(zeros) for _ in range(n_missing)]
        estimator.n_estimators = len(estimator.estimators_)
    return estimator


def _zero_estimator(model: Model, like: int) -> Any:
    """A tree of one leaf of 0 that covers the data of another."""
    forest = model.forest
    trimming = trim(forest, np.array([like]), np.ones(forest.n_nodes, dtype=bool))
    value = np.zeros((1, forest.value.shape[1]))
    return trim_estimator(model.native.estimators_[like], forest, trimming, 0, value)


def _leaves_about_threshold(pruned: PrunedForest, threshold: float) -> FloatArray:
    """Leaves ``value + t`` whose native mean is above the threshold iff the integer sum is > 0.

    The threshold is rounded down to a finer grid 2**-fine, so that leaves and sums stay exact. A
    sum of one unit puts the mean at least 2**-grid / n - 2**-fine above t, which must exceed the
    rounding of the division; a sum of 0 leaves it at or below t, which is class 0 as it should.
    """
    n_kept = len(pruned.kept)
    leaves = _float_leaves(pruned)
    total = _largest_sum(pruned, leaves) + n_kept * (1 + abs(threshold))
    fine = AVERAGED_BITS - 1 - math.ceil(math.log2(total))
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
    native, trimming = model.native, trim_pruned(pruned)
    leaves = _float_leaves(pruned)[trimming.node]
    rounds, constants = _rounds_and_constants(pruned)
    index = {int(tree): i for i, tree in enumerate(pruned.kept)}
    estimators = np.empty((len(rounds), pruned.forest.n_outputs), dtype=object)
    copied: dict[int, Any] = {}
    for row, trees in enumerate(rounds):
        for output, tree in enumerate(trees):
            if tree < 0:
                # constants belong into one tree only: the first round's
                value = constants[output] if row == 0 else 0.0
                estimators[row, output] = _constant_estimator(native, value)
            else:
                estimators[row, output] = trim_estimator(
                    native.estimators_.ravel()[tree],
                    model.forest,
                    trimming,
                    index[tree],
                    leaves[trimming.part(index[tree])],
                    copied,
                )
    estimator = copy_without(native, "estimators_", "init_", copied=copied)
    estimator.estimators_ = estimators
    estimator.n_estimators = estimator.n_estimators_ = len(rounds)
    # predict_stages multiplies every leaf by the learning rate: only 1.0 keeps the grid
    estimator.learning_rate = 1.0
    estimator.init = estimator.init_ = "zero"
    return estimator


def _constant_estimator(native: Any, value: float) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    row = np.zeros((1, native.n_features_in_), dtype=np.float32)
    constant = DecisionTreeRegressor().fit(row, [0.0])
    constant.tree_.value[:] = value
    return constant


def _write_histogram(model: Model, pruned: PrunedForest) -> Any:
    native, trimming = model.native, trim_pruned(pruned)
    leaves = _float_leaves(pruned)[trimming.node, 0]
    predictors = [predictor for stage in native._predictors for predictor in stage]
    rounds, constants = _rounds_and_constants(pruned)
    index = {int(tree): i for i, tree in enumerate(pruned.kept)}
    stages = []
    for row, trees in enumerate(rounds):
        stage = []
        for output, tree in enumerate(trees):
            if tree < 0:
                stage.append(constant_predictor(predictors[0], constants[output] * (row == 0)))
                continue
            values = leaves[trimming.part(index[tree])]
            stage.append(trim_predictor(predictors[tree], model.forest, trimming, index[tree], values))
        stages.append(stage)
    estimator = copy_without(native, "_predictors")
    estimator._predictors = stages
    estimator._baseline_prediction = np.zeros_like(native._baseline_prediction)
    estimator.max_iter = len(stages)
    return estimator


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
                f"intercept_int of output {output} is not 0 although a tree of it is kept; fold it into the leaves."
            )
    return rows, constants


def _tree_values(native: Any, leaves: FloatArray) -> FloatArray:
    """Leaf values in the form of ``tree_.value``."""
    if leaves.shape[1] == 1 and hasattr(native, "classes_"):
        # one output of a binary classifier with a threshold: class 1, class 0 is the rest
        return np.concatenate([1.0 - leaves, leaves], axis=1)
    return leaves


def _float_leaves(pruned: PrunedForest) -> FloatArray:
    """``value_int / 2**grid``, exact because |value_int| < 2**53."""
    return np.ldexp(pruned.value_int.astype(np.float64), -pruned.grid)


def _largest_sum(pruned: PrunedForest, leaves: FloatArray) -> float:
    """The largest possible |sum| over the kept trees, per output the worst."""
    largest = np.maximum.reduceat(np.abs(leaves), pruned.forest.tree_offset[:-1], axis=0)
    return float(largest[pruned.kept].sum(axis=0).max())


def _refuse_fine_grid(model: Model, pruned: PrunedForest) -> None:
    total = _largest_sum(pruned, np.abs(pruned.value_int).astype(np.float64))
    if total >= 2.0**AVERAGED_BITS:
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} is too fine for {model.kind}: two different sums could become "
            "equal after division by the number of trees; use a coarser grid or a smaller scale."
        )


_WRITERS: dict[str, Callable[[Model, PrunedForest], Any]] = {
    "average": _write_average,
    "gradient": _write_gradient,
    "histogram": _write_histogram,
    "votes": write_votes,
}
