"""The Oracle: counterexamples in the region against a pruned model, or a proof that there are none.

Cheap methods come first: rows of X_fit that are not constraints yet, local search, then the first proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.problem import Problem, Proof
from pine_boost.proof.two_proofs import first_proof, first_settings
from pine_boost.search.constraints import Constraints
from pine_boost.search.local_search import climb
from pine_boost.search.search_result import require_answers

_CLIMB_STARTS = 48


@dataclass(frozen=True, eq=False)
class Verdict:
    """The Oracle's verdict on one model.

    Attributes
    ----------
    proofs : tuple of Proof
        One for every question, if there is no counterexample.
    counterexamples : States or None
        Points that the model misclassifies; None if it is proved.
    by_proof : bool
        Whether a complete method found them: then their surroundings are searched too.
    """

    proofs: tuple[Proof, ...] = ()
    counterexamples: States | None = None
    by_proof: bool = False


class Oracle:
    """Finds counterexamples to one pruned model after another, or proves that there are none."""

    def __init__(self, problem: Problem, n_jobs: int = 1) -> None:
        self.problem = problem
        self.prover = Prover(problem, n_jobs)
        self.n_asked = 0

    def quick_counterexamples(self, pruned: PrunedForest, constraints: Constraints, budget: Budget) -> States:
        """Counterexamples found without a solver."""
        self.n_asked += 1
        lost = constraints.lost_fit_rows(pruned, budget)
        return lost if len(lost) else self.climb(pruned, constraints, budget)

    def prove(self, pruned: PrunedForest, budget: Budget) -> Verdict:
        """The first proof, or its counterexamples; raises if it does not end."""
        proofs = first_proof(self.prover, pruned, budget)
        require_answers(proofs, budget)
        found = [proof.states for proof in proofs if proof.states is not None]
        if found:
            return Verdict(counterexamples=np.stack(found), by_proof=True)
        return Verdict(tuple(proofs))

    def prove_near(self, pruned: PrunedForest, budget: Budget) -> tuple[Proof, ...]:
        """The first proof by the difference to the original alone; empty if it does not end."""
        questions = list(self.problem.questions)
        settings = first_settings(self.problem)
        effort = budget.effort.proof_effort
        proofs = self.prover.prove_near(pruned, questions, settings, budget, effort)
        return tuple(proofs) if len(proofs) == len(questions) else ()

    def climb(self, pruned: PrunedForest, constraints: Constraints, budget: Budget) -> States:
        """Counterexamples near the points that the pruned model decides most narrowly."""
        problem = self.problem
        sides = problem.sides(problem.pruned_margins_int(pruned, constraints.leaves))
        starts = []
        for question in problem.questions:
            own = np.flatnonzero(constraints.decided[:, question.index] & constraints.inside)
            order = np.argsort(sides[own, question.index], kind="stable")
            starts.append(own[order[:_CLIMB_STARTS]])
        asked = np.repeat([q.index for q in problem.questions], [len(own) for own in starts])
        return climb(problem, pruned, constraints.states[np.concatenate(starts)], asked, budget)
