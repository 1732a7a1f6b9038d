"""From real leaf values to the pruned model on its dyadic grid.

In come the leaf values of a linear program; out goes a PrunedForest whose integer margins are, by
construction, the native margins. The trees keep their splits; the free positive scale is chosen as
for whole trees.
"""

from __future__ import annotations

import numpy as np

from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest, spread
from pine_boost.model.margin_probabilities import SEPARATE
from pine_boost.proof.problem import Problem
from pine_boost.search.columns import Columns
from pine_boost.search.leaf_order import in_order
from pine_boost.search.linear_program import Weights
from pine_boost.search.probabilities import Reference
from pine_boost.search.rounding import choose_grid, closest_scale, constants, fold_intercept, level


def leaves_to_grid(
    problem: Problem, columns: Columns, weights: Weights, reference: Reference, *, scale: float | None = None
) -> PrunedForest | None:
    """Round leaf values to the grid; None when there is no scale or no tree.

    Every tree of a unit with a non-zero leaf is kept, and its weight is 1: its leaves need not be
    a multiple of the original's. ``scale`` multiplies all values.
    """
    forest = problem.forest
    kept = np.flatnonzero(columns.units_of(weights.weights)[columns.tree_unit])
    scale = scale or native_scale(problem, columns, weights, reference)
    found = constants(problem, weights)
    if len(kept) == 0 or scale is None or found is None:
        return None
    value = scale * _node_values(problem, columns, weights)
    intercept = scale * found[1]
    if forest.objective == SEPARATE and problem.strict.all():
        intercept = intercept + level(_margins(problem, value, intercept, reference), reference)
    cut = forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0
    left_over = fold_intercept(problem, value, intercept + cut, kept)
    grid = choose_grid(problem, value, left_over)
    if grid < 0:  # as in `rounding.to_grid`
        return None
    tree_weight = np.zeros(forest.n_trees)
    tree_weight[kept] = 1.0
    value_int, intercept_int = exact.to_units(value, grid), exact.to_units(left_over, grid)
    _put_in_order(problem, columns, value_int)
    return PrunedForest(forest, kept, value_int, grid, intercept_int, tree_weight)


def _put_in_order(problem: Problem, columns: Columns, value_int: IntArray) -> None:
    """Leaves that may not exceed others, exactly: a program is as exact as floats are.

    Values only rise to others of their tree, so that no sum becomes larger than the grid allows.
    """
    assert columns.leaf_column is not None
    own = np.flatnonzero(columns.leaf_column >= 0)
    node, column = problem.leaf_node[own], columns.leaf_column[own]
    of_columns = np.zeros(columns.n_columns, dtype=np.int64)
    of_columns[column] = value_int[node, 0]
    value_int[node, 0] = in_order(of_columns, columns.order)[column]


def native_scale(problem: Problem, columns: Columns, weights: Weights, reference: Reference) -> float | None:
    """What brings a solution nearest to the original's probabilities; None: it has no scale."""
    found = constants(problem, weights)
    if found is None:
        return None
    own_scale, intercept = found
    if own_scale is not None:
        return own_scale
    value = _node_values(problem, columns, weights)
    return closest_scale(problem, _margins(problem, value, intercept, reference), reference)


def _node_values(problem: Problem, columns: Columns, weights: Weights) -> FloatArray:
    """Leaf values over the nodes, (n_nodes, 1)."""
    assert columns.leaf_column is not None
    value = np.zeros((problem.forest.n_nodes, 1))
    own = columns.leaf_column >= 0
    value[problem.leaf_node[own], 0] = (weights.weights / columns.scale)[columns.leaf_column[own]]
    return value


def _margins(problem: Problem, value: FloatArray, intercept: FloatArray, reference: Reference) -> FloatArray:
    """Margins on the distinct rows of X_fit, relative to the first cut."""
    leaf_value = spread(problem.forest, value)[problem.leaf_node]
    return np.asarray(leaf_value[reference.leaves].sum(axis=1) + intercept)
