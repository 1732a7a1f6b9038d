"""Walks through the region: rows before the oracle, and counterexamples without a solver.

In come state rows inside the region; out go further state rows near the original's boundary, or
rows where the pruned model loses. What is found is a proposal only; `RowPool` decides exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.proof.problem import Game
from pine_boost.search.neighbours import Neighbourhood

_LARGE = 2**62


def boundary_walks(
    neighbourhood: Neighbourhood, starts: npt.NDArray[Any], seed: int, max_steps: int = 12
) -> npt.NDArray[np.int32]:
    """Walk one feature at a time towards the original's boundary; all rows passed, both sides.

    Every step sees a random half of the features, so that walks from like points differ.
    """
    game = neighbourhood.game
    random = np.random.default_rng(seed)
    passed: list[npt.NDArray[np.int32]] = []
    for start in range(0, len(starts), neighbourhood.batch):
        rows = np.array(starts[start : start + neighbourhood.batch], dtype=np.int32)
        nearest = _distance(game, _margins(game, rows))
        for _ in range(max_steps):
            seen = random.random((len(rows), game.space.n_features)) < 0.5
            steps = _Best(rows, np.full(len(rows), _LARGE, dtype=np.int64))
            across = _Best(rows, np.full(len(rows), _LARGE, dtype=np.int64))
            here = _winner(game, _margins(game, rows))
            for near in neighbourhood.of(rows):
                distance = _distance(game, near.original)
                usable = near.inside & seen[:, near.feature, None]
                steps.offer(near.feature, np.where(usable, distance, _LARGE))
                other = near.inside & (_winner(game, near.original) != here[:, None])
                across.offer(near.feature, np.where(other, distance, _LARGE))
            passed.append(across.moved()[across.cost < _LARGE])
            closer = steps.cost < nearest
            if not closer.any():
                break
            rows, nearest = steps.moved()[closer], steps.cost[closer]
            passed.append(rows)
    if not passed:
        return np.zeros((0, game.space.n_features), dtype=np.int32)
    return np.unique(np.concatenate(passed), axis=0)


def wander(game: Game, starts: npt.NDArray[Any], seed: int, n_moves: int) -> npt.NDArray[np.int32]:
    """Random one-feature moves that stay in the region: rows from all over it."""
    random = np.random.default_rng(seed)
    rows = np.array(starts, dtype=np.int32)
    counts = np.array([np.count_nonzero(allowed) for allowed in game.region.allowed])
    states = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for feature, allowed in enumerate(game.region.allowed):
        states[feature, : counts[feature]] = np.flatnonzero(allowed)
    varying = np.flatnonzero(counts > 1)
    for _ in range(n_moves if len(varying) else 0):
        moved = random.choice(varying, len(rows))
        trial = rows.copy()
        picked = (random.random(len(rows)) * counts[moved]).astype(np.int64)
        trial[np.arange(len(rows)), moved] = states[moved, picked]
        inside = game.region.contains(trial)
        rows[inside] = trial[inside]
    return rows


def climb(
    neighbourhood: Neighbourhood,
    starts: npt.NDArray[Any],
    asked: IntArray,
    pruned_int: IntArray,
    needed: IntArray,
    max_steps: int = 20,
    enough: int = 60,
) -> npt.NDArray[np.int32]:
    """Lower the pruned side step by step while the original stays; rows where it is lost.

    ``asked`` is the question (its index) of each start, ``needed`` per question the least side
    that keeps it; a question with ``enough`` rows found is not followed further.
    """
    game = neighbourhood.game
    found: list[npt.NDArray[np.int32]] = []
    n_found = np.zeros(len(game.questions), dtype=np.int64)
    for start in range(0, len(starts), neighbourhood.batch):
        rows = np.array(starts[start : start + neighbourhood.batch], dtype=np.int32)
        own = asked[start : start + neighbourhood.batch]
        lowest = np.full(len(rows), _LARGE, dtype=np.int64)
        for _ in range(max_steps):
            steps = _Best(rows, lowest)
            for near in neighbourhood.of(rows, pruned_int):
                assert near.pruned is not None
                usable = near.inside & _decides(game, near.original, own)
                side = np.where(usable, _sides(game, near.pruned, own), _LARGE)
                state, cost = steps.offer(near.feature, side)
                lost = np.flatnonzero(cost < needed[own])
                if len(lost):
                    violated = rows[lost]
                    violated[:, near.feature] = state[lost]
                    found.append(violated)
                    n_found += np.bincount(own[lost], minlength=len(n_found))
            lower = (steps.cost < lowest) & (n_found[own] < enough)
            if not lower.any():
                break
            rows, lowest, own = steps.moved()[lower], steps.cost[lower], own[lower]
    if not found:
        return np.zeros((0, game.space.n_features), dtype=np.int32)
    return np.unique(np.concatenate(found), axis=0)


def _sides(game: Game, margins: IntArray, asked: IntArray) -> IntArray:
    """Margins (n_rows, n_states, n_outputs) as each row's question sees them."""
    if game.forest.n_outputs == 1:
        sign = np.array([question.sign for question in game.questions])
        return np.asarray(sign[asked, None] * margins[..., 0])
    pair = np.array([[question.plus, question.minus] for question in game.questions])
    own, rival = np.moveaxis(np.take_along_axis(margins, pair[asked, None], axis=-1), -1, 0)
    return np.asarray(own - rival)


def _decides(game: Game, original: IntArray, asked: IntArray) -> npt.NDArray[np.bool_]:
    """Whether the original certainly answers each row's question, shape (n_rows, n_states)."""
    if game.forest.n_outputs == 1:
        return np.asarray(_sides(game, original, asked) >= game.least[asked, None])
    least = np.full((game.forest.n_outputs, game.forest.n_outputs), -_LARGE)
    for question in game.questions:
        least[question.plus, question.minus] = game.least[question.index]
    plus = np.array([question.plus for question in game.questions])[asked]
    own = np.take_along_axis(original, plus[:, None, None], axis=-1)
    return np.asarray((own - original >= least[plus, None]).all(axis=-1))


class _Best:
    """The cheapest one-feature change of each row seen so far."""

    def __init__(self, rows: npt.NDArray[np.int32], cost: IntArray) -> None:
        self.rows = rows
        self.cost = cost.copy()
        self.feature: IntArray = np.full(len(rows), -1, dtype=np.int64)
        self.state: IntArray = np.zeros(len(rows), dtype=np.int64)

    def offer(self, feature: int, cost: IntArray) -> tuple[IntArray, IntArray]:
        """Take the changes of a feature into account; its cheapest state per row, and the cost."""
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


def _margins(game: Game, rows: npt.NDArray[Any]) -> IntArray:
    return game.original_margins_int(game.trees.leaves(rows))


def _distance(game: Game, margins: IntArray) -> IntArray:
    """How far from its nearest cut, or the gap of the two best classes."""
    if game.forest.n_outputs == 1:
        cuts = [round(cut * 2.0**game.scale) for cut in game.forest.decision.cuts]
        return np.asarray(np.min([np.abs(margins[..., 0] - cut) for cut in cuts], axis=0))
    top = np.partition(margins, -2, axis=-1)
    return np.asarray(top[..., -1] - top[..., -2])


def _winner(game: Game, margins: IntArray) -> IntArray:
    if game.forest.n_outputs == 1:
        cuts = [round(cut * 2.0**game.scale) for cut in game.forest.decision.cuts]
        return np.asarray(np.sum([margins[..., 0] > cut for cut in cuts], axis=0))
    return np.asarray(np.argmax(margins, axis=-1))
