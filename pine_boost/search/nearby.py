"""Models near the original: light trees go, the others keep their weight, toss-ups leave the room.

In comes a run whose region leaves out what the original decides by less than delta; it is left
with a certified model where trees can go that add up to less than that. Such a model is proved
over the trees that went, however large the original is: a first answer where the game of all
trees has none. Without indifference there is no room, and nothing happens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.proof.minsum import cheapest_leaves
from pine_boost.proof.problem import Question
from pine_boost.search.grid import to_grid
from pine_boost.search.rows import n_free_columns
from pine_boost.search.weights import Weights

if TYPE_CHECKING:
    from pine_boost.search.run import Run

_EFFORT = 2.0  # deterministic seconds of CP-SAT per question
_SHARE = 0.25  # of the time that is left; the rest belongs to the game of all trees
_TRIALS = 12
_LARGEST = 5 * 10**6  # leaves times features: in more, which leaves the region reaches takes long


@dataclass(frozen=True, eq=False)
class Ranges:
    """What the columns can add on the inputs that count, in units of margins.

    Attributes
    ----------
    highest : float64 (n_columns, n_questions)
        The most that a column adds to a question's side.
    middle : float64 (n_columns, n_outputs)
        The constant that stands best for a column; 0 where a model carries no constants.
    room : float64 (n_questions,)
        How far the original is beyond its cut at least.
    """

    highest: FloatArray
    middle: FloatArray
    room: FloatArray


def stay_near(run: Run) -> None:
    """Drop the columns that matter least, as many as can be proved to change nothing.

    Begins with as many as their ranges alone allow, and closes in on the largest number.
    """
    game = run.game
    if game.delta == 0 or run.smallest.pruned is not None:
        return
    run.tell("near")
    now = time.monotonic()
    deadline = now + (_SHARE if run.is_limited else 1.0) * (run.deadline - now)
    ranges = column_ranges(run)
    excess = _excess(run, ranges)
    order = np.argsort((excess / ranges.room).max(axis=1), kind="stable")
    fits = (np.cumsum(excess[order], axis=0) < ranges.room).all(axis=1)
    proved, refused = 0, game.n_units
    n_dropped = game.n_units - 1 if fits.all() else max(1, int(np.argmin(fits)))
    for _ in range(_TRIALS):
        if refused - proved <= 1 or time.monotonic() >= deadline:
            break
        pruned = _without(run, order[:n_dropped], ranges.middle)
        if pruned is not None and _stands(run, pruned, deadline):
            proved = n_dropped
            n_dropped += max(1, n_dropped // 3)
        else:
            refused = n_dropped
            n_dropped = (proved + refused) // 2
        n_dropped = min(max(n_dropped, proved + 1), refused - 1)
    if run.is_limited:  # whoever stops it from now on has this; larger ones follow where it is hard
        run.confirm(replace(run.effort, proof_effort=2 * _EFFORT))


def column_ranges(run: Run) -> Ranges:
    """Ranges over the leaves that the region, or a fit row beside it, can reach."""
    game, pool = run.game, run.pool
    reached = np.ones(game.trees.n_leaves, dtype=bool)
    if game.trees.n_leaves * game.space.n_features <= _LARGEST:
        reached = cheapest_leaves(game.region, game.trees, game.masks, game.region.allowed)
        reached[np.unique(run.fit_rows.reference.leaves)] = True
    starts = game.trees.leaf_offset[:-1]

    def largest(value: FloatArray) -> FloatArray:
        of_trees = np.maximum.reduceat(np.where(reached, value, -np.inf), starts)
        finite = np.where(np.isfinite(of_trees), of_trees, 0.0)
        return np.bincount(game.unit, finite).astype(np.float64)

    columns = pool.column_value
    middle = np.zeros((game.n_units, game.forest.n_outputs))
    if n_free_columns(game):
        for output in range(game.forest.n_outputs):
            value = columns[:, output]
            middle[:, output] = (largest(value) - largest(-value)) / 2
    sides = [_side(columns, question) for question in game.questions]
    cuts = np.zeros(len(game.questions))
    if game.forest.n_outputs == 1:
        cuts[:] = [q.sign * game.forest.decision.cuts[q.cut] for q in game.questions]
    room = np.ldexp(game.least.astype(np.float64), -game.scale) - cuts
    return Ranges(np.stack([largest(side) for side in sides], axis=1), middle, room)


def _excess(run: Run, ranges: Ranges) -> FloatArray:
    """How much of each question's room a column takes up when a constant stands for it."""
    middle = [_side(ranges.middle, question) for question in run.game.questions]
    return np.asarray(ranges.highest - np.stack(middle, axis=1))


def _side(values: FloatArray, question: Question) -> FloatArray:
    """Values per output as a question sees them."""
    if values.shape[1] == 1:
        return question.sign * values[:, 0]
    return np.asarray(values[:, question.plus] - values[:, question.minus])


def _without(run: Run, dropped: IntArray, middle: FloatArray) -> PrunedForest | None:
    """The original without some columns, a constant in their place; None where a row is lost."""
    game, pool = run.game, run.pool
    forest = game.forest
    weights = pool.column_scale.copy()
    weights[dropped] = 0.0
    constant = forest.intercept + middle[dropped].sum(axis=0)
    if forest.value.shape[1] == 1:
        constant += np.bincount(forest.tree_output, forest.tree_bias, forest.n_outputs)
    free = np.zeros(n_free_columns(game))
    free[: len(constant)] = constant[: len(free)]
    if forest.n_outputs == 1 and len(free):
        cuts = forest.decision.cuts
        free[0] -= cuts[0]
        free[1:] = cuts[-1] - cuts[0]
    pruned = to_grid(
        game, Weights(weights, free, 1.0), pool.column_scale, run.fit_rows.reference, scale=1.0
    )
    if pruned is None or pool.loses(pruned) or len(run.fit_rows.lost_by(game, pruned)):
        return None
    return pruned


def _stands(run: Run, pruned: PrunedForest, deadline: float) -> bool:
    questions = list(run.game.questions)
    proofs = run.oracle.prove_near(pruned, questions, run.oracle.first, deadline, _EFFORT)
    if len(proofs) < len(questions):
        return False
    run.hold(pruned, tuple(proofs))
    return True
