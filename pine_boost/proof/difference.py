"""How far a pruned model can be from the original: one row over the trees whose weight changed.

In come a problem, a pruned model and a question; out goes a single integer row that every
counterexample satisfies. Trees that keep their weight cancel in it, so a model near the original
is proved over few trees. Where the row can be satisfied, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question


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


def difference(problem: Problem, pruned: PrunedForest, question: Question) -> Difference | None:
    """The row "the original decides the side" minus the row "the pruned model does not".

    None where the units of the two models are too far apart. Exact up to rounding outward: a tree
    that counts as still is replaced by the most that it adds, and a row beyond the solver's safe
    range is halved with every value rounded up.
    """
    doublings = problem.scale - pruned.grid
    own, other = 2 ** max(0, -doublings), 2 ** max(0, doublings)
    before = question.side(problem.original_int)
    after = question.side(problem.pruned_leaves_int(pruned))
    largest_sum = own * int(np.abs(before).max()) + other * int(np.abs(after).max())
    if largest_sum * problem.trees.n_trees >= exact.WORD_LIMIT:
        return None
    value = own * before - other * after
    lowest = int(problem.least[question.index]) - question.side_of(problem.intercept_int)
    highest = int(problem.needed_sides(pruned.grid)[question.index]) - 1
    highest -= question.side_of(pruned.intercept_int)
    starts = problem.trees.leaf_offset[:-1]
    largest = np.maximum.reduceat(value, starts)
    # rounded to nearest in both units, a leaf of equal weight is off by at most half of each, and
    # by twice that where a side is the difference of two outputs
    moving = _ranges(value, starts) > (own + other) * (1 if question.cut >= 0 else 2)
    least = own * lowest - other * highest - sum(int(x) for x in largest[~moving])
    value = np.where(moving[problem.trees.leaf_tree], value, 0)
    total = sum(abs(int(x)) for x in value[value != 0]) + abs(least)
    halvings = max(0, total.bit_length() - (exact.ROW_LIMIT // 2).bit_length() + 1)
    n_asked = np.count_nonzero((_ranges(before, starts) > 0) | (_ranges(after, starts) > 0))
    return Difference(-((-value) >> halvings), -((-least) >> halvings), moving, int(n_asked))


def _ranges(value: IntArray, starts: IntArray) -> IntArray:
    """How far the leaves of each tree are apart."""
    return np.maximum.reduceat(value, starts) - np.minimum.reduceat(value, starts)
