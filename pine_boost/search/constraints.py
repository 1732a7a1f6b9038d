"""Points that the pruned model must keep, and the rows of the linear program that they give.

Nothing is ever removed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, FloatArray, Int32Array, IntArray, PrunedForest
from pine_boost.model.states import States, unique_rows
from pine_boost.proof.problem import Problem, Question, leaf_sums
from pine_boost.search.lp import WeightProgram
from pine_boost.search.lp_columns import Columns

_MOST_AT_ONCE = 20_000  # fit rows that become constraints at once; others join when a model misclassifies them
MOST_CELLS = 2 * 10**7  # points times questions, or rows times columns, that are held at once
_MOST_PER_ROUND = 500


@dataclass(frozen=True, eq=False)
class DistinctFitRows:
    """The distinct state rows of X_fit with their leaves, their multiplicities and the original's margins."""

    states: States
    leaves: Int32Array
    counts: IntArray
    margins: FloatArray  # (n_rows, n_outputs)


def distinct_fit_rows(
    problem: Problem, states: npt.NDArray[Any], check: Callable[[], None] | None = None
) -> DistinctFitRows:
    """Distinct state rows and the original's margins; only features with several states are compared."""
    first, counts = _distinct(problem, states)
    distinct = states[first].astype(np.int32)
    leaves = problem.trees.leaves(distinct, check)
    value = problem.forest.leaf_vectors()[problem.leaf_node]
    margins = problem.forest.intercept + leaf_sums(value, leaves, problem.trees.leaf_offset)
    return DistinctFitRows(distinct, leaves, counts, margins)


def distinct_rows(problem: Problem, states: States) -> States:
    """The distinct rows in their order."""
    return states[_distinct(problem, states)[0]]


