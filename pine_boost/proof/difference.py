"""How far a pruned model can be from the original: one row over the trees whose weight changed.

In come a game, a pruned model and a question; out goes a single integer row that every
counterexample satisfies. Trees that keep their weight cancel in it, so a model near the original
is proved over few trees. Where the row can be satisfied, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.proof.problem import Game, Question, pruned_leaves_int
from pine_boost.search.grid import needed_sides

_MOST_DOUBLINGS = 30  # the units of both models are nearer than this, or have nothing in common


@dataclass(frozen=True, eq=False)
class Difference:
    """Original minus pruned model, as a question sees it.

    Attributes
    ----------
    value : int64 (n_leaves,)
        0 at the leaves of all trees but the ``moving`` ones.
    least : int
        A counterexample has ``sum(value[leaf]) >= least``.
    moving : bool (n_trees,)
        Trees whose part in the difference is not the same on all inputs.
    n_asked : int
        Trees that the question depends on in either model (those of other classes do not count).
    """

    value: IntArray
    least: int
    moving: npt.NDArray[np.bool_]
    n_asked: int


def difference(game: Game, pruned: PrunedForest, question: Question) -> Difference | None:
    """The row "the original decides the side" minus the row "the pruned model does not".

    None where the units of the two models are too far apart. Exact up to rounding outward: a tree
    that counts as still is replaced by the most that it adds, and a row beyond the solver's safe
    range is halved with every value rounded up.
    """
    doublings = game.scale - pruned.grid
    if abs(doublings) > _MOST_DOUBLINGS:
        return None
    own, other = 2 ** max(0, -doublings), 2 ** max(0, doublings)
    before = game.side_int(game.original_int, question)
    after = game.side_int(pruned_leaves_int(game, pruned), question)
    value = own * before - other * after
    lowest = int(game.least[question.index]) - _side(game, game.intercept_int, question)
    highest = int(needed_sides(game, pruned.grid)[question.index]) - 1
    highest -= _side(game, pruned.intercept_int, question)
    starts = game.trees.leaf_offset[:-1]
    largest = np.maximum.reduceat(value, starts)
    # rounded to nearest in both units, leaves of equal weight differ by at most half of each
    moving = _ranges(value, starts) > own + other
    least = own * lowest - other * highest - sum(int(x) for x in largest[~moving])
    value = np.where(moving[game.trees.leaf_tree], value, 0)
    total = sum(abs(int(x)) for x in value[value != 0]) + abs(least)
    halvings = max(0, total.bit_length() - (exact.ROW_LIMIT // 2).bit_length() + 1)
    n_asked = np.count_nonzero((_ranges(before, starts) > 0) | (_ranges(after, starts) > 0))
    return Difference(-((-value) >> halvings), -((-least) >> halvings), moving, int(n_asked))


def _ranges(value: IntArray, starts: IntArray) -> IntArray:
    """How far the leaves of each tree are apart."""
    return np.maximum.reduceat(value, starts) - np.minimum.reduceat(value, starts)


def _side(game: Game, constant: IntArray, question: Question) -> int:
    return int(game.side_int(constant[None], question)[0])
