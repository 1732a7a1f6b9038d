"""One question over boxes: linear rows over leaves, sums of rows, and upper bounds of the sums in every box.

Every counterexample satisfies ``sum(value[leaf]) + constant >= 0`` for each row, and so for every non-negative
combination of rows. A box in which the upper bound of one combination is negative holds no counterexample. A point of
the region that satisfies all rows is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.proof.boxes.groups import best_value, range_tables, tabulate
from pine_boost.proof.boxes.shared_tables import Range, SharedTables
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question

_RATIOS = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)  # log2 of pruned to original weight
_FEW_RATIOS = (-1.0, 0.0, 1.0)
_FINENESS = 256  # the smallest multiplier of a sum; rounding it to an integer costs 0.2 %
_CANCELLED = 0.5  # of the original's range: less is left if most trees keep their weight


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Linear rows over the leaves that every counterexample satisfies.

    Attributes
    ----------
    value : int64 (n_rows, n_leaves)
        Over the leaves of the model's trees, then of the score's extra trees.
    constant : int64 (n_rows,)
    leaf_offset : int64 (n_trees + 1,)
    n_original : int
        The first rows say that the original decides for the question's side (one per rival), the next one that
        the pruned model does not, and a last one, if any, that the leaf costs fit into tau.
    doublings : int
        log2 of the pruned model's unit over the original's; weighted by it, trees that keep their weight cancel.
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
        Which sums include the row of leaf costs.
    """

    value: npt.NDArray[np.int32]
    constant: npt.NDArray[np.int32]
    shift: IntArray
    has_score: npt.NDArray[np.bool_]


def question_rows(problem: Problem, pruned: PrunedForest, question: Question, room: int) -> LeafRows:
    """The rows of a question; ``room`` is the most that leaf costs may add to the score."""
    rivals = problem.rivals(question)
    needed = int(problem.needed_sides(pruned.grid)[question.index])
    rows, constants = [], []
    for rival in rivals:
        rows.append(rival.side(problem.original_int))
        constants.append(rival.side_of(problem.intercept_int) - int(problem.least[rival.index]))
    rows.append(-question.side(problem.pruned_leaves_int(pruned)))
    constants.append(needed - 1 - question.side_of(pruned.intercept_int))
    offset = problem.trees.leaf_offset
    cost, extra = problem.region.leaf_cost, problem.region.extra_trees
    if extra is not None:
        rows = [np.concatenate([row, np.zeros(extra.trees.n_leaves, np.int64)]) for row in rows]
        offset = np.concatenate([offset, offset[-1] + extra.trees.leaf_offset[1:]])
        cost = np.concatenate([np.zeros(problem.trees.n_leaves, np.int64), extra.cost])
    if cost is not None:
        rows.append(-cost)
        constants.append(room)
    return LeafRows(
        np.stack(rows), np.array(constants, dtype=np.int64), offset, len(rivals), problem.scale - pruned.grid
    )


def weigh(rows: LeafRows) -> Sums:
    """Each row by itself, and sums with several ratios of original and pruned model."""
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


def _multipliers(rows: LeafRows) -> list[list[int]]:
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
        if whole not in chosen and largest < exact.WORD_LIMIT:  # no sum overflows 64 bits
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
        return chosen  # the units are too far apart for anything to cancel
    difference = own * rows.value[[0]] + other * rows.value[[pruned]]
    if _spread(difference, rows.leaf_offset)[0] < _CANCELLED * own * spread[0]:
        take([own * (row == 0) + other * (row == pruned) for row in range(n_rows)])
    return chosen


