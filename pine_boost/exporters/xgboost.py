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
from pine_boost.exporters import copy_value
from pine_boost.model.exact import PRECISION
from pine_boost.model.forest import FloatArray, Model, PrunedForest
from pine_boost.model.trimming import Trimming, trim_pruned
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


def write_xgboost(model: Model, pruned: PrunedForest) -> Any:
    """Write a pruned forest as an XGBoost model of ``model.kind``.

    Parameters
    ----------
    model : Model
        The model that `pine_boost.parsers.read_model` returned; its native object is not changed.
    pruned : PrunedForest
        Kept trees and leaf values in grid units.

    Returns
    -------
    Booster, wrapper or bytes
        Files and bytes give bytes in the same format. The native margin of every input is the
        integer sum / 2**grid, bit for bit, as long as every partial sum is exact in float32.

    Raises
    ------
    InvalidInputError
        A leaf or constant is not exact in float32.
    MissingDependencyError
        A live object is needed and xgboost is not installed.
    """
    document, trimming = model.document, trim_pruned(pruned)
    leaves = _grid_values(pruned.value_int[trimming.node, 0], pruned.grid)
    trees = trim_trees(document.trees, trimming, leaves)
    trees = replace(trees, base_weight=np.where(trees.is_leaf, leaves, trees.base_weight))
    rounds = pruned.forest.tree_round[pruned.kept]
    score = NEUTRAL_SCORE[LINKS[document.objective_name]] if model.kind == FILE_KIND else _SCORE_OF_ALL_VERSIONS
    document = replace(_with_trees(document, trees, document.tree_output[pruned.kept], rounds), base_score=(score,))
    return _finish(model, with_intercept(document, _grid_values(pruned.intercept_int, pruned.grid)))


def trim_xgboost(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    """Write the remaining nodes with their own leaf values and the base_score of the original.

    ``shift`` is added to every leaf of a tree; dart weights are folded into the leaves. If the
    original has a different base_score per class, XGBoost before 3.1 misreads both models.
    """
    document = model.document
    leaves = trimming.shifted(document.trees.condition[trimming.value_node].astype(np.float64), shift)
    trees = trim_trees(document.trees, trimming, leaves.astype(np.float32))
    rounds = model.forest.tree_round[trimming.kept]
    trimmed = _with_trees(document, trees, document.tree_output[trimming.kept], rounds)
    if len(trimmed.round_offset) == len(document.round_offset):
        # as all rounds are kept, best_iteration refers to the same trees as before
        trimmed = replace(trimmed, attributes=document.attributes)
    return _finish(model, with_intercept(trimmed, model.forest.intercept))


def _finish(model: Model, document: XGBoostDocument) -> Any:
    """Turn a document into the kind of model that was read."""
    if model.kind == FILE_KIND:
        return write_document(document, document.file_format)
    if model.kind == "xgboost.Booster":
        return _load_booster(model, document, model.native)
    return _copy_wrapper(model, document)


def _with_trees(
    document: XGBoostDocument, trees: Trees, output: npt.NDArray[np.int64], rounds: npt.NDArray[Any]
) -> XGBoostDocument:
    """Return the document with other trees; ``rounds`` gives the round of each."""
    counts = np.unique(rounds, return_counts=True)[1]
    attributes = {k: v for k, v in document.attributes.items() if k not in _STALE_ATTRIBUTES}
    return replace(
        document,
        trees=trees,
        tree_output=output,
        round_offset=np.concatenate([[0], np.cumsum(counts)]),
        attributes=attributes,
    )


def trim_trees(trees: Trees, trimming: Trimming, leaf_value: npt.NDArray[np.float32]) -> Trees:
    """Return the remaining nodes with their hessians, gains and weights, and new values at the leaves."""
    node, is_leaf = trimming.node, trimming.is_leaf
    is_categorical = trees.is_categorical[node] & ~is_leaf
    category_offset, category = _take_categories(trees, trimming, is_categorical)
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
        category_offset=category_offset,
        category=category,
    )


def _take_categories(
    trees: Trees, trimming: Trimming, is_categorical: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    sets = []
    for node in trimming.node[is_categorical]:
        entries = slice(trees.category_offset[node], trees.category_offset[node + 1])
        codes = trees.category[entries]
        if trimming.category_kept is not None:
            codes = codes[trimming.category_kept[entries]]
        sets.append(codes)
    count = np.zeros(len(trimming.node), dtype=np.int64)
    count[is_categorical] = [len(codes) for codes in sets]
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(count)]), np.concatenate([*sets, empty])


def _grid_values(value_int: npt.NDArray[np.int64], grid: int) -> npt.NDArray[np.float32]:
    """Return integers / 2**grid as float32; raise if one of them would be rounded."""
    # + 0.0 removes negative zeros
    values = (np.ldexp(value_int.astype(np.float64), -grid) + 0.0).astype(np.float32)
    if np.any(np.abs(value_int) > 2 ** PRECISION[np.float32]) or np.any(
        np.ldexp(values.astype(np.float64), grid) != value_int
    ):
        raise InvalidInputError(
            f"A leaf of the pruned forest is not exact in float32 on the grid 2**-{grid}; choose a coarser grid."
        )
    return values


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
