"""The Oracle: a point of the region where the pruned model loses, or a proof that there is none.

In come the game and a pruned model; out go counterexamples or proofs per question. Climbing only
ever finds; CP-SAT may also prove. One INFEASIBLE is never trusted: a certificate needs a second,
different proof of every question.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from pine_boost.model import exact
from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.proof.cpsat.encoding import Encoding, encode_region, encode_values
from pine_boost.proof.cpsat.solving import Stop, solve, solve_each
from pine_boost.proof.difference import Difference, difference
from pine_boost.proof.problem import Game, Question, pruned_leaves_int
from pine_boost.search.grid import needed_sides
from pine_boost.search.neighbours import Neighbourhood
from pine_boost.search.rows import RowPool, pruned_sides
from pine_boost.search.walks import climb

_CLIMB_STARTS = 48


class Answer(Enum):
    """What one attempt at a question ended with."""

    PROVED = "no counterexample exists"
    FOUND = "counterexample"
    UNKNOWN = "budget ran out"


STATUS_MAP = {
    cp_model.OPTIMAL: Answer.FOUND,
    cp_model.FEASIBLE: Answer.FOUND,
    cp_model.INFEASIBLE: Answer.PROVED,
    cp_model.UNKNOWN: Answer.UNKNOWN,
}


@dataclass(frozen=True)
class Setting:
    """A configuration of CP-SAT; one worker, so that runs repeat exactly."""

    name: str
    random_seed: int = 0
    # No LP: on these models it costs 3-30x (Spambase 30x2: proofs 0.3 s at level 0, 1.2 s at 1)
    linearization_level: int = 0
    cp_model_presolve: bool = True


# Without presolve small proofs take a quarter of the time (Pima 30x2: 0.01 s against 0.04 s). Most
# wrong answers of CP-SAT came from its presolve: the two opinions differ in it.
FIRST = Setting("cp-sat-no-presolve", random_seed=7919, cp_model_presolve=False)
SECOND = Setting("cp-sat")
# The LP costs where proofs are easy and saves where they are hard (JM1 40x3: 53 s without, 0.02 s
# with it), most of all with trees of the score's own: the two take turns.
FIRST_LP = Setting(
    "cp-sat-lp-no-presolve", random_seed=7919, linearization_level=1, cp_model_presolve=False
)
SECOND_LP = Setting("cp-sat-lp", linearization_level=1)
_MOST_MOVING = 0.9  # of the trees asked about; where nearly all moved the whole question says more
_LARGEST_NEAR = 5 * 10**7  # leaves times states: more would take seconds to encode for every model
_FIRST_TURN, _LONGER_TURN = 4.0, 8.0  # deterministic seconds, and by how much turns grow


@dataclass(frozen=True, eq=False)
class Proof:
    """The outcome of one method on one question."""

    question: Question
    method: str
    answer: Answer
    seconds: float
    states: npt.NDArray[np.int32] | None = None
    covered: float | None = None


class Oracle:
    """Answers the questions of a game for one pruned model after another."""

    def __init__(self, game: Game, n_jobs: int = 1) -> None:
        self.game = game
        self.neighbourhood = Neighbourhood(game)
        self.n_jobs = n_jobs
        self.has_score_trees = self.neighbourhood.score_trees is not None
        self.first, self.second = (FIRST, FIRST_LP), (SECOND, SECOND_LP)
        if self.has_score_trees:
            self.first, self.second = (FIRST_LP, FIRST), (SECOND_LP, SECOND)
        self._encoding: Encoding | None = None
        self._near: tuple[bytes, Encoding] | None = None  # over the trees of the last difference
        # per settings and question, the turn that last had an answer
        self._last_turn: dict[tuple[tuple[Setting, ...], Question], tuple[Setting, float]] = {}

    @property
    def encoding(self) -> Encoding:
        """The base CP-SAT model, built once."""
        if self._encoding is None:
            game = self.game
            self._encoding = encode_region(game.space, game.region, game.trees, game.masks)
        return self._encoding

    def climb(self, pruned: PrunedForest, pool: RowPool) -> npt.NDArray[np.int32]:
        """Counterexamples near the pool's points that the pruned model answers most narrowly."""
        leaf_int = pruned_leaves_int(self.game, pruned)
        needed = needed_sides(self.game, pruned.grid)
        margins = np.zeros((len(pool), self.game.forest.n_outputs), dtype=np.int64)
        for tree in range(pool.leaves.shape[1]):
            margins += leaf_int[pool.leaves[:, tree]]
        sides = pruned_sides(self.game, margins + pruned.intercept_int)
        starts = []
        for question in self.game.questions:
            own = np.flatnonzero(pool.decided[:, question.index] & pool.inside)
            order = np.argsort(sides[own, question.index], kind="stable")
            starts.append(own[order[:_CLIMB_STARTS]])
        asked = np.repeat([q.index for q in self.game.questions], [len(own) for own in starts])
        shift = pruned_sides(self.game, pruned.intercept_int[None])[0]
        points = pool.states[np.concatenate(starts)]
        return climb(self.neighbourhood, points, asked, leaf_int, needed - shift)

    def prove(
        self,
        pruned: PrunedForest,
        questions: list[Question],
        how: Setting | tuple[Setting, ...],
        deadline: float,
        effort: float = 1e9,
    ) -> list[Proof]:
        """Ask CP-SAT every question; in parallel threads, one deterministic worker each.

        Several settings take turns that grow. ``deadline`` is in terms of ``time.monotonic``,
        ``effort`` in CP-SAT's deterministic time per turn.
        """
        settings = (how,) if isinstance(how, Setting) else how
        near = self.prove_near(pruned, questions, settings, deadline, min(effort, _FIRST_TURN))
        proofs = {proof.question: proof for proof in near}
        others = [question for question in questions if question not in proofs]
        if others:
            encoding = self.encoding  # built before any thread asks for it
            ask = partial(self._ask, encoding, pruned, settings, deadline, effort)
            proofs |= dict(zip(others, solve_each(ask, others, self.n_jobs), strict=True))
        return [proofs[question] for question in questions]

    def prove_near(
        self,
        pruned: PrunedForest,
        questions: list[Question],
        settings: tuple[Setting, ...],
        deadline: float,
        effort: float,
    ) -> list[Proof]:
        """Proofs of those questions that the difference of a model near the original settles.

        An easier question: only the trees whose weight changed take part, some must not have.
        """
        setting = max(settings, key=lambda setting: setting.linearization_level)
        proofs = []
        for question in questions:
            gap = difference(self.game, pruned, question)
            if gap is None or not self._is_easier(gap):
                continue
            started = time.monotonic()
            answer = self._ask_near(gap, setting, deadline - started, effort)
            if answer is Answer.PROVED:
                name = f"{setting.name} (difference)"
                proofs.append(Proof(question, name, answer, time.monotonic() - started))
        return proofs

    def _is_easier(self, gap: Difference) -> bool:
        score = self.game.region.score
        costs_leaves = score is not None and score.trees is not None and score.trees.of_model
        return not costs_leaves and int(gap.moving.sum()) <= _MOST_MOVING * gap.n_asked

    def _ask_near(self, gap: Difference, setting: Setting, seconds: float, effort: float) -> Answer:
        """Whether any point of the region satisfies the row of a difference.

        Where the largest values of all trees do not add up to it, their values alone are asked
        about and no states: that goes for thousands of leaves.
        """
        game = self.game
        if int(np.maximum.reduceat(gap.value, game.trees.leaf_offset[:-1]).sum()) < gap.least:
            model = encode_values(gap.value, game.trees.leaf_offset, gap.least)
        elif np.count_nonzero(gap.value) * int(game.space.n_states.sum()) > _LARGEST_NEAR:
            return Answer.UNKNOWN
        else:
            key = gap.moving.tobytes()
            if self._near is None or self._near[0] != key:
                made = encode_region(game.space, game.region, game.trees, game.masks, gap.moving)
                self._near = key, made
            encoding = self._near[1]
            if not encoding.feasible:
                return Answer.PROVED
            model = encoding.model.clone()
            model.add(margin_row(encoding, gap.value) >= gap.least)
        solver = cp_model.CpSolver()
        _configure(solver, setting, seconds, effort)
        return STATUS_MAP[solve(solver, model)]

    def _ask(
        self,
        encoding: Encoding,
        pruned: PrunedForest,
        settings: tuple[Setting, ...],
        deadline: float,
        effort: float,
        stop: Stop,
        question: Question,
    ) -> Proof:
        started = time.monotonic()
        if not encoding.feasible:
            return Proof(question, settings[0].name, Answer.PROVED, 0.0)
        model = encoding.model.clone()
        self._add_question(model, encoding, pruned, question)
        name, answer, states = settings[0].name, Answer.UNKNOWN, None
        for setting, seconds in self._turns(settings, question, effort):
            solver = cp_model.CpSolver()
            _configure(solver, setting, deadline - time.monotonic(), seconds)
            name, answer = setting.name, STATUS_MAP[stop.solve(solver, model)]
            if answer is not Answer.UNKNOWN:
                self._last_turn[settings, question] = setting, seconds
                states = encoding.states_of(solver) if answer is Answer.FOUND else None
            if answer is not Answer.UNKNOWN or time.monotonic() >= deadline:
                break
        return Proof(question, name, answer, time.monotonic() - started, states)

    def _turns(
        self, settings: tuple[Setting, ...], question: Question, effort: float
    ) -> list[tuple[Setting, float]]:
        """Who is asked for how long, beginning with what had an answer last time."""
        if len(settings) == 1:
            return [(settings[0], effort)]
        growing = [_FIRST_TURN]
        while growing[-1] < effort:
            growing.append(growing[-1] * _LONGER_TURN)
        turns = [(setting, min(turn, effort)) for turn in growing for setting in settings]
        last = self._last_turn.get((settings, question))
        return turns[turns.index(last) if last in turns else 0 :]

    def _add_question(
        self, model: cp_model.CpModel, encoding: Encoding, pruned: PrunedForest, question: Question
    ) -> None:
        """The original on the question's side for certain, the pruned model not."""
        game = self.game
        n_outputs = game.forest.n_outputs
        rivals = [question]
        if n_outputs > 1:
            rivals = [q for q in game.questions if q.plus == question.plus]
        for rival in rivals:
            values = side_values(rival, game.original_int, n_outputs)
            offset = side_of(rival, game.intercept_int, n_outputs)
            model.add(margin_row(encoding, values) >= int(game.least[rival.index]) - offset)
        leaf_int = pruned_leaves_int(game, pruned)
        offset = side_of(question, pruned.intercept_int, n_outputs)
        needed = int(needed_sides(game, pruned.grid)[question.index])
        row = margin_row(encoding, side_values(question, leaf_int, n_outputs))
        model.add(row <= needed - 1 - offset)


