"""The stages of a whole search, in order; `budget.SHARES` says how much time each may take.

1. Redundant nodes of the original are removed (`deduplicated_trees`).
2. Whole units are searched, by way of larger regions if proofs are easier there.
3. With ``reweight="leaf"`` the search goes on with free leaf values (`leaf_values`), with
   ``unit="leaf"`` with fewer leaves (`collapsing`), from the best model so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import SHARES, Budget, StopReason
from pine_boost.model.states import States
from pine_boost.proof.cpsat.solver import finishing
from pine_boost.proof.problem import Enclosure, Problem, enclosures
from pine_boost.search.algorithm import Known, explore, finish, prove_lower_bound, search
from pine_boost.search.collapsing import search_collapsed
from pine_boost.search.deduplicated_trees import deduplicate_trees
from pine_boost.search.leaf_values import search_leaves, search_leaves_at_once
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchOptions

_STAGE_EFFORT = 20.0  # deterministic seconds of CP-SAT per proof; an easier region has an answer


def search_booster(
    problem: Problem, fit_states: npt.NDArray[Any], budget: Budget, options: SearchOptions, points: States | None = None
) -> SearchResult:
    """The whole search; ``points`` are state rows to begin with.

    Ctrl-C and the time limit return the best certified model, at worst the original.
    """
    trees = deduplicate_trees(problem)
    if trees is None:
        return search_stages(problem, fit_states, budget, options, points)
    found = search_stages(trees.of(problem), fit_states, budget, options, points)
    with finishing():  # Ctrl-C ends the search, not what makes its result
        return trees.restored(problem, found, options.unit, budget)


def search_stages(
    problem: Problem, fit_states: npt.NDArray[Any], budget: Budget, options: SearchOptions, points: States | None = None
) -> SearchResult:
    """Search over whole units, then over leaf values or leaves if the options say so.

    Under a time limit the search over units before leaf values is that of ``reweight="tree"`` with
    the same limit, until it ends or most of the time is gone.
    """
    known = Known(points=points)
    if options.reweight == "tree":
        return search_regions(problem, fit_states, budget, options, known)
    if options.unit == "leaf":
        found = search_regions(problem, fit_states, budget.part("units before leaves"), options, known)
        return search_collapsed(problem, fit_states, found, budget, options)
    units_budget = budget.share(SHARES["units before leaf values"]) if budget.is_limited else None
    if problem.region.slows_cp_sat:
        found = search_regions(problem, fit_states, budget, options, known, units_budget)
        return search_leaves(problem, fit_states, found, budget, options)
    state = explore(problem, fit_states, budget, options, known, units_budget)
    if not state.ended - {StopReason.EFFORT} and not state.is_late():
        return search_leaves_at_once(state, budget)
    prove_lower_bound(state)
    return search_leaves(problem, fit_states, finish(state, budget), budget, options)


def search_regions(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    budget: Budget,
    options: SearchOptions,
    known: Known,
    units_budget: Budget | None = None,
) -> SearchResult:
    """`search`, by way of larger regions if the problem has any in which proofs are easier.

    A score with trees of its own (Isolation Forest) makes proofs hard: a first model comes from the
    whole domain, and each region closer to the requested one may replace it by a smaller model. Of
    what is known, the result of a larger region and the points are used.
    """
    outer = enclosures(problem)
    if not outer:
        return search(problem, fit_states, budget, options, known, units_budget)
    found = known.larger
    if found is not None:
        outer = outer[1:]  # instead of the whole domain
    shorter = min(budget.effort.proof_effort, _STAGE_EFFORT)
    budget = budget.with_effort(replace(budget.effort, proof_effort=shorter))
    points = fit_states[:0].astype(np.int32) if known.points is None else known.points
    is_hopeless, rounds, is_late = False, 0, False
    for number, stage in enumerate(outer):
        known = Known(larger=found, points=stage.outward(points))
        share = budget.share(1 / (len(outer) + 1 - number)) if budget.is_limited else budget
        result = search(stage.problem, stage.outward(fit_states), share, options, known)
        before, found = found, _with_region_name(result, stage, found)
        if result.points is not None:
            points = np.concatenate([points, stage.inward(result.points)])
        rounds += result.rounds
        is_late |= StopReason.TIME in result.ended
        if result.interrupted:
            return replace(found, lower_bound=1, bound=None, points=points)
        is_new = before is None or found.pruned is not before.pruned
        if result.ended and not is_new:
            is_hopeless = True  # closer to the requested region proofs only get harder
            break
    known = Known(larger=found, points=points, is_hopeless=is_hopeless)
    final = search(problem, fit_states, budget, options, known, units_budget)
    final = replace(final, rounds=rounds + final.rounds)
    return final.with_ends(StopReason.TIME) if is_late and not final.is_fewest else final


def _with_region_name(found: SearchResult, stage: Enclosure, before: SearchResult | None) -> SearchResult:
    """The result with the region named in its proofs; those of an earlier stage name theirs."""
    if before is not None and found.pruned is before.pruned:
        return found
    proofs = tuple(replace(proof, method=f"{proof.method} ({stage.name})") for proof in found.proofs)
    return replace(found, proofs=proofs)
