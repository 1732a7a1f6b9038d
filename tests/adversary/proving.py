"""Every method of proof, asked about a planted case."""

from collections.abc import Iterator

import numpy as np

from pine_boost.budget import Budget, Effort
from pine_boost.certificate.verification import THIRD
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import FIRST, FIRST_LP, SECOND, SECOND_LP, SolverSetting
from pine_boost.proof.enumeration import list_region, prove_listed, prove_walked
from pine_boost.proof.problem import Problem, Proof
from tests.support.forests import CATBOOST, HISTOGRAM, LIGHTGBM, SKLEARN, XGBOOST
from tests.support.naive import Case

ADVERSARIES = {
    "xgboost": XGBOOST,
    "lightgbm": LIGHTGBM,
    "gradient": SKLEARN,
    "histogram": HISTOGRAM,
    "catboost": CATBOOST,
}
BOXES, LISTED, WALKED = "boxes", "every input", "every input by walks"
Methods = tuple[SolverSetting | str, ...]  # a setting of CP-SAT, or one of the methods without a solver
EVERY: Methods = (FIRST, FIRST_LP, SECOND, SECOND_LP, *THIRD, BOXES, LISTED, WALKED)


def proofs(case: Case, pruned: PrunedForest, prover: Prover, wanted: np.ndarray, methods: Methods) -> Iterator[Proof]:
    """Answers of some methods to some questions."""
    budget = Budget.of(600, Effort(proof_effort=1e9))
    problem = case.problem
    questions = [q for q in problem.questions if wanted[q.index]]
    for method in methods:
        if isinstance(method, SolverSetting):
            yield from prover.prove(pruned, questions, (method,), budget)
        elif method == BOXES:
            for question in questions:
                yield prove_boxes(problem, pruned, question, max_boxes=10**6, budget=budget)
        else:
            yield from (p for p in _enumerated(problem, pruned, method, budget) if wanted[p.question.index])


def _enumerated(problem: Problem, pruned: PrunedForest, method: str, budget: Budget) -> list[Proof]:
    if method == WALKED:
        return prove_walked(problem, pruned, budget)
    listing = list_region(problem, budget)
    assert listing is not None
    return prove_listed(problem, pruned, listing)
