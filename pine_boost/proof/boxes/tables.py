"""One question over boxes of states: orders of states, masks, ranges and bounds.

In come a problem, a pruned model and a question; out go boxes with upper bounds of every sum that a
counterexample must keep non-negative. Nothing is searched here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray, PrunedForest
from pine_boost.model.routing import leaf_masks
from pine_boost.proof.boxes.groups import best_value, build_groups, leaf_members, range_tables
from pine_boost.proof.boxes.region import BoxRegion
from pine_boost.proof.boxes.rows import question_rows, weigh
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question
from pine_boost.region.score_tables import RegionTables

_GROUP_LIMIT = 64

Range = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


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

    def take(self, columns: Any) -> Boxes:
        """Some of the boxes."""
        return Boxes(
            np.ascontiguousarray(self.low[:, columns]),
            np.ascontiguousarray(self.high[:, columns]),
            np.ascontiguousarray(self.mask[:, columns]),
            np.ascontiguousarray(self.bound[:, columns]),
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

    def __init__(self, problem: Problem, pruned: PrunedForest, question: Question) -> None:
        self.order = _orders(problem)
        self.lengths = np.array([len(states) for states in self.order], dtype=np.int64)
        self.empty = bool((self.lengths == 0).any())
        if self.empty:
            return
        self.region = BoxRegion(problem.region, self.order)
        whole = self._whole_range()
        self.base_score = int(self.region.cheapest(*whole)[0])
        score = problem.region.score if problem.region.tau is not None else None
        tau = problem.region.tau or 0
        self.budget = tau - self.base_score
        tree_cost = score.trees if score is not None else None
        own = tree_cost.trees if tree_cost is not None and not tree_cost.of_model else None
        cost = tree_cost.cost if tree_cost is not None else None
        rows = question_rows(problem, pruned, question, cost, self.budget, own)
        self.score_sum = rows.n_original + 1 if cost is not None else -1
        sums = weigh(rows)
        self.score_shift = int(sums.shift[self.score_sum])
        member = leaf_members(problem.trees, problem.masks, self.order)
        if own is not None:
            more = leaf_members(own, leaf_masks(own, problem.space), self.order)
            member = np.concatenate([member, more])
        self.offset = np.concatenate([[0], np.cumsum(self.lengths)])
        self.groups = build_groups(
            member,
            sums.value,
            rows.leaf_offset,
            self.offset,
            guide=min(len(rows.value) + 5, len(sums.value) - 1),
            limit=_GROUP_LIMIT,
            n_merged=problem.trees.n_trees,
        )
        self.ranges = range_tables(self.groups, self.offset)
        model_member = member[: problem.trees.n_leaves]
        self.borders = [_borders(model_member[:, a:b]) for a, b in pairwise(self.offset)]
        self.passed = [
            np.searchsorted(borders, np.arange(length))
            for borders, length in zip(self.borders, self.lengths, strict=True)
        ]
        self.level = np.floor(np.log2(np.arange(1, self.lengths.max() + 2))).astype(np.int64)
        self.n_sums = len(sums.value)
        self.constant = sums.constant
        self.flat_table = np.ascontiguousarray(self.groups.table.ravel())
        self.row_base = 256 * np.arange(len(self.groups.mask), dtype=np.int64)
        root = self.whole()[0].bound[:, 0].astype(np.float64)
        self.norm = np.maximum(np.abs(root), 1.0)
        self.has_score = sums.has_score

    def _whole_range(self) -> Range:
        high = (self.lengths - 1).astype(np.int32)[:, None]
        return np.zeros_like(high), high

    def whole(self) -> list[Boxes]:
        """The box of all states that are worth looking at; no box where there are none."""
        return [] if self.empty else [self.boxes(*self._whole_range())]

    def boxes(self, low: npt.NDArray[np.int32], high: npt.NDArray[np.int32]) -> Boxes:
        """Masks and bounds of ranges of positions, from scratch."""
        mask = np.full((len(self.groups.mask), low.shape[1]), 255, dtype=np.uint8)
        # a row that does not depend on a feature has the same byte at all its positions
        mask &= np.bitwise_and.reduce(self.groups.mask[:, self.offset[:-1]], axis=1)[:, None] | (
            self._depends()
        )
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
        return np.asarray(table[:, first] | table[:, last])

    def has_room(self, boxes: Boxes) -> npt.NDArray[np.bool_]:
        """Whether the cheapest score of each box is within tau, as far as bounds can tell."""
        extra = self.region.cheapest(boxes.low, boxes.high) - self.base_score
        if self.score_sum < 0:
            return np.asarray(extra <= self.budget)
        # the shifted bound was rounded up, so shifting it back never takes room away
        room = boxes.bound[self.score_sum].astype(np.int64) << self.score_shift
        return np.asarray(extra <= room)

    def n_borders(self, boxes: Boxes) -> IntArray:
        """How many borders of the model lie within each range, (n_features, n_boxes)."""
        return np.stack(
            [
                passed[high] - passed[low]
                for passed, low, high in zip(self.passed, boxes.low, boxes.high, strict=True)
            ]
        )

    def middle(self, feature: int, low: Any, high: Any) -> Any:
        """Last position of the lower half: at the median border of the model, else of all states.

        An isolation forest brings hundreds of states that the model cannot tell apart.
        """
        passed, borders = self.passed[feature], self.borders[feature]
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


def _borders(member: npt.NDArray[np.bool_]) -> IntArray:
    """Positions after which some leaf of the model becomes reachable or stops being so."""
    return np.flatnonzero((member[:, 1:] != member[:, :-1]).any(axis=0))


def _orders(problem: Problem) -> list[IntArray]:
    """States worth looking at, per feature; categories in the order of the original's margin."""
    orders = []
    for feature, states in enumerate(_affordable(problem.region)):
        order = np.asarray(states, dtype=np.int64)
        if problem.space.axes[feature].codes is not None and len(order) > 2:
            order = order[np.argsort(_mean_margin(problem, feature, order), kind="stable")]
        orders.append(order)
    return orders


