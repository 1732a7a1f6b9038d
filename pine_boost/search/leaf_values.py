"""Fewer trees with leaf values of their own: the search goes on from a certified model.

In come a problem and what the search over whole units found; out goes a model of fewer units whose
leaves the linear program chose, proved twice like any other, or what came in. The splits of a kept
tree stay. Nothing is said about how few units would do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, StopReason
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import Explored, Known, MakesRoom, bounded, finish, play, play_out
from pine_boost.search.collapsing import search_collapsed
from pine_boost.search.columns import Support, leaf_columns
from pine_boost.search.constraints import Constraints, FitRows
from pine_boost.search.incumbent import Incumbent
from pine_boost.search.larger_regions import search_inwards
from pine_boost.search.lower_bound import prove_bound
from pine_boost.search.polish_probabilities import nearer, nearest_leaves
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchOptions, SearchState, build_state
from pine_boost.search.strategies import Proposal, ProposalStatus, perturb

_MOST_COLUMNS = 2000  # leaves; a program over more does not end in a reasonable time
_MANY_COLUMNS = 400
_PERTURBATIONS = 24  # other sets of units that are tried
_FOR_BOUND = 0.25  # of the time that is left then
_BOUND_ROUNDS = 40  # sets of fewer units that are excluded
_FOR_UNITS = 0.75  # of the time limit, if they take so long; the rest is for leaf values
_BEFORE_LEAVES = 0.3  # of the time limit, for whole trees; the rest is for fewer leaves


def search_reweighted(
    problem: Problem, fit_states: npt.NDArray[Any], budget: Budget, options: SearchOptions, points: States | None = None
) -> SearchResult:
    """The search over whole units, and where the options say so, on with leaf values or leaves.

    ``points`` are state rows to begin with, if there are any already. Under a time limit the search
    over units before leaf values is that of ``reweight="tree"`` with the same limit, until it ends
    or most of the time is gone.
    """
    known = Known(points=points)
    if options.reweight == "tree":
        return search_inwards(problem, fit_states, budget, options, known)
    if options.unit == "leaf":
        share = budget.share(_BEFORE_LEAVES) if budget.is_limited else budget
        found = search_inwards(problem, fit_states, share, options, known)
        return search_collapsed(problem, fit_states, found, budget, options)
    makes_room = _room_for_leaves(budget)
    if problem.region.slows_cp_sat:
        found = search_inwards(problem, fit_states, budget, options, known, makes_room)
        return search_leaves(problem, fit_states, found, budget, options)
    played = play_out(problem, fit_states, budget, options, known, makes_room)
    if played.stopped is StopReason.EFFORT and not played.state.is_late():
        return _leaves_at_once(played, budget)
    found = finish(bounded(played), budget)
    return search_leaves(problem, fit_states, found, budget, options)


def _room_for_leaves(budget: Budget) -> MakesRoom | None:
    """Whether a search over units should end: late, with a model whose leaves can be chosen."""
    if not budget.is_limited:
        return None
    for_units = budget.share(_FOR_UNITS)

    def makes_room(state: SearchState) -> bool:
        if not for_units.is_over:
            return False
        kept = state.best.support[state.columns.tree_unit[state.problem.trees.leaf_tree]]
        return bool(np.count_nonzero(kept) <= _MOST_COLUMNS)

    return makes_room


def _leaves_at_once(played: Explored, budget: Budget) -> SearchResult:
    """Leaf values from units that are proved once: where fewer do, these need no second proof.

    Nor do they need a bound then, which would not hold for leaf values.
    """
    units = played.state
    state = _leaf_state(units.problem, units.constraints.fit, units.best.support, units)
    n_before, out_of_time = units.best.smallest.n_kept, False
    if n_before > 1 and state.columns.n_columns <= _MOST_COLUMNS:
        state.best.take_over(units.best)
        explored = Explored(state)
        _play_leaves(explored, units.constraints.states)
        result = finish(explored, budget)
        if result.n_kept < n_before:
            return replace(result, reweight="leaf", seconds=budget.clock)
        out_of_time = result.out_of_time
        units.best.take_over(state.best)
        if explored.stopped is not StopReason.MEMORY:  # leaf values take more than whole units
            played.stopped = explored.stopped
    found = finish(bounded(played), budget)
    return replace(found, out_of_time=found.out_of_time or out_of_time)


def search_leaves(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    found: SearchResult,
    budget: Budget,
    options: SearchOptions,
    larger: SearchResult | None = None,
) -> SearchResult:
    """Go on from a certified model: its trees keep their splits, their leaf values are free.

    ``larger`` is the answer for a larger region, whose model holds here too. Where no smaller model
    is proved, ``found`` comes back (or ``larger``), with what is true of it.
    """
    stopped = found.is_last or budget.is_over
    best = found if larger is None or found.n_kept <= larger.n_kept else larger
    start = found if best is found else _taken_over(best, found)
    if stopped or start.n_kept <= 1:
        is_late = start.n_kept > 1 and budget.is_over
        return replace(start, out_of_time=start.out_of_time or is_late)
    budget = budget.after(found.seconds)
    units = build_state(problem, fit_states, budget, options)
    support = units.columns.kept_units(start.pruned)
    state = _leaf_state(problem, units.constraints.fit, support, units)
    if state.columns.n_columns > _MOST_COLUMNS:
        return start
    state.best.adopt(start.best, found.undecided)
    explored = Explored(state)
    _play_leaves(explored, best.points)
    return start.followed_by(replace(finish(explored, budget), seconds=budget.clock))


def _play_leaves(explored: Explored, points: States | None) -> None:
    """Fewer units, how few there must be, other sets of units, and values near the original's."""
    state = explored.state
    n_before = state.best.smallest.n_kept
    parts = ((_dropping(state, points), 1.0), (_bounding(state), 0.5), (_swapping(state), 0.5))
    for strategy, part in parts:
        work = math.inf if state.budget.is_limited else part * state.effort.leaf_work
        state.constraints.program.allow(work)
        play(explored, strategy)
    state.constraints.program.allow(math.inf)
    if state.best.smallest.n_kept < n_before:
        play(explored, nearer(state, lambda: _write_near(state)))


