"""Questions as linear rows over leaves, and the sums of rows that bound a box.

In come a problem, a pruned model and a question; out go integer rows that every counterexample
satisfies, and multipliers under which their sums are tested. Leaves out nothing exact: a point
that satisfies all rows and lies in the region is a counterexample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.model.routing import StateTrees
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question

_RATIOS = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)  # log2, around the balance
_FEW_RATIOS = (-1.0, 0.0, 1.0)
_FINENESS = 256  # the smallest multiplier of a sum: rounding it to a whole number costs 0.2 %
_CANCELLED = 0.5  # of the original's range: what is left where most trees keep their weight


@dataclass(frozen=True, eq=False)
class Rows:
    """Linear rows over the leaves: a counterexample has ``sum(value[leaf]) + constant >= 0``.

    Attributes
    ----------
    value : int64 (n_rows, n_leaves)
        Over the leaves of the model's trees, then of the score's own trees.
    constant : int64 (n_rows,)
    leaf_offset : int64 (n_trees + 1,)
    n_original : int
        The first rows say that the original decides the question's side (one per rival); the next
        that the pruned model does not; a last one, if any, that the leaves' costs leave room.
    doublings : int
        How often a unit of the original's rows fits into one of the pruned model's, as a power of
        two: so weighed, trees that keep their weight cancel.
    """

    value: IntArray
    constant: IntArray
    leaf_offset: IntArray
    n_original: int
    doublings: int


@dataclass(frozen=True, eq=False)
class Sums:
    """Non-negative combinations of rows, shifted into 32 bits by rounding up.

    Rounding up keeps every sum an upper bound, so ``sum < 0`` still excludes counterexamples.

    Attributes
    ----------
    value : int32 (n_sums, n_leaves)
    constant : int32 (n_sums,)
    shift : int64 (n_sums,)
        Bits that were rounded away.
    has_score : bool (n_sums,)
        Which of them weigh the costs of leaves.
    """

    value: npt.NDArray[np.int32]
    constant: npt.NDArray[np.int32]
    shift: IntArray
    has_score: npt.NDArray[np.bool_]


def question_rows(
    problem: Problem,
    pruned: PrunedForest,
    question: Question,
    cost: IntArray | None,
    budget: int,
    own_trees: StateTrees | None,
) -> Rows:
    """State a question as rows over leaves.

    Parameters
    ----------
    cost : int64 or None
        Cost of each leaf of the score's trees; ``budget`` is the most that they may add.
    own_trees : StateTrees or None
        The score's trees where they are not the model's: their leaves are appended.
    """
    rivals = problem.rivals(question)
    needed = int(problem.needed_sides(pruned.grid)[question.index])
    rows, constants = [], []
    for rival in rivals:
        rows.append(rival.side(problem.original_int))
        constants.append(rival.side_of(problem.intercept_int) - int(problem.least[rival.index]))
    rows.append(-question.side(problem.pruned_leaves_int(pruned)))
    constants.append(needed - 1 - question.side_of(pruned.intercept_int))
    offset = problem.trees.leaf_offset
    if own_trees is not None:
        rows = [np.concatenate([row, np.zeros(own_trees.n_leaves, np.int64)]) for row in rows]
        offset = np.concatenate([offset, offset[-1] + own_trees.leaf_offset[1:]])
    if cost is not None:
        model_part = np.zeros(problem.trees.n_leaves if own_trees is not None else 0, np.int64)
        rows.append(np.concatenate([model_part, -cost]))
        constants.append(budget)
    return Rows(np.stack(rows), np.array(constants, dtype=np.int64), offset, len(rivals), problem.scale - pruned.grid)


def weigh(rows: Rows) -> Sums:
    """Each row by itself, and sums around the balance of original and pruned model."""
    multipliers = _multipliers(rows)
    values, constants, shifts = [], [], []
    for weights in multipliers:
        value = np.zeros(rows.value.shape[1], dtype=np.int64)
        constant = 0
        for weight, row, own in zip(weights, rows.value, rows.constant, strict=True):
            value += weight * row
            constant += weight * int(own)
        largest = np.maximum.reduceat(np.abs(value), rows.leaf_offset[:-1])
        total = sum(int(x) for x in largest) + abs(constant) + len(largest) + 1
        shift = max(0, total.bit_length() - exact.TABLE_LIMIT.bit_length() + 1)
        shifts.append(shift)
        values.append(-((-value) >> shift))
        constants.append(-((-constant) >> shift))
    return Sums(
        np.stack(values).astype(np.int32),
        np.array(constants, dtype=np.int32),
        np.array(shifts, dtype=np.int64),
        np.array([any(weights[rows.n_original + 1 :]) for weights in multipliers]),
    )


def _multipliers(rows: Rows) -> list[list[int]]:
    n_rows, n_original = len(rows.value), rows.n_original
    spread = _spread(rows.value, rows.leaf_offset)
    chosen = [[int(k == row) for k in range(n_rows)] for row in range(n_rows)]
    magnitude = np.abs(rows.value).max(axis=1)
    pruned, score = n_original, n_original + 1

    def add(weights: dict[int, float]) -> None:
        scaled = [weights.get(row, 0.0) / spread[row] for row in range(n_rows)]
        smallest = min(weight for weight in scaled if weight > 0)
        take([round(_FINENESS * weight / smallest) for weight in scaled])

    def take(whole: list[int]) -> None:
        largest = sum(w * int(m) for w, m in zip(whole, magnitude, strict=True))
        if whole not in chosen and largest < exact.WORD_LIMIT:  # no sum of them wraps in 64 bits
            chosen.append(whole)

    for ratio in _RATIOS:
        add({0: 1.0, pruned: 2.0**ratio})
    if n_original > 1:
        for ratio in _FEW_RATIOS:
            add({**dict.fromkeys(range(n_original), 1.0 / n_original), pruned: 2.0**ratio})
            for rival in range(1, min(n_original, 4)):
                add({0: 0.5, rival: 0.5, pruned: 2.0**ratio})
    if score < n_rows:
        for ratio in _FEW_RATIOS:
            for share in (0.25, 1.0):
                add({0: 1.0, pruned: 2.0**ratio, score: share})
    own, other = 2 ** max(0, -rows.doublings), 2 ** max(0, rows.doublings)
    if own * int(magnitude[0]) + other * int(magnitude[pruned]) >= exact.WORD_LIMIT:
        return chosen  # the units are so far apart that the rows have nothing in common
    difference = own * rows.value[[0]] + other * rows.value[[pruned]]
    if _spread(difference, rows.leaf_offset)[0] < _CANCELLED * own * spread[0]:
        take([own * (row == 0) + other * (row == pruned) for row in range(n_rows)])
    return chosen


def _spread(value: IntArray, leaf_offset: IntArray) -> list[float]:
    """How much each row can vary: the sum over trees of the range of their leaves."""
    starts = leaf_offset[:-1]
    highest = np.maximum.reduceat(value, starts, axis=1)
    lowest = np.minimum.reduceat(value, starts, axis=1)
    return [max(1.0, float(x)) for x in (highest - lowest).sum(axis=1)]
