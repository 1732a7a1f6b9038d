"""Categories of a table as the codes that the trees know.

In come raw category values, or a frame's own codes; out go codes as floats, NaN for missing.
Unknown values become what the library makes of them: missing, or an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.parsers.traits import Reader, traits_of
from pine_boost.tables.numbers import is_missing
from pine_boost.tables.schema import InputSchema, listing


def recode(
    own_codes: IntArray, own_values: Sequence[Any], known: Sequence[Any], schema: InputSchema,
    label: str,
) -> FloatArray:  # fmt: skip
    """Codes of a categorical column, by value and whatever the order of its own categories.

    ``own_codes`` are positions in ``own_values``, negative for missing. XGBoost compares them, and
    not the model's codes, with its ``missing=``.
    """
    used = np.unique(own_codes[own_codes >= 0])
    if schema.reader is Reader.XGBOOST and not all(isinstance(v, str) for v in own_values):
        used = np.arange(len(own_values))  # it refuses an unknown number even if no row has it
    table = np.full(len(own_values) + 1, np.nan)  # the last for missing
    table[used] = code_of(np.array(own_values, dtype=object)[used], known, schema, label)
    codes: FloatArray = table[np.where(own_codes < 0, len(own_values), own_codes)]
    if not np.isnan(schema.missing_value):
        codes[own_codes == schema.missing_value] = np.nan
    return codes


def code_of(
    values: npt.NDArray[Any], known: Sequence[Any], schema: InputSchema, label: str
) -> FloatArray:
    """Codes of raw category values; what the library does with unknown ones."""
    if values.dtype.kind in "fiub":
        if known and all(isinstance(category, str) for category in known):
            raise refuse_unencoded(str(values.dtype), known, label)
        distinct, inverse = np.unique(values, return_inverse=True)
        return code_of(distinct.astype(object), known, schema, label)[inverse]
    code_of_value = {_key(category): float(code) for code, category in enumerate(known)}
    codes, traits = np.full(len(values), np.nan), traits_of(schema.library)
    for row, value in enumerate(values):
        if is_missing(value):
            continue
        code = code_of_value.get(_key(value))
        if code is not None:
            codes[row] = code
        elif traits.refuses_unknown_categories:
            raise InvalidInputError(
                f"The {label} holds {value!r}, a category the model was not trained on; it knows "
                f"{listing(known)}. {traits.title} refuses it as well."
            )
        # LightGBM and HistGradientBoosting turn an unknown category into missing
    return codes


def refuse_unencoded(found: str, known: Sequence[Any], label: str) -> InvalidInputError:
    """The refusal of plain values where the model was trained on a categorical column."""
    return InvalidInputError(
        f"The {label} has dtype {found}, but the model was trained on a pandas categorical with "
        f"the values {listing(known)}; use .astype('category')."
    )


def refuse_unstored(label: str) -> InvalidInputError:
    """The refusal of a categorical column for which the model stores no categories."""
    return InvalidInputError(
        f"The {label} is categorical, but the model stores no categories for it; pass the codes "
        "it was trained on as numbers."
    )


def _key(value: Any) -> Any:
    """1, 1.0, np.int64(1) and True are one category, for pandas as for scikit-learn; "1" is not."""
    return value.item() if isinstance(value, np.generic) else value
