"""The order in which the alphas of a sweep are searched, and what one search passes on to the next.

Regions grow from the largest alpha to 0. Rows and cuts found for one region hold for all larger
ones; proofs hold for all smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from pine_boost.budget import SHARES, Budget, Effort, Step, StopReason
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.cpsat.solver import finishing
from pine_boost.proof.problem import Problem, restated
from pine_boost.region.isolation_forest.enclosing import enclosing
from pine_boost.region.region import Region
from pine_boost.search.algorithm import Known, explore, finish, prove_lower_bound
from pine_boost.search.collapsing import search_collapsed
from pine_boost.search.deduplicated_trees import DeduplicatedTrees, deduplicate_trees
from pine_boost.search.driver import search_regions
from pine_boost.search.leaf_values import search_leaves
from pine_boost.search.search_result import SearchResult, WarmStart
from pine_boost.search.search_state import SearchOptions, SearchState

# Second proofs use CP-SAT in another configuration, because boxes take two to seven times as long.
_EFFORT = Effort(box_limit=0)
Answered = tuple[Region, Problem, SearchResult]


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """The inputs of a sweep: the model, the region of the largest alpha, X_fit, the grid.

    ``whole`` is the problem at the largest alpha; others differ only in the region. ``trees`` are
    smaller trees that are searched instead of the original's, if there are any.
    """

    whole: Problem
    largest: Region
    fit_states: npt.NDArray[Any]
    grid: tuple[float, ...]
    options: SearchOptions
    budget: Budget
    callback: Callable[[float, Step], None] | None = None
    trees: DeduplicatedTrees | None = None

    def problem_in(self, region: Region) -> Problem:
        """Return the problem to search in a region."""
        problem = restated(self.whole, region.tables, region.delta or 0.0)
        return problem if self.trees is None else self.trees.of(problem)

    def budget_of(self, alpha: float, n_left: int, effort: Effort) -> Budget:
        """Return an equal share of the remaining time, for one search."""
        budget = self.budget.with_effort(effort)
        whole = budget.deadline - budget.started
        if budget.is_limited:  # reserve some time for the second proofs
            seconds = budget.remaining - (1 - SHARES["sweep searches"]) * whole
            budget = budget.within(max(seconds / n_left, 1e-3)).after(0.0)
        else:
            budget = Budget.of(None, effort)
        return replace(budget, callback=_with_alpha(self.callback, alpha))


def search_alphas(plan: SweepPlan) -> Iterator[Answered]:
    """Yield a certified answer per alpha, ascending; Ctrl-C leaves out those not yet started."""
    plan = replace(plan, trees=deduplicate_trees(plan.whole))
    answers = _with_leaves(plan) if plan.options.reweight == "leaf" else _with_units(plan)
    return answers if plan.trees is None else _restored(plan, plan.trees, answers)


def _restored(plan: SweepPlan, trees: DeduplicatedTrees, answers: Iterator[Answered]) -> Iterator[Answered]:
    """Map the answers to the trees of the original; a model shared by several alphas stays shared."""
    before: tuple[PrunedForest | None, PrunedForest | None] = (None, None)
    for region, _, answer in answers:
        whole = restated(plan.whole, region.tables, region.delta or 0.0)
        with finishing():  # Ctrl-C ends the search, not the construction of its result
            found = trees.restored(whole, answer, plan.options.unit, plan.budget)
        if answer.pruned is before[0]:
            found = replace(found, pruned=before[1])
        before = answer.pruned, found.pruned
        yield region, whole, found


def _with_units(plan: SweepPlan) -> Iterator[Answered]:
    return _inwards(plan) if enclosing(plan.largest.tables) else _outwards(plan)


def _with_leaves(plan: SweepPlan) -> Iterator[Answered]:
    """Continue from every answer with leaf values; a model for a larger region holds for all others."""
    whole = plan.budget.with_effort(_EFFORT)
    units = replace(plan, budget=plan.budget.part("sweep over units"))
    larger: SearchResult | None = None
    is_interrupted = False
    for number, (region, problem, found) in enumerate(_with_units(units)):
        alpha = plan.grid[number]
        if not is_interrupted:
            budget = whole.share(1 / (len(plan.grid) - number)) if whole.is_limited else whole
            budget = replace(budget, callback=_with_alpha(plan.callback, alpha))
            options = plan.options
            go_on = search_collapsed if options.unit == "leaf" else search_leaves
            found = go_on(problem, plan.fit_states, found, budget, options, larger)
        is_interrupted |= found.interrupted
        larger = found
        yield region, problem, found


def _outwards(plan: SweepPlan) -> Iterator[Answered]:
    """Explore from the smallest region to the largest; run the second proofs in the opposite order."""
    explored: list[tuple[Region, SearchState, float]] = []
    start: WarmStart | None = None
    delta = plan.whole.delta
    for alpha in sorted(plan.grid, reverse=True):
        region = plan.largest.with_alpha(alpha)
        before, problem = delta, plan.problem_in(region)
        delta = problem.delta
        budget = plan.budget_of(alpha, len(plan.grid) - len(explored), _EFFORT)
        # with another delta, points that were undecided before are decided now, so start without rows
        known = Known(start=start if problem.delta == before else None)
        state = explore(problem, plan.fit_states, budget, plan.options, known)
        prove_lower_bound(state)
        explored.append((region, state, budget.clock))
        if StopReason.INTERRUPTED in state.ended:
            break
        start = state.warm_start()
    larger: SearchResult | None = None
    for region, state, seconds in reversed(explored):
        larger = finish(state, plan.budget.with_effort(_EFFORT), larger)
        larger = replace(larger, seconds=seconds + larger.seconds)
        yield region, state.problem, larger


def _inwards(plan: SweepPlan) -> Iterator[Answered]:
    """Search from the largest region to the smallest; each search starts with a model that holds there.

    Used for scores that make proofs hard, where an early certified model is worth more than shared rows.
    """
    larger: SearchResult | None = None
    for number, alpha in enumerate(plan.grid):
        region = plan.largest.with_alpha(alpha)
        problem = plan.problem_in(region)
        budget = plan.budget_of(alpha, len(plan.grid) - number, Effort())
        larger = search_regions(problem, plan.fit_states, budget, plan.options, Known(larger=larger))
        yield region, problem, larger
        if larger.interrupted:
            break


def _with_alpha(callback: Callable[[float, Step], None] | None, alpha: float) -> Callable[[Step], None] | None:
    if callback is None:
        return None
    return lambda step: callback(alpha, step)
