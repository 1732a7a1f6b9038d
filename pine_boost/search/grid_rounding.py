"""Round weights or leaf values to the dyadic grid of the pruned model.

On the grid the native margins are exactly the integer margins. The free positive scale is chosen so
that probabilities stay close to the original's. Rounding may break a row, so callers check all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from pine_boost.kernels.leaf_tables import sum_leaves
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest, spread
from pine_boost.model.grid import fold_intercept, native_grid, written_on_grid
from pine_boost.model.links import Output, output_of, probabilities_of
from pine_boost.proof.problem import Problem
from pine_boost.search.constraints import DistinctFitRows
from pine_boost.search.lp import Weights
from pine_boost.search.lp_columns import Columns, in_order, leaf_values

_MOST_PARTS = 4096  # denominators tried for weights in whole ratios
_TINY = np.finfo(np.float64).tiny
_SCALES = 4.0  # natural logarithms around the scale that keeps the spread of margins


def to_grid(
    problem: Problem, columns: Columns, weights: Weights, fit: DistinctFitRows, *, scale: float | None = None
) -> PrunedForest | None:
    """Round a solution to the grid; None if there is no tree or the solution cannot be written exactly.

    If columns are units, every leaf becomes ``round(w * (value - bias) * 2**grid)``. If they are leaves,
    it becomes the weight of its column, and kept trees have weight 1: their leaves need not be a
    multiple of the original's. Each output's intercept is added to all leaves of its first kept tree.
    ``scale`` multiplies all weights; by default it is `native_scale`.
    """
    forest, leaf_tree = problem.forest, problem.trees.leaf_tree
    is_by_leaf = columns.leaf_column is not None
    kept = np.flatnonzero(columns.units_of(weights.weights)[columns.tree_unit])
    found = constants(problem, weights)
    if len(kept) == 0 or found is None:
        return None
    is_free = scale is None and found[0] is None
    scale = scale or _scale_of(problem, columns, weights, found, fit)
    cut = forest.decision.cuts[0] if forest.n_outputs == 1 and forest.free_intercept else 0.0
    value, intercept = _leaf_values(problem, columns, weights, scale), scale * found[1]
    if output_of(forest) is Output.SEPARATE and problem.strict.all():
        # a constant for all classes changes no class, but moves one-vs-rest probabilities
        intercept = intercept + level(_margins(problem, value, intercept, fit), fit)
    left_over = fold_intercept(forest, leaf_tree, value, intercept + cut, kept)
    grid = _choose_grid(problem, value, left_over)
    if grid < 0:  # certificates have no grid below 0; a free scale can be smaller
        return to_grid(problem, columns, weights, fit, scale=scale * 2.0**grid) if is_free else None
    if is_by_leaf:
        tree_weight = np.zeros(forest.n_trees)
        tree_weight[kept] = 1.0
    else:
        tree_weight = columns.tree_weights(weights.weights) * scale
        if not problem.strict.all():
            # leaves are multiples of 2**-scale here: weights in multiples of this stay on the grid
            tree_weight, intercept = _keep_ratios(tree_weight, intercept, 2.0 ** (problem.scale - grid))
            value = leaf_values(problem) * tree_weight[leaf_tree, None]
            left_over = fold_intercept(forest, leaf_tree, value, intercept + cut, kept)
    pruned = written_on_grid(forest, problem.leaf_node, value, left_over, kept, tree_weight, grid)
    if is_by_leaf:
        _put_in_order(problem, columns, pruned.value_int)
    return pruned


def constants(problem: Problem, weights: Weights) -> tuple[float | None, FloatArray] | None:
    """Scale (None: free) and intercepts before scaling, relative to the first cut."""
    forest = problem.forest
    if not forest.free_intercept:
        return None if forest.intercept.any() else (None, np.zeros(forest.n_outputs))
    if forest.n_outputs > 1 or len(forest.decision.cuts) == 1:
        return None, weights.free
    distance = weights.free[1] / (forest.decision.cuts[-1] - forest.decision.cuts[0])
    return (1.0 / distance, weights.free[:1]) if distance > 0 else None


def _keep_ratios(tree_weight: FloatArray, intercept: FloatArray, finest: float) -> tuple[FloatArray, FloatArray]:
    """Weights in small integer ratios, in multiples of ``finest``, if they nearly are.

    A tie that the pruned model must keep is an equation between weights, and rounding each by
    itself breaks it. Solutions on such equations are fractions with small denominators; integer
    multiples of the original's dyadic leaves are on the grid without rounding.
    """
    numbers = np.concatenate([tree_weight, intercept])
    largest = np.abs(numbers).max()
    parts = np.arange(1, _MOST_PARTS + 1)[:, None]
    scaled = parts * (numbers / largest)
    whole = np.rint(scaled)
    fits = (np.abs(scaled - whole) < exact.RATIO_NOISE).all(axis=1)
    fits &= ((whole != 0) | (numbers == 0))[:, : len(tree_weight)].all(axis=1)
    first = int(np.argmax(fits))
    part = largest / parts[first, 0]
    unit = finest * np.rint(part / finest)
    if not fits.any() or not 0 < unit <= 1.5 * part:  # _choose_grid leaves room for a factor of 2
        return tree_weight, intercept
    return whole[first, : len(tree_weight)] * unit, whole[first, len(tree_weight) :] * unit


def _choose_grid(problem: Problem, value: FloatArray, left_over: FloatArray) -> int:
    """The finest grid on which every sum is exact natively and every solver row is small enough.

    Half the range is left for the rounding of the leaves themselves (at most 1/2 a tree).
    """
    forest, leaf_tree = problem.forest, problem.trees.leaf_tree
    copies = 1 if problem.copies is None else problem.copies[:, None]  # rows of the original's leaves count, too
    row_sum = float((np.abs(spread(forest, value, leaf_tree)) * copies).sum(axis=0).max() + np.abs(left_over).max())
    row_sum *= 1 if forest.n_outputs == 1 else 2
    return min(native_grid(forest, leaf_tree, value, left_over, spare_bits=1), exact.integer_scale(row_sum))


def native_scale(problem: Problem, columns: Columns, weights: Weights, fit: DistinctFitRows) -> float | None:
    """The scale that brings a solution closest to the original's probabilities; None if there is none."""
    found = constants(problem, weights)
    return None if found is None else _scale_of(problem, columns, weights, found, fit)


