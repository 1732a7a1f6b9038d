"""The rows that shape the path: X_fit and synthetic rows, mostly those near the decision. X_val is never used here.

A synthetic row lies between two rows of X_fit that share leaves. Numbers lie anywhere between those of the two rows;
categories and missing values are taken from one of them, so only those that were seen occur. The original's own output
is its label.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from pine_boost.budget import Budget
from pine_boost.compression.goal import Goal
from pine_boost.model.forest import FloatArray, Int32Array, IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.shape import Shape, margins
from pine_boost.model.states import StateSpace
from pine_boost.model.synthetic_rows import most_similar
from pine_boost.tables.rows import AnyRows

_MOST_CELLS = 12_000_000  # points x trees of the least squares: 200 MB; twice as many keep no fewer of 1000 trees
# With at most 30 000, 45 000 and 60 000 points 50.7, 53.4 and 55.0 % of the leaves go: mean of Adult, ELEC2, FICO, JM1,
# PoL and Spambase (XGBoost 100x6, seeds 100 and 101, X_val drawn 150 times each).
_MOST_POINTS, _FEWEST_POINTS = 60_000, 4_000
_LOOKED_AT = 20_000  # points of the estimates
_WEIGHT = 30_000.0  # of all synthetic rows together; the ridge counts in it
_REAL = 0.2  # weight of a row of X_fit: a model may have memorised its training rows, but not fresh ones
_CHUNK_CELLS = 4_000_000
_PROPOSALS = 6  # synthetic rows drawn for each one that is kept, at most
_NEAR = 0.2  # this quantile of the distances is near
_DRAWING = 0.25  # of a limited time; fewer points are drawn where more would take longer
_DRAWN = 4.0  # rows walked through all trees for each point, about
_PROBED = 500  # rows by which the time per row is measured
_FEWEST_IN_TIME = 1_000
# Of so many rows that share a leaf of some tree, the one that shares most leaves is the partner. Rows that take each
# value whole from one of two rows lie too near to training rows: a model that has memorised these changes there as it
# never does on fresh rows, and slices look worse than they are. Between two similar rows, estimates are close to the
# truth.
_N_PARTNERS = 3
_COMPARED_TREES = 40


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs as the trees see them.

    Attributes
    ----------
    leaves : int32 (n_points, n_trees)
    margins : float64 (n_points, n_outputs)
        Of the original.
    weight : float64 (n_points,)
    """

    leaves: Int32Array
    margins: FloatArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class Sample:
    """Points the path is fitted to, others by which its sizes are compared, and the leaves of plain rows of X_fit."""

    fitted: Points
    holdout_points: Points
    fit_leaves: Int32Array


def draw_states(fit: AnyRows, space: StateSpace, n_most: int, random: np.random.Generator) -> Int32Array:
    """States of at most so many rows of X_fit, drawn alike wherever the rows lie."""
    chosen = np.arange(fit.n_rows)
    if len(chosen) > n_most:
        chosen = np.sort(random.permutation(len(chosen))[:n_most])
    return np.ascontiguousarray(space.states(fit.take(chosen)), dtype=np.int32)


