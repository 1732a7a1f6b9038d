"""The search with free leaf values (``reweight="leaf"``), starting from a certified model.

Kept trees keep their splits; the linear program chooses their leaf values, so fewer units may do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

from pine_boost.budget import Budget, StopReason
from pine_boost.model.exact import PROGRAM_NOISE, RIDGE, TIGHT_ROW
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import ask, finish, prove_lower_bound, run
from pine_boost.search.constraints import Constraints, DistinctFitRows
from pine_boost.search.grid_rounding import native_scale, probability_shift
from pine_boost.search.lower_bound import prove_bound
from pine_boost.search.lp import LinearProgram, RowPool, Solver, WeightProgram, Weights
from pine_boost.search.lp_columns import Columns, Support, leaf_columns, renamed
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_result import Incumbent, SearchResult
from pine_boost.search.search_state import MOST_LEAF_COLUMNS, ProposalStatus, SearchState
from pine_boost.search.strategies import Proposal, perturb

_MANY_COLUMNS = 400
_PERTURBATIONS = 24  # other sets of units to try
_BOUND_ROUNDS = 40  # sets of fewer units to exclude


def search_leaves_at_once(units: SearchState, budget: Budget) -> SearchResult:
    """Go on with leaf values from units that are proved once.

    If fewer units are enough then, the larger model needs neither a second proof nor a lower bound,
    which would not hold for free leaf values.
    """
    state = leaf_state(units, units.best.support)
    n_before, is_late = units.best.smallest.n_kept, False
    if n_before > 1 and state.columns.n_columns <= MOST_LEAF_COLUMNS:
        state.best.take_over(units.best)
        search_leaf_values(state, units.constraints.states)
        result = finish(state, budget)
        if result.n_kept < n_before:
            return replace(result, reweight="leaf")
        units.best.take_over(state.best)
        units.ended.update(state.ended & {StopReason.TIME, StopReason.INTERRUPTED})
        is_late = StopReason.TIME in result.ended
    prove_lower_bound(units)
    found = finish(units, budget)
    return found.with_ends(StopReason.TIME) if is_late else found


def search_leaf_values(state: SearchState, points: States | None) -> None:
    """Fewer units, a bound on their number, other sets of units, and values near the original's."""
    n_before = state.best.smallest.n_kept
    stages = ((_dropping(state, points), 1.0), (_bounding(state), 0.5), (_swapping(state), 0.5))
    for stage, part in stages:
        work = math.inf if state.budget.is_limited else part * state.effort.leaf_work
        state.constraints.program.allow(work)
        run(state, stage)
    state.constraints.program.allow(math.inf)
    if state.best.smallest.n_kept < n_before:
        run(state, polish(state, lambda: _write_near(state)))


def leaf_state(units: SearchState, support: Support) -> SearchState:
    """A search without rows over all leaves if they are counted or few enough, else over those of a support.

    Walks are not repeated: their points are among those of the search over units.
    """
    problem = units.problem
    counts_leaves = units.task.options.unit == "leaf"
    if counts_leaves or problem.trees.n_leaves <= MOST_LEAF_COLUMNS:
        support = np.ones_like(support)
    columns = leaf_columns(units.columns, problem, support, units.task.monotone)
    if counts_leaves:
        columns = replace(columns, name="leaf")
    constraints = Constraints(problem, columns, units.constraints.fit)
    return replace(
        units,
        columns=columns,
        constraints=constraints,
        pruner=Pruner(constraints, units.budget),
        best=Incumbent(columns, units.budget.began),
        ended=set(),
        units_budget=None,
        _walked=[True],
    )


def add_known(state: SearchState, points: States | None) -> None:
    """Add rows of X_fit and the points of an earlier search."""
    state.constraints.add_nearest_fit_rows(state.budget)
    if points is not None:
        state.constraints.add(points[state.problem.region.contains(points)], state.budget)