def _spread(value: IntArray, leaf_offset: IntArray) -> list[float]:
    """The range of each row: the sum over trees of the range of their leaf values."""
    starts = leaf_offset[:-1]
    highest = np.maximum.reduceat(value, starts, axis=1)
    lowest = np.minimum.reduceat(value, starts, axis=1)
    return [max(1.0, float(x)) for x in (highest - lowest).sum(axis=1)]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes side by side: one column each.

    Attributes
    ----------
    low, high : int32 (n_features, n_boxes)
        Inclusive positions in the order of states.
    mask : uint8 (n_rows, n_boxes)
        Leaves still reachable.
    bound : int32 (n_sums, n_boxes)
        Upper bound of every sum; a negative one excludes counterexamples.
    """

    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    mask: npt.NDArray[np.uint8]
    bound: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return int(self.low.shape[1])

    @property
    def range(self) -> Range:
        """``low`` and ``high``."""
        return self.low, self.high

    def take(self, columns: IntArray) -> Boxes:
        """Some of the boxes; `take` is several times faster than indexing here."""
        return Boxes(
            self.low.take(columns, axis=1),
            self.high.take(columns, axis=1),
            self.mask.take(columns, axis=1),
            self.bound.take(columns, axis=1),
        )


def join(parts: list[Boxes]) -> Boxes:
    """Boxes of several parts side by side."""
    return Boxes(
        np.concatenate([part.low for part in parts], axis=1),
        np.concatenate([part.high for part in parts], axis=1),
        np.concatenate([part.mask for part in parts], axis=1),
        np.concatenate([part.bound for part in parts], axis=1),
    )


class QuestionTables:
    """The tables that bound the boxes of one question."""

    def __init__(self, problem: Problem, pruned: PrunedForest, question: Question, shared: SharedTables) -> None:
        self.shared, self.order, self.lengths = shared, shared.order, shared.lengths
        if shared.is_empty:
            return
        self.region, self.offset = shared.region, shared.offset
        self.budget = (problem.region.tau or 0) - shared.base_score
        rows = question_rows(problem, pruned, question, self.budget)
        self.score_sum = rows.n_original + 1 if len(rows.value) > rows.n_original + 1 else -1
        sums = weigh(rows)
        self.score_shift = int(sums.shift[self.score_sum])
        guide = sums.value[min(len(rows.value) + 5, len(sums.value) - 1)]
        merged = shared.merged(guide, rows.leaf_offset)
        self.groups = tabulate(merged, shared.member, sums.value, self.offset)
        self.ranges = range_tables(self.groups, self.offset)
        self.has_rows = np.array([len(rows) > 0 for rows in self.groups.rows])
        self.level = np.floor(np.log2(np.arange(1, self.lengths.max() + 2))).astype(np.int64)
        self.n_sums = len(sums.value)
        self.constant = sums.constant
        self.flat_table = np.ascontiguousarray(self.groups.table.ravel())
        self.row_base = 256 * np.arange(len(self.groups.mask), dtype=np.int64)
        root = self.whole()[0].bound[:, 0].astype(np.float64)
        self.norm = np.maximum(np.abs(root), 1.0)
        self.has_score = sums.has_score

    def whole(self) -> list[Boxes]:
        """The box of all states; no box if some feature has no state."""
        return [] if self.shared.is_empty else [self.boxes(*self.shared.whole)]

    def boxes(self, low: npt.NDArray[np.int32], high: npt.NDArray[np.int32]) -> Boxes:
        """Boxes with masks and bounds, computed from their ranges."""
        mask = np.full((len(self.groups.mask), low.shape[1]), 255, dtype=np.uint8)
        # a row that does not depend on a feature has the same byte at all of its positions
        mask &= np.bitwise_and.reduce(self.groups.mask[:, self.offset[:-1]], axis=1)[:, None] | (self._depends())
        for feature, rows in enumerate(self.groups.rows):
            if len(rows):
                mask[rows] &= self.range_mask(feature, low[feature], high[feature])
        flat = self.row_base[:, None] + mask
        best = best_value(self.groups.table, flat, self.groups.counts)
        bound = best.sum(axis=0, dtype=np.int32).T + self.constant[:, None]
        return Boxes(low, high, mask, np.ascontiguousarray(bound))

    def _depends(self) -> npt.NDArray[np.uint8]:
        depends = np.zeros((len(self.groups.mask), 1), dtype=np.uint8)
        for rows in self.groups.rows:
            depends[rows] = 255
        return depends

    def range_mask(self, feature: int, low: Any, high: Any) -> npt.NDArray[np.uint8]:
        """Leaves of the feature's rows that some position of each range admits."""
        table, n_positions = self.ranges[feature], self.lengths[feature]
        level = self.level[high - low]
        first = level * n_positions + low
        last = level * n_positions + high - (1 << level) + 1
        return np.asarray(table.take(first, axis=1) | table.take(last, axis=1))

    def has_room(self, boxes: Boxes) -> npt.NDArray[np.bool_]:
        """Whether the lower bound on the score of each box is within tau."""
        extra = self.region.cheapest(boxes.low, boxes.high) - self.shared.base_score
        if self.score_sum < 0:
            return np.asarray(extra <= self.budget)
        # the shifted bound was rounded up, so shifting it back never reduces the room
        room = boxes.bound[self.score_sum].astype(np.int64) << self.score_shift
        return np.asarray(extra <= room)

    def n_borders(self, boxes: Boxes) -> IntArray:
        """The number of borders of the model within each range, (n_features, n_boxes)."""
        start = self.offset[:-1, None]
        passed = self.shared.all_passed
        return np.asarray(passed.take(start + boxes.high) - passed.take(start + boxes.low))

    def middle(self, feature: int, low: Any, high: Any) -> Any:
        """The last position of the lower half: at the median border of the model, else at the median state.

        A score may add hundreds of states that the model does not distinguish.
        """
        passed, borders = self.shared.passed[feature], self.shared.borders[feature]
        if len(borders) == 0 or len(borders) == self.lengths[feature] - 1:
            return (low + high) // 2
        median = borders[np.minimum((passed[low] + passed[high]) // 2, len(borders) - 1)]
        return np.where(passed[high] > passed[low], median, (low + high) // 2).astype(np.int32)

    def volume(self, ranges: list[Range]) -> float:
        """The share of all state rows in disjoint boxes."""
        share = 0.0
        for low, high in ranges:
            width = (high - low + 1) / self.lengths[:, None]
            share += float(width.prod(axis=0).sum())
        return min(1.0, share)
