"""Write a pruned or trimmed forest as an XGBoost Booster, scikit-learn wrapper, .json or .ubj bytes.

The booster is always gbtree; the base_score of pruned models reads the same in XGBoost 1.7 to 3.x.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.exporters import Smaller, copy_value
from pine_boost.model.forest import Forest, Model
from pine_boost.model.trimming import Trimming, kept_codes
from pine_boost.native.predict import load_native
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.intercept import LINKS, NEUTRAL_SCORE, with_intercept
from pine_boost.parsers.xgboost.read import FILE_KIND
from pine_boost.parsers.xgboost.trees import Trees
from pine_boost.parsers.xgboost.write import write_document

# A best_iteration of the original would silently cut the pruned model
_STALE_ATTRIBUTES = ("best_iteration", "best_score", "best_ntree_limit")
# A live Booster saves its base_score as a vector from 3.1 on, and every earlier version silently reads any vector as
# 0.5. With 0.5 itself they all read the same number.
_SCORE_OF_ALL_VERSIONS = 0.5


def write_xgboost(model: Model, smaller: Smaller) -> Any:
    """Write a smaller forest as an XGBoost model of ``model.kind``; dart weights are folded into the leaves.

    The native margin of a pruned model is the integer sum / 2**grid, bit for bit. A trimmed model keeps its
    base_score; if the original has a different one per class, XGBoost before 3.1 misreads both models.

    Raises
    ------
    InvalidInputError
        A leaf or constant of a pruned model is not exact in float32.
    MissingDependencyError
        A live object is needed and xgboost is not installed.
    """
    document, trimming, forest = model.document, smaller.trimming, model.forest
    leaves = smaller.values[:, 0].astype(np.float32)
    trees = trim_trees(document.trees, forest, trimming, leaves)
    counts = np.unique(forest.tree_round[trimming.kept], return_counts=True)[1]
    smaller_document = replace(
        document,
        trees=trees,
        tree_output=document.tree_output[trimming.kept],
        round_offset=np.concatenate([[0], np.cumsum(counts)]),
        attributes={k: v for k, v in document.attributes.items() if k not in _STALE_ATTRIBUTES},
    )
    if smaller.pruned is None:
        if len(smaller_document.round_offset) == len(document.round_offset):
            # as all rounds are kept, best_iteration refers to the same trees as before
            smaller_document = replace(smaller_document, attributes=document.attributes)
        return _finish(model, with_intercept(smaller_document, forest.intercept))
    intercept = smaller.intercept.astype(np.float32)
    if np.any(leaves != smaller.values[:, 0]) or np.any(intercept != smaller.intercept):
        raise InvalidInputError(
            f"A leaf of the pruned forest is not exact in float32 on the grid 2**-{smaller.pruned.grid}; choose a "
            "coarser grid."
        )
    trees = replace(trees, base_weight=np.where(trees.is_leaf, leaves, trees.base_weight))
    score = NEUTRAL_SCORE[LINKS[document.objective_name]] if model.kind == FILE_KIND else _SCORE_OF_ALL_VERSIONS
    return _finish(model, with_intercept(replace(smaller_document, trees=trees, base_score=(score,)), intercept))


def _finish(model: Model, document: XGBoostDocument) -> Any:
    """Turn a document into the kind of model that was read."""
    if model.kind == FILE_KIND:
        return write_document(document, document.file_format)
    if model.kind == "xgboost.Booster":
        return _load_booster(model, document, model.native)
    return _copy_wrapper(model, document)


def trim_trees(trees: Trees, forest: Forest, trimming: Trimming, leaf_value: npt.NDArray[np.float32]) -> Trees:
    """Return the remaining nodes with their hessians, gains and weights, and new values at the leaves."""
    node, is_leaf = trimming.node, trimming.is_leaf
    is_categorical = trees.is_categorical[node] & ~is_leaf
    sets = [kept_codes(forest, trimming, int(own)) for own in node[is_categorical]]
    count = np.zeros(len(node), dtype=np.int64)
    count[is_categorical] = [len(codes) for codes in sets]
    return Trees(
        offset=trimming.offset,
        left=trimming.left,
        right=trimming.right,
        split_index=np.where(is_leaf, 0, trees.split_index[node]),
        condition=np.where(is_leaf, leaf_value, trees.condition[node]),
        default_left=trees.default_left[node] & ~is_leaf,
        is_categorical=is_categorical,
        base_weight=trees.base_weight[node],
        loss_change=np.where(is_leaf, np.float32(0), trees.loss_change[node]),
        sum_hessian=trees.sum_hessian[node],
        category_offset=np.concatenate([[0], np.cumsum(count)]),
        category=np.concatenate([*sets, np.zeros(0, dtype=np.int64)]),
    )


def _load_booster(model: Model, document: XGBoostDocument, native: Any) -> Any:
    """Load a document as a live Booster with the number of threads of the original."""
    booster = load_native(replace(model, native=None, document=document))
    text = json.loads(native.save_config()).get("learner", {}).get("generic_param", {}).get("nthread", "0")
    booster.set_param({"nthread": int(text)})
    return booster


def _copy_wrapper(model: Model, document: XGBoostDocument) -> Any:
    """Return a wrapper with the parameters, labels and attributes of the original and a new Booster."""
    native = model.native
    wrapper = object.__new__(type(native))
    # evals_result_ is the training history of another model
    for name, value in vars(native).items():
        if name not in ("_Booster", "evals_result_", *_STALE_ATTRIBUTES):
            wrapper.__dict__[name] = copy_value(value)
    wrapper._Booster = _load_booster(model, document, native.get_booster())
    is_forest = any(base.__name__.startswith("XGBRF") for base in type(native).__mro__)
    n_rounds = len(document.round_offset) - 1
    wrapper.n_estimators = document.n_parallel if is_forest else n_rounds
    if is_forest and document.n_parallel == 1:
        wrapper.n_estimators = -(-document.trees.n_trees // document.n_outputs)
    if getattr(wrapper, "booster", None) == "dart":
        wrapper.booster = "gbtree"  # the weights are folded into the leaves
    return wrapper
