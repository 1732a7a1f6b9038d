"""An attack: how far from the decision a plausible input was found whose class changes.

In come the original, the smaller shape and X_fit; out goes the farthest changed input that climbing
found, within the plausible region of X_fit. What it does not find may exist: never a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.compression.goal import Goal
from pine_boost.compression.search import Setting
from pine_boost.compression.shape import Shape, margins
from pine_boost.compression.validation import Validated
from pine_boost.model.forest import FloatArray
from pine_boost.model.routing import StateTrees, route
from pine_boost.region.scores.fit_score import fit_score
from pine_boost.tables.rows import AnyRows

_N_STARTS = 200
_N_ROUNDS = 80
_PLAUSIBLE = 0.95  # quantile of the scores of X_fit within which an input is plausible
_MOST_CELLS = 40_000_000  # rows x trees in all: a second or two
_MOST_FIT_ROWS = 20_000
_SHARE = 0.5  # of the time that is left
_ROWS_PER_SECOND = 1_000  # of limited time: fitting the score is one step that cannot be ended
_LEAST_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Attack:
    """What climbing found.

    Attributes
    ----------
    n_starts : int
        Rows of X_fit that it began with.
    distance : float or None
        Of the farthest input found whose class changes, from the original's decision in margin;
        None: none was found.
    row : float64 (n_features,) or None
        That input, categories as codes.
    """

    n_starts: int
    distance: float | None
    row: FloatArray | None


def attack(
    goal: Goal, setting: Setting, validated: Validated, fit: AnyRows, seed: int, budget: Budget
) -> Attack | None:
    """Climb from rows of X_fit; None for models without classes, without a smaller one or time."""
    if validated.written is None or not goal.keeps_class or budget.is_over:
        return None
    n_most = _MOST_FIT_ROWS
    if budget.is_limited:
        budget = budget.share(_SHARE)
        if budget.remaining < _LEAST_SECONDS:
            return None
        n_most = int(min(n_most, _ROWS_PER_SECOND * budget.remaining))
    random = np.random.default_rng([seed, 3])
    some = fit.take(np.sort(random.permutation(fit.n_rows)[:n_most]))
    score = fit_score("chow-liu", goal.forest, some, n_bins=4, random_state=seed)
    trees = route(goal.forest, score.space)
    climb = _Climb(goal, trees, setting.original, validated.written.shape)
    states = score.space.states(some)
    fit_scores = score.tables.score(states)
    limit = np.quantile(fit_scores, _PLAUSIBLE)
    inside = np.flatnonzero(fit_scores <= limit)
    distance, _ = climb.look(states[inside])
    starts = inside[np.argsort(distance, kind="stable")[:_N_STARTS]]
    points = states[starts].copy()
    best = climb.height(points)
    n_rounds = int(min(_N_ROUNDS, _MOST_CELLS // (len(points) * trees.n_trees) + 1))
    for _ in range(n_rounds):
        if budget.is_over:
            break
        moved = _moved(points, states, random)
        height = np.where(score.tables.score(moved) <= limit, climb.height(moved), -np.inf)
        better = height > best
        points[better], best[better] = moved[better], height[better]
    top = int(np.argmax(best))
    if best[top] <= 0:
        return Attack(len(starts), None, None)
    row = score.space.representative(points[top : top + 1])[0]
    return Attack(len(starts), float(best[top]), row)


class _Climb:
    """Both models on states, and how high a point is: changed points by their distance."""

    def __init__(self, goal: Goal, trees: StateTrees, original: Shape, smaller: Shape) -> None:
        self.goal, self.trees = goal, trees
        self.class_goal = Goal(goal.forest, True, None)
        self.original, self.smaller = original, smaller

    def look(self, states: npt.NDArray[np.int32]) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Distance of the original from its decision, and whether the class changes."""
        leaves = self.trees.leaves(states)
        before = margins(self.original, self.goal.forest, leaves)
        after = margins(self.smaller, self.goal.forest, leaves)
        distance = self.class_goal.distances(before)
        return distance, self.class_goal.changed(before, after)

    def height(self, states: npt.NDArray[np.int32]) -> FloatArray:
        """The distance where the class changes; below 0, nearer is higher, where it does not."""
        distance, changed = self.look(states)
        return np.where(changed, distance, -distance)


def _moved(
    points: npt.NDArray[np.int32], seen: npt.NDArray[np.int32], random: np.random.Generator
) -> npt.NDArray[np.int32]:
    """One feature of each point takes the state it has in some row of X_fit."""
    moved = points.copy()
    every = np.arange(len(points))
    feature = random.integers(0, points.shape[1], len(points))
    moved[every, feature] = seen[random.integers(0, len(seen), len(points)), feature]
    return moved
