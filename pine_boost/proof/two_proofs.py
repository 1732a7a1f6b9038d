"""The two proofs of a candidate: every question is answered, then answered again by a different method."""

from __future__ import annotations

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.boxes.tables import SharedTables
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import FIRST, FIRST_LP, SECOND, SECOND_LP, SolverSetting
from pine_boost.proof.enumeration import prove_listed, prove_walked
from pine_boost.proof.problem import Answer, Problem, Proof

_LARGEST_TABLE = 10**8  # leaves times states, in bytes: larger tables of boxes take seconds to build
_MORE_BOXES = 20  # times as many boxes in regions where CP-SAT needs seconds


def first_settings(problem: Problem) -> tuple[SolverSetting, ...]:
    """Settings of CP-SAT for the first proof, the one that is usually faster first."""
    return (FIRST_LP, FIRST) if problem.region.slows_cp_sat else (FIRST, FIRST_LP)


def second_settings(problem: Problem) -> tuple[SolverSetting, ...]:
    """Different settings, for the second proof."""
    return (SECOND_LP, SECOND) if problem.region.slows_cp_sat else (SECOND, SECOND_LP)


def first_proof(prover: Prover, pruned: PrunedForest, budget: Budget) -> list[Proof]:
    """CP-SAT on every question, after a run of boxes if CP-SAT is slow in this region.

    If the region holds few inputs and the model many trees, all inputs are enumerated instead.
    """
    problem = prover.problem
    listing = prover.listing(budget)
    if listing is not None:
        return prove_listed(problem, pruned, listing)
    if problem.region.slows_cp_sat:
        found = [p for p in _boxes(problem, pruned, budget) if p.states is not None]
        if found:
            return found
    return prover.prove(pruned, list(problem.questions), first_settings(problem), budget)


def second_proof(prover: Prover, pruned: PrunedForest, budget: Budget) -> list[Proof]:
    """A short run of boxes, then CP-SAT in its other settings for the questions left open.

    If the first proof enumerated all inputs, so does the second, by other code.
    """
    problem = prover.problem
    if prover.listing(budget) is not None:
        return prove_walked(problem, pruned, budget)
    boxes = _boxes(problem, pruned, budget)
    answers = [proof for proof in boxes if proof.answer is not Answer.UNKNOWN]
    answered = {proof.question for proof in answers}
    open_questions = [q for q in problem.questions if q not in answered]
    return answers + prover.prove(pruned, open_questions, second_settings(problem), budget)


def _boxes(problem: Problem, pruned: PrunedForest, budget: Budget) -> list[Proof]:
    """The answers of a short run of boxes; none if the effort allows no boxes."""
    most = budget.effort.box_limit * (_MORE_BOXES if problem.region.slows_cp_sat else 1)
    if problem.trees.n_leaves * int(problem.space.n_states.sum()) > _LARGEST_TABLE:
        most = 0
    if most == 0 or budget.is_over:
        return []
    shared = SharedTables(problem)
    return [
        prove_boxes(problem, pruned, question, max_boxes=most, budget=budget, shared=shared)
        for question in problem.questions
        if not budget.is_over
    ]
