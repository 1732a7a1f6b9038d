"""A local search for a plausible input, far from the decision, whose class changes.

It climbs from rows of X_fit within their plausible region. It is an attack and not a bound: inputs farther away that
it does not find may exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pine_boost.budget import SHARES, Budget
from pine_boost.compression.goal import Goal
from pine_boost.compression.path import Task
from pine_boost.compression.shape import Shape, margins
from pine_boost.model.forest import BoolArray, FloatArray, Int32Array
from pine_boost.model.routing import route
from pine_boost.region.scores.fit_score import fit_score
from pine_boost.tables.rows import AnyRows

_N_STARTS = 200
_N_ROUNDS = 80
_PLAUSIBLE = 0.95  # quantile of the scores of X_fit within which an input is plausible
_MOST_CELLS = 40_000_000  # rows x trees in all: a second or two
_MOST_FIT_ROWS = 20_000
_ROWS_PER_SECOND = 1_000  # of limited time: fitting the score cannot be interrupted
_LEAST_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Attack:
    """What the attack found.

    Attributes
    ----------
    n_starts : int
        Rows of X_fit that it started from.
    distance : float or None
        Of the farthest input found whose class changes, from the original's decision in margin;
        None: none was found.
    row : float64 (n_features,) or None
        That input, categories as codes.
    """

    n_starts: int
    distance: float | None
    row: FloatArray | None


def attack(task: Task, smaller: Shape | None, fit: AnyRows, seed: int, budget: Budget) -> Attack | None:
    """Climb from rows of X_fit; None for models without classes, without a smaller one or time."""
    if smaller is None or not task.goal.keeps_class or budget.is_over:
        return None
    n_most = _MOST_FIT_ROWS
    if budget.is_limited:
        budget = budget.share(SHARES["attack"])
        if budget.remaining < _LEAST_SECONDS:
            return None
        n_most = int(min(n_most, _ROWS_PER_SECOND * budget.remaining))
    random = np.random.default_rng([seed, 3])
    some = fit.take(np.sort(random.permutation(fit.n_rows)[:n_most]))
    forest = task.goal.forest
    score = fit_score("chow-liu", forest, some, n_bins=4, random_state=seed)
    trees = route(forest, score.space)
    goal = Goal(forest, True, None)

    def compare(states: Int32Array) -> tuple[FloatArray, BoolArray]:
        """Distance of the original from its decision, and whether the class changes."""
        leaves = trees.leaves(states)
        before = margins(task.original, forest, leaves)
        return goal.distances(before), goal.changed(before, margins(smaller, forest, leaves))

    def height(states: Int32Array) -> FloatArray:
        """The distance where the class changes; below 0, nearer is higher, where it does not."""
        distance, changed = compare(states)
        return np.where(changed, distance, -distance)

    states = score.space.states(some)
    fit_scores = score.tables.score(states)
    limit = np.quantile(fit_scores, _PLAUSIBLE)
    inside = np.flatnonzero(fit_scores <= limit)
    distance, _ = compare(states[inside])
    starts = inside[np.argsort(distance, kind="stable")[:_N_STARTS]]
    points = states[starts].copy()
    best = height(points)
    n_rounds = int(min(_N_ROUNDS, _MOST_CELLS // (len(points) * trees.n_trees) + 1))
    for _ in range(n_rounds):
        if budget.is_over:
            break
        moved = _moved(points, states, random)
        found = np.where(score.tables.score(moved) <= limit, height(moved), -np.inf)
        better = found > best
        points[better], best[better] = moved[better], found[better]
    top = int(np.argmax(best))
    if best[top] <= 0:
        return Attack(len(starts), None, None)
    row = score.space.representative(points[top : top + 1])[0]
    return Attack(len(starts), float(best[top]), row)


def _moved(points: Int32Array, seen: Int32Array, random: np.random.Generator) -> Int32Array:
    """One feature of each point takes the state it has in some row of X_fit."""
    moved = points.copy()
    every = np.arange(len(points))
    feature = random.integers(0, points.shape[1], len(points))
    moved[every, feature] = seen[random.integers(0, len(seen), len(points)), feature]
    return moved
