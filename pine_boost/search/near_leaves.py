"""Leaf values near the original's that keep all rows: what people see in `predict_proba`.

In comes a game over leaves with a set of units that wins; out goes a model on the grid that keeps
every row with some room and whose leaves are near the best fit to the original's margins. They
decide nothing that is proved.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.search.columns import Support
from pine_boost.search.game import Game
from pine_boost.search.leaf_rounding import leaves_to_grid, native_scale
from pine_boost.search.linear_program import Weights

_ROOM = 0.25  # of the widest margin that these trees can keep on all rows
_MOST_ROWS = 5000  # fit rows that the original's margins are fitted on
_RIDGE = 1e-6  # of the weight of all rows: leaves without rows stay near 0
_SECONDS = 10.0


def nearest_leaves(game: Game) -> PrunedForest | None:
    """The model nearest to the original on the units of the best one; None where there is none."""
    support = game.best.support
    weights = game.pruner.solve(support, records=False)
    if weights is None:
        return None
    reference = game.rows.fit.reference
    scale = native_scale(game.problem, game.columns, weights, reference)
    if scale is None:
        return None
    nearest = _project(game, support, _ROOM * scale * weights.value)
    if nearest is None:
        return None
    pruned = leaves_to_grid(game.problem, game.columns, nearest, reference, scale=1.0)
    return None if pruned is None or game.rows.loses(pruned) else pruned


def _project(game: Game, support: Support, room: float) -> Weights | None:
    """Least distance to the best fit, each leaf counted by its rows, with every row kept."""
    program, columns = game.rows.program, game.columns
    kept = np.flatnonzero(support[columns.column_unit])
    target, counts = _best_fit(game, kept)
    n_kept, n_free = len(kept), columns.n_free
    same = np.eye(n_kept)
    nothing = np.zeros((n_kept, n_free))
    rows = -np.hstack(
        [program.rows[:, kept], program.free_rows, np.zeros((len(program.rows), n_kept))]
    )
    above, below = np.hstack([same, nothing, -same]), np.hstack([-same, nothing, -same])
    cuts = game.problem.forest.decision.cuts
    free_bounds: list[tuple[float | None, float | None]] = [(None, None)] * n_free
    if len(cuts) > 1:
        free_bounds[1] = (cuts[-1] - cuts[0], cuts[-1] - cuts[0])
    result = linprog(
        np.concatenate([np.zeros(n_kept + n_free), counts]),
        A_ub=np.vstack([rows, above, below]),
        b_ub=np.concatenate([-room * program.strict, target, -target]),
        bounds=[(None, None)] * n_kept + free_bounds + [(0, None)] * n_kept,
        method="highs",
        options={"time_limit": min(_SECONDS, max(0.1, game.budget.remaining))},
    )
    if not result.success:
        return None
    values = np.zeros(columns.n_columns)
    values[kept] = result.x[:n_kept]
    return Weights(values, np.asarray(result.x[n_kept : n_kept + n_free]), room)


def _best_fit(game: Game, kept: IntArray) -> tuple[FloatArray, FloatArray]:
    """Values of the kept leaves that fit the original's margins on X_fit, and their rows.

    Least squares for each output by itself, margins relative to the first cut.
    """
    problem, columns = game.problem, game.columns
    forest, reference = problem.forest, game.rows.fit.reference
    assert columns.leaf_column is not None
    leaf_of = np.flatnonzero(columns.leaf_column >= 0)[kept]
    output = np.argmax(columns.value[leaf_of], axis=1)
    leaves = reference.leaves[:_MOST_ROWS]
    counts = reference.counts[:_MOST_ROWS].astype(np.float64)
    tree = problem.trees.leaf_tree[leaf_of]
    reached = (leaves[:, tree] == leaf_of).astype(np.float64)
    margins = reference.margins[:_MOST_ROWS] - (
        forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0
    )
    target = np.zeros(len(kept))
    for number in range(forest.n_outputs):
        own = np.flatnonzero(output == number)
        design = reached[:, own] * counts[:, None]
        square = reached[:, own].T @ design + _RIDGE * counts.sum() * np.eye(len(own))
        target[own] = np.linalg.solve(square, design.T @ margins[:, number]) if len(own) else 0.0
    return target, counts @ reached + 1.0
