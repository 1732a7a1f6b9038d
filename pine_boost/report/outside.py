"""Find the most plausible inputs outside the region on which the two models differ.

This is a random search: finding none proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model.forest import FloatArray, Model
from pine_boost.model.states import States, unique_rows
from pine_boost.native.predict import predict_classes
from pine_boost.region.explanation import Reason
from pine_boost.region.region import Region
from pine_boost.tables.matrix import raw_values
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import InputSchema

_STARTS = 1500
_CHANGES = 3  # features that are changed before the first look
_ROWS_PER_ROUND = 6000
_ROUNDS = 6
_DESCRIBED = 100
_SHOWN = 4


@dataclass(frozen=True)
class OutsideInput:
    """An input outside the region on which the models differ.

    Attributes
    ----------
    before, after : str
        The two native classes (or score bands).
    score, tau : int or None
        Its score, and the score at which the region ends.
    scale : int
        Integer units of score and tau per unit of the reasons.
    reasons : tuple of str
        What makes it implausible, largest contribution first.
    values : tuple of (str, str)
        Feature names and values.
    """

    before: str
    after: str
    score: int | None
    tau: int | None
    scale: int
    reasons: tuple[str, ...]
    values: tuple[tuple[str, str], ...]


def find_outside(
    original: Model,
    pruned: Model,
    region: Region,
    states: npt.NDArray[Any],
    matrix: FloatArray | None = None,
    budget: Budget | None = None,
) -> tuple[OutsideInput, ...]:
    """Find inputs outside the region on which the native classes differ, most plausible first.

    Values are taken from rows of ``matrix`` that have the state in question, if there are any. The
    search stops improving what it found when the time of ``budget`` is over.
    """
    budget = budget or Budget()
    if len(states) == 0 or (region.tau is None and region.delta is None):
        return ()
    look = _Look(original, pruned, region, _typical_values(region, matrix))
    random = np.random.default_rng(0)
    tried = [states[random.permutation(len(states))[:_STARTS]].astype(np.int32)]
    for _ in range(_CHANGES):
        tried.append(_with_one_change(region, tried[-1], random))
    found = look.differing(np.concatenate(tried))
    for _ in range(_ROUNDS):
        best = look.nearest(found, 8)
        if len(best) == 0 or budget.is_over:
            break
        found = np.concatenate([found, look.differing(_with_one_change(region, best, random))])
        found = found[unique_rows(found)[0]]
    return look.describe(found)


@dataclass(frozen=True)
class _Look:
    original: Model
    pruned: Model
    region: Region
    values: tuple[FloatArray, ...]

    def matrix(self, states: States) -> FloatArray:
        return np.stack([values[states[:, feature]] for feature, values in enumerate(self.values)], axis=1)

    def table(self, states: States) -> Any:
        return as_table(self.matrix(states), self.region.schema)

    def classes(self, states: States) -> list[npt.NDArray[np.int64]]:
        return [predict_classes(model, self.table(states)) for model in (self.original, self.pruned)]

    def differing(self, states: States) -> States:
        """The states outside the region for which the native classes differ."""
        states = states[unique_rows(states)[0]]
        # not every native predict accepts infinity
        states = states[np.isfinite(np.nan_to_num(self.matrix(states), nan=0.0)).all(axis=1)]
        if len(states) == 0:
            return states
        before, after = self.classes(states)
        outside = ~self.region.contains(self.table(states), model=self.original.forest)
        return np.asarray(states[(before != after) & outside])

    def nearest(self, states: States, limit: int) -> States:
        if self.region.score_tables is not None:
            states = states[np.argsort(self.region.score_tables.score(states), kind="stable")]
        return states[:limit]

    def describe(self, states: States) -> tuple[OutsideInput, ...]:
        """The most plausible with different reasons; at most half of them near the decision boundary."""
        plausible = self.region.tables.contains(states)
        undecided = self.distinct(self.nearest(states[plausible], _DESCRIBED), _SHOWN // 2)
        return undecided + self.distinct(self.nearest(states[~plausible], _DESCRIBED), _SHOWN - len(undecided))

    def distinct(self, states: States, limit: int) -> tuple[OutsideInput, ...]:
        chosen: dict[tuple[str, ...], OutsideInput] = {}
        if len(states):
            for state, before, after in zip(states, *self.classes(states), strict=True):
                if len(chosen) < limit:
                    reason, entry = self.words(state[None], int(before), int(after))
                    chosen.setdefault(reason, entry)
        return tuple(chosen.values())

    def words(self, state: States, before: int, after: int) -> tuple[tuple[str, ...], OutsideInput]:
        """The features of the first reason, and the input in words."""
        schema, tables = self.region.schema, self.region.score_tables
        explained = self.region.explain(self.table(state), model=self.original.forest)
        values = raw_values(self.matrix(state), schema)[0]
        # if the score alone would include it, only its distance from the decision boundary excludes it
        reasons = explained.reasons[:3]
        score, tau = explained.score, explained.tau
        if tau is None or (score is not None and score <= tau):
            reasons = tuple(r for r in reasons if np.isinf(r.excess))
        entry = OutsideInput(
            before=_class_name(self.original, before),
            after=_class_name(self.pruned, after),
            score=score,
            tau=tau,
            scale=1 if tables is None else tables.scale,
            reasons=tuple(_unusual(reason, values, schema) for reason in reasons),
            values=tuple((schema.name_of(j), _value(value)) for j, value in enumerate(values)),
        )
        return next((reason.features for reason in explained.reasons if reason.features), ()), entry


def _typical_values(region: Region, matrix: FloatArray | None) -> tuple[FloatArray, ...]:
    """A value for every state of every feature: the median of the rows, else a representative."""
    space = region.space
    width = int(space.n_states.max())
    grid = np.minimum(np.arange(width)[:, None], space.n_states[None] - 1).astype(np.int32)
    plain = space.representative(grid)
    values = [plain[:count, feature].copy() for feature, count in enumerate(space.n_states)]
    if matrix is not None and len(matrix):
        states = space.states(matrix)
        for feature, known in enumerate(values):
            for state in np.unique(states[:, feature]):
                own = np.sort(matrix[states[:, feature] == state, feature])
                known[state] = own[len(own) // 2]
    return tuple(values)


def _unusual(reason: Reason, values: npt.NDArray[Any], schema: InputSchema) -> str:
    """A reason with the values of the input."""
    if not reason.features or np.isinf(reason.excess):
        return reason.text
    position = {schema.name_of(feature): feature for feature in range(schema.n_features)}
    pairs = [f"{name} = {_value(values[position[name]])}" for name in reason.features]
    together = " together with ".join(pairs)
    return f"{together} (adds {reason.excess:.2f} to the score)"


def _class_name(model: Model, index: int) -> str:
    if model.forest.decision.thresholds:
        return f"score band {index}"
    classes = model.forest.classes
    return str(classes[index]) if index < len(classes) else str(index)


def _value(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "missing" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def _with_one_change(region: Region, states: States, random: np.random.Generator) -> States:
    """Random copies of rows, each with one feature changed to a state that the domain permits."""
    changed = states[random.integers(len(states), size=_ROWS_PER_ROUND)]
    free = [j for j, allowed in enumerate(region.tables.allowed) if np.count_nonzero(allowed) > 1]
    part = random.integers(max(len(free), 1), size=len(changed))
    for number, feature in enumerate(free):
        rows = np.flatnonzero(part == number)
        changed[rows, feature] = random.choice(np.flatnonzero(region.tables.allowed[feature]), len(rows))
    return changed
