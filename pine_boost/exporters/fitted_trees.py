"""Smaller copies of what scikit-learn keeps its trees in: ``tree_`` and histogram predictors.

In come a fitted tree, the nodes that remain and the values of their leaves; out goes a new tree
with the counts and impurities of those nodes. The one that came in is never modified.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from pine_boost.exporters.copying import copy_value
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.model.trimming import Trimming

# children, feature and threshold of a leaf in tree_
LEAF, UNDEFINED = -1, -2

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


def copy_without(native: Any, *heavy: str, keep_scores: bool = False, copied: dict[int, Any] | None = None) -> Any:
    """A copy; ``heavy`` attributes are left to the caller, what cannot be copied is shared.

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
    """A copy of a tree estimator with the remaining nodes of tree ``kept[index]``.

    Parameters
    ----------
    estimator : DecisionTree or ExtraTree
    forest : Forest
    trimming : Trimming
    index : int
    leaf_value : float64 (n, n_columns)
        In the form of ``tree_.value``, a row for every remaining node of this tree; read at the
        leaves. Inner nodes keep theirs.
    copied : dict, optional
        Of `copy_without`.
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
    """A copy of a list of trees (forest, AdaBoost), or of a single one, with trimmed trees."""
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
    """A predictor of histogram boosting with the remaining nodes of tree ``kept[index]``."""
    part = trimming.part(index)
    nodes = predictor.nodes[trimming.node[part] - forest.tree_offset[trimming.kept[index]]]
    is_leaf = trimming.is_leaf[part]
    left, right = trimming.children(index)
    nodes["left"], nodes["right"] = np.where(is_leaf, 0, left), np.where(is_leaf, 0, right)
    nodes["is_leaf"] = is_leaf
    nodes["depth"] = trimming.depth[part]
    nodes["value"][is_leaf] = leaf_value[is_leaf]
    nodes["gain"][is_leaf] = -1.0  # what scikit-learn writes for a node that was never split
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
    """A predictor of one leaf that covers the data of another."""
    nodes = np.zeros(1, dtype=template.nodes.dtype)
    nodes["is_leaf"] = True
    nodes["value"] = value
    nodes["count"] = template.nodes["count"][0]
    empty = np.zeros((0, 8), dtype=np.uint32)
    return type(template)(nodes, empty, empty.copy())
