"""The slow reference evaluator: leaves and margins of raw inputs, bit for bit as the library computes them.

Every faster path is tested against it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import LIGHTGBM_ZERO, XGBOOST_MAX_CATEGORY
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray
from pine_boost.model.rules import CategoryRule, Comparison, MissingRule, SplitKind


def find_leaves(forest: Forest, X: FloatArray) -> IntArray:
    """Route every row down every tree, (n_rows, n_trees) node positions of the leaves reached.

    One comparison per row and level, with the library's own rule.
    ``X`` is a float64 matrix with categories as codes and NaN for missing (see `tables.matrix.to_matrix`).
    """
    leaves = np.empty((len(X), forest.n_trees), dtype=np.int64)
    for tree in range(forest.n_trees):
        node = np.full(len(X), forest.tree_offset[tree])
        active = np.flatnonzero(forest.kind[node] != SplitKind.LEAF)
        while len(active):
            here = node[active]
            go_left = _goes_left(forest, here, X[active, forest.feature[here]])
            node[active] = np.where(go_left, forest.left[here], forest.right[here])
            active = active[forest.kind[node[active]] != SplitKind.LEAF]
        leaves[:, tree] = node
    return leaves


def native_margins(forest: Forest, X: FloatArray) -> npt.NDArray[Any]:
    """Compute margins as the native library adds them: intercept first or last, trees in order, native floats."""
    leaves = find_leaves(forest, X)
    float_type = forest.arithmetic
    value = forest.leaf_vectors().astype(float_type)
    intercept = forest.intercept.astype(float_type)
    margins = np.tile(np.zeros_like(intercept) if forest.intercept_last else intercept, (len(X), 1))
    for tree in range(forest.n_trees):
        margins += value[leaves[:, tree]]
    return margins + intercept if forest.intercept_last else margins


def category_codes(rule: CategoryRule, x: FloatArray, n_known: int | None = None) -> FloatArray:
    """Return category codes of raw numbers: -1 for unseen, NaN for missing, else an integer."""
    with np.errstate(invalid="ignore"):
        if rule is CategoryRule.EXACT:
            valid = (x >= 0) & (x < XGBOOST_MAX_CATEGORY)
            codes = np.where(valid, np.floor(np.where(valid, x, 0)), -1.0)
        elif rule is CategoryRule.TRUNCATE:
            codes = np.trunc(np.where(np.isfinite(x), x, -1.0))
            codes = np.where((codes < 0) | (codes >= 2**31), -1.0, codes)
        else:
            known = (x >= 0) & (x == np.floor(x)) & (x < (n_known or 0))
            codes = np.where(known, x, np.nan)
    return np.where(np.isnan(x), np.nan, codes)


def cast_value(comparison: Comparison, x: FloatArray) -> FloatArray:
    """Cast input values to the type that the native comparison uses."""
    if comparison is Comparison.FLOAT64_LESS_EQUAL:
        return x
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(np.float64)


def _goes_left(forest: Forest, node: IntArray, x: FloatArray) -> BoolArray:
    rule = forest.missing[node]
    x = cast_value(forest.comparison, x)
    if forest.snaps_to_zero:
        x = np.where(np.abs(x) <= LIGHTGBM_ZERO, 0.0, x)
    is_nan = np.isnan(x)
    compared = np.where(is_nan & (rule == MissingRule.NAN_IS_ZERO), 0.0, x)
    threshold = forest.threshold[node]
    left = compared < threshold if forest.comparison is Comparison.FLOAT32_LESS else compared <= threshold
    follows_default = (is_nan & (rule != MissingRule.NAN_IS_ZERO)) | (
        (x == 0.0) & (rule == MissingRule.ZERO_IS_MISSING)
    )
    left = np.where(follows_default, forest.default_left[node], left)
    for split in np.unique(node[forest.kind[node] == SplitKind.CATEGORICAL]):
        here = node == split
        left[here] = _category_goes_left(forest, int(split), x[here])
    return left


def _category_goes_left(forest: Forest, node: int, x: FloatArray) -> BoolArray:
    known = forest.feature_categories[forest.feature[node]] if forest.feature_categories else None
    codes = category_codes(forest.category_rule, x, len(known) if known else None)
    in_set = np.isin(codes, forest.categories_of(node))
    left = in_set == forest.set_left[node]
    return np.asarray(np.where(np.isnan(codes), forest.default_left[node], left), dtype=bool)
