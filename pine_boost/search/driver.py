"""The stages of a whole search, in order; `budget.SHARES` says how much time each may take.

1. Redundant nodes of the original are removed (`deduplicated_trees`).
2. Whole units are searched, by way of larger regions if proofs are easier there.
3. With ``reweight="leaf"`` the search goes on with free leaf values (`leaf_values`), with
   ``unit="leaf"`` with fewer leaves (`collapsing`), from the best model so far.
4. What was found is stated over the nodes of the original.

A sweep goes through the same stages, each for all alphas. Regions grow from the largest alpha to 0: rows and cuts
found for one region hold for all larger ones, models and their proofs for all smaller ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pine_boost.budget import SHARES, Budget, Effort, Step, StopReason, finishing
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.problem import Enclosure, Problem, enclosures, restated
from pine_boost.region.isolation_forest import enclosing
from pine_boost.region.region import Region
from pine_boost.search.algorithm import Known, explore, finish, prove_lower_bound, search
from pine_boost.search.collapsing import in_leaves, search_collapsed
from pine_boost.search.deduplicated_trees import DeduplicatedTrees, deduplicate_trees
from pine_boost.search.leaf_values import leaf_state, search_leaf_values, search_leaves_at_once
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import MOST_LEAF_COLUMNS, SearchState, SearchTask, build_state

_STAGE_EFFORT = 20.0  # deterministic seconds of CP-SAT per proof; an easier region has an answer
# Second proofs of a sweep use CP-SAT in another configuration, because boxes take two to seven times as long.
_SWEEP_EFFORT = Effort(box_limit=0)
Answered = tuple[Region, Problem, SearchResult]


def search_booster(task: SearchTask, budget: Budget, points: States | None = None) -> SearchResult:
    """The whole search; ``points`` are state rows to begin with.

    Ctrl-C and the time limit return the best certified model, at worst the original.
    """
    trees = deduplicate_trees(task.problem)
    if trees is None:
        return search_stages(task, budget, points)
    found = search_stages(replace(task, problem=trees.of(task.problem)), budget, points)
    with finishing():  # Ctrl-C ends the search, not what makes its result
        return trees.restored(task.problem, found, task.options.unit, budget)


def search_stages(task: SearchTask, budget: Budget, points: States | None = None) -> SearchResult:
    """Search over whole units, then over leaf values or leaves if the options say so.

    Under a time limit the search over units before leaf values is that of ``reweight="tree"`` with
    the same limit, until it ends or most of the time is gone.
    """
    known = Known(points=points)
    if task.options.reweight != "leaf":
        return search_regions(task, budget, known)
    if task.options.unit == "leaf":
        return search_leaves(task, search_regions(task, budget.part("units before leaves"), known), budget)
    if budget.is_limited:
        known = replace(known, units_budget=budget.part("units before leaf values"))
    if task.problem.region.slows_cp_sat:
        return search_leaves(task, search_regions(task, budget, known), budget)
    state = explore(task, budget, known)
    if not state.ended - {StopReason.EFFORT} and not state.is_late():
        return search_leaves_at_once(state, budget)
    prove_lower_bound(state)
    return search_leaves(task, finish(state, budget), budget)


def search_leaves(
    task: SearchTask, found: SearchResult, budget: Budget, larger: SearchResult | None = None
) -> SearchResult:
    """Go on with free leaf values from a certified model and the points known, or with fewer leaves.

    ``larger`` is the answer for a larger region, whose model holds here too. If no smaller model is
    proved, ``found`` is returned (or ``larger``).
    """
    go_on = search_leaf_values
    if task.options.unit == "leaf":
        found, go_on = in_leaves(task.problem, found), search_collapsed
    start = found if larger is None or found.n_kept <= larger.n_kept else found.with_model_of(larger)
    if budget.is_interrupted:
        return start.with_ends(StopReason.INTERRUPTED)
    if StopReason.MEMORY in found.ended or start.n_kept <= 1:
        return start
    if budget.is_over:
        return start.with_ends(StopReason.TIME)
    budget = budget.after(found.seconds)
    try:
        units = build_state(task, budget)
        state = leaf_state(units, units.columns.kept_units(start.pruned))
    except KeyboardInterrupt:
        budget.interrupt()
        return start.with_ends(StopReason.INTERRUPTED)
    if state.columns.n_columns > MOST_LEAF_COLUMNS:
        return start
    state.best.adopt(start)
    go_on(state, start.points)
    return start.followed_by(finish(state, budget))


def search_regions(task: SearchTask, budget: Budget, known: Known) -> SearchResult:
    """`search`, by way of larger regions if the problem has any in which proofs are easier.

    A score with trees of its own (Isolation Forest) makes proofs hard: a first model comes from the
    whole domain, and each region closer to the requested one may replace it by a smaller model. Of
    what is known, the result of a larger region and the points are used.
    """
    outer = enclosures(task.problem)
    if not outer:
        return search(task, budget, known)
    found = known.larger
    if found is not None:
        outer = outer[1:]  # instead of the whole domain
    shorter = min(budget.effort.proof_effort, _STAGE_EFFORT)
    budget = budget.with_effort(replace(budget.effort, proof_effort=shorter))
    points = task.fit_states[:0].astype(np.int32) if known.points is None else known.points
    is_hopeless, rounds, is_late, units_budget = False, 0, False, known.units_budget
    for number, stage in enumerate(outer):
        known = Known(larger=found, points=stage.outward(points))
        share = budget.share(1 / (len(outer) + 1 - number)) if budget.is_limited else budget
        larger = replace(task, problem=stage.problem, fit_states=stage.outward(task.fit_states))
        result = search(larger, share, known)
        before, found = found, _with_region_name(result, stage, found)
        if result.points is not None:
            points = np.concatenate([points, stage.inward(result.points)])
        rounds += result.rounds
        is_late |= StopReason.TIME in result.ended
        if StopReason.INTERRUPTED in result.ended:
            return replace(found.without_bound(), points=points)
        is_new = before is None or found.pruned is not before.pruned
        if result.ended and not is_new:
            is_hopeless = True  # closer to the requested region proofs only get harder
            break
    known = Known(None, found, points, is_hopeless, units_budget)
    final = search(task, budget, known)
    final = replace(final, rounds=rounds + final.rounds)
    return final.with_ends(StopReason.TIME) if is_late and not final.is_fewest else final


def _with_region_name(found: SearchResult, stage: Enclosure, before: SearchResult | None) -> SearchResult:
    """The result with the region named in its proofs; those of an earlier stage name theirs."""
    if before is not None and found.pruned is before.pruned:
        return found
    proofs = tuple(replace(proof, method=f"{proof.method} ({stage.name})") for proof in found.proofs)
    return replace(found, proofs=proofs)


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """The inputs of a sweep: what to search, the region of the largest alpha, the grid.

    ``whole`` is the task at the largest alpha; others differ only in the region. ``trees`` are
    smaller trees that are searched instead of the original's, if there are any.
    """

    whole: SearchTask
    largest: Region
    grid: tuple[float, ...]
    budget: Budget
    callback: Callable[[float, Step], None] | None = None
    trees: DeduplicatedTrees | None = None

    def problem_in(self, region: Region) -> Problem:
        """The problem of the original in a region."""
        return restated(self.whole.problem, region.tables, region.delta or 0.0)

    def task_in(self, region: Region) -> SearchTask:
        """What to search in a region."""
        problem = self.problem_in(region)
        return replace(self.whole, problem=problem if self.trees is None else self.trees.of(problem))

    def budget_of(self, alpha: float, n_left: int, effort: Effort) -> Budget:
        """An equal share of the remaining time, for one search; some time is reserved for the second proofs."""
        budget = self.budget.with_effort(effort)
        seconds = math.inf
        if budget.is_limited:
            reserved = (1 - SHARES["sweep searches"]) * (budget.deadline - budget.started)
            seconds = max((budget.remaining - reserved) / n_left, 1e-3)
        return replace(budget.within(seconds).after(0.0), callback=_with_alpha(self.callback, alpha))


def search_alphas(plan: SweepPlan) -> Iterator[Answered]:
    """Yield a certified answer per alpha, ascending; Ctrl-C leaves out those not yet started.

    If it came before the search, every alpha has a short one.
    """
    trees = deduplicate_trees(plan.whole.problem)
    options = plan.whole.options
    search_all = _with_leaves if options.reweight == "leaf" else _with_units
    last: tuple[PrunedForest | None, PrunedForest | None] = None, None  # over the smaller trees, and the original's
    for region, problem, found in search_all(replace(plan, trees=trees)):
        if trees is not None:
            problem, searched = plan.problem_in(region), found.pruned
            with finishing():
                found = trees.restored(problem, found, options.unit, plan.budget)
            if searched is last[0]:  # the same object, as a model that answers several alphas is exported once
                found = replace(found, pruned=last[1])
            last = searched, found.pruned
        yield region, problem, found


def _with_units(plan: SweepPlan) -> Iterator[Answered]:
    return _inwards(plan) if enclosing(plan.largest.tables) else _outwards(plan)


def _with_leaves(plan: SweepPlan) -> Iterator[Answered]:
    """Continue from every answer with leaf values; a model for a larger region holds for all others."""
    whole = plan.budget.with_effort(_SWEEP_EFFORT)
    units = replace(plan, budget=plan.budget.part("sweep over units"))
    larger: SearchResult | None = None
    for number, (region, problem, found) in enumerate(_with_units(units)):
        budget = whole.share(1 / (len(plan.grid) - number)) if whole.is_limited else whole
        budget = replace(budget, callback=_with_alpha(plan.callback, plan.grid[number]))
        larger = search_leaves(replace(plan.whole, problem=problem), found, budget, larger)
        yield region, problem, larger


def _outwards(plan: SweepPlan) -> Iterator[Answered]:
    """Explore from the smallest region to the largest; run the second proofs in the opposite order."""
    explored: list[tuple[Region, SearchState, float]] = []
    start: SearchState | None = None
    delta, was_interrupted = plan.whole.problem.delta, plan.budget.is_interrupted
    for alpha in sorted(plan.grid, reverse=True):
        region = plan.largest.with_alpha(alpha)
        before, task = delta, plan.task_in(region)
        delta = task.problem.delta
        budget = plan.budget_of(alpha, len(plan.grid) - len(explored), _SWEEP_EFFORT)
        # with another delta, points that were undecided before are decided now, so start without rows
        state = explore(task, budget, Known(start=start if delta == before else None))
        prove_lower_bound(state)
        explored.append((region, state, budget.clock))
        if budget.is_interrupted and not was_interrupted:
            break
        start = state
    larger: SearchResult | None = None
    for region, state, seconds in reversed(explored):
        larger = finish(state, plan.budget.with_effort(_SWEEP_EFFORT).after(seconds), larger)
        yield region, state.problem, larger


def _inwards(plan: SweepPlan) -> Iterator[Answered]:
    """Search from the largest region to the smallest; each search starts with a model that holds there.

    Used for scores that make proofs hard, where an early certified model is worth more than shared rows.
    """
    larger: SearchResult | None = None
    was_interrupted = plan.budget.is_interrupted
    for number, alpha in enumerate(plan.grid):
        region = plan.largest.with_alpha(alpha)
        task = plan.task_in(region)
        budget = plan.budget_of(alpha, len(plan.grid) - number, Effort())
        larger = search_regions(task, budget, Known(larger=larger))
        yield region, task.problem, larger
        if budget.is_interrupted and not was_interrupted:
            break


def _with_alpha(callback: Callable[[float, Step], None] | None, alpha: float) -> Callable[[Step], None] | None:
    if callback is None:
        return None
    return lambda step: callback(alpha, step)
