"""Write a pruned or trimmed forest as a fitted scikit-learn estimator of the same class."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import copy_value
from pine_boost.model.exact import AVERAGED_BITS, UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import Trimming, trim, trim_pruned

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


def write_sklearn(model: Model, pruned: PrunedForest) -> Any:
    """Build the pruned estimator.

    Forests and single trees keep their leaves in ``tree_.value``: the sum over the trees is exact
    and ``predict_proba`` is that sum / number of trees (it adds up to 1 only if the caller scaled
    the weights to mean 1). A regressor's value is the mean over the trees of the original, so
    removed trees are written as one leaf of 0. Gradient boosting gets ``init='zero'`` and
    ``learning_rate=1.0``, and histogram boosting a zero baseline, because the intercept is already
    in the leaves. A class tree that was dropped from a kept round becomes a single leaf. AdaBoost
    gets new ``estimator_weights_``.

    Parameters
    ----------
    model : Model
        As read by `read_sklearn`.
    pruned : PrunedForest
        A pruning of ``model.forest``.

    Returns
    -------
    estimator
        A new fitted estimator of the class of ``model.native``. The native margin equals the integer
        sum / 2**grid bit for bit (AdaBoost with 4, 6, 7, 8, ... classes: the votes are exact, but the
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
        # a value is the mean over the trees of the original, so the divisor must not change
        zeros = _zero_estimator(model, int(pruned.kept[0]))
        n_missing = pruned.forest.n_trees - len(trimming.kept)
        estimator.estimators_ += [copy.deepcopy(zeros) for _ in range(n_missing)]
        estimator.n_estimators = len(estimator.estimators_)
    return estimator


def _zero_estimator(model: Model, like: int) -> Any:
    """Return a tree of one leaf of 0 that covers the data of another tree."""
    forest = model.forest
    trimming = trim(forest, np.array([like]), np.ones(forest.n_nodes, dtype=bool))
    value = np.zeros((1, forest.value.shape[1]))
    return trim_estimator(model.native.estimators_[like], forest, trimming, 0, value)


def _leaves_about_threshold(pruned: PrunedForest, threshold: float) -> FloatArray:
    """Return leaves ``value + t`` whose native mean is above the threshold iff the integer sum is > 0.

    The threshold is rounded down to a finer grid 2**-fine, so that leaves and sums stay exact. A
    sum of one unit puts the mean at least 2**-grid / n - 2**-fine above t, which must exceed the
    rounding of the division; a sum of 0 leaves it at or below t, which is class 0 as required.
    """
    n_kept = len(pruned.kept)
    leaves = _float_leaves(pruned)
    total = _largest_sum(pruned, leaves) + n_kept * (1 + abs(threshold))
    fine = AVERAGED_BITS - 1 - math.ceil(math.log2(total))
    rounded = math.ldexp(math.floor(math.ldexp(threshold, fine)), -fine)
    error = n_kept * (threshold - rounded) + 4 * _UNIT * total
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
                # constants go into one tree only: that of the first round
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
    """Return the trees of each kept round by output (-1 if dropped), and the constant of each output.

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
    """Return leaf values in the form of ``tree_.value``."""
    if leaves.shape[1] == 1 and hasattr(native, "classes_"):
        # one output of a binary classifier with a threshold is class 1; class 0 is the rest
        return np.concatenate([1.0 - leaves, leaves], axis=1)
    return leaves


def _float_leaves(pruned: PrunedForest) -> FloatArray:
    """Return ``value_int / 2**grid``, exact because |value_int| < 2**53."""
    return np.ldexp(pruned.value_int.astype(np.float64), -pruned.grid)


def _largest_sum(pruned: PrunedForest, leaves: FloatArray) -> float:
    """Return the largest possible |sum| over the kept trees, for the worst output."""
    largest = np.maximum.reduceat(np.abs(leaves), pruned.forest.tree_offset[:-1], axis=0)
    return float(largest[pruned.kept].sum(axis=0).max())


def _refuse_fine_grid(model: Model, pruned: PrunedForest) -> None:
    total = _largest_sum(pruned, np.abs(pruned.value_int).astype(np.float64))
    if total >= 2.0**AVERAGED_BITS:
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} is too fine for {model.kind}: two different sums could become "
            "equal after division by the number of trees; use a coarser grid or a smaller scale."
        )


# children, feature and threshold of a leaf in tree_
LEAF, UNDEFINED = -1, -2


def copy_without(native: Any, *heavy: str, keep_scores: bool = False, copied: dict[int, Any] | None = None) -> Any:
    """Return a copy; the caller sets the ``heavy`` attributes, and parts that cannot be copied are shared.

    ``copied`` is the memo of `copy.deepcopy`: what several objects share stays one object. Trees of
    gradient boosting share a generator of 5 kB, which would otherwise be written once per tree.
    """
    estimator = copy.copy(native)
    for name, value in list(vars(estimator).items()):
        if name in _STALE and not keep_scores:
            delattr(estimator, name)
        elif name not in heavy:
            setattr(estimator, name, copy_value(value, copied))
    return estimator


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
    trimmed = copy_without(estimator, "tree_", copied=copied)
    trimmed.tree_ = tree
    return trimmed


def trim_members(model: Model, trimming: Trimming, values: FloatArray, *, keep_scores: bool = False) -> Any:
    """Return a copy of a list of trees (forest, AdaBoost), or of a single tree, with trimmed trees."""
    native, forest = model.native, model.forest
    if hasattr(native, "tree_"):
        return trim_estimator(native, forest, trimming, 0, values)
    estimator = copy_without(native, "estimators_", keep_scores=keep_scores)
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


def constant_predictor(template: Any, value: float) -> Any:
    """Return a predictor of one leaf that covers the data of another."""
    nodes = np.zeros(1, dtype=template.nodes.dtype)
    nodes["is_leaf"] = True
    nodes["value"] = value
    nodes["count"] = template.nodes["count"][0]
    empty = np.zeros((0, 8), dtype=np.uint32)
    return type(template)(nodes, empty, empty.copy())


def write_votes(model: Model, pruned: PrunedForest) -> Any:
    """Write AdaBoost with fewer and smaller trees, the weight of each in ``estimator_weights_``."""
    native, forest = model.native, pruned.forest
    trimming = trim_pruned(pruned)
    votes = [_read_votes(pruned, trimming, index) for index in range(len(trimming.kept))]
    weights_int = np.array([weight for weight, _ in votes])
    n_classes = len(forest.classes)
    if n_classes > 2:
        # -w / (K - 1) and n additions round by at most (n + 2) u W per class, the division by W
        # by u W: two classes one unit apart must stay in order (parsers/sklearn/trees.py)
        blur = (2 * len(weights_int) + 8) * _UNIT * float(weights_int.sum())
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


def _vote_values(estimator: Any, forest: Forest, trimming: Trimming, index: int, voted: IntArray) -> FloatArray:
    """Return ``tree_.value`` of the remaining nodes; a new leaf has probability 1 for its class."""
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


def trim_sklearn(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    """Write the remaining nodes with their own leaf values.

    ``shift`` is added to every leaf of a tree of a boosted model. Averages and votes keep all
    their trees, because dropping one would change the mean.
    """
    family = model.document.family
    if family == "gradient":
        return _trim_gradient(model, trimming, shift)
    if family == "histogram":
        return _trim_histogram(model, trimming, shift)
    if len(trimming.kept) != model.forest.n_trees or np.any(shift):
        raise InvalidInputError(f"{model.kind} divides by its trees; none can be left out.")
    return trim_members(model, trimming, _own_values(model, trimming), keep_scores=True)


def _trim_gradient(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    native, forest = model.native, model.forest
    # the native sum multiplies every leaf by the learning rate
    values = trimming.shifted(_own_values(model, trimming), shift / native.learning_rate)
    members = native.estimators_.ravel()
    trimmed = np.empty(len(trimming.kept), dtype=object)
    copied: dict[int, Any] = {}
    for i, tree in enumerate(trimming.kept):
        part = trimming.part(i)
        trimmed[i] = trim_estimator(members[tree], forest, trimming, i, values[part], copied)
    is_whole = len(trimming.kept) == forest.n_trees
    estimator = copy_without(native, "estimators_", keep_scores=is_whole, copied=copied)
    estimator.estimators_ = trimmed.reshape(-1, forest.n_outputs)
    estimator.n_estimators_ = len(estimator.estimators_)
    if not is_whole:
        estimator.n_estimators = estimator.n_estimators_
    return estimator


def _trim_histogram(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    native, forest = model.native, model.forest
    leaves = trimming.shifted(forest.value[trimming.value_node, 0], shift)
    predictors = [predictor for stage in native._predictors for predictor in stage]
    trimmed = [
        trim_predictor(predictors[tree], forest, trimming, i, leaves[trimming.part(i)])
        for i, tree in enumerate(trimming.kept)
    ]
    is_whole = len(trimming.kept) == forest.n_trees
    estimator = copy_without(native, "_predictors", keep_scores=is_whole)
    n_outputs = forest.n_outputs
    estimator._predictors = [trimmed[first : first + n_outputs] for first in range(0, len(trimmed), n_outputs)]
    if not is_whole:
        estimator.max_iter = len(estimator._predictors)
    return estimator


def _own_values(model: Model, trimming: Trimming) -> FloatArray:
    """Return rows of ``tree_.value`` for every remaining node."""
    native = model.native
    members = [native] if hasattr(native, "tree_") else np.ravel(native.estimators_).tolist()
    parts = []
    for i, tree in enumerate(trimming.kept):
        local = trimming.value_node[trimming.part(i)] - model.forest.tree_offset[tree]
        parts.append(members[tree].tree_.value[local, 0, :])
    return np.concatenate(parts)


_WRITERS: dict[str, Callable[[Model, PrunedForest], Any]] = {
    "average": _write_average,
    "gradient": _write_gradient,
    "histogram": _write_histogram,
    "votes": write_votes,
}
