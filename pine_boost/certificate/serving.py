"""The margin from which on the pruned model alone gives the original's class: recorded, and proved again.

Only regions that leave out inputs near the decision boundary need one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pine_boost.budget import SHARES, Budget
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.tree_matching import MatchedTrees
from pine_boost.errors import CertificateMismatch
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Forest, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import SolverSetting
from pine_boost.proof.enumeration import prove_listed
from pine_boost.proof.problem import Problem, required_int
from pine_boost.proof.question import Answer, Proof
from pine_boost.proof.standalone_margin import StandaloneMargin, serving_problem
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.tables.rows import KnownStates

_MOST_BOXES = 200_000


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
        is_sure = record.is_sure_of(pruned, region.space, states)
        return int(np.count_nonzero(region.tables.contains(states) & is_sure))

    return cal.n_rows, sum(cal.map_states(region.space, inside))


def require_serving(
    problem: Problem, matched: MatchedTrees, certificate: Certificate, region: Region
) -> ServingMargin | None:
    """Check that the numbers of a serving margin follow from one another; None without one."""
    stated = certificate.serving
    if stated is None:
        return None
    pruned = matched.pruned
    if certificate.delta is None:
        raise CertificateMismatch("The certificate names a serving margin that nothing needs.")
    if stated.pruned_digest != certificate.pruned_digest:
        raise CertificateMismatch("The serving margin is of another model than the pruned one.")
    if (stated.region_digest, stated.tau) != (region.tables_digest, region.tau):
        raise CertificateMismatch("The serving margin was proved in another region.")
    if stated.n_cal != region.n_cal:
        raise CertificateMismatch("The serving margin was counted on another number of rows than 'n_cal'.")
    if stated.distance != distance_of(stated.units, pruned.grid):
        raise CertificateMismatch("The serving margin is not its number of grid units.")
    if stated.units < required_int(problem.forest, pruned.grid)[1]:
        raise CertificateMismatch("The serving margin is nearer than the model's own rounding.")
    _require_near_grid(matched)
    methods: dict[str, set[str]] = {question.name: set() for question in problem.questions}
    for question, method in stated.proofs:
        methods.setdefault(question, set()).add(method)
    if len(methods) != len(problem.questions) or min(map(len, methods.values())) < 2:
        raise CertificateMismatch("The serving margin needs two proofs of every question.")
    return stated


def _require_near_grid(matched: MatchedTrees) -> None:
    """The one unit of `distance_of` must hold the rounding of the cut and that of the leaves."""
    per_side = 1 if matched.pruned.forest.n_outputs == 1 else 2
    off = matched.deviation * per_side * 2**matched.pruned.grid
    if off + Fraction(1, 2) > 1:
        raise CertificateMismatch(
            f"The serving margin leaves half a grid unit for the rounding of the pruned model, "
            f"whose margin may be off by {float(off):.3g}."
        )


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
