"""CP-SAT as a complete method: a counterexample to a question, or a proof that there is none.

In come a problem and pruned models; out goes one Proof per question. Every counterexample is
checked on exact integers before it counts. One INFEASIBLE is never trusted: a certificate needs a
second, different proof of every question (`two_proofs`).
"""

from __future__ import annotations

import logging
import time
from functools import partial

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from pine_boost.budget import Budget, OutOfTime
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.cpsat.encoding import Encoding, encode_region, encode_values
from pine_boost.proof.cpsat.rows import add_at_least, add_at_most, leaf_sum
from pine_boost.proof.cpsat.settings import Setting, answer_of, configured
from pine_boost.proof.cpsat.solving import Stop, solve, solve_each
from pine_boost.proof.difference import Difference, difference
from pine_boost.proof.enumeration import Listing, list_region
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question
from pine_boost.proof.verdict import Answer, Proof

_LOGGER = logging.getLogger("pine_boost")
_MOST_MOVING = 0.9  # of the trees asked about; where nearly all moved the whole question says more
_LARGEST_NEAR = 5 * 10**7  # leaves times states: more would take seconds to encode for every model
_FEWEST_LEAVES = 400  # models of fewer have their answer from CP-SAT at once
_FIRST_TURN, _LONGER_TURN = 4.0, 8.0  # deterministic seconds, and by how much turns grow