def side_values(question: Question, leaf_int: IntArray, n_outputs: int) -> IntArray:
    """Leaf values as the question sees them: signed, or one class minus the other."""
    if n_outputs == 1:
        return question.sign * leaf_int[:, 0]
    return leaf_int[:, question.plus] - leaf_int[:, question.minus]


def side_of(question: Question, constant: IntArray, n_outputs: int) -> int:
    """A constant per output as the question sees it."""
    return int(side_values(question, constant[None], n_outputs)[0])


def margin_row(encoding: Encoding, values: IntArray) -> Any:
    """The integer sum over the leaf Booleans, within the solver's safe range."""
    terms = [
        (leaf, int(value))
        for leaf, value in zip(encoding.leaves, values, strict=True)
        if leaf is not None and value != 0
    ]
    if sum(abs(value) for _, value in terms) > exact.ROW_LIMIT // 2:
        raise ArithmeticError("A margin row passes the solver's safe range; this is a bug.")
    leaves = [leaf for leaf, _ in terms]
    return cp_model.LinearExpr.weighted_sum(leaves, [value for _, value in terms])


def _configure(solver: cp_model.CpSolver, setting: Setting, seconds: float, effort: float) -> None:
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = setting.random_seed
    parameters.linearization_level = setting.linearization_level
    parameters.cp_model_presolve = setting.cp_model_presolve
    parameters.max_time_in_seconds = max(0.01, min(seconds, 1e8))
    parameters.max_deterministic_time = effort