def draw_rows(
    goal: Goal, space: StateSpace, trees: StateTrees, original: Shape, fit: AnyRows, seed: int, budget: Budget
) -> Sample:
    """Fit rows and synthetic rows; the latter are drawn until enough near ones are found."""
    random = np.random.default_rng([seed, 1])
    n_points = int(np.clip(_MOST_CELLS // trees.n_trees, _FEWEST_POINTS, _MOST_POINTS))
    if budget.is_limited:  # as many as can be drawn in a part of the time, a few in any case
        probed = draw_states(fit, space, _PROBED, np.random.default_rng([seed, 3]))
        started = time.monotonic()
        trees.leaves(probed)
        seconds = max((time.monotonic() - started) / len(probed), 1e-9)
        n_points = min(n_points, int(max(_DRAWING * budget.remaining / seconds / _DRAWN, _FEWEST_IN_TIME)))
    base = draw_states(fit, space, 4 * n_points, random)
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
    weight *= _REAL * min(fit.n_rows, _WEIGHT) / weight.sum()
    real = Points(leaves[kept], values[kept], weight)
    few = np.sort(random.permutation(len(base))[:n_points])
    sources = Sources(base[few], leaves[few], np.array([axis.n_intervals for axis in space.axes], dtype=np.int64))

    def synthetic(n_wanted: int, seed: int) -> Points:
        """Synthetic rows, near ones kept more often, weighted by the inverse of their chance."""
        chunk = max(500, min(_CHUNK_CELLS // trees.n_trees, 2 * n_wanted))
        drawing, keeping = np.random.default_rng(seed), np.random.default_rng([seed, 2])
        found: list[Points] = []
        drawn = count = 0
        while not found or not (count >= n_wanted or drawn >= _PROPOSALS * n_wanted or budget.is_over):
            states = draw_between(sources, drawing, chunk)
            leaves = trees.leaves(states)
            values = margins(original, goal.forest, leaves)
            chance = _chance(goal.distances(values), near)
            kept = np.flatnonzero(keeping.random(len(states)) < chance)
            found.append(Points(leaves[kept], values[kept], 1.0 / chance[kept]))
            drawn, count = drawn + len(states), count + len(kept)
        return _joined(found, n_wanted)

    fitted = synthetic(n_points // 2, seed)
    n_holdout = int(np.clip(_MOST_CELLS // 2 // trees.n_trees, _FEWEST_POINTS, _LOOKED_AT))
    holdout_points = synthetic(min(n_holdout, n_points), seed + 1)
    fitted = replace(fitted, weight=fitted.weight * (_WEIGHT / fitted.weight.sum()))
    return Sample(_joined([real, fitted]), holdout_points, leaves[few])


def _chance(distance: FloatArray, near: float) -> FloatArray:
    return np.asarray(1.0 / (1.0 + (distance / near) ** 2))


def _joined(parts: list[Points], n_most: int | None = None) -> Points:
    """The points of all parts, the first ``n_most`` of them."""
    return Points(
        np.concatenate([part.leaves for part in parts])[:n_most],
        np.concatenate([part.margins for part in parts])[:n_most],
        np.concatenate([part.weight for part in parts])[:n_most],
    )


@dataclass(frozen=True, eq=False)
class Sources:
    """Rows of X_fit to draw from.

    Attributes
    ----------
    states : int32 (n_rows, n_features)
    leaves : int32 (n_rows, n_trees)
        Numbered through all trees.
    n_intervals : int64 (n_features,)
        States below this one are intervals in their order; 0 for categories.
    """

    states: Int32Array
    leaves: Int32Array
    n_intervals: IntArray

    @cached_property
    def by_leaf(self) -> sparse.csc_array:
        """The rows that reach each leaf are its column."""
        n_rows, n_trees = self.leaves.shape
        start = np.arange(0, self.leaves.size + 1, n_trees)
        entries = np.ones(self.leaves.size, dtype=bool), self.leaves.ravel(), start
        return sparse.csr_array(entries, shape=(n_rows, int(self.leaves.max()) + 1)).tocsc()


def draw_between(sources: Sources, random: np.random.Generator, n_rows: int) -> Int32Array:
    """Rows between a random one and one that is similar to it."""
    base = random.integers(0, len(sources.states), n_rows)
    first, second = sources.states[base], sources.states[_similar(sources, base, random)]
    share = random.random(first.shape)
    between = np.rint(first + share * (second - first)).astype(np.int32)
    is_ordered = np.maximum(first, second) < sources.n_intervals
    return np.where(is_ordered, between, np.where(share < 0.5, first, second))


def _similar(sources: Sources, base: IntArray, random: np.random.Generator) -> IntArray:
    """For every row the one of a few that shares most leaves with it, itself if it is alone."""
    compared = sources.leaves[:, random.permutation(sources.leaves.shape[1])[:_COMPARED_TREES]]
    return most_similar(compared, base, (_partners(sources, base, random) for _ in range(_N_PARTNERS)))


def _partners(sources: Sources, base: IntArray, random: np.random.Generator) -> IntArray:
    """For every row one that shares its leaf of a random tree, perhaps itself."""
    leaf = sources.leaves[base, random.integers(0, sources.leaves.shape[1], len(base))]
    first, last = sources.by_leaf.indptr[leaf], sources.by_leaf.indptr[leaf + 1]
    place = first + (random.random(len(base)) * (last - first)).astype(np.int64)
    return np.asarray(sources.by_leaf.indices[place], dtype=np.int64)
