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
from pine_boost.parsers.catboost.traits import load_as
from pine_boost.parsers.catboost.write import write_document
from pine_boost.parsers.nodes import constant_trees


def write_catboost(model: Model, smaller: Smaller) -> Any:
    """Write a smaller forest as a CatBoost model of ``model.kind``; a new leaf has the training weight below it.

    ``predict(prediction_type="RawFormulaVal")`` of a pruned model is the integer sum / 2**grid, bit for bit.
    Symmetric trees stay symmetric if every kept tree still has one split per level; otherwise all trees become
    non-symmetric.
    """
    document, trimming, pruned = model.document, smaller.trimming, smaller.pruned
    if pruned is not None:
        document = replace(document, scale=2.0**-pruned.grid, bias=smaller.intercept)
    whole, is_leaf = document.trees, trimming.is_leaf
    weight = whole.totals(whole["weight"])[trimming.node]
    trees = whole.trimmed(trimming).changed(
        split=np.where(is_leaf, -1, whole["split"][trimming.node]),
        value=np.where(is_leaf[:, None], smaller.values / document.scale, 0.0),  # exact: a power of two
        weight=np.where(is_leaf, weight, 0.0),
    )
    if trees.n_trees == 0:  # CatBoost loads no model without trees: one leaf of 0
        trees = constant_trees(np.zeros(1, dtype=whole.record.dtype)).changed(split=-1)
    document = replace(document, trees=trees)
    return write_document(document) if model.native is None else load_as(type(model.native), document)