class Prover:
    """Answers the questions of a problem for one pruned model after another."""

    def __init__(self, problem: Problem, n_jobs: int = 1) -> None:
        self.problem = problem
        self.n_jobs = n_jobs
        self._encoding: Encoding | None = None
        self._near: tuple[bytes, Encoding] | None = None  # over the trees of the last difference
        self._listing: list[Listing | None] = []  # empty until it is asked for
        # per settings and question, the turn that last had an answer
        self._last_turn: dict[tuple[tuple[Setting, ...], Question], tuple[Setting, float]] = {}

    def encoding(self, budget: Budget) -> Encoding:
        """The base CP-SAT model, built once; raises `OutOfTime` where the budget ends before."""
        if self._encoding is None:
            self._encoding = self._encode(None, budget)
        return self._encoding

    def on(self, problem: Problem) -> Prover:
        """A prover of other questions about the same model in the same region."""
        other = Prover(problem, self.n_jobs)
        other._encoding, other._near = self._encoding, self._near
        other._listing = self._listing
        return other

    def listing(self, budget: Budget) -> Listing | None:
        """Every input of the region, listed once; None where they are too many, or leaves few."""
        if self.problem.trees.n_leaves < _FEWEST_LEAVES:
            return None
        if not self._listing:
            self._listing.append(list_region(self.problem, budget))
        return self._listing[0]

    def _encode(self, wanted: npt.NDArray[np.bool_] | None, budget: Budget) -> Encoding:
        problem = self.problem
        return encode_region(problem.space, problem.region, problem.trees, problem.masks, wanted, budget)

    @property
    def known_encoding(self) -> Encoding | None:
        """The base model if it was built already."""
        return self._encoding

    def prove(
        self, pruned: PrunedForest, questions: list[Question], settings: tuple[Setting, ...], budget: Budget
    ) -> list[Proof]:
        """Ask CP-SAT every question; in parallel threads, one deterministic worker each.

        Several settings take turns that grow up to the budget's effort per proof.
        """
        near = self.prove_near(pruned, questions, settings, budget, min(budget.effort.proof_effort, _FIRST_TURN))
        proofs = {proof.question: proof for proof in near}
        others = [question for question in questions if question not in proofs]
        try:
            encoding = self.encoding(budget) if others else None  # before any thread asks for it
        except OutOfTime:
            late = [Proof(q, settings[0].name, Answer.UNKNOWN, 0.0) for q in others]
            proofs |= dict(zip(others, late, strict=True))
            others = []
        if others and encoding is not None:
            ask = partial(self._ask, encoding, pruned, settings, budget)
            proofs |= dict(zip(others, solve_each(ask, others, self.n_jobs), strict=True))
        return [proofs[question] for question in questions]

    def prove_near(
        self,
        pruned: PrunedForest,
        questions: list[Question],
        settings: tuple[Setting, ...],
        budget: Budget,
        effort: float,
    ) -> list[Proof]:
        """Proofs of those questions that the difference of a model near the original settles.

        An easier question: only the trees whose weight changed take part, some must not have.
        """
        setting = max(settings, key=lambda setting: setting.linearization_level)
        proofs = []
        for question in questions:
            if budget.is_over:
                break
            gap = difference(self.problem, pruned, question)
            if gap is None or not self.is_easier(gap):
                continue
            started = time.monotonic()
            try:
                answer = self._ask_near(gap, setting, budget, effort)
            except OutOfTime:
                break
            if answer is Answer.PROVED:
                name = f"{setting.name} (difference)"
                proofs.append(Proof(question, name, Answer.PROVED, time.monotonic() - started))
        return proofs

    def is_easier(self, gap: Difference) -> bool:
        """Whether a difference leaves enough trees out to be asked about by itself."""
        score = self.problem.region.score
        costs_leaves = score is not None and score.trees is not None and score.trees.of_model
        return not costs_leaves and int(gap.moving.sum()) <= _MOST_MOVING * gap.n_asked

    def _ask_near(self, gap: Difference, setting: Setting, budget: Budget, effort: float) -> Answer:
        """Whether any point of the region satisfies the row of a difference.

        Where the largest values of all trees do not add up to it, their values alone are asked
        about and no states: that goes for thousands of leaves.
        """
        problem = self.problem
        trees = problem.trees
        if int(np.maximum.reduceat(gap.value, trees.leaf_offset[:-1]).sum()) < gap.least:
            model = encode_values(gap.value, trees.leaf_offset, gap.least)
        elif np.count_nonzero(gap.value) * int(problem.space.n_states.sum()) > _LARGEST_NEAR:
            return Answer.UNKNOWN
        else:
            key = gap.moving.tobytes()
            if self._near is None or self._near[0] != key:
                self._near = key, self._encode(gap.moving, budget)
            encoding = self._near[1]
            if not encoding.feasible:
                return Answer.PROVED
            model = encoding.model.clone()
            model.add(leaf_sum(encoding, gap.value) >= gap.least)
        return answer_of(solve(configured(setting, budget, effort), model))

    def _ask(
        self,
        encoding: Encoding,
        pruned: PrunedForest,
        settings: tuple[Setting, ...],
        budget: Budget,
        stop: Stop,
        question: Question,
    ) -> Proof:
        started = time.monotonic()
        if not encoding.feasible:
            return Proof(question, settings[0].name, Answer.PROVED, 0.0)
        if budget.is_over:
            return Proof(question, settings[0].name, Answer.UNKNOWN, 0.0)
        name, answer, states = settings[0].name, Answer.UNKNOWN, None
        exactly = False
        for setting, effort in self._turns(settings, question, budget.effort.proof_effort):
            name = setting.name
            solver_budget = (setting, budget, effort)
            answer, states = self._solve(encoding, pruned, question, solver_budget, stop, exactly)
            if states is not None and not self._confirms(pruned, question, states):
                exactly = True  # a point that only the rounding outward admits
                answer, states = self._solve(encoding, pruned, question, solver_budget, stop, True)
            if answer is not Answer.UNKNOWN:
                self._last_turn[settings, question] = setting, effort
            if answer is not Answer.UNKNOWN or budget.is_over:
                break
        if states is not None and not self._confirms(pruned, question, states):
            # never seen: a solver that names a point which the integers do not confirm
            _LOGGER.warning("%s named a point for %s that is none", name, question.name)
            answer, states = Answer.UNKNOWN, None
        return Proof(question, name, answer, time.monotonic() - started, states)

    def _solve(
        self,
        encoding: Encoding,
        pruned: PrunedForest,
        question: Question,
        how: tuple[Setting, Budget, float],
        stop: Stop,
        exactly: bool,
    ) -> tuple[Answer, States | None]:
        """One attempt; a point only where one was found, not yet checked on the integers."""
        model = encoding.model.clone()
        add_question(model, encoding, self.problem, pruned, question, exactly=exactly)
        solver = configured(*how)
        answer = answer_of(stop.solve(solver, model))
        return answer, encoding.states_of(solver) if answer is Answer.FOUND else None

    def _confirms(self, pruned: PrunedForest, question: Question, states: States) -> bool:
        return bool(self.problem.lost(pruned, states[None])[0, question.index])

    def _turns(self, settings: tuple[Setting, ...], question: Question, effort: float) -> list[tuple[Setting, float]]:
        """Who is asked for how long, beginning with what had an answer last time."""
        if len(settings) == 1:
            return [(settings[0], effort)]
        growing = [_FIRST_TURN]
        while growing[-1] < effort:
            growing.append(growing[-1] * _LONGER_TURN)
        turns = [(setting, min(turn, effort)) for turn in growing for setting in settings]
        last = self._last_turn.get((settings, question))
        return turns[turns.index(last) if last in turns else 0 :]


def add_question(
    model: cp_model.CpModel,
    encoding: Encoding,
    problem: Problem,
    pruned: PrunedForest,
    question: Question,
    *,
    exactly: bool,
) -> None:
    """The original on the question's side for certain, the pruned model not.

    Not ``exactly``: the original's rows are rounded outward where they do not fit the solver.
    """
    for rival in problem.rivals(question):
        values = rival.side(problem.original_int)
        least = int(problem.least[rival.index]) - rival.side_of(problem.intercept_int)
        add_at_least(model, encoding, values, least, exactly=exactly)
    most = int(problem.needed_sides(pruned.grid)[question.index]) - 1
    most -= question.side_of(pruned.intercept_int)
    values = question.side(problem.pruned_leaves_int(pruned))
    add_at_most(model, encoding, values, most, exactly=True)
