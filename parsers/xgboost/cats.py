"""The category values that XGBoost 3.x stores beside the trees (pandas, polars, arrow input).

In comes the section "cats"; out goes a checked `Cats`, whose values in order are the codes.
Refuses inconsistent tables, floats, and names that are not ASCII (XGBoost stores those cut).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.parsers.xgboost import fields
from pine_boost.parsers.xgboost.fields import fault

# XGBoost's number for the type of category values; it cannot save the unsigned types that are missing here
_VALUE_TYPES = {9: np.int8, 10: np.uint8, 11: np.int16, 13: np.int32, 15: np.int64}


@dataclass(frozen=True, eq=False)
class Cats:
    """Per feature its category values (empty: none), and the section in a form to write again."""

    values: tuple[tuple[Any, ...], ...]
    section: dict[str, Any]


def read_cats(value: Any, n_features: int, *, typed: bool) -> Cats:
    """Check the section; an empty one means that the model was trained on bare codes."""
    section = fields.as_section(value, "cats")
    fields.check_names(section, "cats", ("enc", "feature_segments", "sorted_idx"))
    encodings = fields.as_list(section["enc"], "cats, enc")
    segments = fields.as_array(section["feature_segments"], "cats, feature_segments", np.int32, typed=typed).astype(
        np.int64
    )
    order = fields.as_array(section["sorted_idx"], "cats, sorted_idx", np.int32, typed=typed).astype(np.int64)
    if not encodings:
        if len(order) or np.any(segments != 0) or len(segments) not in (0, n_features + 1):
            raise fault("cats", "has segments without category values")
        values: tuple[tuple[Any, ...], ...] = ()
        written: list[dict[str, Any]] = []
    else:
        if len(encodings) != n_features:
            raise fault("cats", f"has {len(encodings)} features, expected {n_features}")
        pairs = [_read_encoding(item, i, typed) for i, item in enumerate(encodings)]
        values = tuple(pair[0] for pair in pairs)
        written = [pair[1] for pair in pairs]
        counts = np.array([len(v) for v in values])
        _check_order(counts, segments, order)
    return Cats(
        values, {"enc": written, "feature_segments": segments.astype(np.int32), "sorted_idx": order.astype(np.int32)}
    )


def _check_order(counts: npt.NDArray[np.int64], segments: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
    expected = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(segments, expected) or len(order) != expected[-1]:
        raise fault("cats", "has segments that do not match its category values")
    feature = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(order)) - segments[feature]
    sorted_order = order[np.lexsort((order, feature))]
    if not np.array_equal(sorted_order, within):
        raise fault("cats", "has a sorted_idx that is no permutation of its category values")


def _read_encoding(value: Any, feature: int, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    where = f"cats, enc of feature {feature}"
    section = fields.as_section(value, where)
    if "offsets" in section:
        return _read_names(section, where, typed)
    fields.check_names(section, where, ("type", "values"))
    kind = fields.as_integer(section["type"], f"{where}, type", 0, 255)
    if kind not in _VALUE_TYPES:
        raise fault(f"{where}, type", f"is {kind}, not one of {sorted(_VALUE_TYPES)}")
    numbers = fields.as_array(section["values"], f"{where}, values", _VALUE_TYPES[kind], typed=typed)
    if len(np.unique(numbers)) != len(numbers):
        raise fault(f"{where}, values", "holds a value twice")
    return tuple(numbers.tolist()), {"type": kind, "values": numbers}


def _read_names(section: dict[str, Any], where: str, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    fields.check_names(section, where, ("offsets", "values"))
    offsets = fields.as_array(section["offsets"], f"{where}, offsets", np.int32, typed=typed).astype(np.int64)
    letters = fields.as_array(section["values"], f"{where}, values", np.int8, typed=typed).astype(np.int64)
    written = {"offsets": offsets.astype(np.int32), "values": letters.astype(np.int8)}
    if len(offsets) == len(letters) == 0:
        return (), written
    if np.any((letters < -128) | (letters > 127)):
        raise fault(where, "holds a byte outside -128..127")
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(letters):
        raise fault(where, "has offsets that do not span its text")
    if np.any(np.diff(offsets) < 0):
        raise fault(where, "has offsets that go back")
    if np.any(letters < 0):
        # 3.2 counts characters where it should count bytes, so that 'é' is stored as half of it
        raise UnsupportedModelError(
            "XGBoost stores category names that are not ASCII incompletely, so the category of an "
            "input cannot be told; rename the categories to ASCII and retrain."
        )
    text = letters.astype(np.uint8).tobytes().decode("ascii")
    names = tuple(text[a:b] for a, b in pairwise(offsets))
    if len(set(names)) != len(names):
        raise fault(where, "holds a name twice")
    return names, written
