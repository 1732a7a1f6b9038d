"""One question over boxes of states: orders of states, masks, ranges and bounds.

In come a problem, a pruned model and a question; out go boxes with upper bounds of every sum that a
counterexample must keep non-negative. Nothing is searched here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.proof.boxes.groups import best_value, range_tables, tabulate
from pine_boost.proof.boxes.rows import question_rows, weigh
from pine_boost.proof.boxes.shared_tables import Ground, Range
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question


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
        """Some of the boxes; `take` is several times as fast as an index here."""
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


class BoxTables:
    """What bounds the boxes of one question."""

    def __init__(self, problem: Problem, pruned: PrunedForest, question: Question, ground: Ground) -> None:
        self.ground, self.order, self.lengths = ground, ground.order, ground.lengths
        if ground.is_empty:
            return
        self.region, self.offset = ground.region, ground.offset
        self.budget = (problem.region.tau or 0) - ground.base_score
        cost = ground.tree_cost.cost if ground.tree_cost is not None else None
        rows = question_rows(problem, pruned, question, cost, self.budget, ground.own)
        self.score_sum = rows.n_original + 1 if cost is not None else -1
        sums = weigh(rows)
        self.score_shift = int(sums.shift[self.score_sum])
        guide = sums.value[min(len(rows.value) + 5, len(sums.value) - 1)]
        merged = ground.merged(guide, rows.leaf_offset)
        self.groups = tabulate(merged, ground.member, sums.value, self.offset)
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
        """The box of all states that are worth looking at; no box where there are none."""
        return [] if self.ground.is_empty else [self.boxes(*self.ground.whole)]

    def boxes(self, low: npt.NDArray[np.int32], high: npt.NDArray[np.int32]) -> Boxes:
        """Masks and bounds of ranges of positions, from scratch."""
        mask = np.full((len(self.groups.mask), low.shape[1]), 255, dtype=np.uint8)
        # a row that does not depend on a feature has the same byte at all its positions
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
        """Whether the cheapest score of each box is within tau, as far as bounds can tell."""
        extra = self.region.cheapest(boxes.low, boxes.high) - self.ground.base_score
        if self.score_sum < 0:
            return np.asarray(extra <= self.budget)
        # the shifted bound was rounded up, so shifting it back never takes room away
        room = boxes.bound[self.score_sum].astype(np.int64) << self.score_shift
        return np.asarray(extra <= room)

    def n_borders(self, boxes: Boxes) -> IntArray:
        """How many borders of the model lie within each range, (n_features, n_boxes)."""
        start = self.offset[:-1, None]
        passed = self.ground.all_passed
        return np.asarray(passed.take(start + boxes.high) - passed.take(start + boxes.low))

    def middle(self, feature: int, low: Any, high: Any) -> Any:
        """Last position of the lower half: at the median border of the model, else of all states.

        An isolation forest brings hundreds of states that the model cannot tell apart.
        """
        passed, borders = self.ground.passed[feature], self.ground.borders[feature]
        if len(borders) == 0 or len(borders) == self.lengths[feature] - 1:
            return (low + high) // 2
        median = borders[np.minimum((passed[low] + passed[high]) // 2, len(borders) - 1)]
        return np.where(passed[high] > passed[low], median, (low + high) // 2).astype(np.int32)

    def volume(self, ranges: list[Range]) -> float:
        """Share of all state rows that lie in some disjoint boxes."""
        share = 0.0
        for low, high in ranges:
            width = (high - low + 1) / self.lengths[:, None]
            share += float(width.prod(axis=0).sum())
        return min(1.0, share)