def _scale_of(
    problem: Problem, columns: Columns, weights: Weights, found: tuple[float | None, FloatArray], fit: DistinctFitRows
) -> float:
    own_scale, intercept = found
    if own_scale is not None:
        return own_scale
    if not problem.forest.free_intercept:
        # votes: native probabilities are a mean, so weights of mean 1 keep their sum at 1
        tree_weight = columns.tree_weights(weights.weights)
        return float(np.count_nonzero(tree_weight) / tree_weight.sum())
    value = _leaf_values(problem, columns, weights, 1.0)
    return closest_scale(problem, _margins(problem, value, intercept, fit), fit)


def closest_scale(problem: Problem, margins: FloatArray, fit: DistinctFitRows) -> float:
    """The positive multiple whose probabilities are closest to the original's (Brier).

    ``margins`` are relative to the first cut.
    """
    forest = problem.forest
    cut = forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0
    target = probabilities_of(forest, fit.margins)
    spread_margins, spread_original = np.abs(margins).mean(), np.abs(fit.margins).mean()
    start = np.log(max(spread_original, _TINY) / max(spread_margins, _TINY))

    def brier(log_scale: float) -> float:
        scaled = np.exp(log_scale) * margins + cut
        if output_of(forest) is Output.SEPARATE:
            scaled = scaled + level(scaled, fit)
        moved = probabilities_of(forest, scaled) - target
        return float(np.average((moved**2).sum(axis=1), weights=fit.counts))

    found = minimize_scalar(
        brier, bounds=(start - _SCALES, start + _SCALES), method="bounded", options={"xatol": exact.SCALE_STEP}
    )
    # flat if all probabilities are 0 or 1: then keep the spread of the margins
    return float(np.exp(found.x if found.fun < brier(start) else start))


def level(margins: FloatArray, fit: DistinctFitRows) -> float:
    """How far margins lie below the original's on average."""
    distance = (fit.margins - margins).mean(axis=1)
    return float(np.average(distance, weights=fit.counts))


def _put_in_order(problem: Problem, columns: Columns, value_int: IntArray) -> None:
    """Restore the order of leaf values that the program keeps only up to rounding.

    Values only rise to others of their tree, so that no sum exceeds what the grid allows.
    """
    assert columns.leaf_column is not None
    own = np.flatnonzero(columns.leaf_column >= 0)
    node, column = problem.leaf_node[own], columns.leaf_column[own]
    of_columns = np.zeros(columns.n_columns, dtype=np.int64)
    of_columns[column] = value_int[node, 0]
    value_int[node, 0] = in_order(of_columns, columns.order)[column]


def _leaf_values(problem: Problem, columns: Columns, weights: Weights, scale: float) -> FloatArray:
    """Leaf values of a scaled solution, (n_leaves, width)."""
    if columns.leaf_column is None:
        tree_weight = columns.tree_weights(weights.weights) * scale
        return np.asarray(leaf_values(problem) * tree_weight[problem.trees.leaf_tree, None])
    of_columns = np.append(scale * (weights.weights / columns.scale), 0.0)  # the last one is for no column
    return np.asarray(of_columns[columns.leaf_column][:, None])


def _margins(problem: Problem, value: FloatArray, intercept: FloatArray, fit: DistinctFitRows) -> FloatArray:
    """Margins on the distinct rows of X_fit, relative to the first cut."""
    sums = sum_leaves(fit.leaves, value, problem.forest.tree_output, np.zeros(problem.forest.n_outputs))
    return np.asarray(sums + intercept)


@dataclass(frozen=True)
class ProbabilityShift:
    """How far the pruned model's probabilities moved on X_fit."""

    mean: float
    maximum: float
    brier: float


def probability_shift(problem: Problem, pruned: PrunedForest, fit: DistinctFitRows) -> ProbabilityShift:
    """Mean and largest change of a probability and the Brier distance, on X_fit."""
    leaf_value = problem.pruned_leaves_int(pruned) / 2.0**pruned.grid
    margins = problem.pruned_margins_int(pruned, fit.leaves) / 2.0**pruned.grid
    original = problem.forest.leaf_vectors()[problem.leaf_node]
    n_trees = problem.trees.n_trees
    divisors = _divisor(problem, original, n_trees), _divisor(problem, leaf_value, len(pruned.kept))
    before = probabilities_of(problem.forest, fit.margins, divisors[0])
    after = probabilities_of(problem.forest, margins, divisors[1])
    shift = np.abs(after - before)
    mean = np.average(shift.max(axis=1), weights=fit.counts)
    brier = np.average((shift**2).sum(axis=1), weights=fit.counts)
    return ProbabilityShift(float(mean), float(shift.max()), float(brier))


def _divisor(problem: Problem, leaf_value: FloatArray, n_trees: int) -> float:
    """What the native library divides a sum by: the weights of all votes, or the trees."""
    if output_of(problem.forest) is not Output.VOTES:
        return float(n_trees)
    weight = np.maximum.reduceat(np.abs(leaf_value).max(axis=1), problem.trees.leaf_offset[:-1])
    return float(weight.sum())
