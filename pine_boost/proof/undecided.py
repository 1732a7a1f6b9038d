"""Whether the region holds an input on which the original itself is undecided.

In comes a game; out goes True, False (proved: then the claim has no exception) or None. The band
is a few float roundings wide, so usually there is none.
"""

from __future__ import annotations

import math
import time
from typing import Any

from ortools.sat.python import cp_model

from pine_boost.proof.cpsat.encoding import Encoding, encode_region
from pine_boost.proof.cpsat.solving import solve
from pine_boost.proof.problem import Game, Question
from pine_boost.search.oracle import margin_row, side_of, side_values

_EFFORT = 1.0  # deterministic seconds of CP-SAT per question


def find_undecided(
    game: Game, encoding: Encoding | None = None, deadline: float = math.inf
) -> bool | None:
    """Search the region for an input inside the original's rounding band, with little effort.

    ``encoding`` saves building it anew; ``deadline`` is in terms of ``time.monotonic``, a moment
    per question is left after it.
    """
    if game.undecided == 0:
        return False
    if encoding is None:
        encoding = encode_region(game.space, game.region, game.trees, game.masks)
    if not encoding.feasible:
        return False
    unsettled = False
    for question in game.questions:
        if game.forest.n_outputs == 1:
            if question.sign < 0:
                continue
        elif question.plus > question.minus:
            continue
        model = encoding.model.clone()
        _add_band(model, encoding, game, question)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 0
        solver.parameters.max_deterministic_time = _EFFORT
        solver.parameters.max_time_in_seconds = min(max(deadline - time.monotonic(), 0.2), 1e8)
        status = solve(solver, model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return True
        unsettled |= status != cp_model.INFEASIBLE
    return None if unsettled else False


def _add_band(model: cp_model.CpModel, encoding: Encoding, game: Game, question: Question) -> None:
    """Neither side of the question is certain; with several outputs, between the two best."""
    n_outputs = game.forest.n_outputs
    mirror = next(q for q in game.questions if _is_mirror(q, question, n_outputs))
    side = _side(encoding, game, question)
    model.add(side <= int(game.least[question.index]) - 1)
    model.add(side >= -(int(game.least[mirror.index]) - 1))
    if n_outputs > 1:
        for rival in game.questions:
            if rival.plus == question.plus and rival.minus != question.minus:
                model.add(_side(encoding, game, rival) >= 1 - int(game.least[rival.index]))


def _is_mirror(other: Question, question: Question, n_outputs: int) -> bool:
    if n_outputs == 1:
        return other.cut == question.cut and other.sign == -question.sign
    return other.plus == question.minus and other.minus == question.plus


def _side(encoding: Encoding, game: Game, question: Question) -> Any:
    n_outputs = game.forest.n_outputs
    row = margin_row(encoding, side_values(question, game.original_int, n_outputs))
    return row + side_of(question, game.intercept_int, n_outputs)
