"""Local search in the region: points near the boundary, and counterexamples without a solver.

What is found is only a proposal; `Constraints` checks it exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.proof.problem import Problem
from pine_boost.search.constraints import distinct_rows
from pine_boost.search.single_feature_moves import SingleFeatureMoves

_ENOUGH = 60  # counterexamples to one question in one climb


def boundary_walks(
    moves: SingleFeatureMoves, starts: npt.NDArray[Any], seed: int, budget: Budget, max_steps: int = 12
) -> npt.NDArray[np.int32]:
    """Walk one feature at a time towards the original's boundary; returns all points passed, on both sides.

    Every step considers a random half of the features, so that walks from similar points differ.
    """
    problem = moves.problem
    random = np.random.default_rng(seed)
    passed: list[npt.NDArray[np.int32]] = []
    values = moves.values()
    for start in range(0, len(starts), moves.batch):
        rows = np.array(starts[start : start + moves.batch], dtype=np.int32)
        decision = problem.forest.decision
        leaves = problem.trees.leaves(rows)
        nearest = decision.distance(_margins(problem, leaves))
        for _ in range(max_steps):
            seen = random.random((len(rows), problem.space.n_features)) < 0.5
            steps = _Best(rows, np.full(len(rows), np.inf))
            across = _Best(rows, np.full(len(rows), np.inf))
            own = decision.classes(_margins(problem, leaves))[:, None]
            for near in moves.of(rows, budget, values, leaves):
                margins = _real(problem, near.original)
                distance = decision.distance(margins)
                usable = near.inside & seen[:, near.feature, None]
                steps.offer(near.feature, np.where(usable, distance, np.inf))
                other = near.inside & (decision.classes(margins) != own)
                across.offer(near.feature, np.where(other, distance, np.inf))
            passed.append(across.moved()[across.cost < np.inf])
            closer = steps.cost < nearest
            if not closer.any():
                break
            rows, nearest = steps.moved()[closer], steps.cost[closer]
            leaves = problem.trees.leaves(rows)
            passed.append(rows)
    if not passed:
        return np.zeros((0, problem.space.n_features), dtype=np.int32)
    return distinct_rows(problem, np.concatenate(passed))


def wander(
    problem: Problem, starts: npt.NDArray[Any], seed: int, n_moves: int, budget: Budget
) -> npt.NDArray[np.int32]:
    """Random one-feature moves within the region: points from all over it."""
    random = np.random.default_rng(seed)
    rows = np.array(starts, dtype=np.int32)
    counts = np.array([np.count_nonzero(allowed) for allowed in problem.region.allowed])
    states = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for feature, allowed in enumerate(problem.region.allowed):
        states[feature, : counts[feature]] = np.flatnonzero(allowed)
    varying = np.flatnonzero(counts > 1)
    for _ in range(n_moves if len(varying) else 0):
        budget.check()
        moved = random.choice(varying, len(rows))
        trial = rows.copy()
        picked = (random.random(len(rows)) * counts[moved]).astype(np.int64)
        trial[np.arange(len(rows)), moved] = states[moved, picked]
        inside = problem.region.contains(trial)
        rows[inside] = trial[inside]
    return rows


def climb(
    moves: SingleFeatureMoves,
    starts: npt.NDArray[Any],
    asked: IntArray,
    pruned_int: IntArray,
    needed: IntArray,
    budget: Budget,
    max_steps: int = 20,
) -> npt.NDArray[np.int32]:
    """Lower the pruned margin step by step while the original keeps its class; returns counterexamples.

    ``asked`` is the index of each start's question, ``needed`` the least margin that keeps each
    question; a question with enough counterexamples is not followed further.
    """
    problem = moves.problem
    found: list[npt.NDArray[np.int32]] = []
    n_found = np.zeros(len(problem.questions), dtype=np.int64)
    values, sides = moves.values(pruned_int), _RowSides(problem)
    for start in range(0, len(starts), moves.batch):
        rows = np.array(starts[start : start + moves.batch], dtype=np.int32)
        own = asked[start : start + moves.batch]
        lowest = np.full(len(rows), exact.WORD_LIMIT, dtype=np.int64)
        for _ in range(max_steps):
            steps = _Best(rows, lowest)
            for near in moves.of(rows, budget, values):
                assert near.pruned is not None
                usable = near.inside & sides.decided(near.original, own)
                side = np.where(usable, sides.of(near.pruned, own), exact.WORD_LIMIT)
                state, cost = steps.offer(near.feature, side)
                lost = np.flatnonzero(cost < needed[own])
                if len(lost):
                    violated = rows[lost]
                    violated[:, near.feature] = state[lost]
                    found.append(violated)
                    n_found += np.bincount(own[lost], minlength=len(n_found))
            lower = (steps.cost < lowest) & (n_found[own] < _ENOUGH)
            if not lower.any():
                break
            rows, lowest, own = steps.moved()[lower], steps.cost[lower], own[lower]
    if not found:
        return np.zeros((0, problem.space.n_features), dtype=np.int32)
    return distinct_rows(problem, np.concatenate(found))


class _RowSides:
    """Sides of changed rows, each for the question of its own row."""

    def __init__(self, problem: Problem) -> None:
        self.least, self.is_single = problem.least, problem.forest.n_outputs == 1
        self.sign = np.array([question.sign for question in problem.questions])
        self.pairs = np.array([[question.plus, question.minus] for question in problem.questions])
        # `least` by class and rival; a class need not beat itself
        self.least_over = np.full((problem.forest.n_outputs,) * 2, -exact.WORD_LIMIT)
        self.least_over[self.pairs[:, 0], self.pairs[:, 1]] = self.least

    def of(self, margins: IntArray, asked: IntArray) -> IntArray:
        """Sides (n_rows, n_changes) of margins (n_rows, n_changes, n_outputs)."""
        if self.is_single:
            return np.asarray(self.sign[asked, None] * margins[..., 0])
        own, rival = np.moveaxis(np.take_along_axis(margins, self.pairs[asked, None], axis=-1), -1, 0)
        return np.asarray(own - rival)

    def decided(self, original: IntArray, asked: IntArray) -> npt.NDArray[np.bool_]:
        """Whether the original certainly decides for the side of each row's question."""
        if self.is_single:
            return np.asarray(self.of(original, asked) >= self.least[asked, None])
        plus = self.pairs[asked, 0]
        own = np.take_along_axis(original, plus[:, None, None], axis=-1)
        return np.asarray((own - original >= self.least_over[plus, None]).all(axis=-1))


