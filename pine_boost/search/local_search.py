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
from pine_boost.model.forest import FloatArray, Int32Array, IntArray, PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.problem import Problem
from pine_boost.search.constraints import distinct_rows

_WALK_STEPS, _CLIMB_STEPS = 12, 20
_MOVES_PER_FEATURE = 4  # at random
_ENOUGH = 60  # counterexamples to one question in one climb
_CELLS = 3_000_000  # rows x moves, and changed rows x trees or features, that are held at once


class Moves:
    """All changes of one feature.

    Attributes
    ----------
    feature, state : int64 (n_moves,)
        What each move sets, feature by feature; only features with several allowed states are set.
    first : int64
        The first move of each of these features.
    """

    def __init__(self, problem: Problem) -> None:
        varying = [j for j, allowed in enumerate(problem.region.allowed) if np.count_nonzero(allowed) > 1]
        counts = problem.space.n_states[varying]
        self.feature = np.repeat(np.array(varying, dtype=np.int64), counts)
        self.first = np.cumsum(counts) - counts
        self.state = np.arange(len(self.feature)) - np.repeat(self.first, counts)
        self._at_once = max(1, _CELLS // max(problem.trees.n_trees, problem.space.n_features))

    def batches(self, rows: npt.NDArray[Any]) -> Iterator[Int32Array]:
        """Rows in batches whose moves fit into memory; none if there is no move."""
        size = max(1, _CELLS // max(1, len(self.feature)))
        for start in range(0, len(rows) if len(self.feature) else 0, size):
            yield rows[start : start + size].astype(np.int32)

    def of(self, rows: States, budget: Budget) -> Iterator[tuple[slice, IntArray, States]]:
        """Every row after every move, in parts: which of the ``n_rows * n_moves`` they are, their rows, the states."""
        n_moves = len(self.feature)
        for start in range(0, len(rows) * n_moves, self._at_once):
            budget.check()
            at = np.arange(start, min(start + self._at_once, len(rows) * n_moves))
            yield slice(start, start + len(at)), at // n_moves, self.made(rows[at // n_moves], at % n_moves)

    def made(self, rows: States, moves: IntArray) -> States:
        """Each row after one move."""
        changed = rows.copy()
        changed[np.arange(len(rows)), self.feature[moves]] = self.state[moves]
        return changed


def boundary_walks(problem: Problem, starts: npt.NDArray[Any], seed: int, budget: Budget) -> States:
    """Walk one feature at a time towards the original's boundary; returns all points passed, on both sides.

    Every step considers a random half of the features, so that walks from similar points differ.
    """
    random, decision, moves = np.random.default_rng(seed), problem.forest.decision, Moves(problem)
    passed = [np.zeros((0, problem.space.n_features), dtype=np.int32)]
    for rows in moves.batches(starts):
        margins = _margins(problem, rows)
        nearest = decision.distance(margins)
        for _ in range(_WALK_STEPS):
            seen = random.random((len(rows), problem.space.n_features)) < 0.5
            own = decision.classes(margins)
            distance: FloatArray = np.full(len(rows) * len(moves.feature), np.inf)
            crosses = np.zeros(len(distance), dtype=bool)
            for part, row, changed in moves.of(rows, budget):
                margins = _margins(problem, changed)
                away = decision.distance(margins)
                crosses[part] = decision.classes(margins) != own[row]
                useful = crosses[part] | (away < nearest[row])
                useful[useful] = problem.region.contains(changed[useful])
                distance[part] = np.where(useful, away, np.inf)
            distance = distance.reshape(len(rows), -1)
            best, cost = _cheapest(np.where(crosses.reshape(distance.shape), distance, np.inf))
            passed.append(moves.made(rows, best)[cost < np.inf])
            best, cost = _cheapest(np.where(seen[:, moves.feature], distance, np.inf))
            closer = cost < nearest
            if not closer.any():
                break
            rows, nearest = moves.made(rows, best)[closer], cost[closer]
            margins = _margins(problem, rows)
            passed.append(rows)
    return distinct_rows(problem, np.concatenate(passed))


def wander(problem: Problem, starts: npt.NDArray[Any], seed: int, budget: Budget) -> States:
    """Random one-feature moves within the region: points from all over it."""
    random = np.random.default_rng(seed)
    rows = np.array(starts, dtype=np.int32)
    counts = np.array([np.count_nonzero(allowed) for allowed in problem.region.allowed])
    states = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for feature, allowed in enumerate(problem.region.allowed):
        states[feature, : counts[feature]] = np.flatnonzero(allowed)
    varying = np.flatnonzero(counts > 1)
    for _ in range(_MOVES_PER_FEATURE * len(varying)):
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
    moves, needed = Moves(problem), problem.needed_sides(pruned.grid)
    found = [np.zeros((0, problem.space.n_features), dtype=np.int32)]
    n_found = np.zeros(len(problem.questions), dtype=np.int64)
    for rows, own in zip(moves.batches(starts), moves.batches(asked), strict=True):
        lowest = np.full(len(rows), exact.WORD_LIMIT, dtype=np.int64)
        for _ in range(_CLIMB_STEPS):
            sides: IntArray = np.full(len(rows) * len(moves.feature), exact.WORD_LIMIT, dtype=np.int64)
            for part, row, changed in moves.of(rows, budget):
                leaves = problem.trees.leaves(changed)
                asks = np.arange(len(changed)), own[row]
                side = problem.sides(problem.pruned_margins_int(pruned, leaves))[asks]
                decided = problem.decided(problem.original_margins_int(leaves))[asks]
                useful = decided & (side < np.maximum(lowest, needed[own])[row])
                useful[useful] = problem.region.contains(changed[useful])
                sides[part] = np.where(useful, side, exact.WORD_LIMIT)
            sides = sides.reshape(len(rows), -1)
            for first, of_feature in zip(moves.first, np.split(sides, moves.first[1:], axis=1), strict=True):
                best, cost = _cheapest(of_feature)
                lost = cost < needed[own]
                found.append(moves.made(rows, first + best)[lost])
                n_found += np.bincount(own[lost], minlength=len(n_found))
            best, cost = _cheapest(sides)
            lower = (cost < lowest) & (n_found[own] < _ENOUGH)
            if not lower.any():
                break
            rows, lowest, own = moves.made(rows, best)[lower], cost[lower], own[lower]
    return distinct_rows(problem, np.concatenate(found))


def _cheapest(cost: npt.NDArray[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
    """The cheapest move of each row, and its cost."""
    best = cost.argmin(axis=1)
    return best, cost[np.arange(len(cost)), best]


def _margins(problem: Problem, states: States) -> FloatArray:
    """Margins of the original as real numbers: only to see how near the boundary a walk is."""
    margins = problem.original_margins_int(problem.trees.leaves(states))
    return np.ldexp(margins.astype(np.float64), -problem.scale)
