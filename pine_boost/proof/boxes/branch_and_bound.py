"""Branch and bound over boxes of states: a complete method that uses no solver.

Integers decide; only the order of branching is heuristic. The parts of a question are cut from its own search, so the
answer does not depend on the number of processes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.proof.boxes.groups import best_value
from pine_boost.proof.boxes.question_tables import Boxes, QuestionTables, join
from pine_boost.proof.boxes.shared_tables import Range, SharedTables
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Answer, Proof, Question

METHOD = "boxes"
_ALONE = 20_000  # boxes of a question before other processes are worth their start-up
_PARTS = 8  # per process, because parts differ in size
_Part = tuple[Problem, PrunedForest, Question, npt.NDArray[np.int32], npt.NDArray[np.int32], int]
_Outcome = tuple[Answer, Any, list[Range]]
_BATCH = 512
_TRIED = 64  # points tried per batch
_FIRST_TRIALS, _NEXT_TRIAL = 3, 4  # points are tried in the first batches, then in every fourth one
_STEEPNESS = 8.0  # how strongly a lower bound of one half makes up for the other


def prove_boxes(
    problem: Problem,
    pruned: PrunedForest,
    question: Question,
    *,
    max_boxes: int,
    budget: Budget,
    shared: SharedTables | None = None,
    n_jobs: int = 1,
) -> Proof:
    """Answer one question by branch and bound.

    Parameters
    ----------
    problem, pruned, question
    max_boxes : int
        Give up after this many boxes.
    budget : Budget
    shared : SharedTables, optional
        What all questions of the problem share; built if not given.
    n_jobs : int
        Processes for what is left after a first part of the search.

    Returns
    -------
    Proof
        PROVED if no box is left, FOUND with a counterexample that was checked exactly, or UNKNOWN with the share
        of the region (by number of state rows) that was covered.
    """
    started = time.monotonic()
    search = BoxSearch(problem, pruned, question, shared)
    first = min(max_boxes, _ALONE) if n_jobs > 1 else max_boxes
    answer, states, boxes = search.run(search.tables.whole(), first, budget)
    left = [part.range for part in boxes]
    if answer is Answer.UNKNOWN and first < max_boxes and not budget.is_over:
        parts = _split(left, n_jobs * _PARTS)
        each = (max_boxes - search.n_boxes) // len(parts)
        results = _run_parts([(problem, pruned, question, low, high, each) for low, high in parts], budget, n_jobs)
        found = [states for answer, states, _ in results if answer is Answer.FOUND]
        left = [part for _, _, rest in results for part in rest]
        answer, states = Answer.PROVED, None
        if found:
            answer, states = Answer.FOUND, found[0]
        elif left:
            answer = Answer.UNKNOWN
    covered = 1.0 if answer is Answer.PROVED else 1.0 - search.tables.volume(left)
    return Proof(question, METHOD, answer, time.monotonic() - started, states, covered)


def prove_in_boxes(problem: Problem, pruned: PrunedForest, max_boxes: int, budget: Budget, n_jobs: int) -> list[Proof]:
    """Answer every question of the problem; each gets its share of the remaining time."""
    n_questions = len(problem.questions)
    return [
        prove_boxes(
            problem,
            pruned,
            question,
            max_boxes=max_boxes,
            budget=budget.share(1 / (n_questions - number)),
            n_jobs=n_jobs,
        )
        for number, question in enumerate(problem.questions)
    ]


class BoxSearch:
    """The search for one question; boxes go in and out, so that parts can run in other processes."""

    def __init__(
        self, problem: Problem, pruned: PrunedForest, question: Question, shared: SharedTables | None = None
    ) -> None:
        self.problem, self.pruned, self.question = problem, pruned, question
        self.tables = QuestionTables(problem, pruned, question, shared or SharedTables(problem))
        self.n_boxes = 0

    def run(
        self, boxes: list[Boxes], max_boxes: int, budget: Budget
    ) -> tuple[Answer, npt.NDArray[np.int32] | None, list[Boxes]]:
        """Depth first, until no box is left, a counterexample is found or the budget runs out."""
        stack = list(boxes)
        n_batches = 0
        while stack:
            batch = stack.pop()
            while stack and len(batch) + len(stack[-1]) <= _BATCH:
                batch = join([stack.pop(), batch])
            if len(batch) > _BATCH:
                stack.append(batch.take(np.arange(len(batch) - _BATCH)))
                batch = batch.take(np.arange(len(batch) - _BATCH, len(batch)))
            if self.n_boxes >= max_boxes or budget.is_over:
                return Answer.UNKNOWN, None, [*stack, batch]
            self.n_boxes += len(batch)
            batch = self.filter(batch)
            n_tried = _TRIED if n_batches < _FIRST_TRIALS or n_batches % _NEXT_TRIAL == 0 else 0
            n_batches += 1
            found = self.try_points(batch, n_tried)
            if found is not None:
                return Answer.FOUND, found, stack
            batch = batch.take(np.flatnonzero((batch.low < batch.high).any(axis=0)))
            if len(batch):
                stack.append(self.branch(batch))
        return Answer.PROVED, None, []

    def filter(self, boxes: Boxes) -> Boxes:
        """Drop the boxes that cannot contain a counterexample."""
        boxes = boxes.take(np.flatnonzero((boxes.bound >= 0).all(axis=0)))
        if self.problem.region.tau is not None and len(boxes):
            boxes = boxes.take(np.flatnonzero(self.tables.has_room(boxes)))
        impossible = self.tables.region.impossible(boxes.low, boxes.high)
        if impossible is not None:
            boxes = boxes.take(np.flatnonzero(~impossible))
        return boxes

    def try_points(self, boxes: Boxes, n_tried: int) -> npt.NDArray[np.int32] | None:
        """Check a point of the last ``n_tried`` boxes exactly, and every box that is a single point."""
        single = (boxes.low == boxes.high).all(axis=0)
        single[max(0, len(single) - n_tried) :] = True
        columns = np.flatnonzero(single)
        if len(columns) == 0:
            return None
        middle = (boxes.low.take(columns, axis=1) + boxes.high.take(columns, axis=1)) // 2
        states = np.stack([self.tables.order[j][row] for j, row in enumerate(middle)], axis=1)
        against = self.problem.lost(self.pruned, states)[:, self.question.index]
        if not against.any():
            return None
        return np.asarray(states[int(np.argmax(against))], dtype=np.int32)

    def branch(self, boxes: Boxes) -> Boxes:
        """Halve every box along the feature that promises the lowest bounds of its halves."""
        chosen = self._choose(boxes)
        children = join([self._halves(boxes, int(feature), chosen) for feature in np.unique(chosen)])
        alive = np.flatnonzero((children.bound >= 0).all(axis=0))
        self.n_boxes += len(children) - len(alive)
        # the most promising last, because the stack is popped from its end
        slack = (children.bound.take(alive, axis=1) / self.tables.norm[:, None]).min(axis=0)
        return children.take(alive[np.argsort(slack, kind="stable")])

    def _halves(self, boxes: Boxes, feature: int, chosen: IntArray) -> Boxes:
        """The lower halves, then the upper halves, of the boxes for which a feature was chosen."""
        columns = np.flatnonzero(chosen == feature)
        n_boxes = len(columns)
        halves = boxes.take(np.concatenate([columns, columns]))
        middle = self.tables.middle(feature, halves.low[feature, :n_boxes], halves.high[feature, :n_boxes])
        halves.high[feature, :n_boxes] = middle
        halves.low[feature, n_boxes:] = middle + 1
        groups = self.tables.groups
        rows, counts = groups.rows[feature], groups.feature_counts[feature]
        if len(rows) == 0:
            return halves
        base = self.tables.row_base[rows][:, None]
        own = halves.mask.take(rows, axis=0)
        half = own & self.tables.range_mask(feature, halves.low[feature], halves.high[feature])
        before = best_value(groups.table, base + own[:, :n_boxes], counts)
        after = best_value(groups.table, base + half, counts).sum(axis=0, dtype=np.int32)
        rest = halves.bound[:, :n_boxes] - before.sum(axis=0, dtype=np.int32).T
        halves.mask[rows] = half
        return replace(halves, bound=np.hstack([rest, rest]) + after.T)

    def _choose(self, boxes: Boxes) -> IntArray:
        """The feature to branch on; a heuristic, so floats may be used."""
        n_boxes = len(boxes)
        borders = self.tables.n_borders(boxes)
        # Once a box is a single point to the model, leaf costs decide; before that they would lead to splits
        # that change no margin.
        is_point = np.asarray(borders.max(axis=0) == 0)
        ratio = boxes.bound / self.tables.norm[:, None]
        if self.tables.has_score.any():
            ratio[self.tables.has_score[:, None] != is_point] = np.inf
        best_sum = ratio.argmin(axis=0)
        slack = boxes.bound[best_sum, np.arange(n_boxes)].astype(np.float64)
        per_unit = _STEEPNESS / np.maximum(slack, 1.0)
        flat = (self.tables.row_base[:, None] + boxes.mask) * self.tables.n_sums + best_sum
        current = best_value(self.tables.flat_table, flat, self.tables.groups.counts)
        width = boxes.high - boxes.low
        effort = np.where(width > 0, 1e300 / (1 + width), np.inf)
        useful_in = (width > 0) & ((borders > 0) | is_point)
        for feature in np.flatnonzero(useful_in.any(axis=1) & self.tables.has_rows):
            rows = self.tables.groups.rows[feature]
            useful = np.flatnonzero(useful_in[feature])
            low, high = boxes.low[feature].take(useful), boxes.high[feature].take(useful)
            middle = self.tables.middle(int(feature), low, high)
            counts, owners = (self.tables.groups.feature_counts[feature], self.tables.groups.groups[feature])
            before = current.take(owners, axis=0).take(useful, axis=1).sum(axis=0)
            both = np.concatenate([useful, useful])  # lower halves, then upper halves
            half = boxes.mask.take(rows, axis=0).take(both, axis=1) & self.tables.range_mask(
                int(feature), np.concatenate([low, middle + 1]), np.concatenate([middle, high])
            )
            base = self.tables.row_base[rows][:, None]
            flat = (base + half) * self.tables.n_sums + best_sum.take(both)
            after = best_value(self.tables.flat_table, flat, counts).sum(axis=0)
            rest = (slack[useful] + (after.reshape(2, -1) - before)) * per_unit[useful]
            effort[feature, useful] = np.where(rest < 0, 0.0, np.exp2(rest)).sum(axis=0)
        return np.asarray(effort.argmin(axis=0))


def _split(ranges: list[Range], n_parts: int) -> list[Range]:
    """Distribute boxes round-robin, because neighbours on the stack are similar."""
    low, high = (np.concatenate([part[side] for part in ranges], axis=1) for side in (0, 1))
    n_parts = min(n_parts, low.shape[1])
    return [(low[:, start::n_parts], high[:, start::n_parts]) for start in range(n_parts)]


def _run_parts(tasks: list[_Part], budget: Budget, n_jobs: int) -> list[_Outcome]:
    try:
        from joblib import Parallel, delayed
    except ImportError:  # one after the other
        return [_run_part(task, budget) for task in tasks]
    # monotonic clocks differ between processes: pass the deadline in wall time
    end = time.time() + budget.remaining
    return list(Parallel(n_jobs=n_jobs)(delayed(_run_part_until)(task, end) for task in tasks))


def _run_part_until(part: _Part, end: float) -> _Outcome:
    return _run_part(part, Budget.of(end - time.time()))


def _run_part(part: _Part, budget: Budget) -> _Outcome:
    problem, pruned, question, low, high, max_boxes = part
    search = BoxSearch(problem, pruned, question)
    answer, states, left = search.run([search.tables.boxes(low, high)], max_boxes, budget)
    return answer, states, [boxes.range for boxes in left]
