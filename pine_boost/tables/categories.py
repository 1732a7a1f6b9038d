"""Map the categories of a table to the codes that the trees compare.

Unknown categories become missing or raise, as in the native library. Boolean categories raise if the model was trained
on numbers, and the reverse, unless the library matches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.parsers.traits import Reader, plain_key, traits_of
from pine_boost.tables.numbers import is_missing
from pine_boost.tables.schema import InputSchema, listing


def recode(
    own_codes: IntArray, own_values: Sequence[Any], known: Sequence[Any], schema: InputSchema, label: str
) -> FloatArray:
    """Return the model's codes for a categorical column, matched by value and not by position.

    ``own_codes`` are positions in ``own_values``, negative for missing. XGBoost compares these
    codes, not the model's, with its ``missing=``.
    """
    if schema.reader is not Reader.LIGHTGBM or list(own_values) != list(known):
        check_booleans(own_values, known, schema, label)  # LightGBM keeps the codes of equal lists
    used = np.unique(own_codes[own_codes >= 0])
    if schema.reader is Reader.XGBOOST and not all(isinstance(v, str) for v in own_values):
        used = np.arange(len(own_values))  # XGBoost rejects an unknown number even if no row has it
    table = np.full(len(own_values) + 1, np.nan)  # the last entry is for missing
    table[used] = code_of(np.array(own_values, dtype=object)[used], known, schema, label)
    if schema.reader is Reader.CATBOOST and np.any(own_codes < 0):
        raise InvalidInputError(f"The {label} has missing categories, which CatBoost does not take; give them a name.")
    codes: FloatArray = table[np.where(own_codes < 0, len(own_values), own_codes)]
    if not np.isnan(schema.missing_value):
        codes[own_codes == schema.missing_value] = np.nan
    return codes


def code_of(values: npt.NDArray[Any], known: Sequence[Any], schema: InputSchema, label: str) -> FloatArray:
    """Return the codes of raw category values; unknown ones become missing or raise, as in the library."""
    if values.dtype.kind in "fiub":
        if known and all(isinstance(category, str) for category in known):
            raise refuse_unencoded(str(values.dtype), known, label)
        distinct, inverse = np.unique(values, return_inverse=True)
        return code_of(distinct.astype(object), known, schema, label)[inverse]
    code_of_value = {plain_key(category): float(code) for code, category in enumerate(known)}
    codes, traits = np.full(len(values), np.nan), traits_of(schema.library)
    for row, value in enumerate(values):
        if is_missing(value) and schema.reader is not Reader.CATBOOST:  # which takes no missing category
            continue
        code = code_of_value.get(traits.category_key(value))
        if code is not None:
            codes[row] = code
        elif traits.refuses_unknown_categories:
            # XGBoost 3.2, trained on the categories [1, 2], reads 0 of [0, 1] as 1
            native = (
                "refuses such numbers, or takes them for a category that it knows; convert them "
                "to the values of training or to missing"
            )
            if isinstance(value, str):
                native = "refuses it as well"
            raise InvalidInputError(
                f"The {label} holds {value!r}, a category the model was not trained on; it knows "
                f"{listing(known)}. {traits.title} {native}."
            )
        # LightGBM and HistGradientBoosting turn an unknown category into missing; CatBoost goes the same way for both
    return codes


def check_booleans(values: Sequence[Any], known: Sequence[Any], schema: InputSchema, label: str) -> None:
    """Raise if booleans meet numbers as categories and the library does not match the two.

    With LightGBM, pandas finds no boolean among numbers and no number among booleans, so every
    value would be missing. It does match them if one side mixes both or if numbers are stored as
    objects, but we raise in these cases too. XGBoost accepts no booleans at all.
    """
    own_kinds, known_kinds = _kinds(values), _kinds(known)
    if schema.reader is Reader.XGBOOST and "boolean" in own_kinds:
        reason = "XGBoost takes no booleans as categories"
    elif schema.reader is Reader.LIGHTGBM and (own_kinds, known_kinds) in (
        ({"boolean"}, {"number"}),
        ({"number"}, {"boolean"}),
    ):
        reason = "LightGBM would in most cases read every row as missing"
    else:
        return
    renaming = "bool" if known_kinds == {"boolean"} else "int"
    raise InvalidInputError(
        f"The {label} has the categories {listing(list(dict.fromkeys(values)))}, the model was "
        f"trained on {listing(known)}: {reason}. Convert the column to the values of training; "
        f"in pandas for example X[column].cat.rename_categories({renaming})."
    )


def _kinds(values: Sequence[Any]) -> set[str]:
    """Return the kinds of the values: boolean, number, other."""
    kinds = set()
    for kind in {type(value) for value in values}:
        if issubclass(kind, (bool, np.bool_)):
            kinds.add("boolean")
        else:
            kinds.add("number" if issubclass(kind, (int, float, np.number)) else "other")
    return kinds


def require_text(is_text: bool, found: str, known: Sequence[Any], schema: InputSchema, label: str) -> None:
    """Raise if a column holds numbers, booleans or dates but HistGradientBoosting was trained on text.

    Its encoder fails on any such column, even if all values are missing.
    """
    if schema.reader is Reader.HISTOGRAM and not is_text and known and all(isinstance(v, str) for v in known):
        raise InvalidInputError(
            f"The {label} has the type {found}, but the model was trained on the text categories {listing(known)} "
            "there, and HistGradientBoosting refuses anything else. Convert the column to text with the values of "
            "training, for example X[column].astype(str)."
        )


def refuse_unencoded(found: str, known: Sequence[Any], label: str) -> InvalidInputError:
    """Return the error for plain values in a column that was categorical in training."""
    return InvalidInputError(
        f"The {label} has dtype {found}, but the model was trained on a pandas categorical with "
        f"the values {listing(known)}; use .astype('category')."
    )


def refuse_unstored(label: str) -> InvalidInputError:
    """Return the error for a categorical column for which the model stores no categories."""
    return InvalidInputError(
        f"The {label} is categorical, but the model stores no categories for it; pass the codes "
        "it was trained on as numbers."
    )
