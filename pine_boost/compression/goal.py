"""What must not change: the class, the probability within a tolerance, or the value within one; or a mean loss.

A `Goal` compares margins, which is an estimate, and native answers, which decide; a `Loss` compares answers and labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from pine_boost.compression.fixed_sequence import bet
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.forest import BoolArray, FloatArray, Forest, Model
from pine_boost.model.links import probabilities_of
from pine_boost.native.predict import asked_in_chunks, predict_classes, predict_margins, predict_probabilities
from pine_boost.options import CompressOptions
from pine_boost.result import classes_of

ERROR, BRIER, SQUARED, COSTS = LOSSES = ("error", "brier", "squared", "costs")
NO_COUNTS: dict[str, Any] = {"n_lost": None, "n_gained": None, "e_value": None}  # what is counted without labels


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of some rows; ``classes`` or ``numbers`` is None where the goal does not compare them."""

    classes: npt.NDArray[Any] | None
    numbers: FloatArray | None


@dataclass(frozen=True, eq=False)
class Goal:
    """What a smaller model has to keep.

    Attributes
    ----------
    forest : Forest
        The original.
    tolerance : float or None
        How far a probability (with classes) or the value (without) may move.
    """

    forest: Forest
    tolerance: float | None = None

    @property
    def keeps_class(self) -> bool:
        """False for models without classes."""
        return self.forest.decides

    @property
    def n_summands(self) -> int:
        """What the native library divides a sum by: the trees of an average, else 1."""
        return 1 if self.forest.free_intercept else self.forest.n_trees

    def answers(self, margins: FloatArray) -> Answers:
        """The answers that margins stand for."""
        if not self.keeps_class:
            return Answers(None, margins / self.n_summands)
        numbers = None if self.tolerance is None else probabilities_of(self.forest, margins)
        return Answers(self.forest.decision.classes(margins), numbers)

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
        classes = asked_in_chunks(predict_classes, model, X, check) if self.keeps_class else None
        numbers = None
        if self.tolerance is not None:
            numbers = asked_in_chunks(_probabilities if self.keeps_class else _values, model, X, check)
        return Answers(classes, numbers)

    def differ(self, before: Answers, after: Answers) -> BoolArray:
        """Rows whose class changed, or whose number moved by more than the tolerance."""
        parts = []
        if before.classes is not None and after.classes is not None:
            parts.append(before.classes != after.classes)
        if self.tolerance is not None and before.numbers is not None and after.numbers is not None:
            parts.append(np.abs(after.numbers - before.numbers).max(axis=1) > self.tolerance)
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
    return int(np.count_nonzero(asked_in_chunks(_distances, model, X, check) > distance))


def _probabilities(model: Model, X: Any) -> FloatArray:
    found = np.asarray(predict_probabilities(model, X), dtype=np.float64)
    return found.reshape(len(found), -1)


def _values(model: Model, X: Any) -> FloatArray:
    """Native raw values; of an average of trees the average and not the sum."""
    sums, _ = predict_margins(model, X)
    return np.asarray(sums / Goal(model.forest).n_summands)


def _distances(model: Model, X: Any) -> FloatArray:
    sums, _ = predict_margins(model, X)
    return model.forest.decision.distance(np.asarray(sums, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss between 0 and 1 for every row, given the labels.

    Attributes
    ----------
    kind : str
        One of `LOSSES`.
    labels : int64 or float64 (n_rows,)
        Class indices, or values for ``"squared"``.
    scale : float
        The error that counts as 1, for ``"squared"``.
    costs : float64 (n_classes, n_classes) or None
        Of a row by its label and its predicted class.
    """

    kind: str
    labels: Any
    scale: float = 1.0
    costs: FloatArray | None = None

    def of(self, answers: Answers) -> FloatArray:
        """The loss of each row."""
        rows = np.arange(len(self.labels))
        if self.kind == SQUARED:
            assert answers.numbers is not None
            return np.asarray(np.minimum(((answers.numbers[:, 0] - self.labels) / self.scale) ** 2, 1.0))
        if self.kind == BRIER:
            assert answers.numbers is not None
            missed = answers.numbers.copy()
            missed[rows, self.labels] -= 1.0
            return np.asarray(np.minimum((missed**2).sum(axis=1) / 2, 1.0))
        assert answers.classes is not None
        if self.costs is None:
            return np.asarray(answers.classes != self.labels, dtype=np.float64)
        return np.asarray(self.costs[self.labels, answers.classes])

    def count(self, before: FloatArray, after: FloatArray, max_loss: float | None) -> dict[str, Any]:
        """What the test uses: lost and gained rows, or the e-value."""
        if self.kind == ERROR:
            return {**NO_COUNTS, "n_lost": int((after > before).sum()), "n_gained": int((after < before).sum())}
        return {**NO_COUNTS, "e_value": None if max_loss is None else bet(after - before, max_loss)}


def read_loss(parsed: Model, options: CompressOptions, y_val: Any, n_rows: int) -> Loss | None:
    """The loss that was asked for, with its labels checked; None without labels."""
    if y_val is None:
        if options.max_loss is None:
            return None
        raise InvalidInputError(
            "max_loss needs the labels of X_val: pass y_val.", option=("max_loss", "y_val", "X_val")
        )
    is_matrix = not isinstance(options.loss, str)
    kind = COSTS if is_matrix else options.loss
    if (kind == SQUARED) == parsed.forest.decides:
        fits = "'error', 'brier' or a matrix of costs" if parsed.forest.decides else "'squared'"
        raise InvalidInputError(
            f"loss={options.loss!r} does not fit this model ({parsed.kind}); pass {fits}.", option="loss"
        )
    labels = np.asarray(y_val).reshape(-1)
    if kind == SQUARED:
        return Loss(kind, _finite(labels, n_rows), _scale(options))
    classes = classes_of(parsed, labels, n_rows)
    numbers = {label: index for index, label in enumerate(classes.tolist())}
    indices = np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)
    return Loss(kind, indices, 1.0, read_costs(options.loss, len(classes)) if is_matrix else None)


def read_costs(given: Any, n_classes: int) -> FloatArray:
    """A matrix of costs between 0 and 1, rows by label, columns by predicted class."""
    try:
        costs = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        costs = np.zeros(0)
    if costs.shape != (n_classes, n_classes) or not np.all((costs >= 0) & (costs <= 1)):
        raise InvalidInputError(
            f"loss must be 'error', 'brier', 'squared' or a matrix of {n_classes} x {n_classes} costs from 0 to 1 "
            "(rows by label, columns by predicted class). Divide your costs by the largest.",
            option="loss",
        )
    return costs


def _finite(labels: Any, n_rows: int) -> FloatArray:
    try:
        values = labels.astype(np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if len(values) != n_rows or not np.isfinite(values).all():
        raise InvalidInputError(
            f"y_val must hold one finite number for each of the {n_rows} rows of X_val.", option=("y_val", "X_val")
        )
    return np.asarray(values)


def _scale(options: CompressOptions) -> float:
    if options.loss_range is None:
        raise InvalidInputError(
            "loss='squared' needs loss_range, the error that counts as 1 (for example the range of the target): "
            "squared errors are divided by its square and cut off at 1.",
            option=("loss", "loss_range"),
        )
    return float(options.loss_range)


def default_tolerance(options: CompressOptions) -> float | None:
    """How far values may move on the path to a smaller model, where a loss of values was asked for and nothing else."""
    if options.tolerance is not None or options.max_loss is None or options.loss not in (BRIER, SQUARED):
        return options.tolerance
    return math.sqrt(options.max_loss) * (_scale(options) if options.loss == SQUARED else 1.0)
