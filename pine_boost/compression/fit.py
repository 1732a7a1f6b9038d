"""Least squares on leaf values: a row pulls only while its sum is outside its interval.

Each point gives one equation for every comparison that its class depends on. Newton steps with conjugate gradients and
a ridge towards the present values give new values; the intercepts are then moved to where fewest rows change class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pine_boost.compression.goal import Goal
from pine_boost.compression.path_rows import Points
from pine_boost.kernels.leaf_tables import SignedMatrix
from pine_boost.model.exact import NARROW_GAP, SUM_OF_WEIGHTS_NOISE
from pine_boost.model.forest import FloatArray, Forest, Int32Array, IntArray
from pine_boost.model.links import probabilities_of
from pine_boost.model.shape import GONE, Shape, margins, numbers
from pine_boost.model.trimming import Subtrees

_RIVALS = 2
# More steps take longer and keep fresh rows no better: stopping early is a ridge too.
_NEWTON_STEPS = 2
_GRADIENT_STEPS = 8
_ENOUGH = 1e-4  # of the first residual: the next collapse changes more than that
RIDGE = 10.0  # in rows of weight 1; 3 is too little on noisy data; see `path._REACH`
# Standard deviations: a shift that wins less than that among the rows it changes may be chance. If any gain is taken,
# noisy data (JM1) change up to a fourth more of fresh rows at some sizes.
_SURE = 3.0
_FACTORS = np.geomspace(0.02, 4.0, 81)  # scales of the margins that are tried
_SCALE_POINTS = 4000


@dataclass(frozen=True, eq=False)
class Equations:
    """Linear functions of the leaf values, one for each thing a point must keep.

    Attributes
    ----------
    over_leaves : SignedMatrix
        Over ``leaf * width + output``, then the intercepts.
    offset : float64 (n_equations,)
        Added to the product (the cut).
    distance : float64 (n_equations,)
        The original's sum; at least 0 where a class is kept.
    weight : float64 (n_equations,)
    intercept_sign : int8 (n_outputs, n_equations)
        How each equation counts each intercept: 1, -1, or 0 for not at all.
    width : int
    """

    over_leaves: SignedMatrix
    offset: FloatArray
    distance: FloatArray
    weight: FloatArray
    intercept_sign: npt.NDArray[np.int8]
    width: int

    def leaf_weight(self, weight: FloatArray, n_leaves: int) -> FloatArray:
        """Weight of the equations that each original leaf occurs in."""
        columns = self.over_leaves.transposed(weight, unsigned=True)[: n_leaves * self.width]
        return np.asarray(columns.reshape(n_leaves, self.width).sum(axis=1))

    def sums(self, shape: Shape) -> FloatArray:
        """What a shape makes of the equations."""
        return self.over_leaves @ np.concatenate([shape.value.ravel(), shape.intercept]) + self.offset

    def matrix(self, shape: Shape, rows: Int32Array) -> tuple[SignedMatrix, IntArray]:
        """Some equations over the present leaves, and each original leaf's number among them, -1 if it was dropped."""
        number, n_outputs = numbers(shape.owner), len(shape.intercept)
        n_values = shape.n_leaves * self.width
        own = number[:, None] * self.width + np.arange(self.width)
        column = np.concatenate([own.ravel(), n_values + np.arange(n_outputs)]).astype(np.int32)
        return self.over_leaves.renumbered(column, n_values + n_outputs, rows), number


def build_equations(goal: Goal, points: Points) -> Equations:
    """The equations of all points, grouped by the outputs they compare."""
    point, plus, minus, offset, distance = _comparisons(goal, points.margins)
    order = np.lexsort((distance < 0, minus, plus))
    point, plus, minus = (part[order] for part in (point, plus, minus))
    offset, distance = offset[order], distance[order]
    sign = np.where((distance < 0) & goal.keeps_class, -1, 1).astype(np.int8)
    bounds = np.flatnonzero((np.diff(plus, prepend=-1) != 0) | (np.diff(minus, prepend=-2) != 0))
    parts, lengths = [], []
    for rows in np.split(np.arange(len(point)), bounds[1:]):
        runs = [_columns(goal.forest, points.leaves[point[rows]], int(output[rows[0]])) for output in (plus, minus)]
        parts.append(np.concatenate(runs, axis=1).ravel())
        lengths.append(np.tile([run.shape[1] for run in runs], len(rows)))
    every, width = np.arange(len(point)), goal.forest.value.shape[1]
    intercept_sign = np.zeros((goal.forest.n_outputs + 1, len(point)), dtype=np.int8)  # the last for no output, -1
    intercept_sign[plus, every], intercept_sign[minus, every] = sign, -sign
    return Equations(
        over_leaves=SignedMatrix(
            np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
            np.concatenate(parts),
            sign,
            goal.forest.n_leaves * width + goal.forest.n_outputs,
        ),
        offset=sign * offset,
        distance=sign * distance,
        weight=points.weight[point],
        intercept_sign=intercept_sign[:-1],
        width=width,
    )


