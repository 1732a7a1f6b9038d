"""Write a pruned or trimmed forest as a CatBoost model of the same class, or as JSON bytes.

Leaves of a pruned model are the integers of the grid, and the model's scale is the grid unit: CatBoost's parser of
decimals rounds, but not integers and powers of two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import PRECISION, largest_leaf
from pine_boost.model.forest import FloatArray, Model, PrunedForest
from pine_boost.model.trimming import Trimming, trim_pruned
from pine_boost.parsers.catboost.document import CatboostDocument
from pine_boost.parsers.catboost.read import FILE_KIND
from pine_boost.parsers.catboost.traits import load_as
from pine_boost.parsers.catboost.write import write_document


def write_catboost(model: Model, pruned: PrunedForest) -> Any:
    """Write a pruned forest as a CatBoost model of ``model.kind``.

    Parameters
    ----------
    model : Model
        The model that `pine_boost.parsers.read_model` returned; its native object is not changed.
    pruned : PrunedForest
        Kept trees and leaf values in grid units.

    Returns
    -------
    CatBoost, CatBoostClassifier (or other class) or bytes
        ``predict(prediction_type="RawFormulaVal")`` is the integer sum / 2**grid, bit for bit. Symmetric trees stay
        symmetric if every kept tree still has one split per level; otherwise all trees become non-symmetric.

    Raises
    ------
    InvalidInputError
        Sums of the pruned forest do not fit float64 exactly.
    """
    largest = largest_leaf(pruned.forest, pruned.value_int)
    if (largest.sum(axis=0) + np.abs(pruned.intercept_int)).max() >= 2 ** PRECISION[np.float64]:
        raise InvalidInputError("The pruned leaves can add up to 2**53 grid units or more.")
    trimming = trim_pruned(pruned)
    value = np.where(trimming.is_leaf[:, None], pruned.value_int[trimming.node], 0).astype(np.float64)
    document = _trimmed(model.document, trimming, value)
    constant = pruned.intercept_int.astype(np.float64)
    document = replace(document, scale=2.0**-pruned.grid, bias=np.ldexp(constant, -pruned.grid))
    return _finish(model, document)


def trim_catboost(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    """Write the remaining nodes with their own leaf values and bias; ``shift`` is added to every leaf of a tree."""
    document, scale = model.document, model.document.scale
    value = trimming.shifted(model.forest.value[trimming.value_node], shift) / scale  # exact: a power of two
    return _finish(model, _trimmed(document, trimming, np.where(trimming.is_leaf[:, None], value, 0.0)))


def _trimmed(document: CatboostDocument, trimming: Trimming, value: FloatArray) -> CatboostDocument:
    """Return the document with the remaining nodes; a new leaf has the training weight of the leaves below it."""
    if len(trimming.kept) == 0:
        return _constant(document)
    weight = document.weight.copy()
    for node in range(len(weight) - 1, -1, -1):  # children come after their parents
        if document.left[node] >= 0:
            weight[node] = weight[document.left[node]] + weight[document.right[node]]
    return replace(
        document,
        offset=trimming.offset,
        left=trimming.left,
        right=trimming.right,
        split=np.where(trimming.is_leaf, -1, document.split[trimming.node]),
        value=value,
        weight=np.where(trimming.is_leaf, weight[trimming.node], 0.0),
    )


def _constant(document: CatboostDocument) -> CatboostDocument:
    """Return the document with one tree of one leaf of 0: CatBoost loads no model without trees."""
    none = np.array([-1])
    zero = np.zeros((1, document.value.shape[1]))
    return replace(document, offset=np.array([0, 1]), left=none, right=none, split=none, value=zero, weight=np.zeros(1))


def _finish(model: Model, document: CatboostDocument) -> Any:
    """Turn a document into the kind of model that was read."""
    if model.kind == FILE_KIND:
        return write_document(document)
    return load_as(type(model.native), document)
