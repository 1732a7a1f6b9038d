"""The rows that shape the path: X_fit and synthetic rows, mostly those near the decision.

In come a forest over states and X_fit; out go points to fit and points to look at,
weighted so that both stand for all rows. X_val is never here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.compression.goal import Goal
from pine_boost.compression.least_squares_rows import Points
from pine_boost.compression.shape import Shape, margins
from pine_boost.compression.synthetic_rows import Sources, intervals_of, stream
from pine_boost.model.forest import FloatArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import StateSpace
from pine_boost.tables.rows import AnyRows

_MOST_CELLS = 12_000_000  # points x trees of the least squares: 200 MB, seconds per step
_MOST_POINTS, _FEWEST_POINTS = 60_000, 4_000
_LOOKED_AT = 20_000  # points of the estimates
_WEIGHT = 30_000.0  # of all synthetic rows together; the ridge counts in it
_REAL = 0.2  # weight of a row of X_fit: the original may know it by heart, which no fresh row is
_CHUNK_CELLS = 4_000_000
_PROPOSALS = 6  # synthetic rows drawn for each one that is kept, at most
_NEAR = 0.2  # this quantile of the distances is near
_DRAWING = 0.25  # of a limited time; fewer points are drawn where more would take longer
_DRAWN = 4.0  # rows walked through all trees for each point, about
_PROBED = 500  # rows that tell how long that takes
_FEWEST_IN_TIME = 1_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Points the path is fitted to, and others by which its sizes are compared."""

    fitted: Points
    holdout_points: Points


@dataclass(frozen=True, eq=False)
class FitRows:
    """X_fit, of which only a sample becomes states."""

    rows: AnyRows
    space: StateSpace

    def sample(self, n_most: int, random: np.random.Generator) -> npt.NDArray[np.int32]:
        """States of at most so many rows, drawn alike wherever the rows lie."""
        chosen = np.arange(self.rows.n_rows)
        if len(chosen) > n_most:
            chosen = np.sort(random.permutation(len(chosen))[:n_most])
        states = self.space.states(self.rows.take(chosen))
        return np.ascontiguousarray(states, dtype=np.int32)


def draw_rows(
    goal: Goal, trees: StateTrees, original: Shape, fit: FitRows, seed: int, budget: Budget, n_points: int | None = None
) -> Rows:
    """Fit rows and synthetic rows; the latter are drawn until enough near ones are found.

    ``n_points`` rows are fitted; as many as are worth their time without it.
    """
    random = np.random.default_rng([seed, 1])
    if n_points is None:
        n_points = int(np.clip(_MOST_CELLS // trees.n_trees, _FEWEST_POINTS, _MOST_POINTS))
        n_points = min(n_points, _affordable(trees, fit, seed, budget))
    base = fit.sample(4 * n_points, random)
    leaves = trees.leaves(base)
    values = margins(original, goal.forest, leaves)
    distance = goal.distances(values)
    near = max(float(np.quantile(distance, _NEAR)), 1e-12 + 1e-9 * float(distance.max(initial=0.0)))
    chance = _chance(distance, near)
    chance = np.minimum(1.0, chance * max(1.0, n_points / 2 / chance.sum()))
    if len(base) <= n_points // 2:
        chance = np.ones(len(base))
    kept = np.flatnonzero(random.random(len(base)) < chance)
    weight = 1.0 / chance[kept]
    weight *= _REAL * min(fit.rows.n_rows, _WEIGHT) / weight.sum()
    real = Points(leaves[kept], values[kept], weight)
    few = np.sort(random.permutation(len(base))[:n_points])
    sources = Sources(base[few], leaves[few], intervals_of(fit.space))
    fitted = _synthetic(goal, trees, original, sources, near, n_points // 2, seed, budget)
    holdout_points = _synthetic(
        goal, trees, original, sources, near, min(_n_holdout_points(trees), n_points), seed + 1, budget
    )
    fitted = Points(fitted.leaves, fitted.margins, fitted.weight * (_WEIGHT / fitted.weight.sum()))
    return Rows(_joined(real, fitted), holdout_points)


def _affordable(trees: StateTrees, fit: FitRows, seed: int, budget: Budget) -> int:
    """As many points as a limited time allows, a few in any case."""
    if not budget.is_limited:
        return _MOST_POINTS
    probed = fit.sample(_PROBED, np.random.default_rng([seed, 3]))
    started = time.monotonic()
    trees.leaves(probed)
    seconds = (time.monotonic() - started) / len(probed)
    affordable = _DRAWING * budget.remaining / max(seconds, 1e-9) / _DRAWN
    return int(max(affordable, _FEWEST_IN_TIME))


def _synthetic(
    goal: Goal,
    trees: StateTrees,
    original: Shape,
    sources: Sources,
    near: float,
    n_wanted: int,
    seed: int,
    budget: Budget,
) -> Points:
    """Synthetic rows, near ones kept more often, weighted by the inverse of their chance."""
    chunk = max(500, min(_CHUNK_CELLS // trees.n_trees, 2 * n_wanted))
    random = np.random.default_rng([seed, 2])
    found: list[Points] = []
    drawn = count = 0
    for states in stream(sources, seed, chunk):
        leaves = trees.leaves(states)
        values = margins(original, goal.forest, leaves)
        chance = _chance(goal.distances(values), near)
        kept = np.flatnonzero(random.random(len(states)) < chance)
        found.append(Points(leaves[kept], values[kept], 1.0 / chance[kept]))
        drawn, count = drawn + len(states), count + len(kept)
        if count >= n_wanted or drawn >= _PROPOSALS * n_wanted or budget.is_over:
            break
    everything = found[0]
    for more in found[1:]:
        everything = _joined(everything, more)
    first = slice(0, n_wanted)
    return Points(everything.leaves[first], everything.margins[first], everything.weight[first])


def _chance(distance: FloatArray, near: float) -> FloatArray:
    return np.asarray(1.0 / (1.0 + (distance / near) ** 2))


def _n_holdout_points(trees: StateTrees) -> int:
    return int(np.clip(_MOST_CELLS // 2 // trees.n_trees, _FEWEST_POINTS, _LOOKED_AT))


def _joined(first: Points, second: Points) -> Points:
    return Points(
        np.concatenate([first.leaves, second.leaves]),
        np.concatenate([first.margins, second.margins]),
        np.concatenate([first.weight, second.weight]),
    )
