"""Boxes of all questions, in parts that can run in several processes.

In come a game and a pruned model; out goes one Proof per question. The parts of a question are
cut from its own search, so the answer does not depend on how many processes there are.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.search import METHOD, BoxSearch
from pine_boost.proof.boxes.tables import Range
from pine_boost.proof.problem import Game, Question
from pine_boost.search.oracle import Answer, Proof

_ALONE = 20_000  # boxes of a question before it is worth other processes
_PARTS = 8  # per process, because parts differ in size

_Part = tuple[Game, PrunedForest, Question, npt.NDArray[np.int32], npt.NDArray[np.int32], int]
_Outcome = tuple[Answer, Any, list[Range]]


def prove_in_boxes(
    game: Game, pruned: PrunedForest, max_boxes: int, deadline: float, n_jobs: int
) -> list[Proof]:
    """Answer every question of the game; each gets its share of the time that is left."""
    proofs = []
    n_questions = len(game.questions)
    for number, question in enumerate(game.questions):
        now = time.monotonic()
        own = now + (deadline - now) / (n_questions - number)
        proofs.append(_prove_question(game, pruned, question, max_boxes, own, n_jobs))
    return proofs


def _prove_question(
    game: Game,
    pruned: PrunedForest,
    question: Question,
    max_boxes: int,
    deadline: float,
    n_jobs: int,
) -> Proof:
    started = time.monotonic()
    search = BoxSearch(game, pruned, question)
    first = min(max_boxes, _ALONE) if n_jobs > 1 else max_boxes
    answer, states, boxes = search.run(search.tables.whole(), first, deadline)
    left = [part.range for part in boxes]
    if answer is Answer.UNKNOWN and first < max_boxes and time.monotonic() < deadline:
        parts = _split(left, n_jobs * _PARTS)
        budget = (max_boxes - search.n_boxes) // len(parts)
        results = _run_parts(game, pruned, question, parts, budget, deadline, n_jobs)
        found = [states for answer, states, _ in results if answer is Answer.FOUND]
        left = [part for _, _, rest in results for part in rest]
        answer, states = Answer.PROVED, None
        if found:
            answer, states = Answer.FOUND, found[0]
        elif left:
            answer = Answer.UNKNOWN
    covered = 1.0 if answer is Answer.PROVED else 1.0 - search.tables.volume(left)
    return Proof(question, METHOD, answer, time.monotonic() - started, states, covered)


def _split(ranges: list[Range], n_parts: int) -> list[Range]:
    """Deal boxes out like cards: neighbours on the stack are alike."""
    low, high = (np.concatenate([part[side] for part in ranges], axis=1) for side in (0, 1))
    n_parts = min(n_parts, low.shape[1])
    return [(low[:, start::n_parts], high[:, start::n_parts]) for start in range(n_parts)]


def _run_parts(
    game: Game,
    pruned: PrunedForest,
    question: Question,
    ranges: list[Range],
    budget: int,
    deadline: float,
    n_jobs: int,
) -> list[_Outcome]:
    arguments = [(game, pruned, question, low, high, budget) for low, high in ranges]
    try:
        from joblib import Parallel, delayed
    except ImportError:  # one after the other, as without n_jobs
        return [_run_part(each, deadline) for each in arguments]
    # other processes have other monotonic clocks: hand over an end in wall time
    end = time.time() + (deadline - time.monotonic())
    return list(Parallel(n_jobs=n_jobs)(delayed(_run_part_until)(each, end) for each in arguments))


def _run_part_until(part: _Part, end: float) -> _Outcome:
    return _run_part(part, time.monotonic() + (end - time.time()))


def _run_part(part: _Part, deadline: float) -> _Outcome:
    game, pruned, question, low, high, budget = part
    search = BoxSearch(game, pruned, question)
    answer, states, left = search.run([search.tables.boxes(low, high)], budget, deadline)
    return answer, states, [boxes.range for boxes in left]
