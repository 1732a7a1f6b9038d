"""From the answers of the provers to a verdict; a point that one of them names is looked at anew.

In come a problem, both models and proofs; out goes a Verification. A point counts only where the
integers confirm it and the classes really differ, natively where the libraries are at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.certificate.verdict import Counterexample, Verification
from pine_boost.model.forest import FloatArray, Model, PrunedForest
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Answer, Proof

# a model and rows in, class indices by its native ``predict`` out; ImportError without the library
Replay = Callable[[Model, FloatArray], Any]


@dataclass(frozen=True, eq=False)
class Case:
    """Two models, the question whether they agree, and how to ask them natively (or not at all)."""

    problem: Problem
    pruned: PrunedForest
    before: Model
    after: Model
    replay: Replay | None

    def conclude(self, proofs: list[Proof], remarks: tuple[str, ...], budget: Budget) -> Verification:
        """What the proofs say together."""
        problem = self.problem
        answers: dict[int, list[Answer]] = {question.index: [] for question in problem.questions}
        counterexample = None
        for proof in proofs:
            answer = proof.answer
            if proof.states is not None:
                found, remark = self.look_at(proof)
                remarks += remark
                if found is None:
                    answer = Answer.UNKNOWN if remark == _no_point(proof) else answer
                elif counterexample is None or (found.native and not counterexample.native):
                    counterexample = found
            answers[proof.question.index].append(answer)
        for question in problem.questions:
            own = answers[question.index]
            if Answer.PROVED in own and Answer.FOUND in own:
                remarks += (f"{question.name}: one method proved what the other refuted.",)
        refuted = any(Answer.FOUND in own for own in answers.values())
        proved = all(Answer.PROVED in own for own in answers.values()) and not refuted
        agrees = False if counterexample is not None else (True if proved else None)
        twice = proved and all(own.count(Answer.PROVED) > 1 for own in answers.values())
        shares = [proof.covered for proof in proofs if proof.covered is not None]
        covered = 1.0 if proved else min(shares, default=0.0)
        return Verification(agrees, twice, counterexample, tuple(proofs), covered, remarks, budget.elapsed)

    def look_at(self, proof: Proof) -> tuple[Counterexample | None, tuple[str, ...]]:
        """The input that a proof names, if the two models really differ on it; else a remark."""
        assert proof.states is not None
        if not self.problem.lost(self.pruned, proof.states[None])[0, proof.question.index]:
            # never seen: a solver that names a point which the integers do not confirm
            return None, _no_point(proof)
        row = self.problem.space.representative(proof.states[None])
        classes, native = self._classes(proof.states[None], row)
        if classes[0] == classes[1]:
            return None, (
                f"{proof.question.name}: the pruned model is closer to its decision than the proof "
                "needs, though the class is the same.",
            )
        return Counterexample(proof.question.name, row[0], classes[0], classes[1], native), ()

    def _classes(self, states: Any, row: FloatArray) -> tuple[list[int], bool]:
        """Both classes: natively where the libraries are, else by exact sums."""
        if self.replay is not None:
            try:
                return [int(self.replay(m, row)[0]) for m in (self.before, self.after)], True
            except ImportError:
                pass
        problem = self.problem
        leaves = problem.trees.leaves(states)
        original = problem.original_margins_int(leaves).astype(np.float64)
        pruned = problem.pruned_margins_int(self.pruned, leaves).astype(np.float64)
        sums = (np.ldexp(original, -problem.scale), np.ldexp(pruned, -self.pruned.grid))
        return [int(problem.forest.decision.classes(margins)[0]) for margins in sums], False


def _no_point(proof: Proof) -> tuple[str, ...]:
    return (f"{proof.method} named a point that is no counterexample.",)
