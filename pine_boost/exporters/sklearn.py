"""Write a pruned or trimmed forest as a fitted scikit-learn estimator of the same class."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import Smaller, copy_without, whole_rounds
from pine_boost.model.exact import AVERAGED_BITS, UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import Trimming, trim
from pine_boost.parsers.sklearn.read import members

__all__ = ["write_sklearn"]

_UNIT = UNIT_ROUNDOFF[np.float64]
# Attributes about training that may refer to trees that were removed.
_STALE = (
    "oob_score_",
    "oob_scores_",
    "oob_improvement_",
    "oob_decision_function_",
    "oob_prediction_",
    "train_score_",
    "validation_score_",
)


def write_sklearn(model: Model, smaller: Smaller) -> Any:
    """Write a smaller forest as a new fitted estimator of the class of ``model.native``.

    The native margin of a pruned model equals the integer sum / 2**grid bit for bit (AdaBoost with
    4, 6, 7, 8, ... classes: the votes are exact, but the native form with -1 / (K - 1) rounds, so
    an exact tie of two classes may fall either way; a gap of one grid unit never does).

    Forests and single trees keep their leaves in ``tree_.value``: the sum over the trees is exact
    and ``predict_proba`` is that sum / number of trees (it adds up to 1 only if the caller scaled
    the weights to mean 1). A regressor's value is the mean over the trees of the original, so
    removed trees are written as one leaf of 0. Gradient boosting gets ``init='zero'`` and
    ``learning_rate=1.0``, and histogram boosting a zero baseline, because the intercept is already
    in the leaves. A class tree that was dropped from a kept round becomes a single leaf. AdaBoost
    gets new ``estimator_weights_``.

    Raises
    ------
    InvalidInputError
        No tree is kept, the leaves do not fit the kind, the grid is too fine for it, or trees of a
        mean are dropped without a grid.
    UnsupportedModelError
        The model was not read by `read_sklearn`.
    """
    family, pruned = getattr(model.document, "family", None), smaller.pruned
    writer = _WRITERS.get(str(family))
    if writer is None or model.native is None:
        raise UnsupportedModelError(
            f"{model.kind} cannot be written as a scikit-learn estimator; pass a Model from read_sklearn."
        )
    if family in ("average", "votes"):
        if pruned is None:
            if len(smaller.trimming.kept) != model.forest.n_trees or np.any(smaller.shift):
                raise InvalidInputError(f"{model.kind} divides by its trees; none can be left out.")
            return trim_members(model, smaller, _own_values(model, smaller.trimming))
        if len(pruned.kept) == 0:
            raise InvalidInputError(f"{model.kind} needs at least one tree, and no tree is kept; keep one.")
        if np.any(pruned.intercept_int):
            raise InvalidInputError(f"{model.kind} cannot carry an intercept without a tree.")
    return writer(model, smaller)


def _write_average(model: Model, smaller: Smaller) -> Any:
    trimming, pruned = smaller.trimming, smaller.pruned
    assert pruned is not None
    # the largest possible |sum| over the kept trees, for the worst output
    total = float(np.maximum.reduceat(np.abs(smaller.values), trimming.offset[:-1], axis=0).sum(axis=0).max())
    values = smaller.values
    if pruned.forest.decision.thresholds:
        values = values + _threshold_for(pruned, total, model.document.offset)
    elif math.ldexp(total, pruned.grid) >= 2.0**AVERAGED_BITS:
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} is too fine for {model.kind}: two different sums could become "
            "equal after division by the number of trees; use a coarser grid or a smaller scale."
        )
    if values.shape[1] == 1 and hasattr(model.native, "classes_"):
        # one output of a binary classifier with a threshold is class 1; class 0 is the rest
        values = np.concatenate([1.0 - values, values], axis=1)
    estimator = trim_members(model, smaller, values)
    if not pruned.forest.decides and len(trimming.kept) < pruned.forest.n_trees:
        # a value is the mean over the trees of the original, so the divisor must not change
        zeros = _constant_estimator(model, {}, 0.0)
        n_missing = pruned.forest.n_trees - len(trimming.kept)
        estimator.estimators_ += [copy.deepcopy(zeros) for _ in range(n_missing)]
        estimator.n_estimators = len(estimator.estimators_)
    return estimator


def _only_root(forest: Forest) -> Trimming:
    """Return the first tree as one leaf that covers its data."""
    return trim(forest, np.zeros(1, dtype=np.int64), np.ones(forest.n_nodes, dtype=bool))


def _constant_estimator(model: Model, copied: dict[int, Any], value: float) -> Any:
    """Return a regression tree of one leaf; see `copy_without`."""
    root = _only_root(model.forest)
    return trim_estimator(members(model.native)[0], model.forest, root, 0, np.full((1, 1), value), copied)


def _threshold_for(pruned: PrunedForest, largest: float, threshold: float) -> float:
    """Return t such that a mean of leaves ``value + t`` is above the threshold iff their integer sum is > 0.

    The threshold is rounded down to a finer grid 2**-fine, so that leaves and sums stay exact: both
    are multiples of 2**-fine below 2**(51 - fine). A sum of one unit puts the mean at least
    2**-grid / n - 2**-fine above t, which must exceed the rounding of the division; a sum of 0
    leaves it at or below t, which is class 0 as required.
    """
    n_kept = len(pruned.kept)
    total = largest + n_kept * (1 + abs(threshold))
    fine = AVERAGED_BITS - 1 - math.ceil(math.log2(total))
    rounded = math.ldexp(math.floor(math.ldexp(threshold, fine)), -fine)
    error = n_kept * (threshold - rounded) + 4 * _UNIT * total
    if fine < pruned.grid or error >= math.ldexp(1.0, -pruned.grid):
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} with {n_kept} trees is too fine to keep the threshold "
            f"{threshold} in a mean of float64 numbers; use a coarser grid or a smaller scale."
        )
    return rounded


def _write_gradient(model: Model, smaller: Smaller) -> Any:
    native, trimming, pruned = model.native, smaller.trimming, smaller.pruned
    values = smaller.values
    copied: dict[int, Any] = {}
    if pruned is None:  # the native sum multiplies every leaf by the learning rate
        values = trimming.shifted(_own_values(model, trimming), smaller.shift / native.learning_rate)
    estimators = members(native)
    trees = [
        trim_estimator(estimators[tree], model.forest, trimming, i, values[trimming.part(i)], copied)
        for i, tree in enumerate(trimming.kept)
    ]
    rounds = _whole_rounds(model.forest, smaller, trees, partial(_constant_estimator, model, copied))
    estimator = copy_without(native, ("estimators_", *_stale(smaller)), copied)
    estimator.estimators_ = np.empty((len(rounds), model.forest.n_outputs), dtype=object)
    estimator.estimators_[:] = rounds
    estimator.n_estimators_ = len(rounds)
    if not _is_whole(smaller):
        estimator.n_estimators = len(rounds)
    if pruned is not None:
        # predict_stages multiplies every leaf by the learning rate: only 1.0 keeps the grid
        estimator.learning_rate = 1.0
        estimator.init = estimator.init_ = "zero"
    return estimator


def _write_histogram(model: Model, smaller: Smaller) -> Any:
    native, trimming = model.native, smaller.trimming
    predictors = [predictor for stage in native._predictors for predictor in stage]
    trees = [
        trim_predictor(predictors[tree], model.forest, trimming, i, smaller.values[trimming.part(i), 0])
        for i, tree in enumerate(trimming.kept)
    ]
    estimator = copy_without(native, ("_predictors", *_stale(smaller)))
    root = _only_root(model.forest)

    def constant(value: float) -> Any:
        return trim_predictor(predictors[0], model.forest, root, 0, np.full(1, value))

    estimator._predictors = _whole_rounds(model.forest, smaller, trees, constant)
    if not _is_whole(smaller):
        estimator.max_iter = len(estimator._predictors)
    if smaller.pruned is not None:
        estimator._baseline_prediction = np.zeros_like(native._baseline_prediction)
    return estimator


def _is_whole(smaller: Smaller) -> bool:
    """Whether all trees are kept with their own values."""
    return smaller.pruned is None and len(smaller.trimming.kept) == len(smaller.shift)


def _stale(smaller: Smaller) -> tuple[str, ...]:
    """Attributes that are not true of the smaller model."""
    return () if _is_whole(smaller) else _STALE


def _whole_rounds(
    forest: Forest, smaller: Smaller, trees: Sequence[Any], constant: Callable[[float], Any]
) -> list[list[Any]]:
    """Return the trees of each kept round by output; constants stand for dropped trees."""
    _, places, values = whole_rounds(forest, smaller)
    return [
        [trees[place] if place >= 0 else constant(value) for place, value in zip(*row, strict=True)]
        for row in zip(places.tolist(), values.tolist(), strict=True)
    ]


# children, feature and threshold of a leaf in tree_
LEAF, UNDEFINED = -1, -2


def trim_estimator(
    estimator: Any,
    forest: Forest,
    trimming: Trimming,
    index: int,
    leaf_value: FloatArray,
    copied: dict[int, Any] | None = None,
) -> Any:
    """Return a copy of a tree estimator with the remaining nodes of tree ``kept[index]``.

    Parameters
    ----------
    estimator : DecisionTree or ExtraTree
    forest : Forest
    trimming : Trimming
    index : int
    leaf_value : float64 (n, n_columns)
        In the form of ``tree_.value``, a row for every remaining node of this tree; read at the
        leaves. Inner nodes keep their own.
    copied : dict, optional
        See `copy_without`.
    """
    make, arguments, state = estimator.tree_.__reduce__()
    part = trimming.part(index)
    local = trimming.node[part] - forest.tree_offset[trimming.kept[index]]
    is_leaf = trimming.is_leaf[part]
    nodes, values = state["nodes"][local], state["values"][local]
    nodes["left_child"], nodes["right_child"] = trimming.children(index)
    nodes["feature"][is_leaf] = UNDEFINED
    nodes["threshold"][is_leaf] = UNDEFINED
    nodes["missing_go_to_left"][is_leaf] = 0
    values[is_leaf, 0, :] = leaf_value[is_leaf]
    tree = make(*arguments)
    depth = int(trimming.depth[part].max())
    tree.__setstate__({**state, "max_depth": depth, "node_count": len(nodes), "nodes": nodes, "values": values})
    trimmed = copy_without(estimator, ("tree_",), copied)
    trimmed.tree_ = tree
    return trimmed


def trim_members(model: Model, smaller: Smaller, values: FloatArray) -> Any:
    """Return a copy of a list of trees (forest, AdaBoost), or of a single tree, with trimmed trees."""
    native, forest, trimming = model.native, model.forest, smaller.trimming
    if hasattr(native, "tree_"):
        return trim_estimator(native, forest, trimming, 0, values)
    estimator = copy_without(native, ("estimators_", *_stale(smaller)))
    estimator.estimators_ = [
        trim_estimator(native.estimators_[tree], forest, trimming, i, values[trimming.part(i)])
        for i, tree in enumerate(trimming.kept)
    ]
    estimator.n_estimators = len(estimator.estimators_)
    return estimator


def trim_predictor(predictor: Any, forest: Forest, trimming: Trimming, index: int, leaf_value: FloatArray) -> Any:
    """Return a predictor of histogram boosting with the remaining nodes of tree ``kept[index]``."""
    part = trimming.part(index)
    nodes = predictor.nodes[trimming.node[part] - forest.tree_offset[trimming.kept[index]]]
    is_leaf = trimming.is_leaf[part]
    left, right = trimming.children(index)
    nodes["left"], nodes["right"] = np.where(is_leaf, 0, left), np.where(is_leaf, 0, right)
    nodes["is_leaf"] = is_leaf
    nodes["depth"] = trimming.depth[part]
    nodes["value"][is_leaf] = leaf_value[is_leaf]
    nodes["gain"][is_leaf] = -1.0  # the value that scikit-learn writes for a node that was never split
    for name in ("feature_idx", "num_threshold", "missing_go_to_left", "bin_threshold"):
        nodes[name][is_leaf] = 0
    nodes["is_categorical"][is_leaf] = 0
    is_category = nodes["is_categorical"].astype(bool)
    sets = nodes["bitset_idx"][is_category]
    nodes["bitset_idx"] = 0
    nodes["bitset_idx"][is_category] = np.arange(len(sets))
    return type(predictor)(
        nodes, predictor.binned_left_cat_bitsets[sets].copy(), predictor.raw_left_cat_bitsets[sets].copy()
    )


def write_votes(model: Model, smaller: Smaller) -> Any:
    """Write AdaBoost with fewer and smaller trees, the weight of each in ``estimator_weights_``."""
    native, forest, trimming, pruned = model.native, model.forest, smaller.trimming, smaller.pruned
    assert pruned is not None
    votes = [_read_votes(pruned, trimming, index) for index in range(len(trimming.kept))]
    weights_int = np.array([weight for weight, _ in votes])
    n_classes = len(forest.classes)
    if n_classes > 2:
        # -w / (K - 1) and n additions round by at most (n + 2) u W per class, the division by W
        # by u W: two classes one unit apart must stay in order (parsers/sklearn/read.py)
        blur = (2 * len(weights_int) + 8) * _UNIT * float(weights_int.sum())
        if blur >= 1:
            raise InvalidInputError(
                f"Grid 2**-{pruned.grid} is too fine for AdaBoost with {n_classes} classes; use a "
                "coarser grid or a smaller scale."
            )
    values = _own_values(model, trimming)
    for index, (_, voted) in enumerate(votes):
        _vote_in_new_leaves(native.estimators_[trimming.kept[index]], forest, trimming, index, voted, values)
    estimator = trim_members(model, smaller, values)
    estimator.estimator_weights_ = np.ldexp(weights_int.astype(np.float64), -pruned.grid)
    if hasattr(native, "estimator_errors_"):
        estimator.estimator_errors_ = np.asarray(native.estimator_errors_)[pruned.kept].copy()
    return estimator


def _read_votes(pruned: PrunedForest, trimming: Trimming, index: int) -> tuple[int, IntArray]:
    """Return the one positive weight behind all leaves of a voting tree, and the class of each leaf.

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
    # a leaf of the original keeps its vote: the estimator already holds its value
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


