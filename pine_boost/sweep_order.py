"""The order in which the alphas of a sweep are searched, and what one leaves to the next.

In comes a plan: one model, its region at the largest alpha and the grid; out goes a certified
answer per alpha, ascending. Regions grow from the largest alpha to 0, so rows and cuts found for
one hold for all that follow; proofs hold the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from pine_boost.budget import Budget, Effort, Step, StopReason
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.cpsat.solver import finishing
from pine_boost.proof.problem import Problem, restated
from pine_boost.region.isolation_forest.enclosing import enclosing
from pine_boost.region.region import Region
from pine_boost.search.algorithm import Explored, Known, explore, finish
from pine_boost.search.collapsing import search_collapsed
from pine_boost.search.deduplicated_trees import DeduplicatedTrees, deduplicate_trees
from pine_boost.search.larger_regions import search_inwards
from pine_boost.search.leaf_values import search_leaves
from pine_boost.search.search_result import SearchResult, WarmStart
from pine_boost.search.search_state import SearchOptions

# Second proofs of CP-SAT in another configuration: boxes take two to seven times as long.
_EFFORT = Effort(box_limit=0)
_FOR_UNITS = 0.5  # of the time, where leaf values are searched for too
_FOR_SEARCHES = 0.9  # of the time; the rest is left for the second proofs
Answered = tuple[Region, Problem, SearchResult]


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """What a sweep is asked: the model, the region of the largest alpha, X_fit, the grid.

    ``whole`` is the problem at the largest alpha; others differ in the region only.
    """

    whole: Problem
    largest: Region
    fit_states: npt.NDArray[Any]
    grid: tuple[float, ...]
    options: SearchOptions
    budget: Budget
    callback: Callable[[float, Step], None] | None = None
    lean: DeduplicatedTrees | None = None

    def problem_in(self, region: Region) -> Problem:
        """The problem that is searched in a region: over smaller trees, where there are any."""
        problem = restated(self.whole, region.tables, region.delta or 0.0)
        return problem if self.lean is None else self.lean.of(problem)

    def budget_of(self, alpha: float, n_left: int, effort: Effort) -> Budget:
        """An equal share of the time that is left, for one search."""
        budget = self.budget.with_effort(effort)
        whole = budget.deadline - budget.started
        if budget.is_limited:  # some is left for the second proofs
            seconds = budget.remaining - (1 - _FOR_SEARCHES) * whole
            budget = budget.within(max(seconds / n_left, 1e-3)).after(0.0)
        else:
            budget = Budget.of(None, effort)
        return replace(budget, callback=_told(self.callback, alpha))


def search_alphas(plan: SweepPlan) -> Iterator[Answered]:
    """A certified answer per alpha, ascending; Ctrl-C leaves out those not yet begun."""
    plan = replace(plan, lean=deduplicate_trees(plan.whole))
    answers = _with_leaves(plan) if plan.options.reweight == "leaf" else _with_units(plan)
    if plan.lean is not None:
        answers = _restored(plan, plan.lean, answers)
    return ((region, problem, found.timed()) for region, problem, found in answers)


def _restored(plan: SweepPlan, lean: DeduplicatedTrees, answers: Iterator[Answered]) -> Iterator[Answered]:
    """The answers over the trees of the original; one model for several alphas stays one."""
    before: tuple[PrunedForest | None, PrunedForest | None] = (None, None)
    for region, _, answer in answers:
        whole = restated(plan.whole, region.tables, region.delta or 0.0)
        with finishing():  # as in `search_lean`
            found = lean.restored(whole, answer, plan.options.unit, plan.budget)
        if answer.pruned is before[0]:
            found = replace(found, pruned=before[1])
        before = answer.pruned, found.pruned
        yield region, whole, found


def _with_units(plan: SweepPlan) -> Iterator[Answered]:
    return _inwards(plan) if enclosing(plan.largest.tables) else _outwards(plan)


def _with_leaves(plan: SweepPlan) -> Iterator[Answered]:
    """Go on with leaf values from every answer; one for a larger region holds for all others."""
    whole = plan.budget.with_effort(_EFFORT)
    units = replace(plan, budget=plan.budget.share(_FOR_UNITS) if whole.is_limited else plan.budget)
    larger: SearchResult | None = None
    is_interrupted = False
    for number, (region, problem, found) in enumerate(_with_units(units)):
        alpha = plan.grid[number]
        if not is_interrupted:
            budget = whole.share(1 / (len(plan.grid) - number)) if whole.is_limited else whole
            budget = replace(budget, callback=_told(plan.callback, alpha))
            options = plan.options
            go_on = search_collapsed if options.unit == "leaf" else search_leaves
            found = go_on(problem, plan.fit_states, found, budget, options, larger)
        is_interrupted |= found.interrupted
        larger = found
        yield region, problem, found


def _outwards(plan: SweepPlan) -> Iterator[Answered]:
    """Explore from the smallest region to the largest, prove twice the other way round."""
    played: list[tuple[Region, Explored]] = []
    start: WarmStart | None = None
    delta = plan.whole.delta
    for alpha in sorted(plan.grid, reverse=True):
        region = plan.largest.with_alpha(alpha)
        before, problem = delta, plan.problem_in(region)
        delta = problem.delta
        budget = plan.budget_of(alpha, len(plan.grid) - len(played), _EFFORT)
        # with another delta, points that were undecided before speak now: rows begin anew
        known = Known(start=start if problem.delta == before else None)
        explored = explore(problem, plan.fit_states, budget, plan.options, known)
        played.append((region, explored))
        if explored.stopped is StopReason.INTERRUPTED:
            break
        start = explored.start()
    larger: SearchResult | None = None
    for region, explored in reversed(played):
        budget = plan.budget.with_effort(_EFFORT)
        larger = finish(explored, budget, larger)
        yield region, explored.state.problem, larger


def _inwards(plan: SweepPlan) -> Iterator[Answered]:
    """Search from the largest region to the smallest: each begins with a model that holds there.

    For scores that make proofs hard, where a certified model soon is worth more than shared rows.
    """
    larger: SearchResult | None = None
    for number, alpha in enumerate(plan.grid):
        region = plan.largest.with_alpha(alpha)
        problem = plan.problem_in(region)
        budget = plan.budget_of(alpha, len(plan.grid) - number, Effort())
        larger = search_inwards(problem, plan.fit_states, budget, plan.options, Known(larger=larger))
        yield region, problem, larger
        if larger.stopped is StopReason.INTERRUPTED:
            break


def _told(callback: Callable[[float, Step], None] | None, alpha: float) -> Callable[[Step], None] | None:
    if callback is None:
        return None
    return lambda step: callback(alpha, step)
