"""Whether the region contains an input on which the original itself is undecided.

The band is a few float roundings wide, so usually there is none; the claim then has no exception.
"""

from __future__ import annotations

from ortools.sat.python import cp_model

from pine_boost.budget import Budget, OutOfTime
from pine_boost.model.forest import IntArray
from pine_boost.proof.cpsat.encoding import Encoding, add_at_least, add_at_most, encode_region
from pine_boost.proof.cpsat.solver import SolverSetting, answer_of, configured, solve
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Answer, Question

_EFFORT = 1.0  # deterministic seconds of CP-SAT per question
_MOMENT = 0.2  # seconds allowed per question after the deadline
_SETTING = SolverSetting("cp-sat-undecided")


def find_undecided(problem: Problem, encoding: Encoding | None = None, budget: Budget | None = None) -> bool | None:
    """Whether an input of the region lies in the original's rounding band; None if a short search cannot tell.

    A point that is found is checked on exact integers. ``encoding`` is built if it is not given.
    """
    budget = budget or Budget()
    if problem.undecided == 0:
        return False
    if encoding is None:
        try:
            encoding = encode_region(problem.space, problem.region, problem.trees, problem.masks, budget=budget)
        except OutOfTime:
            return None
    if not encoding.feasible:
        return False
    unsettled = False
    for question in problem.questions:
        if not question.is_first_of_mirrors:
            continue  # its mirror is the same question
        answer = _ask(problem, encoding, question, budget)
        if answer is Answer.FOUND:
            return True
        unsettled |= answer is Answer.UNKNOWN
        if unsettled and budget.is_over:
            return None
    return None if unsettled else False


def _ask(problem: Problem, encoding: Encoding, question: Question, budget: Budget) -> Answer:
    """Rounded outward first, then exactly if only the rounding admits the point."""
    for exactly in (False, True):
        model = encoding.model.clone()
        _add_band(model, encoding, problem, question, exactly)
        allowed = budget if budget.remaining > _MOMENT else Budget.of(_MOMENT)
        solver = configured(_SETTING, allowed, _EFFORT)
        answer = answer_of(solve(solver, model))
        if answer is not Answer.FOUND:
            return answer
        if not problem.settled(encoding.states_of(solver)[None])[0]:
            return Answer.FOUND
    return Answer.UNKNOWN


def _add_band(model: cp_model.CpModel, encoding: Encoding, problem: Problem, question: Question, exactly: bool) -> None:
    """Neither side of the question is certain; with several outputs the question is about the two best classes."""

    def row(of: Question) -> tuple[IntArray, int]:
        return of.side(problem.original_int), of.side_of(problem.intercept_int)

    mirror = next(q for q in problem.questions if q.is_mirror(question))
    values, offset = row(question)
    most = int(problem.least[question.index]) - 1 - offset
    least = 1 - int(problem.least[mirror.index]) - offset
    add_at_most(model, encoding, values, most, exactly=exactly)
    add_at_least(model, encoding, values, least, exactly=exactly)
    for rival in problem.rivals(question)[1:]:
        values, offset = row(rival)
        least = 1 - int(problem.least[rival.index]) - offset
        add_at_least(model, encoding, values, least, exactly=exactly)
