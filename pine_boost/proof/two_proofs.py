"""The two proofs of a candidate: every question answered, then answered again another way.

In come a Prover, a pruned model and a budget; out go proofs, or counterexamples that a method
found. Nothing is kept here; what follows from an answer is the caller's business.
"""

from __future__ import annotations

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.boxes.shared_tables import SharedTables
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import FIRST, FIRST_LP, SECOND, SECOND_LP, SolverSetting
from pine_boost.proof.enumeration import prove_listed, prove_walked
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Answer, Proof

_LARGEST_TABLE = 10**8  # leaves times states, in bytes: boxes of more would take seconds to set up
_MORE_BOXES = 20  # where the score has trees of its own CP-SAT needs seconds, boxes do not


def first_settings(problem: Problem) -> tuple[SolverSetting, ...]:
    """CP-SAT's settings in the first proof, those that answer sooner first."""
    return (FIRST_LP, FIRST) if problem.region.slows_cp_sat else (FIRST, FIRST_LP)


def second_settings(problem: Problem) -> tuple[SolverSetting, ...]:
    """Other settings, for the second proof."""
    return (SECOND_LP, SECOND) if problem.region.slows_cp_sat else (SECOND, SECOND_LP)


def first_proof(prover: Prover, pruned: PrunedForest, budget: Budget) -> list[Proof]:
    """CP-SAT on every question; boxes before it where they find sooner what CP-SAT would.

    Where the region holds few inputs, and the model many trees, every input instead.
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
    """Boxes where a short run of them is enough, else CP-SAT in its other settings.

    Where the first proof asked every input, the second does too, by other code.
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
    """What a short run of boxes says of every question; nothing where the effort allows none."""
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
