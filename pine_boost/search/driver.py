"""The stages of a whole search, in order; `budget.SHARES` says how much time each may take.

1. Redundant nodes of the original are removed (`deduplicated_trees`).
2. Whole units are searched, by way of larger regions if proofs are easier there.
3. With ``reweight="leaf"`` the search goes on with free leaf values (`leaf_values`), with
   ``unit="leaf"`` with fewer leaves (`collapsing`), from the best model so far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pine_boost.budget import Budget, StopReason, finishing
from pine_boost.model.states import States
from pine_boost.proof.problem import Enclosure, enclosures
from pine_boost.search.algorithm import Known, explore, finish, prove_lower_bound, search
from pine_boost.search.collapsing import in_leaves, search_collapsed
from pine_boost.search.deduplicated_trees import deduplicate_trees
from pine_boost.search.leaf_values import leaf_state, search_leaf_values, search_leaves_at_once
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import MOST_LEAF_COLUMNS, SearchTask, build_state

_STAGE_EFFORT = 20.0  # deterministic seconds of CP-SAT per proof; an easier region has an answer


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
    if found.ended & {StopReason.INTERRUPTED, StopReason.MEMORY} or start.n_kept <= 1:
        return start
    if budget.is_over:
        return start.with_ends(StopReason.TIME)
    budget = budget.after(found.seconds)
    units = build_state(task, budget)
    state = leaf_state(units, units.columns.kept_units(start.pruned))
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
        if result.interrupted:
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