def _comparisons(goal: Goal, sums: FloatArray) -> tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]:
    """Per equation: its point, the output counted up, the one counted down (-1: none), cut, sum."""
    n_points, n_outputs = sums.shape
    every = np.arange(n_points)
    if n_outputs > 1:
        n_rivals = min(_RIVALS, n_outputs - 1)
        ranked = np.argsort(-sums, axis=1, kind="stable")[:, : n_rivals + 1]
        point = np.repeat(every, n_rivals)
        plus, minus = np.repeat(ranked[:, 0], n_rivals), ranked[:, 1:].ravel()
        distance = sums[point, plus] - sums[point, minus]
        return point, plus, minus, np.zeros(len(point)), distance
    if not goal.keeps_class:
        nothing = np.zeros(n_points)
        return every, np.zeros_like(every), np.full(n_points, -1), nothing, sums[:, 0]
    cuts = np.array(goal.forest.decision.cuts)
    nearest = np.argsort(np.abs(sums - cuts), axis=1, kind="stable")[:, :2]
    point = np.repeat(every, nearest.shape[1])
    offset = -cuts[nearest.ravel()]
    distance = sums[point, 0] + offset
    return point, np.zeros_like(point), np.full(len(point), -1), offset, distance


def _columns(forest: Forest, leaves: Int32Array, output: int) -> Int32Array:
    """Columns of one output: of the points' leaves in its trees, and of its intercept; none for output -1."""
    if output < 0:
        return np.zeros((len(leaves), 0), dtype=np.int32)
    width = forest.value.shape[1]
    own = leaves[:, forest.tree_output == output] if width < forest.n_outputs else leaves * width
    own = own + (output if width > 1 else 0)
    return np.pad(own, ((0, 0), (0, 1)), constant_values=forest.n_leaves * width + output).astype(np.int32, copy=False)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Where each equation's sum should lie, and how much it matters; sums move by less than ``slack`` in a refit."""

    low: FloatArray
    high: FloatArray
    weight: FloatArray
    slack: float = np.inf

    def residuals(self, sums: FloatArray) -> FloatArray:
        """What would have to be added to each sum to bring it into its interval."""
        return np.asarray(np.maximum(self.low - sums, 0.0) - np.maximum(sums - self.high, 0.0))

    def may_pull(self, sums: FloatArray) -> Int32Array:
        """Equations whose sums are outside their intervals, or may be before a refit ends."""
        is_near = np.ones(len(sums), dtype=bool)
        if self.slack < np.inf:
            is_near = (sums < self.low + self.slack) | (sums > self.high - self.slack)
        return np.flatnonzero(is_near).astype(np.int32)

    def of(self, rows: Int32Array) -> Intervals:
        """The same of some equations."""
        return Intervals(self.low[rows], self.high[rows], self.weight[rows])


def fit_shape(equations: Equations, shape: Shape, intervals: Intervals) -> tuple[Shape, FloatArray]:
    """Refit all leaf values and intercepts; returns the sums of the equations too."""
    rows = intervals.may_pull(equations.sums(shape))
    signed, number = equations.matrix(shape, rows)
    start = np.concatenate([shape.value[shape.begins].ravel(), shape.intercept])
    values = refit(signed, equations.offset[rows], start, intervals.of(rows))
    fitted, intercept = np.split(values, [len(values) - len(shape.intercept)])
    value = np.where(number[:, None] >= 0, fitted.reshape(-1, equations.width)[number], 0.0)
    refitted = Shape(shape.owner, value, intercept)
    return refitted, equations.sums(refitted)


def refit(matrix: SignedMatrix, offset: FloatArray, start: FloatArray, intervals: Intervals) -> FloatArray:
    """Values with which the sums ``matrix @ values + offset`` lie closer to their intervals, not far from ``start``."""
    current = start
    for _ in range(_NEWTON_STEPS):
        residual = intervals.residuals(matrix @ current + offset)
        pulling = np.flatnonzero(residual).astype(np.int32)
        if len(pulling) == 0:
            break
        weight = intervals.weight[pulling]
        gradient = matrix.transposed(weight * residual[pulling], pulling) - RIDGE * (current - start)
        diagonal = matrix.transposed(weight, pulling, unsigned=True) + RIDGE
        current = current + _solve(matrix, pulling, weight, gradient, 1.0 / diagonal)
    return current


def _solve(
    matrix: SignedMatrix, rows: Int32Array, weight: FloatArray, gradient: FloatArray, scale: FloatArray
) -> FloatArray:
    """Conjugate gradients for (A'WA + ridge) x = gradient, A being some rows, preconditioned by ``scale``."""
    solution = np.zeros_like(gradient)
    rest = gradient.copy()
    scaled = scale * rest
    direction = scaled.copy()
    size = first = float(rest @ scaled)
    for _ in range(_GRADIENT_STEPS):
        if size <= _ENOUGH * first:
            break
        image = matrix.normal(weight, direction, rows) + RIDGE * direction
        step = size / float(direction @ image)
        solution += step * direction
        rest -= step * image
        scaled = scale * rest
        size, previous = float(rest @ scaled), size
        direction = scaled + (size / previous) * direction
    return solution


