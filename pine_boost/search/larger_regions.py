"""The search by way of larger regions, where the region itself is hard to prove on.

In come a problem and the fit rows; out goes the smallest certified model found. A score with trees
of its own (Isolation Forest) makes proofs hard: there a first model comes from the whole domain,
and each region nearer to the asked one may replace it by a smaller one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, StopReason
from pine_boost.proof.enclosures import Enclosure, enclosures
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import Known, MakesRoom, search
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchOptions

_STAGE_EFFORT = 20.0  # deterministic seconds of CP-SAT per proof; an easier region has an answer


def search_inwards(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    budget: Budget,
    options: SearchOptions,
    known: Known,
    makes_room: MakesRoom | None = None,
) -> SearchResult:
    """`search`, by way of larger regions where the problem has any that are easier.

    Of what is known, the result of a region that contains this one and points to begin with are
    used. The search in this region ends where it ``makes_room`` for what follows, as if time were
    over.
    """
    outer = enclosures(problem)
    if not outer:
        return search(problem, fit_states, budget, options, known, makes_room)
    found = known.larger
    if found is not None:
        outer = outer[1:]  # instead of the whole domain
    shorter = min(budget.effort.proof_effort, _STAGE_EFFORT)
    budget = budget.with_effort(replace(budget.effort, proof_effort=shorter))
    points = fit_states[:0].astype(np.int32) if known.points is None else known.points
    is_hopeless, rounds, out_of_time = False, 0, False
    for number, stage in enumerate(outer):
        known = Known(larger=found, points=stage.outward(points))
        share = budget.share(1 / (len(outer) + 1 - number)) if budget.is_limited else budget
        result = search(stage.problem, stage.outward(fit_states), share, options, known)
        before, found = found, _named(result, stage, found)
        if result.points is not None:
            points = np.concatenate([points, stage.inward(result.points)])
        rounds += result.rounds
        out_of_time |= result.out_of_time
        if result.stopped is StopReason.INTERRUPTED:
            return replace(found, lower_bound=1, bound=None, points=points)
        is_new = before is None or found.pruned is not before.pruned
        if (result.gave_up or result.stopped is StopReason.TIME) and not is_new:
            is_hopeless = True  # nearer to the region proofs only get harder
            break
    known = Known(larger=found, points=points, is_hopeless=is_hopeless)
    final = search(problem, fit_states, budget, options, known, makes_room)
    out_of_time = final.out_of_time or (out_of_time and final.stopped is not StopReason.OPTIMAL)
    return replace(final, rounds=rounds + final.rounds, out_of_time=out_of_time)


def _named(found: SearchResult, stage: Enclosure, before: SearchResult | None) -> SearchResult:
    """The result with its proofs saying where they hold; those of an earlier stage say it."""
    if before is not None and found.pruned is before.pruned:
        return found
    proofs = tuple(replace(proof, method=f"{proof.method} ({stage.name})") for proof in found.proofs)
    return replace(found, proofs=proofs)