class _Best:
    """The cheapest one-feature change of each row seen so far."""

    def __init__(self, rows: npt.NDArray[np.int32], cost: npt.NDArray[Any]) -> None:
        self.rows = rows
        self.cost = cost.copy()
        self.feature: IntArray = np.full(len(rows), -1, dtype=np.int64)
        self.state: IntArray = np.zeros(len(rows), dtype=np.int64)

    def offer(self, feature: int, cost: npt.NDArray[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
        """Consider the changes of a feature; returns its cheapest state per row, and the cost."""
        best = np.argmin(cost, axis=1)
        value = cost[np.arange(len(cost)), best]
        better = value < self.cost
        self.cost[better] = value[better]
        self.feature[better] = feature
        self.state[better] = best[better]
        return best, value

    def moved(self) -> npt.NDArray[np.int32]:
        rows = self.rows.copy()
        changed = np.flatnonzero(self.feature >= 0)
        rows[changed, self.feature[changed]] = self.state[changed]
        return rows


def _margins(problem: Problem, leaves: npt.NDArray[np.int32]) -> FloatArray:
    return _real(problem, problem.original_margins_int(leaves))


def _real(problem: Problem, margins: IntArray) -> FloatArray:
    """Margins as real numbers: only to see how near the boundary a walk is."""
    return np.ldexp(margins.astype(np.float64), -problem.scale)
