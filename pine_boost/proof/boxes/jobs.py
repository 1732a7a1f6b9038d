"""Boxes of all questions, in parts that can run in several processes.

In come a problem and a pruned model; out goes one Proof per question. The parts of a question are
cut from its own search, so the answer does not depend on how many processes there are.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.search import METHOD, BoxSearch
from pine_boost.proof.boxes.shared_tables import Range
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question
from pine_boost.proof.verdict import Answer, Proof

_ALONE = 20_000  # boxes of a question before it is worth other processes
_PARTS = 8  # per process, because parts differ in size

_Part = tuple[Problem, PrunedForest, Question, npt.NDArray[np.int32], npt.NDArray[np.int32], int]
_Outcome = tuple[Answer, Any, list[Range]]


def prove_in_boxes(problem: Problem, pruned: PrunedForest, max_boxes: int, budget: Budget, n_jobs: int) -> list[Proof]:
    """Answer every question of the problem; each gets its share of the time that is left."""
    proofs = []
    n_questions = len(problem.questions)
    for number, question in enumerate(problem.questions):
        own = budget.share(1 / (n_questions - number))
        proofs.append(_prove_question(problem, pruned, question, max_boxes, own, n_jobs))
    return proofs


def _prove_question(
    problem: Problem, pruned: PrunedForest, question: Question, max_boxes: int, budget: Budget, n_jobs: int
) -> Proof:
    started = time.monotonic()
    search = BoxSearch(problem, pruned, question)
    first = min(max_boxes, _ALONE) if n_jobs > 1 else max_boxes
    answer, states, boxes = search.run(search.tables.whole(), first, budget)
    left = [part.range for part in boxes]
    if answer is Answer.UNKNOWN and first < max_boxes and not budget.is_over:
        parts = _split(left, n_jobs * _PARTS)
        each = (max_boxes - search.n_boxes) // len(parts)
        tasks = [(problem, pruned, question, low, high, each) for low, high in parts]
        results = _run_parts(tasks, budget, n_jobs)
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


def _run_parts(tasks: list[_Part], budget: Budget, n_jobs: int) -> list[_Outcome]:
    try:
        from joblib import Parallel, delayed
    except ImportError:  # one after the other, as without n_jobs
        return [_run_part(task, budget) for task in tasks]
    # other processes have other monotonic clocks: hand over an end in wall time
    end = time.time() + budget.remaining
    return list(Parallel(n_jobs=n_jobs)(delayed(_run_part_until)(task, end) for task in tasks))


def _run_part_until(part: _Part, end: float) -> _Outcome:
    return _run_part(part, Budget.of(end - time.time()))


def _run_part(part: _Part, budget: Budget) -> _Outcome:
    problem, pruned, question, low, high, max_boxes = part
    search = BoxSearch(problem, pruned, question)
    answer, states, left = search.run([search.tables.boxes(low, high)], max_boxes, budget)
    return answer, states, [boxes.range for boxes in left]
