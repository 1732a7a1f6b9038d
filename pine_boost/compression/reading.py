"""Read a model and two tables for compression, and count changed rows by segment.

Raises for kinds whose leaves cannot be changed, for a missing tolerance, and for validation rows that were seen before.
The bounds of segments hold one at a time, not all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.certificate.claims import MEASURED, NOT_VALIDATED, VALIDATED
from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.record import Segment
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.forest import BoolArray, FloatArray, Model
from pine_boost.model.links import VOTES
from pine_boost.native.child_process import try_in_child
from pine_boost.native.predict import require_library
from pine_boost.options import AccelerateOptions, CompressOptions
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import raw_values
from pine_boost.tables.numbers import is_missing
from pine_boost.tables.overlap import Overlap, Spent, count_overlap, hashes_of, refuse_spent
from pine_boost.tables.rows import AnyRows, MemoryRows, Rows, open_rows
from pine_boost.tables.schema import InputSchema, schema_of

_FEWEST_FIT_ROWS = 20
_MOST_SEGMENTS = 50


@dataclass(frozen=True, eq=False)
class Tables:
    """Both tables as the trees see them.

    ``X_val`` is as the user gave it, for the native library; the rows themselves where they are
    read in chunks. ``labels`` are those of the segments by their name.
    """

    fit: AnyRows
    val: AnyRows
    X_val: Any
    overlap: Overlap
    labels: Mapping[str, Iterable[Any]]

    def segments(self, changed: BoolArray, confidence: float) -> tuple[Segment, ...]:
        """Changed rows of X_val by segment, largest segments first."""
        return count_segments(self.labels, changed, confidence)

    def status(self, *, has_passed: bool, promise: str = VALIDATED) -> str:
        """What may be said of a test on X_val."""
        if not has_passed:
            return NOT_VALIDATED
        return MEASURED if self.overlap.is_evident else promise


def read_for_compression(model: Any, options: CompressOptions) -> Model:
    """Parse a model; raise if it cannot be compressed as asked."""
    parsed = read_model(model, threshold=options.threshold, decision="value")
    require_library(parsed)
    try_in_child(parsed)
    forest = parsed.forest
    if forest.objective == VOTES:
        raise UnsupportedModelError(
            "AdaBoost's trees vote with one weight each, so their leaves cannot be changed one by "
            "one. prune_booster drops whole trees of it."
        )
    require_tolerance(parsed, options.tolerance)
    if forest.decides and options.tolerance is not None and options.tolerance >= 1:
        raise InvalidInputError(
            f"tolerance must be below 1 for a classifier, got {options.tolerance!r}: a probability cannot move by "
            "more. Pass a smaller number, or none to keep only the class."
        )
    return parsed


def require_tolerance(parsed: Model, tolerance: float | None) -> None:
    """Refuse a model of values without the distance by which they may move."""
    if not parsed.forest.decides and tolerance is None:
        raise InvalidInputError(
            f"This model ({parsed.kind}, {parsed.forest.objective}) predicts a value, not a class: "
            "pass tolerance (the most that its raw value may move), or threshold for a decision.",
            option=("tolerance", "threshold"),
        )


def read_tables(
    parsed: Model,
    X_fit: Any,
    X_val: Any,
    options: CompressOptions | AccelerateOptions,
    spent: Spent | None = None,
    name: str = "X_val",
) -> Tables:
    """The rows of both tables; refuses validation rows that were evidently seen before, by a survey too.

    ``name`` is what the caller's user calls X_val; a survey calls it X_look and has no ``allow_overlap``.
    """
    schema = schema_of(parsed.forest)
    fit, val = open_rows(X_fit, schema, "X_fit"), open_rows(X_val, schema, name)
    if fit.n_rows < _FEWEST_FIT_ROWS:
        raise InvalidInputError(
            f"X_fit has {fit.n_rows} rows; at least {_FEWEST_FIT_ROWS} are needed. The rows that "
            "the model was trained on will do.",
            option="X_fit",
        )
    if val.n_rows == 0:
        raise InvalidInputError(f"{name} has no rows; pass rows that nothing has seen.", option=name)
    overlap = count_overlap(hashes_of(fit), hashes_of(val))
    if overlap.is_evident and not options.allow_overlap:
        instead = ", or allow_overlap=True for a result that is only MEASURED" if name == "X_val" else ""
        raise InvalidInputError(
            f"{overlap.n_seen} of the {val.n_rows} rows of {name} also occur in X_fit (about "
            f"{overlap.n_expected:.0f} would by chance): rows that were seen before say nothing about future inputs. "
            f"Pass held-out rows{instead}.",
            option=(name, "X_fit", "allow_overlap"),
        )
    asked = X_val if isinstance(val, MemoryRows) else val
    labels = {name: _labels(given, asked, schema) for name, given in by_name(options.segments).items()}
    tables = Tables(fit, val, asked, overlap, labels)
    tables.segments(np.zeros(val.n_rows, bool), options.confidence)  # refuses labels now and not after the search
    if spent is not None:
        refuse_spent(spent, hashes_of(val), "X_val")
    return tables


def by_name(segments: Any) -> Mapping[str, Any]:
    """Named divisions of the rows; a single one has no name."""
    if segments is None:
        return {}
    return segments if isinstance(segments, Mapping) else {"": segments}


def count_segments(labels: Mapping[str, Iterable[Any]], changed: BoolArray, confidence: float) -> tuple[Segment, ...]:
    """Changed rows by label, one label per row, for one or several named divisions of the rows."""
    segments = []
    for name, given in labels.items():
        own = np.array([_name(label) for label in given])
        if len(own) != len(changed):
            raise InvalidInputError(
                f"segments has {len(own)} labels for {len(changed)} rows of X_val; pass one label "
                "per row, a column of the table, or a mapping of such.",
                option=("segments", "X_val"),
            )
        texts, counts = np.unique(own, return_counts=True)
        if len(texts) > _MOST_SEGMENTS:
            raise InvalidInputError(
                f"segments has {len(texts)} different labels; at most {_MOST_SEGMENTS} are accepted. Group them first.",
                option="segments",
            )
        for index in np.argsort(-counts, kind="stable"):
            text, n_rows, n_changed = texts[index], int(counts[index]), int(changed[own == texts[index]].sum())
            bound = lower_bound(n_changed, n_rows, confidence)
            segments.append(Segment(f"{name}: {text}" if name else str(text), n_rows, n_changed, bound))
    return tuple(segments)


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
