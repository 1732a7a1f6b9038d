"""CP-SAT as a complete method: a counterexample to a question, or a proof that there is none.

Every counterexample is checked on exact integers before it counts. A single INFEASIBLE is never trusted: a certificate
needs a second, different proof of every question (`two_proofs`).

A model near the original has a shortcut. Subtract "the pruned model does not decide for the side" from "the original
does": trees that keep their weight cancel, and what remains is one integer row over the few trees that changed, which
every counterexample satisfies. If no point of the region satisfies it, the question is proved.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from pine_boost.budget import Budget, OutOfTime
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, IntArray, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.cpsat.encoding import Encoding, add_at_least, add_at_most, encode_region, encode_values, leaf_sum
from pine_boost.proof.cpsat.solver import SolverSetting, Stop, answer_of, configured, solve, solve_each
from pine_boost.proof.enumeration import Listing, list_region
from pine_boost.proof.problem import Answer, Problem, Proof, Question

_LOGGER = logging.getLogger("pine_boost")
_MOST_MOVING = 0.9  # of the trees of a question; if nearly all moved, the whole question is stronger
_LARGEST_NEAR = 5 * 10**7  # leaves times states: more would take seconds to encode for every model
_FEWEST_LEAVES = 400  # smaller models are answered by CP-SAT at once
_FIRST_TURN, _LONGER_TURN = 4.0, 8.0  # deterministic seconds of the first turn, and the factor from turn to turn
_BAND_EFFORT = 1.0  # deterministic seconds of CP-SAT per question about the rounding band
_MOMENT = 0.2  # seconds allowed for such a question after the deadline
_BAND_SETTING = SolverSetting("cp-sat-undecided")


@dataclass(frozen=True, eq=False)
class Difference:
    """The side of the original minus the side of the pruned model, over the leaves.

    Attributes
    ----------
    value : int64 (n_leaves,)
        0 at the leaves of all trees except the ``moving`` ones.
    least : int
        A counterexample has ``sum(value[leaf]) >= least``.
    moving : bool (n_trees,)
        Trees whose contribution to the difference varies with the input.
    n_asked : int
        Trees that the question depends on in either model; those of other classes do not count.
    """

    value: IntArray
    least: int
    moving: BoolArray
    n_asked: int


def difference(problem: Problem, pruned: PrunedForest, question: Question) -> Difference | None:
    """The row "the original decides for the side" minus the row "the pruned model does not".

    None if the units of the two models are too far apart. Exact up to rounding outward: a tree that does not
    move is replaced by its largest contribution, and a row beyond the solver's safe range is halved with every
    value rounded up.
    """
    doublings = problem.scale - pruned.grid
    own, other = 2 ** max(0, -doublings), 2 ** max(0, doublings)
    before, lowest = problem.original_row(question)
    after, highest = problem.pruned_row(pruned, question)
    largest_sum = own * int(np.abs(before).max()) + other * int(np.abs(after).max())
    if largest_sum * problem.trees.n_trees >= exact.WORD_LIMIT:
        return None
    value = own * before - other * after
    starts = problem.trees.leaf_offset[:-1]
    largest = np.maximum.reduceat(value, starts)
    # rounded to nearest in both units, a leaf of equal weight is off by at most half of each, and by twice that
    # if a side is the difference of two outputs
    moving = _ranges(value, starts) > (own + other) * (1 if question.cut >= 0 else 2)
    least = own * lowest - other * highest - sum(int(x) for x in largest[~moving])
    value = np.where(moving[problem.trees.leaf_tree], value, 0)
    total = sum(abs(int(x)) for x in value[value != 0]) + abs(least)
    halvings = max(0, total.bit_length() - (exact.ROW_LIMIT // 2).bit_length() + 1)
    n_asked = np.count_nonzero((_ranges(before, starts) > 0) | (_ranges(after, starts) > 0))
    return Difference(-((-value) >> halvings), -((-least) >> halvings), moving, int(n_asked))


def _ranges(value: IntArray, starts: IntArray) -> IntArray:
    """The range of the leaf values of each tree."""
    return np.maximum.reduceat(value, starts) - np.minimum.reduceat(value, starts)


class Prover:
    """Answers the questions of a problem for one pruned model after another."""

    def __init__(self, problem: Problem, n_jobs: int = 1) -> None:
        self.problem = problem
        self.n_jobs = n_jobs
        self.known_encoding: Encoding | None = None  # the base model, once it is built
        self._near: tuple[bytes, Encoding] | None = None  # over the trees of the last difference
        self._listing: list[Listing | None] = []  # empty until it is asked for
        # per settings and question, the turn that last had an answer
        self._last_turn: dict[tuple[tuple[SolverSetting, ...], Question], tuple[SolverSetting, float]] = {}

    def encoding(self, budget: Budget) -> Encoding:
        """The base CP-SAT model, built once; raises `OutOfTime` if the budget ends first."""
        if self.known_encoding is None:
            self.known_encoding = self._encode(None, budget)
        return self.known_encoding

    def on(self, problem: Problem) -> Prover:
        """A prover of other questions about the same model in the same region, with the same base model."""
        other = Prover(problem, self.n_jobs)
        other.known_encoding, other._near = self.known_encoding, self._near
        other._listing = self._listing
        return other

    def listing(self, budget: Budget) -> Listing | None:
        """Every input of the region, listed once; None if there are too many, or too few leaves to be worth it."""
        if self.problem.trees.n_leaves < _FEWEST_LEAVES:
            return None
        if not self._listing:
            self._listing.append(list_region(self.problem, budget))
        return self._listing[0]

    def _encode(self, wanted: BoolArray | None, budget: Budget) -> Encoding:
        problem = self.problem
        return encode_region(problem.space, problem.region, problem.trees, wanted, budget)

    def prove(
        self, pruned: PrunedForest, questions: list[Question], settings: tuple[SolverSetting, ...], budget: Budget
    ) -> list[Proof]:
        """Answer every question with CP-SAT, in parallel threads of one deterministic worker each.

        Several settings take turns, which grow up to the budget's effort per proof.
        """
        near = self.prove_near(pruned, questions, settings, budget, min(budget.effort.proof_effort, _FIRST_TURN))
        proofs = {proof.question: proof for proof in near}
        others = [question for question in questions if question not in proofs]
        try:
            encoding = self.encoding(budget) if others else None  # built before the threads start
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
        settings: tuple[SolverSetting, ...],
        budget: Budget,
        effort: float,
    ) -> list[Proof]:
        """Proofs of the questions that the difference from the original settles.

        Only the trees whose weight changed take part, so these are easier questions.
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
        """Whether a difference leaves out enough trees to be worth a question of its own."""
        needs_all_trees = self.problem.region.leaf_cost is not None
        return not needs_all_trees and int(gap.moving.sum()) <= _MOST_MOVING * gap.n_asked

    def _ask_near(self, gap: Difference, setting: SolverSetting, budget: Budget, effort: float) -> Answer:
        """Whether any point of the region satisfies the row of a difference.

        If the largest values of all trees do not add up to it, a model of the values alone, without states, is
        enough; that works for thousands of leaves.
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
        settings: tuple[SolverSetting, ...],
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

        def add_rows(model: cp_model.CpModel, exactly: bool) -> None:
            add_question(model, encoding, self.problem, pruned, question, exactly=exactly)

        def confirms(states: States) -> bool:
            return bool(self.problem.lost(pruned, states[None])[0, question.index])

        roundings = [False, True]
        for setting, effort in self._turns(settings, question, budget.effort.proof_effort):
            name = setting.name
            solver = partial(configured, setting, budget, effort)
            answer, states = _find_point(encoding, add_rows, confirms, roundings, solver, stop.solve)
            if answer is not Answer.UNKNOWN:
                self._last_turn[settings, question] = setting, effort
            if answer is not Answer.UNKNOWN or budget.is_over:
                break
        if states is not None and not confirms(states):
            # never observed: the solver returns a point that the integers do not confirm
            _LOGGER.warning("%s returned a point for %s that is not a counterexample", name, question.name)
            answer, states = Answer.UNKNOWN, None
        return Proof(question, name, answer, time.monotonic() - started, states)

    def _turns(
        self, settings: tuple[SolverSetting, ...], question: Question, effort: float
    ) -> list[tuple[SolverSetting, float]]:
        """Which setting runs for how long, starting with the turn that had an answer last time."""
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
    """Add the rows of a counterexample: the original certainly on the question's side, the pruned model not.

    Unless ``exactly``, rows of the original that do not fit the solver are rounded outward.
    """
    for rival in problem.rivals(question):
        add_at_least(model, encoding, *problem.original_row(rival), exactly=exactly)
    add_at_most(model, encoding, *problem.pruned_row(pruned, question), exactly=True)


def _find_point(
    encoding: Encoding,
    add_rows: Callable[[cp_model.CpModel, bool], None],
    confirms: Callable[[States], bool],
    roundings: list[bool],
    new_solver: Callable[[], cp_model.CpSolver],
    run: Callable[[cp_model.CpSolver, cp_model.CpModel], Any] = solve,
) -> tuple[Answer, States | None]:
    """Solve with rows rounded outward, then exactly if only the rounding admits the point that is found.

    ``roundings`` says whether the rows of each attempt that is left are exact.
    """
    while True:
        model, solver = encoding.model.clone(), new_solver()
        add_rows(model, roundings[0])
        answer = answer_of(run(solver, model))
        states = encoding.states_of(solver) if answer is Answer.FOUND else None
        if states is None or len(roundings) == 1 or confirms(states):
            return answer, states
        roundings.pop(0)


def find_undecided(problem: Problem, encoding: Encoding | None = None, budget: Budget | None = None) -> bool | None:
    """Whether an input of the region lies in the original's rounding band; None if a short search cannot tell.

    The band is a few float roundings wide, so usually there is none; the claim then has no exception.

    A point that is found is checked on exact integers. ``encoding`` is built if it is not given.
    """
    budget = budget or Budget()
    if problem.undecided == 0:
        return False
    if encoding is None:
        try:
            encoding = encode_region(problem.space, problem.region, problem.trees, budget=budget)
        except OutOfTime:
            return None
    if not encoding.feasible:
        return False
    unsettled = False
    for question in problem.questions:
        if problem.mirror(question).index < question.index:
            continue  # its mirror is the same question
        allowed = budget if budget.remaining > _MOMENT else Budget.of(_MOMENT)
        answer, states = _find_point(
            encoding,
            partial(_add_band, encoding, problem, question),
            lambda states: not problem.settled(states[None])[0],
            [False, True],
            partial(configured, _BAND_SETTING, allowed, _BAND_EFFORT),
        )
        if states is not None and not problem.settled(states[None])[0]:
            return True
        unsettled |= answer is not Answer.PROVED
        if unsettled and budget.is_over:
            return None
    return None if unsettled else False


def _add_band(encoding: Encoding, problem: Problem, question: Question, model: cp_model.CpModel, exactly: bool) -> None:
    """Neither side of the question is certain; with several outputs the question is about the two best classes."""
    rivals = [problem.mirror(rival) for rival in problem.rivals(question)[1:]]
    for own in (question, problem.mirror(question), *rivals):
        values, least = problem.original_row(own)
        add_at_most(model, encoding, values, least - 1, exactly=exactly)
