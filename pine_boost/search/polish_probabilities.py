"""Among certified models of one size, find one whose probabilities are close to the original's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pine_boost.budget import Budget
from pine_boost.model.exact import RIDGE
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import ask
from pine_boost.search.grid_rounding import leaves_to_grid, native_scale
from pine_boost.search.lp import LinearProgram, RowPool, Solver
from pine_boost.search.lp_columns import Columns, Support
from pine_boost.search.probabilities import Reference, probability_shift
from pine_boost.search.search_state import SearchState
from pine_boost.search.strategies import Proposal
from pine_boost.search.weight_program import WeightProgram, Weights, add_order_rows

_ROOM = 0.25  # of the widest margin that these trees can keep on all rows
_MOST_ROWS = 5000  # fit rows that the original's margins are fitted on


def nearest_leaves(
    problem: Problem,
    columns: Columns,
    program: WeightProgram,
    support: Support,
    weights: Weights,
    reference: Reference,
    budget: Budget,
) -> PrunedForest | None:
    """The model closest to the original on a support, or None.

    ``weights`` solve the ``program`` of these ``columns``. Rounding to the grid may break a row.
    """
    scale = native_scale(problem, columns, weights, reference)
    if scale is None:
        return None
    kept = np.flatnonzero(support[columns.column_unit])
    target, counts = _best_fit(problem, columns, kept, reference)
    room = _ROOM * scale * weights.value
    nearest = _project(problem, program, kept, room, (target, counts), budget)
    if nearest is None:
        return None
    return leaves_to_grid(problem, columns, nearest, reference, scale=1.0)


def _project(
    problem: Problem,
    program: WeightProgram,
    kept: IntArray,
    room: float,
    wanted: tuple[FloatArray, FloatArray],
    budget: Budget,
) -> Weights | None:
    """The values closest to those ``wanted``, weighted by their rows, that keep every row."""
    target, counts = wanted
    n_kept, n_free = len(kept), program.n_free
    n_values = n_kept + n_free  # and as many distances as kept values after them
    pool = RowPool(
        np.hstack([program.rows[:, kept], program.free_rows]), np.asarray(room * program.strict, dtype=np.float64)
    )
    lower = np.concatenate([np.full(n_values, -np.inf), np.zeros(n_kept)])
    upper = np.full(n_values + n_kept, np.inf)
    cuts = problem.forest.decision.cuts
    if len(cuts) > 1:
        lower[n_kept + 1] = upper[n_kept + 1] = cuts[-1] - cuts[0]
    cost = np.concatenate([np.zeros(n_values), counts])
    projection = LinearProgram(cost, lower, upper, pool, solver=Solver.HIGHS)
    for sign in (-1.0, 1.0):
        for column in range(n_kept):
            projection.add_row([column, n_values + column], [sign, 1.0], sign * target[column])
    add_order_rows(projection, program.order, kept)
    projection.join(np.arange(len(pool)))
    result = projection.solve(budget)
    if result is None:
        return None
    values = np.zeros(program.n_columns)
    values[kept] = result.x[:n_kept]
    return Weights(values, np.asarray(result.x[n_kept : n_kept + n_free]), room)


def _best_fit(
    problem: Problem, columns: Columns, kept: IntArray, reference: Reference
) -> tuple[FloatArray, FloatArray]:
    """Values of the kept columns that fit the original's margins on X_fit, and their row counts.

    Least squares for each output separately, with margins relative to the first cut.
    """
    forest = problem.forest
    assert columns.leaf_column is not None
    own = np.flatnonzero(columns.leaf_column >= 0)
    tree_of = np.zeros(columns.n_columns, dtype=np.int64)
    tree_of[columns.leaf_column[own]] = problem.trees.leaf_tree[own]
    tree = tree_of[kept]
    output = forest.tree_output[tree]
    leaves = reference.leaves[:_MOST_ROWS]
    counts = reference.counts[:_MOST_ROWS].astype(np.float64)
    reached = (columns.leaf_column[leaves[:, tree]] == kept).astype(np.float64)
    margins = reference.margins[:_MOST_ROWS] - (forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0)
    target = np.zeros(len(kept))
    for number in range(forest.n_outputs):
        mine = np.flatnonzero(output == number)
        design = reached[:, mine] * counts[:, None]
        square = reached[:, mine].T @ design + RIDGE * counts.sum() * np.eye(len(mine))
        target[mine] = np.linalg.solve(square, design.T @ margins[:, number]) if len(mine) else 0.0
    return target, counts @ reached + 1.0


_MOST_ASKED = 12  # models close to the original to try


def polish(state: SearchState, write: Callable[[], PrunedForest | None]) -> Iterator[Proposal]:
    """Try models of the same size that are closer to the original until one is proved.

    ``write`` gives the next one that keeps all rows. A strategy without proposals of its own.
    """
    smallest = state.best.smallest.pruned
    assert smallest is not None
    reference = state.constraints.fit.reference
    known = probability_shift(state.problem, smallest, reference)
    for _ in range(_MOST_ASKED):
        state.budget.check()
        if state.is_late():
            state.prove_twice()
        pruned = write()
        if pruned is None or state.constraints.loses(pruned):
            return
        if probability_shift(state.problem, pruned, reference).brier >= known.brier:
            return
        if state.columns.size_of(pruned) > state.best.smallest.n_kept:
            return
        verdict = ask(state, pruned, Proposal(state.best.support))
        assert verdict is not None
        if verdict.is_proved:
            state.best.prefer(pruned, verdict.proofs)
            return
        if state.learn(pruned, verdict) == 0:
            return
    yield from ()
