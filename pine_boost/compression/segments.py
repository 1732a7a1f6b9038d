"""Segments of the validation rows: how many rows of each changed, with an exact bound for each.

The bounds hold one at a time, not all at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.record import Segment
from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray
from pine_boost.tables.matrix import raw_values
from pine_boost.tables.numbers import is_missing
from pine_boost.tables.rows import Rows, open_rows
from pine_boost.tables.schema import InputSchema

_MOST_SEGMENTS = 50
_SHOWN_SEGMENTS = 5


def find_segments(
    given: Any, X_val: Any, schema: InputSchema, changed: npt.NDArray[np.bool_], confidence: float
) -> tuple[Segment, ...]:
    """Changed rows by segment, largest segments first; none without ``given``."""
    if given is None:
        return ()
    named = given if isinstance(given, Mapping) else {"": given}
    return count_segments({name: _labels(labels, X_val, schema) for name, labels in named.items()}, changed, confidence)


def count_segments(
    labels: Mapping[str, Iterable[Any]], changed: npt.NDArray[np.bool_], confidence: float
) -> tuple[Segment, ...]:
    """Changed rows by label, one label per row, for one or several named divisions of the rows."""
    return tuple(
        segment
        for name, own in labels.items()
        for segment in _count(
            np.array([_name(label) for label in own]), changed, confidence, f"{name}: " if name else ""
        )
    )


def _labels(given: Any, X_val: Any, schema: InputSchema) -> Iterable[Any]:
    if isinstance(given, (str, int, np.integer)):
        feature = schema.index_of(given if isinstance(given, str) else int(given))
        rows = X_val if isinstance(X_val, Rows) else open_rows(X_val, schema, "X_val")
        chunks = rows.map_values(partial(_cells, schema, feature))
        return np.concatenate([np.zeros(0, dtype=str), *chunks])
    return given  # type: ignore[no-any-return]  # one label per row, counted below


def _cells(schema: InputSchema, feature: int, matrix: FloatArray) -> npt.NDArray[Any]:
    return np.array([_name(value) for value in raw_values(matrix, schema)[:, feature]])


def _name(label: Any) -> str:
    return "missing" if is_missing(label) else str(label)


def segments_in_words(segments: Sequence[Segment], confidence: float | None) -> list[str]:
    """A line each for those with the lowest bounds, and where the others are; none without any.

    Without ``confidence``, where rows were seen before, there is no bound to speak of.
    """
    lowest = sorted(segments, key=lambda segment: segment.bound)[:_SHOWN_SEGMENTS]
    lines = []
    for segment in lowest:
        line = f"Segment {segment.name}: {segment.n_changed} of {segment.n_rows} rows changed"
        if confidence is not None:
            floored = math.floor(1e4 * segment.bound) / 1e4
            line += f", {floored:.4f} or more kept (taken alone, confidence {confidence:g})"
        lines.append(f"{line}.")
    if len(segments) > len(lowest):
        others = len(segments) - len(lowest)
        lines.append(f"{others} more with higher bounds are in the record (compression.json).")
    return lines


def _count(labels: npt.NDArray[Any], changed: npt.NDArray[np.bool_], confidence: float, prefix: str) -> list[Segment]:
    if len(labels) != len(changed):
        raise InvalidInputError(
            f"segments has {len(labels)} labels for {len(changed)} rows of X_val; pass one label "
            "per row, a column of the table, or a mapping of such.",
            option=("segments", "X_val"),
        )
    names, counts = np.unique(labels, return_counts=True)
    if len(names) > _MOST_SEGMENTS:
        raise InvalidInputError(
            f"segments has {len(names)} different labels; at most {_MOST_SEGMENTS} are accepted. Group them first.",
            option="segments",
        )
    segments = []
    for index in np.argsort(-counts, kind="stable"):
        n_rows, n_changed = int(counts[index]), int(changed[labels == names[index]].sum())
        bound = lower_bound(n_changed, n_rows, confidence)
        segments.append(Segment(f"{prefix}{names[index]}", n_rows, n_changed, bound))
    return segments
