"""Every method of proof, asked about a planted case."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pine_boost.budget import Budget, Effort
from pine_boost.certificate.verification import THIRD
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.search import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.settings import FIRST, FIRST_LP, SECOND, SECOND_LP, Setting
from pine_boost.proof.verdict import Proof
from tests.support.naive import Case

NAMES = ["xgboost", "lightgbm", "gradient", "histogram"]
Methods = tuple[Setting | None, ...]  # a setting of CP-SAT, or None for boxes
EVERY: Methods = (FIRST, FIRST_LP, SECOND, SECOND_LP, *THIRD, None)


def proofs(
    case: Case, pruned: PrunedForest, prover: Prover, wanted: np.ndarray, methods: Methods
) -> Iterator[Proof]:
    """Answers of some methods to some questions."""
    budget = Budget.of(600, Effort(proof_effort=1e9))
    questions = [q for q in case.problem.questions if wanted[q.index]]
    for setting in methods:
        if setting is not None:
            yield from prover.prove(pruned, questions, (setting,), budget)
            continue
        for question in questions:
            yield prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=budget)
