"""The free scale: which multiple of a shape's margins has probabilities closest to the original's.

In come a shape and points; out goes the same shape, stretched about the decision. No class changes
by it, so it applies only where classes alone are kept; everything else comes back as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pine_boost.compression.goal import Goal
from pine_boost.compression.least_squares_rows import Points
from pine_boost.compression.shape import GONE, Ranges, Shape, margins
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.margin_probabilities import probabilities_of

_FACTORS = np.geomspace(0.02, 4.0, 81)
_MOST_POINTS = 4000


def rescale(goal: Goal, ranges: Ranges, points: Points, shape: Shape) -> Shape:
    """Stretch a shape about the decision so that probabilities move least (Brier)."""
    shape = _adding_up(goal.forest, ranges, shape)
    centre = _centre(goal)
    if centre is None or not goal.keeps_class or goal.tolerance is not None:
        return shape
    first = slice(0, _MOST_POINTS)
    before = probabilities_of(goal.forest, points.margins[first])
    sums = margins(shape, goal.forest, points.leaves[first])
    weight = points.weight[first]

    def moved(factor: float) -> float:
        shift = probabilities_of(goal.forest, centre + factor * (sums - centre)) - before
        return float(np.average((shift**2).sum(axis=1), weights=weight))

    factor = float(min(_FACTORS, key=moved))
    if moved(factor) >= moved(1.0):
        return shape
    intercept = centre + factor * (shape.intercept - centre)
    return replace(shape, value=factor * shape.value, intercept=np.asarray(intercept))


def _adding_up(forest: Forest, ranges: Ranges, shape: Shape) -> Shape:
    """Votes of an average add up to one per tree again; a constant for all classes decides none."""
    if forest.free_intercept or forest.n_outputs == 1:
        return shape
    stays = shape.owner != GONE
    level = (1.0 - shape.value.sum(axis=1, keepdims=True)) / forest.n_outputs
    n_kept = len(np.unique(ranges.leaf_tree[stays]))
    missing = forest.n_trees - n_kept - shape.intercept.sum()
    intercept = shape.intercept + missing / forest.n_outputs
    value = np.where(stays[:, None], shape.value + level, 0.0)
    return replace(shape, value=value, intercept=intercept)


def _centre(goal: Goal) -> FloatArray | None:
    """Margins that decide nothing; None where the scale decides (several cuts)."""
    forest = goal.forest
    if forest.n_outputs == 1:
        return np.array(forest.decision.cuts) if len(forest.decision.cuts) == 1 else None
    level = 0.0 if forest.free_intercept else forest.n_trees / forest.n_outputs
    return np.full(forest.n_outputs, level)
