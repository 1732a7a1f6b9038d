"""Local search in the region: points near the boundary, and counterexamples without a solver.

What is found is only a proposal; `Constraints` checks it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.problem import Problem
from pine_boost.search.constraints import distinct_rows

_WALK_STEPS, _CLIMB_STEPS = 12, 20
_ENOUGH = 60  # counterexamples to one question in one climb
_CELLS = 3_000_000  # rows x states x trees (or features) of one feature, held at once


def boundary_walks(problem: Problem, starts: npt.NDArray[Any], seed: int, budget: Budget) -> States:
    """Walk one feature at a time towards the original's boundary; returns all points passed, on both sides.

    Every step considers a random half of the features, so that walks from similar points differ.
    """
    random, decision = np.random.default_rng(seed), problem.forest.decision
    passed = [np.zeros((0, problem.space.n_features), dtype=np.int32)]
    for rows in _batches(problem, starts):
        margins = _margins(problem, rows)
        nearest = decision.distance(margins)
        for _ in range(_WALK_STEPS):
            seen = random.random((len(rows), problem.space.n_features)) < 0.5
            steps = _Best(rows, np.full(len(rows), np.inf))
            across = _Best(rows, np.full(len(rows), np.inf))
            own = decision.classes(margins)[:, None]
            for feature, changed in single_feature_moves(problem, rows, budget):
                inside = problem.region.contains(changed).reshape(len(rows), -1)
                margins = _margins(problem, changed)
                distance = decision.distance(margins).reshape(inside.shape)
                classes = decision.classes(margins).reshape(inside.shape)
                steps.offer(feature, np.where(inside & seen[:, feature, None], distance, np.inf))
                across.offer(feature, np.where(inside & (classes != own), distance, np.inf))
            passed.append(across.moved()[across.cost < np.inf])
            closer = steps.cost < nearest
            if not closer.any():
                break
            rows, nearest = steps.moved()[closer], steps.cost[closer]
            margins = _margins(problem, rows)
            passed.append(rows)
    return distinct_rows(problem, np.concatenate(passed))


def wander(problem: Problem, starts: npt.NDArray[Any], seed: int, n_moves: int, budget: Budget) -> States:
    """Random one-feature moves within the region: points from all over it."""
    random = np.random.default_rng(seed)
    rows = np.array(starts, dtype=np.int32)
    counts = np.array([np.count_nonzero(allowed) for allowed in problem.region.allowed])
    states = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for feature, allowed in enumerate(problem.region.allowed):
        states[feature, : counts[feature]] = np.flatnonzero(allowed)
    varying = varying_features(problem)
    for _ in range(n_moves if len(varying) else 0):
        budget.check()
        moved = random.choice(varying, len(rows))
        trial = rows.copy()
        picked = (random.random(len(rows)) * counts[moved]).astype(np.int64)
        trial[np.arange(len(rows)), moved] = states[moved, picked]
        inside = problem.region.contains(trial)
        rows[inside] = trial[inside]
    return rows


def climb(problem: Problem, pruned: PrunedForest, starts: States, asked: IntArray, budget: Budget) -> States:
    """Lower the pruned margin step by step while the original keeps its class; returns counterexamples.

    ``asked`` is the index of each start's question; a question with enough counterexamples is not followed further.
    """
    found = [np.zeros((0, problem.space.n_features), dtype=np.int32)]
    n_found = np.zeros(len(problem.questions), dtype=np.int64)
    needed = problem.needed_sides(pruned.grid)
    for rows, own in zip(_batches(problem, starts), _batches(problem, asked), strict=True):
        lowest = np.full(len(rows), exact.WORD_LIMIT, dtype=np.int64)
        for _ in range(_CLIMB_STEPS):
            steps = _Best(rows, lowest)
            for feature, changed in single_feature_moves(problem, rows, budget):
                leaves = problem.trees.leaves(changed)
                of_question = np.arange(len(changed)), np.repeat(own, len(changed) // len(rows))
                usable = problem.decided(problem.original_margins_int(leaves))[of_question]
                usable &= problem.region.contains(changed)
                sides = problem.sides(problem.pruned_margins_int(pruned, leaves))[of_question]
                side = np.where(usable, sides, exact.WORD_LIMIT).reshape(len(rows), -1)
                state, cost = steps.offer(feature, side)
                lost = np.flatnonzero(cost < needed[own])
                if len(lost):
                    violated = rows[lost]
                    violated[:, feature] = state[lost]
                    found.append(violated)
                    n_found += np.bincount(own[lost], minlength=len(n_found))
            lower = (steps.cost < lowest) & (n_found[own] < _ENOUGH)
            if not lower.any():
                break
            rows, lowest, own = steps.moved()[lower], steps.cost[lower], own[lower]
    return distinct_rows(problem, np.concatenate(found))


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


def _margins(problem: Problem, states: States) -> FloatArray:
    """Margins of the original as real numbers: only to see how near the boundary a walk is."""
    margins = problem.original_margins_int(problem.trees.leaves(states))
    return np.ldexp(margins.astype(np.float64), -problem.scale)


def varying_features(problem: Problem) -> IntArray:
    """Features with several allowed states."""
    return np.array([j for j, allowed in enumerate(problem.region.allowed) if allowed.sum() > 1], dtype=np.int64)


def single_feature_moves(problem: Problem, rows: States, budget: Budget) -> Iterator[tuple[int, States]]:
    """Per feature that varies, every row with each state of it in turn: (n_rows * n_states, n_features)."""
    for feature in varying_features(problem).tolist():
        budget.check()
        n_states = int(problem.space.n_states[feature])
        changed = np.repeat(rows, n_states, axis=0)
        changed[:, feature] = np.tile(np.arange(n_states), len(rows))
        yield feature, changed


def _batches(problem: Problem, rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Rows in batches whose moves fit into memory."""
    largest = int(problem.space.n_states.max()) * max(problem.trees.n_trees, problem.space.n_features)
    size = max(1, _CELLS // max(1, largest))
    for start in range(0, len(rows), size):
        yield rows[start : start + size].astype(np.int32)