def _dropping(state: SearchState, points: States | None) -> Iterator[Proposal]:
    """Backward elimination with a proof at each step: the most dispensable unit goes first.

    Starts from the points of an earlier search. A unit that is needed now stays needed: rows grow
    and sets shrink.
    """
    add_known(state, points)
    support = state.best.support
    needed = np.zeros_like(support)
    while np.count_nonzero(support) > 1:
        state.report_progress("leaves")
        if state.is_late():
            state.prove_twice()
        unit = _missed_least(state, support, needed)
        if unit is None:
            return
        trial = support.copy()
        trial[unit] = False
        proposal = Proposal(trial)
        yield proposal
        if proposal.status is ProposalStatus.PROVED:
            support = state.best.support
        else:
            needed[unit] = True


def _swapping(state: SearchState) -> Iterator[Proposal]:
    """Perturb the best set: a few units join, others go; smaller sets are proposed."""
    nearby: Support | None = None
    if len(np.unique(state.columns.column_unit)) < state.columns.n_units:
        return  # other units have no columns
    for number in range(_PERTURBATIONS):
        state.budget.check()
        if state.best.smallest.n_kept <= state.best.lower_bound:
            return
        nearby = yield from perturb(state, nearby, state.seed + number)


def _missed_least(state: SearchState, support: Support, needed: Support) -> int | None:
    """The unit without which the optimum of the program stays largest; marks those that are needed.

    With many columns the first unit that can go, light ones first: a program for each would take
    long.
    """
    best, largest = None, 0.0
    units = np.flatnonzero(support & ~needed)
    takes_first = state.columns.n_columns > _MANY_COLUMNS
    if takes_first:
        units = state.pruner.light_first(support, units)
    for unit in units:
        trial = support.copy()
        trial[unit] = False
        weights = state.pruner.solve(trial, records=False)
        if weights is None:
            needed[unit] = True
        elif takes_first:
            return int(unit)
        elif weights.value > largest:
            best, largest = int(unit), weights.value
    return best


def _bounding(state: SearchState) -> Iterator[Proposal]:
    """Prove how many units any leaf values need; sets the incumbent's bound and proposes nothing."""
    share = state.budget.part("leaf bound")
    state.report_progress("bound")
    state.pruner.find_essential(state.best.support)
    target = state.best.smallest.n_kept
    state.best.bound = prove_bound(state.pruner, target, None, share, _BOUND_ROUNDS)
    state.best.note(2 if not state.best.waiting else 1)
    yield from ()


def _write_near(state: SearchState) -> PrunedForest | None:
    """A model close to the original on the units of the best one."""
    support = state.best.support
    weights = state.pruner.solve(support, records=False)
    if weights is None:
        return None
    return nearest_leaves(state, state.constraints.program, support, weights)


_ROOM = 0.25  # of the widest margin that these trees can keep on all rows
_MOST_ROWS = 5000  # fit rows that the original's margins are fitted on
_ROWS_PER_PASS = 100
_MOST_PASSES = 60