def _taken_over(larger: SearchResult, found: SearchResult) -> SearchResult:
    """The answer of a larger region in place of this region's own."""
    stopped = StopReason.EFFORT if found.stopped is StopReason.OPTIMAL else found.stopped
    return replace(
        found,
        pruned=larger.pruned,
        proofs=larger.proofs,
        n_kept=larger.n_kept,
        stopped=stopped,
        lower_bound=1,
        bound=None,
        reweight=larger.reweight,
    )


def _leaf_state(problem: Problem, fit: FitRows, support: Support, units: SearchState) -> SearchState:
    """A game without rows whose columns are all leaves, or those of a support; else that of units.

    The walks of the first search are among its points.
    """
    if problem.trees.n_leaves <= _MOST_COLUMNS:
        support = np.ones_like(support)
    columns = leaf_columns(units.columns, problem, support, units.options.monotone)
    constraints = Constraints(problem, columns, fit.with_columns(problem, columns.n_columns))
    pruner, best = Pruner(constraints, units.budget), Incumbent(columns, units.budget.began)
    return replace(units, columns=columns, constraints=constraints, pruner=pruner, best=best, _walked=[True])


def _dropping(state: SearchState, points: States | None) -> Iterator[Proposal]:
    """Backward elimination, each step proved: the unit that is missed least goes first.

    Begins with the points of an earlier search. What cannot go now can never go later: rows grow
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
    """Sets nearby: a few units join, others go; those that are smaller are proved or refuted."""
    nearby: Support | None = None
    if len(np.unique(state.columns.column_unit)) < state.columns.n_units:
        return  # other units have no columns
    for number in range(_PERTURBATIONS):
        state.budget.check()
        if state.best.smallest.n_kept <= state.best.lower_bound:
            return
        nearby = yield from perturb(state, nearby, state.options.seed + number)


def _missed_least(state: SearchState, support: Support, needed: Support) -> int | None:
    """The unit without which the value of the game stays largest; notes those that are needed.

    Of many columns the first that can go, light ones first: a program for each would take long.
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
    """How few units any leaf values need, in exact integers, within some effort.

    Proposes nothing: the bound is the incumbent's.
    """
    share = state.budget.share(_FOR_BOUND) if state.budget.is_limited else state.budget
    state.report_progress("bound")
    state.pruner.find_essential(state.best.support)
    target = state.best.smallest.n_kept
    state.best.bound = prove_bound(state.pruner, target, None, share, _BOUND_ROUNDS)
    state.best.note(2 if not state.best.waiting else 1)
    yield from ()


def _write_near(state: SearchState) -> PrunedForest | None:
    """A model near the original on the units of the best one."""
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