def shift_intercepts(equations: Equations, intercept: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Intercepts and sums, each output in turn at its best place.

    Least squares cannot do this: a group of equal rows at a tiny distance from the decision ends as near on the other
    side at almost no loss, and changes its class as a whole. Of two outputs only the difference decides, so that one
    of them stays.
    """
    intercept, sums = intercept.copy(), sums.copy()
    for output in range(len(intercept) if len(intercept) > 2 else 1):
        own = np.flatnonzero(equations.intercept_sign[output])
        sign = equations.intercept_sign[output][own].astype(np.float64)
        shift = best_shift(sums[own], sign, equations.weight[own])
        intercept[output] += shift
        sums[own] += sign * shift
    return intercept, sums


def best_shift(sums: FloatArray, sign: FloatArray, weight: FloatArray) -> float:
    """The ``shift`` with least weight on ``sums + sign * shift < 0``, 0.0 if its gain may be chance.

    It lies in the middle of a gap between rows; of several as good, the one nearest to 0.

    Examples
    --------
    >>> import numpy as np
    >>> from pine_boost.compression.fit import best_shift
    >>> sums, sign = np.repeat([2.0, -0.5, 1.5], 20), np.repeat([1.0, 1.0, -1.0], 20)
    >>> best_shift(sums, sign, np.ones(60))
    1.0
    """
    turns_at = -sums * sign
    order = np.argsort(turns_at)  # the order of equal ones does not matter
    at = turns_at[order]
    upward = np.where(sign > 0, weight, 0.0)[order]
    downward = np.where(sign < 0, weight, 0.0)[order]
    # a shift between those of rows k and k + 1 is too small for later rows that need one upward, and too large for
    # earlier rows that need one downward
    lost = (upward.sum() - np.cumsum(upward) + np.cumsum(downward))[:-1]
    wide = np.flatnonzero(np.diff(at) > NARROW_GAP * np.abs(at).max(initial=0.0))
    if len(wide) == 0:
        return 0.0
    least = float(lost[wide].min())
    middles = (at[:-1] + at[1:])[wide[lost[wide] <= least + SUM_OF_WEIGHTS_NOISE]] / 2
    shift = float(middles[np.argmin(np.abs(middles))])
    won = float(weight[sums < 0].sum()) - least
    crossed = (sums < 0) != (sums + sign * shift < 0)
    chance = _SURE * float(np.sqrt((weight[crossed] ** 2).sum()))
    return shift if won > chance + SUM_OF_WEIGHTS_NOISE else 0.0


def rescale(goal: Goal, subtrees: Subtrees, points: Points, shape: Shape) -> Shape:
    """Stretch a shape about the decision so that probabilities move least (Brier); no class changes by it.

    Only where classes alone are kept, and one cut or the largest output decides.
    """
    forest = goal.forest
    shape = _shares_adding_up(forest, subtrees, shape)
    if not goal.keeps_class or goal.tolerance is not None or (forest.n_outputs == 1 and len(forest.decision.cuts) > 1):
        return shape
    level = 0.0 if forest.free_intercept else forest.n_trees / forest.n_outputs
    centre = np.array(forest.decision.cuts) if forest.n_outputs == 1 else np.full(forest.n_outputs, level)
    first = slice(0, _SCALE_POINTS)
    before = probabilities_of(forest, points.margins[first])
    sums = margins(shape, forest, points.leaves[first])

    def moved(factor: float) -> float:
        shift = probabilities_of(forest, centre + factor * (sums - centre)) - before
        return float(np.average((shift**2).sum(axis=1), weights=points.weight[first]))

    factor = float(min(_FACTORS, key=moved))
    if moved(factor) >= moved(1.0):
        return shape
    intercept = centre + factor * (shape.intercept - centre)
    return replace(shape, value=factor * shape.value, intercept=np.asarray(intercept))


def _shares_adding_up(forest: Forest, subtrees: Subtrees, shape: Shape) -> Shape:
    """Class shares of an average add up to one per tree again; a constant for all classes decides nothing."""
    if forest.free_intercept or forest.n_outputs == 1:
        return shape
    stays = shape.owner != GONE
    level = (1.0 - shape.value.sum(axis=1, keepdims=True)) / forest.n_outputs
    n_kept = len(np.unique(subtrees.leaf_tree[stays]))
    missing = forest.n_trees - n_kept - shape.intercept.sum()
    intercept = shape.intercept + missing / forest.n_outputs
    value = np.where(stays[:, None], shape.value + level, 0.0)
    return replace(shape, value=value, intercept=intercept)