def _vote_in_new_leaves(
    estimator: Any, forest: Forest, trimming: Trimming, index: int, voted: IntArray, values: FloatArray
) -> None:
    """Give every new leaf of a tree probability 1 for the class it votes for, in place."""
    part = trimming.part(index)
    is_new = trimming.is_leaf[part] & (forest.kind[trimming.node[part]] != SplitKind.LEAF)
    column = {label: i for i, label in enumerate(estimator.classes_.tolist())}
    for row in np.flatnonzero(is_new):
        label = forest.classes[int(voted[row])]
        if label not in column:
            raise InvalidInputError(
                f"A tree of AdaBoostClassifier that never saw the class {label!r} cannot vote for "
                "it; keep the vote of one of its leaves."
            )
        values[part][row] = np.arange(values.shape[1]) == column[label]


def _own_values(model: Model, trimming: Trimming) -> FloatArray:
    """Return rows of ``tree_.value`` for every remaining node."""
    values = np.concatenate([estimator.tree_.value[:, 0, :] for estimator in members(model.native)])
    return values[trimming.value_node]


_WRITERS: dict[str, Callable[[Model, Smaller], Any]] = {
    "average": _write_average,
    "gradient": _write_gradient,
    "histogram": _write_histogram,
    "votes": write_votes,
}
