"""Rewrite splits for engines that can only compare, look up codes and use a default side.

The rewritten splits are equivalent to the library's own rules; a forest without such equivalents raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import BoolArray, FloatArray, Forest
from pine_boost.model.rules import CategoryRule, Comparison, MissingRule, SplitKind


def refuse_unsayable(forest: Forest, codes: bool, target: str) -> None:
    """Raise if ``target`` (Treelite, ONNX) cannot represent the splits.

    ``codes`` : the input will be category codes instead of the values of a table.
    """
    if not np.isnan(forest.missing_value):
        raise UnsupportedModelError(
            f"This model treats {forest.missing_value} as missing besides NaN, {target} only NaN; "
            "replace the value by NaN in the data and set missing=nan on the model."
        )
    zero_left = forest.threshold >= 0
    against = (
        (forest.kind == SplitKind.NUMERIC)
        & (forest.missing == MissingRule.ZERO_IS_MISSING)
        & (forest.default_left != zero_left)
    )
    if np.any(against):
        raise UnsupportedModelError(
            f"{np.count_nonzero(against)} nodes send zeros as missing against their comparison "
            f"(LightGBM zero_as_missing=true), which {target} would get wrong silently; retrain "
            "with zero_as_missing=false."
        )
    with_table = [
        column
        for column, known in enumerate(forest.feature_categories)
        if known is not None and not (forest.category_rule is CategoryRule.KNOWN and _are_whole(known))
    ]
    if with_table and not codes:
        names = ", ".join(forest.name_of(column) for column in with_table[:5])
        raise UnsupportedModelError(
            f"The model takes category values of a table for {names}, and {target} takes whole numbers only; pass "
            "codes=True and feed the position of each value in its list of categories (on the command line "
            "PATH.categories.json, which is written beside PATH), NaN for unknown values.",
            option="codes",
        )
    if codes and not any(known is not None for known in forest.feature_categories):
        raise InvalidInputError(
            "codes=True was given, but the model has no table of category values; leave it out.", option="codes"
        )


def _are_whole(values: Iterable[Any]) -> bool:
    return all(isinstance(value, (int, float)) and 0 <= value < 2**32 and value == int(value) for value in values)


def category_list(forest: Forest, node: int, codes: bool) -> tuple[list[int], bool]:
    """Return the set of a categorical node and whether it goes right."""
    members = forest.categories_of(node).tolist()
    in_set_goes_right = not bool(forest.set_left[node])
    if forest.category_rule is not CategoryRule.KNOWN:
        return members, in_set_goes_right
    known = forest.feature_categories[forest.feature[node]] or ()
    # Unknown categories follow default_left in scikit-learn and match no set in the engine: list the
    # categories of the other side, so that "no match" is the default side.
    others = sorted(set(range(len(known))) - set(members))
    left, right = (others, members) if in_set_goes_right else (members, others)
    goes_right = bool(forest.default_left[node])
    listed = right if goes_right else left
    return (listed if codes else [int(known[code]) for code in listed]), goes_right


def plain_comparisons(forest: Forest) -> tuple[FloatArray, BoolArray]:
    """Return thresholds and default sides for which a plain comparison equals the native one."""
    thresholds = forest.threshold.copy()
    default_left = forest.default_left.copy()
    if forest.snaps_to_zero:
        zero = LIGHTGBM_ZERO
        # |x| <= zero is 0.0 natively: all of it left if 0 <= threshold, all of it right otherwise
        thresholds[(thresholds >= 0) & (thresholds < zero)] = zero
        thresholds[(thresholds < 0) & (thresholds >= -zero)] = np.nextafter(-zero, -np.inf)
        is_zero = forest.missing == MissingRule.NAN_IS_ZERO
        numeric = forest.kind == SplitKind.NUMERIC
        default_left = np.where(is_zero & numeric, forest.threshold >= 0, default_left)
    if forest.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        # the libraries reject infinite inputs here, so the largest double separates as inf does,
        # and unlike inf, tl2cgen can write it as a C literal
        largest = np.finfo(np.float64).max
        thresholds = np.clip(thresholds, -largest, largest)
    return thresholds, default_left
