"""Write a pruned or trimmed forest as a CatBoost model of the same class, or as JSON bytes.

Leaves of a pruned model are the integers of the grid, and the model's scale is the grid unit: CatBoost's parser of
decimals rounds, but not integers and powers of two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.exporters import Smaller
from pine_boost.model.forest import Model
from pine_boost.parsers.catboost.document import CatboostDocument
from pine_boost.parsers.catboost.traits import load_as
from pine_boost.parsers.catboost.write import write_document


def write_catboost(model: Model, smaller: Smaller) -> Any:
    """Write a smaller forest as a CatBoost model of ``model.kind``; a new leaf has the training weight below it.

    ``predict(prediction_type="RawFormulaVal")`` of a pruned model is the integer sum / 2**grid, bit for bit.
    Symmetric trees stay symmetric if every kept tree still has one split per level; otherwise all trees become
    non-symmetric.
    """
    document, trimming, pruned = model.document, smaller.trimming, smaller.pruned
    if pruned is not None:
        document = replace(document, scale=2.0**-pruned.grid, bias=smaller.intercept)
    if len(trimming.kept) == 0:
        return _finish(model, _constant(document))
    weight = document.weight.copy()
    for node in range(len(weight) - 1, -1, -1):  # children come after their parents
        if document.left[node] >= 0:
            weight[node] = weight[document.left[node]] + weight[document.right[node]]
    is_leaf = trimming.is_leaf
    document = replace(
        document,
        offset=trimming.offset,
        left=trimming.left,
        right=trimming.right,
        split=np.where(is_leaf, -1, document.split[trimming.node]),
        value=np.where(is_leaf[:, None], smaller.values / document.scale, 0.0),  # exact: a power of two
        weight=np.where(is_leaf, weight[trimming.node], 0.0),
    )
    return _finish(model, document)


def _constant(document: CatboostDocument) -> CatboostDocument:
    """Return the document with one tree of one leaf of 0: CatBoost loads no model without trees."""
    none = np.array([-1])
    zero = np.zeros((1, document.value.shape[1]))
    return replace(document, offset=np.array([0, 1]), left=none, right=none, split=none, value=zero, weight=np.zeros(1))


def _finish(model: Model, document: CatboostDocument) -> Any:
    """Turn a document into the kind of model that was read."""
    if model.native is None:
        return write_document(document)
    return load_as(type(model.native), document)
