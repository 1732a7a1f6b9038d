"""Writes scikit-learn models with nodes left out and the leaf values they have.

In come the Model and a Trimming; out goes a new estimator of the same class with the native
intercept and learning rate. Refuses to leave out trees of a mean or of a vote.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.exporters.fitted_trees import copy_without, trim_estimator, trim_members, trim_predictor
from pine_boost.model.forest import FloatArray, Model
from pine_boost.model.trimming import Trimming


def trim_sklearn(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    """Write the remaining nodes with their own leaf values.

    ``shift`` is added to every leaf of a tree of a boosted model. Averages and votes keep all
    their trees: without one of them the mean would be another.
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
    """Rows of ``tree_.value`` for every remaining node."""
    native = model.native
    members = [native] if hasattr(native, "tree_") else np.ravel(native.estimators_).tolist()
    parts = []
    for i, tree in enumerate(trimming.kept):
        local = trimming.value_node[trimming.part(i)] - model.forest.tree_offset[tree]
        parts.append(members[tree].tree_.value[local, 0, :])
    return np.concatenate(parts)
