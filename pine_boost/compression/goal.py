"""What must not change: the class, the probability within a tolerance, or the value within one.

A `Goal` compares margins, which is an estimate, and native answers, which decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import BoolArray, FloatArray, Forest, Model
from pine_boost.model.links import probabilities_of
from pine_boost.native.predict import (
    asked_in_chunks,
    load_native,
    predict_classes,
    predict_margins,
    predict_probabilities,
)


@dataclass(frozen=True, eq=False)
class Answers:
    """Native answers; ``classes`` or ``numbers`` is None where the goal does not compare them."""

    classes: npt.NDArray[Any] | None
    numbers: FloatArray | None


@dataclass(frozen=True, eq=False)
class Goal:
    """What a smaller model has to keep.

    Attributes
    ----------
    forest : Forest
        The original.
    keeps_class : bool
        False for models without classes.
    tolerance : float or None
        How far a probability (with classes) or the value (without) may move.
    """

    forest: Forest
    keeps_class: bool
    tolerance: float | None

    @property
    def n_summands(self) -> int:
        """What the native library divides a sum by: the trees of an average, else 1."""
        return 1 if self.forest.free_intercept else self.forest.n_trees

    def changed(self, before: FloatArray, after: FloatArray) -> BoolArray:
        """Rows on which two lists of margins differ by more than the goal allows."""
        if not self.keeps_class:
            assert self.tolerance is not None
            moved = np.abs(after - before).max(axis=1) / self.n_summands
            return np.asarray(moved > self.tolerance)
        classes = self.forest.decision.classes
        changed = classes(before) != classes(after)
        if self.tolerance is not None:
            moved = probabilities_of(self.forest, after) - probabilities_of(self.forest, before)
            changed = changed | (np.abs(moved).max(axis=1) > self.tolerance)
        return np.asarray(changed)

    def distances(self, margins: FloatArray) -> FloatArray:
        """Distance of each row from the decision; 0 where all rows matter alike."""
        if not self.keeps_class or self.tolerance is not None:
            return np.zeros(len(margins))
        return self.forest.decision.distance(margins)

    def interval(self, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The range in which a sum that was ``distance`` has moved by at most half the tolerance."""
        if self.tolerance is None:
            return np.full(len(distance), -np.inf), np.full(len(distance), np.inf)
        half = self.tolerance / 2
        if not self.keeps_class or not self.forest.free_intercept:
            room = half * self.n_summands
            return distance - room, distance + room
        slope = self.forest.slope
        chance = expit(slope * distance)
        # a probability that would pass 0 or 1 gives no bound: its logit is infinite
        low, high = (logit(np.clip(chance + step, 0.0, 1.0)) / slope for step in (-half, half))
        return np.asarray(low), np.asarray(high)

    def native_answers(self, model: Model, X: Any, check: Callable[[], None] | None = None) -> Answers:
        """Predict a table natively, in chunks if it is larger than memory or if ``check`` is called between them."""
        model = replace(model, native=load_native(model))
        classes = asked_in_chunks(predict_classes, model, X, check) if self.keeps_class else None
        numbers = None
        if self.tolerance is not None:
            numbers = asked_in_chunks(_probabilities if self.keeps_class else _values, model, X, check)
        return Answers(classes, numbers)

    def differ(self, before: Answers, after: Answers) -> BoolArray:
        """Rows whose native class changed, or whose number moved by more than the tolerance."""
        return differ(before, after, self.tolerance)


def differ(before: Answers, after: Answers, tolerance: float | None) -> BoolArray:
    """Rows whose class changed, or whose number moved by more than the tolerance."""
    parts = []
    if before.classes is not None and after.classes is not None:
        parts.append(before.classes != after.classes)
    if tolerance is not None and before.numbers is not None and after.numbers is not None:
        parts.append(np.abs(after.numbers - before.numbers).max(axis=1) > tolerance)
    return np.asarray(np.logical_or.reduce(parts))


def native_probabilities(model: Model, X: Any, check: Callable[[], None] | None = None) -> FloatArray | None:
    """Native probabilities, one column per class; None for models that give none."""
    if not model.forest.classes:
        return None
    try:
        return asked_in_chunks(_probabilities, model, X, check)
    except UnsupportedModelError:
        return None


def count_beyond(model: Model, X: Any, distance: float, check: Callable[[], None] | None = None) -> int:
    """Rows whose native margin is farther than ``distance`` from the decision."""
    loaded = replace(model, native=load_native(model))
    return int(np.count_nonzero(asked_in_chunks(_distances, loaded, X, check) > distance))


def _probabilities(model: Model, X: Any) -> FloatArray:
    loaded = replace(model, native=load_native(model))
    found = np.asarray(predict_probabilities(loaded, X), dtype=np.float64)
    return found.reshape(len(found), -1)


def _values(model: Model, X: Any) -> FloatArray:
    """Native raw values; of an average of trees the average and not the sum."""
    sums, _ = predict_margins(model, X)
    n_trees = 1 if model.forest.free_intercept else model.forest.n_trees
    return np.asarray(sums / n_trees)


def _distances(model: Model, X: Any) -> FloatArray:
    sums, _ = predict_margins(model, X)
    return model.forest.decision.distance(np.asarray(sums, dtype=np.float64))