def _affordable(region: RegionTables) -> list[IntArray]:
    """Allowed states whose cheapest completion is within tau: boxes of one state against all.

    The solver's encoding drops states by another computation; they must not share an error.
    """
    allowed = [np.flatnonzero(states) for states in region.allowed]
    lengths = np.array([len(states) for states in allowed])
    if region.tau is None or region.score is None or (lengths == 0).any():
        return allowed
    owner = np.repeat(np.arange(len(allowed)), lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    column = np.arange(len(owner))
    low = np.zeros((len(allowed), len(owner)), dtype=np.int64)
    high = np.tile(lengths[:, None] - 1, (1, len(owner)))
    low[owner, column] = high[owner, column] = position
    floor = 0
    if region.score.trees is not None:
        starts = region.score.trees.trees.leaf_offset[:-1]
        floor = int(np.minimum.reduceat(region.score.trees.cost, starts).sum())
    stays = BoxRegion(region, allowed).cheapest(low, high) + floor <= region.tau
    return [states[stays[owner == j]] for j, states in enumerate(allowed)]


def _mean_margin(problem: Problem, feature: int, states: IntArray) -> npt.NDArray[np.float64]:
    """Margin over the leaves that each state of a feature leaves reachable; only for ordering."""
    words = np.ascontiguousarray(problem.masks.mask[problem.masks.state_offset[feature] + states])
    flags = np.unpackbits(words.astype("<u8").view(np.uint8), axis=2, bitorder="little")
    leaf, tree = np.arange(problem.trees.n_leaves), problem.trees.leaf_tree
    reachable = flags[:, tree, leaf - problem.trees.leaf_offset[tree]].astype(np.float64)
    counts = np.add.reduceat(reachable, problem.trees.leaf_offset[:-1], axis=1)
    value = reachable * problem.original_int[:, 0]
    sums = np.add.reduceat(value, problem.trees.leaf_offset[:-1], axis=1)
    return np.asarray((sums / counts).sum(axis=1))
