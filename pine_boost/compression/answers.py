"""What the two native models answer on the validation rows, and on which rows they differ.

In come parsed models and a table; out go native classes, probabilities or raw values, and the rows
that changed by more than was agreed. The native library is the only truth here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.native.chunks import asked_in_chunks
from pine_boost.native.predict import load_native, predict_classes, predict_margins
from pine_boost.native.probabilities import predict_probabilities


@dataclass(frozen=True)
class Question:
    """What is compared: classes unless the model has none, numbers where a tolerance is given."""

    keeps_class: bool
    tolerance: float | None


@dataclass(frozen=True, eq=False)
class Answers:
    """Native answers; ``classes`` or ``numbers`` is None where nobody asked."""

    classes: IntArray | None
    numbers: FloatArray | None


def ask(model: Model, X: Any, question: Question) -> Answers:
    """Ask the native library about a table or rows in chunks; a file is loaded as checked."""
    model = replace(model, native=load_native(model))
    classes = asked_in_chunks(predict_classes, model, X) if question.keeps_class else None
    numbers = None
    if question.tolerance is not None:
        asked = probabilities if question.keeps_class else values
        numbers = asked_in_chunks(asked, model, X)
    return Answers(classes, numbers)


def probabilities(model: Model, X: Any) -> FloatArray:
    """Native probabilities, one column per class."""
    loaded = replace(model, native=load_native(model))
    found = np.asarray(predict_probabilities(loaded, X), dtype=np.float64)
    return found.reshape(len(found), -1)


def values(model: Model, X: Any) -> FloatArray:
    """Native raw values; of an average of trees the average and not the sum."""
    sums, _ = predict_margins(model, X)
    n_trees = 1 if model.forest.free_intercept else model.forest.n_trees
    return np.asarray(sums / n_trees)


def count_beyond(model: Model, X: Any, distance: float) -> int:
    """Rows whose native margin is farther than a distance from the decision."""
    loaded = replace(model, native=load_native(model))
    return int(np.count_nonzero(asked_in_chunks(_distances, loaded, X) > distance))


def _distances(model: Model, X: Any) -> FloatArray:
    sums, _ = predict_margins(model, X)
    return model.forest.decision.distance(np.asarray(sums, dtype=np.float64))


def differ(before: Answers, after: Answers, question: Question) -> npt.NDArray[np.bool_]:
    """Rows whose class changed, or whose number moved by more than the tolerance."""
    changed = np.zeros(0, dtype=bool)
    if before.classes is not None and after.classes is not None:
        changed = before.classes != after.classes
    tolerance = question.tolerance
    if tolerance is not None and before.numbers is not None and after.numbers is not None:
        moved = np.abs(after.numbers - before.numbers).max(axis=1) > tolerance
        changed = moved if len(changed) == 0 else changed | moved
    return np.asarray(changed)


def probabilities_or_none(model: Model, X: Any) -> FloatArray | None:
    """Native probabilities; None for models that give none, as regressors with a threshold."""
    if not model.forest.classes:
        return None
    try:
        return asked_in_chunks(probabilities, model, X)
    except UnsupportedModelError:
        return None
