"""The search with free leaf values (``reweight="leaf"``), starting from a certified model.

Kept trees keep their splits; the linear program chooses their leaf values, so fewer units may do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, StopReason
from pine_boost.model.exact import RIDGE
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import ask, finish, prove_lower_bound, run
from pine_boost.search.constraints import Constraints, DistinctFitRows
from pine_boost.search.grid_rounding import Reference, leaves_to_grid, native_scale, probability_shift
from pine_boost.search.lower_bound import prove_bound
from pine_boost.search.lp import LinearProgram, RowPool, Solver, WeightProgram, Weights, add_order_rows
from pine_boost.search.lp_columns import Columns, Support, leaf_columns
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_result import Incumbent, SearchResult
from pine_boost.search.search_state import MOST_LEAF_COLUMNS, SearchOptions, SearchState, build_state
from pine_boost.search.strategies import Proposal, ProposalStatus, perturb

_MANY_COLUMNS = 400
_PERTURBATIONS = 24  # other sets of units to try
_BOUND_ROUNDS = 40  # sets of fewer units to exclude


def search_leaves_at_once(units: SearchState, budget: Budget) -> SearchResult:
    """Go on with leaf values from units that are proved once.

    If fewer units are enough then, the larger model needs neither a second proof nor a lower bound,
    which would not hold for free leaf values.
    """
    state = _leaf_state(units.problem, units.constraints.fit, units.best.support, units)
    n_before, is_late = units.best.smallest.n_kept, False
    if n_before > 1 and state.columns.n_columns <= MOST_LEAF_COLUMNS:
        state.best.take_over(units.best)
        _run_stages(state, units.constraints.states)
        result = finish(state, budget)
        if result.n_kept < n_before:
            return replace(result, reweight="leaf", seconds=budget.clock)
        units.best.take_over(state.best)
        units.ended.update(state.ended & {StopReason.TIME, StopReason.INTERRUPTED})
        is_late = StopReason.TIME in result.ended
    prove_lower_bound(units)
    found = replace(finish(units, budget), seconds=budget.clock)
    return found.with_ends(StopReason.TIME) if is_late else found


def search_leaves(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    found: SearchResult,
    budget: Budget,
    options: SearchOptions,
    larger: SearchResult | None = None,
) -> SearchResult:
    """Go on from a certified model: its trees keep their splits, their leaf values are free.

    ``larger`` is the answer for a larger region, whose model holds here too. If no smaller model is
    proved, ``found`` is returned (or ``larger``).
    """
    is_larger_better = larger is not None and found.n_kept > larger.n_kept
    best = larger if larger is not None and is_larger_better else found
    start = found.with_model_of(best) if is_larger_better else found
    if found.is_last or start.n_kept <= 1:
        return start
    if budget.is_over:
        return start.with_ends(StopReason.TIME)
    budget = budget.after(found.seconds)
    units = build_state(problem, fit_states, budget, options)
    state = _leaf_state(problem, units.constraints.fit, units.columns.kept_units(start.pruned), units)
    if state.columns.n_columns > MOST_LEAF_COLUMNS:
        return start
    state.best.adopt(start.best, found.undecided)
    _run_stages(state, best.points)
    return start.followed_by(replace(finish(state, budget), seconds=budget.clock))


def _run_stages(state: SearchState, points: States | None) -> None:
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


def _leaf_state(problem: Problem, fit: DistinctFitRows, support: Support, units: SearchState) -> SearchState:
    """A search without rows over all leaves if they are few enough, else over those of a support.

    Walks are not repeated: their points are among those of the search over units.
    """
    if problem.trees.n_leaves <= MOST_LEAF_COLUMNS:
        support = np.ones_like(support)
    columns = leaf_columns(units.columns, problem, support, units.options.monotone)
    constraints = Constraints(problem, columns, fit.with_columns(problem, columns.n_columns))
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


def _dropping(state: SearchState, points: States | None) -> Iterator[Proposal]:
    """Backward elimination with a proof at each step: the most dispensable unit goes first.

    Starts from the points of an earlier search. A unit that is needed now stays needed: rows grow
    and sets shrink.
    """
    state.constraints.add(state.constraints.fit.nearest(), state.budget)
    if points is not None:
        state.constraints.add(points[state.problem.region.contains(points)], state.budget)
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
        nearby = yield from perturb(state, nearby, state.options.seed + number)


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
    return nearest_leaves(
        state.problem,
        state.columns,
        state.constraints.program,
        support,
        weights,
        state.constraints.fit.reference,
        state.budget,
    )


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
