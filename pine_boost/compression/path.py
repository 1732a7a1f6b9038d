"""The path: ever smaller shapes of the original, each fitted to keep what must not change.

In come a forest over states and its rows; out come Shapes, largest first: collapse the weakest
subtrees, refit all leaf values, settle the intercepts, again. Slices of the original join in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pine_boost.budget import Budget
from pine_boost.compression.collapse import collapse
from pine_boost.compression.goal import Goal
from pine_boost.compression.intercepts import shift_intercepts
from pine_boost.compression.least_squares_rows import Pulls
from pine_boost.compression.refit import Intervals, refit
from pine_boost.compression.shape import Ranges, Shape, slice_shape
from pine_boost.model.forest import FloatArray

# Sizes as shares of the original's leaves: first small equal steps, as noisy models stop early,
# then a constant factor.
_SHARES = np.concatenate([np.arange(0.97, 0.5, -0.03), np.geomspace(0.49, 0.01, 30)])
_REACH = 3.0  # rows pull until they are this many typical errors from the decision
_LEAST_REACH = 0.06  # of the median distance, before there are errors


def step_sizes(n_leaves: int) -> list[int]:
    """Numbers of leaves to stop at, largest first."""
    sizes = np.unique(np.maximum(np.rint(_SHARES * n_leaves), 2).astype(int))[::-1]
    return [int(size) for size in sizes if size < n_leaves]


class Pace:
    """How many sizes are passed over, so that the path gets far although time is short."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._last = time.monotonic()

    def sizes_on(self, n_left: int) -> int:
        """Sizes to go on by, 1 where there is time for all that are left; called once a step.

        Steps become shorter as shapes become smaller, so that the last one counts half.
        """
        now = time.monotonic()
        seconds, self._last = max(now - self._last, 1e-6), now
        if not self._budget.is_limited:
            return 1
        possible = max(1.0, self._budget.remaining / seconds * 2)
        return int(max(1, min(np.ceil(n_left / possible), n_left // 2)))


def walk(
    goal: Goal, ranges: Ranges, start: Shape, pulls: Pulls, whole_trees: bool, pace: Pace | None = None
) -> Iterator[Shape]:
    """Yield smaller and smaller shapes, each one step on from the last."""
    shape, sums = start, pulls.distance
    near = _nearness(pulls)
    signs = pulls.intercept_signs(len(start.owner), len(start.intercept))
    sizes, position = step_sizes(start.n_leaves), 0
    while position < len(sizes):
        n_leaves = sizes[position]
        position += 1 if pace is None else pace.sizes_on(len(sizes) - position)
        intervals = _intervals(goal, pulls, sums, near)
        leaf_weight = pulls.leaf_weight(intervals.weight, len(shape.owner))
        smaller = collapse(goal.forest, ranges, shape, leaf_weight, n_leaves, whole_trees)
        if smaller.n_leaves == shape.n_leaves:
            continue
        if smaller.n_leaves == 0:
            return
        shape, sums = _fitted(pulls, smaller, intervals)
        if goal.keeps_class and goal.tolerance is None:
            intercept, sums = shift_intercepts(pulls, signs, shape.intercept, sums)
            shape = replace(shape, intercept=intercept)
        yield shape


def slices(goal: Goal, ranges: Ranges, n_slices: int) -> Iterator[Shape]:
    """The first rounds of the original, largest first."""
    n_rounds = int(goal.forest.tree_round.max()) + 1
    counts = np.unique(np.rint(np.linspace(1, n_rounds - 1, n_slices)).astype(int))
    for count in counts[::-1] if n_rounds > 1 else ():
        yield slice_shape(goal.forest, ranges, int(count))


def _nearness(pulls: Pulls) -> FloatArray:
    """Weights that fall with the distance, before errors are known."""
    scale = max(float(np.quantile(np.abs(pulls.distance), 0.2)), 1e-300)
    return np.asarray(pulls.weight / (1.0 + (pulls.distance / scale) ** 2))


def _intervals(goal: Goal, pulls: Pulls, sums: FloatArray, near: FloatArray) -> Intervals:
    """Where every pull should be, at the size of the errors that are usual by now."""
    low, high = goal.interval(pulls.distance)
    if not goal.keeps_class:
        return Intervals(low, high, pulls.weight)
    error = float(np.sqrt(np.average((sums - pulls.distance) ** 2, weights=near)))
    reach = max(_REACH * error, _LEAST_REACH * float(np.median(pulls.distance)), 1e-300)
    low = np.maximum(low, np.minimum(pulls.distance, reach))
    if goal.tolerance is not None:
        return Intervals(low, high, pulls.weight)
    return Intervals(low, high, pulls.weight / (1.0 + (pulls.distance / reach) ** 2))


def _fitted(pulls: Pulls, shape: Shape, intervals: Intervals) -> tuple[Shape, FloatArray]:
    """Refit all leaf values and intercepts; returns the sums of the pulls too."""
    signed, number = pulls.matrix(shape)
    n_present, width = shape.n_leaves, pulls.width
    present = np.zeros((n_present + 1, width))
    present[:n_present] = shape.value[shape.begins]
    values = np.concatenate([present.ravel(), shape.intercept])
    fixed = np.zeros(len(values), dtype=bool)
    fixed[n_present * width : (n_present + 1) * width] = True
    values = refit(signed, pulls.offset, values, fixed, intervals)
    present = values[: (n_present + 1) * width].reshape(n_present + 1, width)
    intercept = values[(n_present + 1) * width :]
    sums = signed @ values + pulls.offset
    return Shape(shape.owner, present[number], intercept), sums
