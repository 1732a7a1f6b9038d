"""Write a pruned or trimmed forest as an XGBoost Booster, scikit-learn wrapper, .json or .ubj bytes.

The booster is always gbtree; the base_score of pruned models reads the same in XGBoost 1.7 to 3.x.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.exporters import Smaller, copy_without
from pine_boost.model.forest import Model
from pine_boost.native.predict import load_native
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.intercept import LINKS, NEUTRAL_SCORE, with_intercept
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
    trees, is_leaf = document.trees.trimmed(trimming), trimming.is_leaf
    trees = trees.changed(
        split_conditions=np.where(is_leaf, leaves, trees["split_conditions"]),
        **{
            name: np.where(is_leaf, 0, trees[name])
            for name in ("split_indices", "default_left", "split_type", "loss_changes")
        },
    )
    counts = np.unique(forest.tree_round[trimming.kept], return_counts=True)[1]
    smaller_document = replace(
        document,
        trees=trees,
        tree_output=document.tree_output[trimming.kept],
        round_offset=np.concatenate([[0], np.cumsum(counts)]),
        attributes={k: v for k, v in document.attributes.items() if k not in _STALE_ATTRIBUTES},
    )
    intercept = forest.intercept
    if smaller.pruned is not None:
        intercept = smaller.intercept
        if np.any(leaves != smaller.values[:, 0]) or np.any(intercept.astype(np.float32) != intercept):
            raise InvalidInputError(
                f"A leaf of the pruned forest is not exact in float32 on the grid 2**-{smaller.pruned.grid}; choose a "
                "coarser grid."
            )
        trees = trees.changed(base_weights=np.where(is_leaf, leaves, trees["base_weights"]))
        score = NEUTRAL_SCORE[LINKS[document.objective_name]] if model.native is None else _SCORE_OF_ALL_VERSIONS
        smaller_document = replace(smaller_document, trees=trees, base_score=(score,))
    elif len(smaller_document.round_offset) == len(document.round_offset):
        # as all rounds are kept, best_iteration refers to the same trees as before
        smaller_document = replace(smaller_document, attributes=document.attributes)
    written = with_intercept(smaller_document, intercept)
    if model.native is None:
        return write_document(written)
    if model.kind == "xgboost.Booster":
        return _load_booster(model, written, model.native)
    return _copy_wrapper(model, written)


def _load_booster(model: Model, document: XGBoostDocument, native: Any) -> Any:
    """Load a document as a live Booster with the number of threads of the original."""
    booster = load_native(replace(model, native=None, document=document))
    text = json.loads(native.save_config()).get("learner", {}).get("generic_param", {}).get("nthread", "0")
    booster.set_param({"nthread": int(text)})
    return booster


def _copy_wrapper(model: Model, document: XGBoostDocument) -> Any:
    """Return a wrapper with the parameters, labels and attributes of the original and a new Booster."""
    native = model.native
    # evals_result_ is the training history of another model
    wrapper = copy_without(native, ("_Booster", "evals_result_", *_STALE_ATTRIBUTES))
    wrapper._Booster = _load_booster(model, document, native.get_booster())
    is_forest = any(base.__name__.startswith("XGBRF") for base in type(native).__mro__)
    n_rounds = len(document.round_offset) - 1
    wrapper.n_estimators = document.n_parallel if is_forest else n_rounds
    if is_forest and document.n_parallel == 1:
        wrapper.n_estimators = -(-document.trees.n_trees // document.n_outputs)
    if getattr(wrapper, "booster", None) == "dart":
        wrapper.booster = "gbtree"  # the weights are folded into the leaves
    return wrapper
