"""Compare another engine with the native model at every threshold and category of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.exact import certain_distance, summation_band
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.states import build_space
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.tables.matrix import raw_values, to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

# Labels (None for a value) and margins of a matrix.
Engine = Callable[[FloatArray], tuple[npt.NDArray[Any] | None, FloatArray]]


def require_agreement(model: Model, run: Engine, X_fit: Any, *, codes: bool, engine: str) -> None:
    """Compare an engine with the native model.

    Parameters
    ----------
    model : Model
    run : callable
        Maps a float64 matrix in the engine's form to labels and margins.
    X_fit : table or None
        The caller's own rows.
    codes : bool
        Whether the engine takes category codes instead of the integers of the native table.
    engine : str
        Name of the engine in error messages.

    Raises
    ------
    UnsupportedModelError
        They disagree.
    """
    schema = schema_of(model.forest)
    matrices = [edge_rows(model.forest)]
    if X_fit is not None:
        matrices.append(to_matrix(X_fit, schema))
    for matrix in matrices:
        table = as_table(matrix, schema)
        fed = matrix if codes else raw_values(matrix, schema).astype(np.float64)
        labels, margins = run(fed)
        _compare(model, matrix, table, (labels, margins), engine)


def _compare(
    model: Model, matrix: FloatArray, table: Any, found: tuple[npt.NDArray[Any] | None, FloatArray], engine: str
) -> None:
    forest = model.forest
    labels, margins = found
    native, blur = predict_margins(model, table)
    allowed = 2 * (certain_distance(forest) + summation_band(forest)) + blur
    apart = np.abs(margins.reshape(native.shape) - native).max(axis=1)
    wrong = ~(apart <= allowed)
    if labels is not None:
        expected = np.array(forest.classes, dtype=object)[predict_classes(model, table)]
        given = np.asarray(labels, dtype=object).reshape(-1)
        if not isinstance(forest.classes[0], (bool, int, float, np.generic)):
            expected = np.array([str(label) for label in expected], dtype=object)
        wrong |= expected != given
    if wrong.any():
        row = int(np.argmax(wrong))
        said = f"margin {margins.reshape(native.shape)[row].tolist()}"
        want = f"margin {native[row].tolist()}"
        if labels is not None:
            said, want = f"{given[row]!r} ({said})", f"{expected[row]!r} ({want})"
        raise UnsupportedModelError(
            f"{engine} gives {said} where the native model gives {want}, on the input "
            f"{_words(forest, matrix[row])}. The converted model was not returned; it differs on "
            f"{int(wrong.sum())} of {len(wrong)} rows that were compared."
        )


def edge_rows(forest: Forest, seed: int = 0) -> FloatArray:
    """Return rows that contain every state of every feature, and both sides of every threshold."""
    random = np.random.default_rng(seed)
    space = build_space(forest)
    possible = [
        np.flatnonzero(axis.reachable) if axis.reachable is not None else np.arange(axis.n_states)
        for axis in space.axes
    ]
    states = []
    for feature, mine in enumerate(possible):
        block = np.column_stack([random.choice(other, len(mine)) for other in possible])
        block[:, feature] = mine
        states.append(block)
    rows = space.representative(np.concatenate(states))
    edges = [rows]
    for feature in range(forest.n_features):
        values = _thresholds(forest, feature)
        moved = rows[random.integers(len(rows), size=len(values))]
        moved[:, feature] = values
        edges.append(moved)
    found = np.concatenate(edges)
    usable: FloatArray = found[~np.isinf(found).any(axis=1)]  # not every library accepts infinities
    return usable


def _thresholds(forest: Forest, feature: int) -> FloatArray:
    """Return the thresholds of a feature and their neighbours in the relevant float types."""
    mine = (forest.feature == feature) & (forest.kind == SplitKind.NUMERIC)
    at = np.unique(forest.threshold[mine])
    at = at[np.abs(at) < np.finfo(np.float32).max]
    beside = [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
        single = at.astype(np.float32)
        beside += [np.nextafter(single, np.float32(side)).astype(np.float64) for side in (np.inf, -np.inf)]
    if forest.comparison is Comparison.FLOAT32_LESS:  # the input itself is float32
        beside = [value.astype(np.float32).astype(np.float64) for value in beside]
    return np.concatenate(beside)


def _words(forest: Forest, row: FloatArray) -> str:
    used = np.unique(forest.feature[forest.kind != SplitKind.LEAF])
    shown = [f"{forest.name_of(int(j))}={float(row[j])!r}" for j in used[:20]]
    return ", ".join(shown) + (", ..." if len(used) > 20 else "")
