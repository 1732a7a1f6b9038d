"""From which own margin on a pruned model gives the original's class on every plausible input.

The question is the usual one, mirrored: is there an input on which the original's native class differs from the pruned
model's although the pruned model is that sure? Any proved margin is valid; a smaller one is more useful.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import SHARES, Budget
from pine_boost.errors import CertificateMismatch
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Forest, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import SolverSetting
from pine_boost.proof.enumeration import prove_listed
from pine_boost.proof.problem import Answer, Problem, Proof, required_int, restated
from pine_boost.proof.two_proofs import first_proof, second_proof
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.tables.rows import KnownStates

_TRIALS = 14
_CLOSE = 32  # stop once the margin is known to one part in 32
# deterministic seconds of CP-SAT per proof, and trials that may end without an answer: large models never
# get one, and without a time limit the caller waits for it (60 trees of depth 4: 100 s before)
_PROOF_EFFORT = 0.3
_MOST_UNANSWERED = 2
_MOST_QUESTIONS = 200
_MOST_BOXES = 200_000


@dataclass(frozen=True, eq=False)
class StandaloneMargin:
    """A margin in grid units, with two proofs per question that no input violates it."""

    units: int
    proofs: tuple[Proof, ...]


def serving_problem(problem: Problem, units: int) -> Problem:
    """The mirrored problem: where the original's native class may differ from the pruned model's.

    The pruned model counts as deciding for a side from ``units`` beyond its cut on. Natively the original may
    decide for a side unless the mirror side is certain, so inputs in its rounding band belong to both sides.
    Undecided inputs belong to the region.
    """
    plain = restated(problem, problem.region, 0.0)
    mirror = [plain.mirror(own).index for own in plain.questions]
    return replace(plain, least=1 - plain.least[mirror], permitted=units)


def find_margin(
    problem: Problem, pruned: PrunedForest, points: npt.NDArray[Any], budget: Budget, n_jobs: int = 1
) -> StandaloneMargin | None:
    """The smallest margin that could be proved twice within the budget.

    Parameters
    ----------
    problem, pruned
    points : int32 (n_points, n_features)
        State rows that are tried first; margins that they violate need no proof attempt.
    budget : Budget
    n_jobs : int

    Returns
    -------
    StandaloneMargin or None
        None if nothing was proved below the margin that no input reaches anyway.
    """
    if len(problem.questions) > _MOST_QUESTIONS:
        return None
    budget = budget.with_effort(replace(budget.effort, proof_effort=_PROOF_EFFORT))
    asked = serving_problem(problem, 0)
    off = required_int(problem.forest, pruned.grid)[1]  # nearer to the cut, its own class is not certain
    low = max(off, 1 + broken_until(asked, pruned, points))
    high = 1 + _never_reached(asked, pruned)
    prover, best, unanswered = Prover(asked, n_jobs), None, 0
    units = low + (high - low) // 2  # from above: margins far from every input are proved at once
    for _ in range(_TRIALS):
        if budget.is_over or low >= high or (best is not None and (high - low) * _CLOSE <= high):
            break
        if unanswered == _MOST_UNANSWERED:
            break
        own = prover.on(replace(asked, permitted=units))
        proofs = first_proof(own, pruned, budget.part("margin by CP-SAT"))
        prover = own
        found = [proof.states for proof in proofs if proof.states is not None]
        if all(proof.answer is Answer.PROVED for proof in proofs):
            again = second_proof(own, pruned, budget)
            if all(proof.answer is Answer.PROVED for proof in again):
                high, best = units, StandaloneMargin(units, (*proofs, *again))
        elif found:
            low = max(low, 1 + broken_until(asked, pruned, np.stack(found)))
        if best is None or high > units:  # refuted or not answered: try a larger margin
            unanswered += not found
            low = max(low, units + (0 if found else 1))
        units = min(high - 1, low + (high - low) // (8 if high == units else 2))
    return best


def broken_until(asked: Problem, pruned: PrunedForest, states: npt.NDArray[Any]) -> int:
    """The largest margin of the pruned model, exactly, on those state rows where its class may be wrong."""
    states = states[asked.region.contains(states)] if len(states) else states
    if len(states) == 0:
        return -1
    leaves = asked.trees.leaves(states)
    possible = asked.decided(asked.original_margins_int(leaves))
    sides = asked.sides(asked.pruned_margins_int(pruned, leaves))
    beyond = replace(asked, permitted=0).needed_sides(pruned.grid) - 1 - sides
    return max(-1, int(np.where(possible, beyond, -1).max()))


def _never_reached(asked: Problem, pruned: PrunedForest) -> int:
    """A margin that no combination of leaves reaches."""
    rows = [replace(asked, permitted=0).pruned_row(pruned, question) for question in asked.questions]
    starts = asked.trees.leaf_offset[:-1]
    return 1 + max(0, *(most - int(np.minimum.reduceat(values, starts).sum()) for values, most in rows))


def distance_of(units: int, grid: int) -> float:
    """A margin in grid units as a distance from the decision.

    One unit more: a cut that is no multiple of the grid was rounded to one, by half a unit.
    """
    return float(np.ldexp(units + 1, -grid))


def serving_margin(
    margin: StandaloneMargin, grid: int, region: Region, pruned: Forest, cal: KnownStates
) -> ServingMargin:
    """The record of a margin, with the calibration rows that pass it counted."""
    record = ServingMargin(
        pruned_digest=forest_digest(pruned),
        region_digest=region.tables_digest,
        tau=region.tau,
        distance=distance_of(margin.units, grid),
        units=margin.units,
        proofs=tuple((proof.question.name, proof.method) for proof in margin.proofs),
    )
    n_cal, n_inside = count_sure(record, region, pruned, cal)
    return replace(record, n_cal=n_cal, n_inside=n_inside)


def count_sure(record: ServingMargin, region: Region, pruned: Forest, cal: KnownStates) -> tuple[int, int]:
    """Calibration rows, and those that are plausible and pass the margin."""

    def inside(states: States) -> int:
        is_sure = record.is_sure(pruned, region.space, states)
        return int(np.count_nonzero(region.tables.contains(states) & is_sure))

    return cal.n_rows, sum(cal.map_states(region.space, inside))


def prove_serving(
    problem: Problem, pruned: PrunedForest, units: int, settings: tuple[SolverSetting, ...], budget: Budget
) -> bool:
    """Prove a serving margin again; False where the time ran out.

    Raises
    ------
    CertificateMismatch
        An input breaks it.
    """
    asked = serving_problem(problem, units)
    for proof in _answers(asked, pruned, settings, budget):
        if proof.answer is Answer.FOUND:
            raise CertificateMismatch(f"The serving margin does not hold: an input breaks it ({proof.question.name}).")
        if proof.answer is Answer.UNKNOWN:
            return False
    return True


def _answers(
    asked: Problem, pruned: PrunedForest, settings: tuple[SolverSetting, ...], budget: Budget
) -> Iterator[Proof]:
    """Every input where they are few, else boxes, else CP-SAT."""
    prover = Prover(asked)
    listing = prover.listing(budget)
    if listing is not None:
        yield from prove_listed(asked, pruned, listing)
        return
    for question in asked.questions:
        proof = prove_boxes(
            asked, pruned, question, max_boxes=_MOST_BOXES, budget=budget.share(SHARES["margin by boxes"])
        )
        if proof.answer is Answer.UNKNOWN:
            proof = prover.prove(pruned, [question], settings, budget)[0]
        yield proof