def _distinct(problem: Problem, states: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
    """First position and number of every distinct row."""
    n_states = problem.space.n_states
    used = (n_states > 1) | (n_states == n_states.max())  # one column at least
    first, inverse = unique_rows(states[:, used].astype(np.min_scalar_type(int(n_states.max()))))
    return first, np.bincount(inverse)


class Constraints:
    """The points that a pruned model must keep, and their linear program.

    Attributes
    ----------
    fit : DistinctFitRows
    most_at_once : int
        Fit rows that become constraints at once; the more columns, the fewer.
    states : int32 (n_points, n_features)
    leaves : int32 (n_points, n_trees)
    decided : bool (n_points, n_questions)
        The questions each point belongs to.
    inside : bool (n_points,)
        Whether the point lies in the region (rows of X_fit are kept even outside it).
    program : LinearProgram
        One row for every (point, question) pair.
    point_of, question_of : int64 (n_rows,)
        Point and question of each row of the program.
    """

    def __init__(self, problem: Problem, columns: Columns, fit: DistinctFitRows) -> None:
        self.problem, self.columns, self.fit = problem, columns, fit
        n_sides = max(1, problem.forest.n_outputs - 1)
        widest = max(len(problem.questions), n_sides * max(problem.trees.n_trees, columns.n_columns))
        self.most_at_once = min(_MOST_AT_ONCE, max(200, MOST_CELLS // widest))
        self.states: States = np.zeros((0, problem.space.n_features), np.int32)
        self.leaves: Int32Array = np.zeros((0, problem.trees.n_trees), np.int32)
        self.decided: BoolArray = np.zeros((0, len(problem.questions)), dtype=bool)
        self.inside: BoolArray = np.zeros(0, dtype=bool)
        self.program = WeightProgram(columns)
        self.point_of: IntArray = np.zeros(0, dtype=np.int64)
        self.question_of: IntArray = np.zeros(0, dtype=np.int64)
        self._seen: set[bytes] = set()
        self._typical: float | None = None

    def __len__(self) -> int:
        return len(self.states)

    def on(self, problem: Problem) -> Constraints:
        """A copy for a larger region of the same model."""
        other = copy.copy(self)
        other.problem = problem
        other.inside = problem.region.contains(self.states)
        other.program = self.program.copy()
        other._seen = set(self._seen)
        return other

    def add_nearest_fit_rows(self, budget: Budget | None = None) -> None:
        """Add the rows of X_fit to begin with, those nearest to the boundary."""
        distance = np.abs(self.fit.margins).min(axis=1)
        self.add(self.fit.states[np.argsort(distance, kind="stable")[: self.most_at_once]], budget)

    def lost_fit_rows(self, pruned: PrunedForest, budget: Budget) -> States:
        """Some rows of X_fit that a pruned model misclassifies, if not all of them are constraints already."""
        problem, fit = self.problem, self.fit
        found = fit.states[:0]
        if len(fit.states) <= self.most_at_once:
            return found
        chunk = max(1, MOST_CELLS // len(problem.questions))
        for start in range(0, len(fit.states), chunk):
            budget.check()
            leaves = fit.leaves[start : start + chunk]
            decided = problem.decided(problem.original_margins_int(leaves))
            lost = (decided & problem.falls_short(pruned, leaves)).any(axis=1)
            found = np.concatenate([found, fit.states[start : start + chunk][lost]])
            if len(found) >= _MOST_PER_ROUND:
                break
        return found[:_MOST_PER_ROUND]

    def add(self, states: npt.NDArray[Any], budget: Budget | None = None) -> int:
        """Add the points that are new and decided; returns their number."""
        chunk = max(1, MOST_CELLS // 10 // max(len(self.problem.questions), self.leaves.shape[1]))
        n_added = 0
        for start in range(0, len(states), chunk):
            if budget is not None:
                budget.check()
            n_added += self._add(states[start : start + chunk])
        return n_added

    def _add(self, states: npt.NDArray[Any]) -> int:
        states = np.ascontiguousarray(states, dtype=np.int32)
        fresh = []
        for index, row in enumerate(states):
            key = row.tobytes()
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(index)
        if not fresh:
            return 0
        states = states[fresh]
        leaves = self.problem.trees.leaves(states)
        original = self.problem.original_margins_int(leaves)
        decided = self.problem.decided(original)
        useful = decided.any(axis=1)
        states, leaves, original = states[useful], leaves[useful], original[useful]
        decided = decided[useful]
        first = len(self.states)
        self.states = np.concatenate([self.states, states])
        self.leaves = np.concatenate([self.leaves, leaves])
        self.decided = np.concatenate([self.decided, decided])
        self.inside = np.concatenate([self.inside, self.problem.region.contains(states)])
        parts, points, questions = [], [self.point_of], [self.question_of]
        for question in self.problem.questions:
            mine = np.flatnonzero(decided[:, question.index])
            if len(mine):
                parts.append(self._rows(leaves[mine], original[mine], question))
                points.append(first + mine)
                questions.append(np.full(len(mine), question.index))
        if parts:
            self.program.add_rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        self.point_of, self.question_of = np.concatenate(points), np.concatenate(questions)
        return len(states)

    def _rows(
        self, leaves: npt.NDArray[Any], original: IntArray, question: Question
    ) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
        """Rows of the program for points of one question: entries, free ones, strictness, scale."""
        width = self._width(original, question)[:, None]
        rows = self.columns.rows(leaves, question) / width
        free = np.tile(self.columns.free[question.index], (len(leaves), 1)) / width
        strict = np.full(len(leaves), self.problem.strict[question.index])
        return rows, free, strict, 1 / width[:, 0]

    def _width(self, original: IntArray, question: Question) -> FloatArray:
        """The margin to require: in proportion to the original's if that is small.

        A point that the original itself decides narrowly can only be kept narrowly. With one width
        for all points, such points alone would push the optimum of the program to 0, and a set of
        trees that is enough would be excluded.
        """
        cut = float(question.cut_side(self.problem.forest.decision)) * 2.0**self.problem.scale
        side = np.abs(question.side(original).astype(np.float64) - cut)
        if self._typical is None:
            self._typical = max(float(np.median(side)), 1.0)
        return np.clip(side / (exact.NARROW * self._typical), exact.NARROWEST, 1.0)

    def loses(self, pruned: PrunedForest) -> bool:
        """Whether a model on the grid misclassifies a decided point."""
        return bool((self.decided & self.problem.falls_short(pruned, self.leaves)).any())