def nearest_leaves(
    state: SearchState, program: WeightProgram, support: Support, weights: Weights
) -> PrunedForest | None:
    """The model closest to the original on a support, or None if rounding to the grid breaks a row.

    ``weights`` solve the ``program``.
    """
    problem, fit, columns = state.problem, state.constraints.fit, program.columns
    scale = native_scale(problem, columns, weights, fit)
    if scale is None:
        return None
    kept = np.flatnonzero(support[columns.column_unit])
    place = np.full(columns.n_columns, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    target, counts = _best_fit(problem, columns, kept, fit)
    free = np.zeros(program.n_free)
    cuts = problem.forest.decision.cuts
    if len(cuts) > 1:
        free[1] = cuts[-1] - cuts[0]
    least = np.asarray(_ROOM * scale * weights.value * program.strict, dtype=np.float64)
    rows = csr_matrix(program.rows[:, kept]), program.free_rows, least
    wanted = Weights(target, free, 1.0)
    found = closest_values(problem, rows, renamed(columns.order, place), wanted, counts, state.budget)
    if found is None:
        return None
    values = np.zeros(columns.n_columns)
    values[kept] = found[0].weights
    return state.on_grid(columns, replace(found[0], weights=values), scale=1.0)


def closest_values(
    problem: Problem,
    rows: tuple[csr_matrix, FloatArray, FloatArray],
    order: IntArray,
    wanted: Weights,
    counts: FloatArray,
    budget: Budget,
    active: IntArray | None = None,
) -> tuple[Weights, IntArray] | None:
    """The values closest to those ``wanted`` that keep every row, and the rows that are tight then.

    Constants are free; the distance of several cuts stays.

    Parameters
    ----------
    rows : entries (n_rows, n_values), entries of the constants, and least sides
    order : int64 (n_pairs, 2)
        Pairs of values: the first may not exceed the second.
    wanted : Weights
    counts : float64 (n_values,)
        What a unit of distance costs.
    active : int64 array, optional
        Rows to begin with.
    """
    entries, free_rows, at_least = rows
    n_values, n_free, n_pairs = len(counts), len(wanted.free), len(order)
    pairs = np.arange(n_pairs)
    signs = (np.repeat([1.0, -1.0], n_pairs), (np.tile(pairs, 2), np.concatenate([order[:, 1], order[:, 0]])))
    whole = vstack([entries, csr_matrix(signs, shape=(n_pairs, n_values))], format="csr")
    constants = vstack([csr_matrix(free_rows), csr_matrix((n_pairs, n_free))])
    lacking = np.concatenate([at_least - free_rows @ wanted.free, np.zeros(n_pairs)]) - whole @ wanted.weights
    # changes upwards, as many downwards, then of the constants
    lower = np.concatenate([np.zeros(2 * n_values), np.full(n_free, -np.inf)])
    upper = np.full(len(lower), np.inf)
    if problem.forest.n_outputs == 1:
        lower[2 * n_values + 1 :] = upper[2 * n_values + 1 :] = 0.0
    pool = RowPool(hstack([whole, -whole, constants], format="csr"), lacking)
    program = LinearProgram(
        np.concatenate([counts, counts, np.zeros(n_free)]),
        lower,
        upper,
        pool,
        solver=Solver.HIGHS,
        rows_per_pass=_ROWS_PER_PASS,
        most_passes=_MOST_PASSES,
    )
    known = np.zeros(0, dtype=np.int64) if active is None else active
    broken = np.setdiff1d(np.flatnonzero(lacking > PROGRAM_NOISE), known)
    program.join(np.union1d(known, broken[np.argsort(-lacking[broken], kind="stable")[:_ROWS_PER_PASS]]))
    if not program.active:  # nothing has to change
        return wanted, known
    solution = program.solve(budget)
    if solution is None:
        return None
    up, down, constant = np.split(solution.x, [n_values, 2 * n_values])
    joined = np.array(program.active, dtype=np.int64)
    tight = joined[(pool.slack(solution.x)[joined] < TIGHT_ROW) & (joined < len(at_least))]
    return Weights(wanted.weights + up - down, wanted.free + constant, 1.0), tight


def _best_fit(
    problem: Problem, columns: Columns, kept: IntArray, fit: DistinctFitRows
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
    leaves = fit.leaves[:_MOST_ROWS]
    counts = fit.counts[:_MOST_ROWS].astype(np.float64)
    reached = (columns.leaf_column[leaves[:, tree]] == kept).astype(np.float64)
    margins = fit.margins[:_MOST_ROWS] - (forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0)
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
    fit = state.constraints.fit
    known = probability_shift(state.problem, smallest, fit)
    for _ in range(_MOST_ASKED):
        state.budget.check()
        if state.is_late():
            state.prove_twice()
        pruned = write()
        if pruned is None:
            return
        if probability_shift(state.problem, pruned, fit).brier >= known.brier:
            return
        if state.columns.size_of(pruned) > state.best.smallest.n_kept:
            return
        verdict = ask(state, pruned)
        if verdict.counterexamples is None:
            state.best.prefer(pruned, verdict.proofs)
            return
        if state.learn(pruned, verdict.counterexamples, verdict.by_proof) == 0:
            return
    yield from ()
