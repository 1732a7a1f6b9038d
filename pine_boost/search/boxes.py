"""Branch and bound over boxes of states: the second, independent way to prove a question.

In come a game, a pruned model and a question; out goes a counterexample, a proof that there is
none, or how much of the region was covered. Integers decide, no solver takes part; only the order
of branching is heuristic.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.forest import IntArray, PrunedForest
from pine_boost.routing import leaf_masks
from pine_boost.search.box_groups import (
    best_value,
    build_groups,
    leaf_members,
    range_tables,
)
from pine_boost.search.box_region import BoxRegion
from pine_boost.search.box_rows import question_rows, weigh
from pine_boost.search.game import Game, Question, margins_int, pruned_leaves_int
from pine_boost.search.grid import needed_sides
from pine_boost.search.minsum import cheapest_bins
from pine_boost.search.oracle import Answer, Proof

METHOD = "boxes"
_BATCH = 512
_TRIED = 64  # candidate points per batch
_GROUP_LIMIT = 64
_STEEPNESS = 8.0  # how strongly a lower bound of one child makes up for the other


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


def prove_boxes(
    game: Game, pruned: PrunedForest, question: Question, *, max_boxes: int, deadline: float
) -> Proof:
    """Answer one question by branch and bound, complete by itself.

    Parameters
    ----------
    game, pruned, question
    max_boxes : int
        Boxes looked at before giving up.
    deadline : float
        In terms of ``time.monotonic``.

    Returns
    -------
    Proof
        PROVED when no box is left, FOUND with the states of a counterexample that was checked
        exactly, UNKNOWN with the share of the region (by number of state rows) that was covered.
    """
    started = time.monotonic()
    search = BoxSearch(game, pruned, question)
    answer, states, left = search.run(search.whole(), max_boxes, deadline)
    covered = 1.0 if answer is Answer.PROVED else 1.0 - search.volume([part.range for part in left])
    seconds = time.monotonic() - started
    return Proof(question, METHOD, answer, seconds, states, covered)


class BoxSearch:
    """One question, ready to be searched; boxes go in and out, so that parts can run elsewhere."""

    def __init__(self, game: Game, pruned: PrunedForest, question: Question) -> None:
        self.game, self.pruned, self.question = game, pruned, question
        self.n_boxes = 0
        self.order = _orders(game)
        self.lengths = np.array([len(states) for states in self.order], dtype=np.int64)
        self.empty = bool((self.lengths == 0).any())
        if self.empty:
            return
        self.region = BoxRegion(game.region, self.order)
        whole = self._whole_range()
        self.base_score = int(self.region.cheapest(*whole)[0])
        score = game.region.score if game.region.tau is not None else None
        tau = game.region.tau or 0
        self.budget = tau - self.base_score
        tree_cost = score.trees if score is not None else None
        own = tree_cost.trees if tree_cost is not None and not tree_cost.of_model else None
        cost = tree_cost.cost if tree_cost is not None else None
        rows = question_rows(game, pruned, question, cost, self.budget, own)
        self.score_sum = rows.n_original + 1 if cost is not None else -1
        sums = weigh(rows)
        member = leaf_members(game.trees, game.masks, self.order)
        if own is not None:
            more = leaf_members(own, leaf_masks(own, game.space), self.order)
            member = np.concatenate([member, more])
        self.offset = np.concatenate([[0], np.cumsum(self.lengths)])
        self.groups = build_groups(
            member,
            sums.value,
            rows.leaf_offset,
            self.offset,
            guide=min(len(rows.value) + 5, len(sums.value) - 1),
            limit=_GROUP_LIMIT,
        )
        self.ranges = range_tables(self.groups, self.offset)
        self.level = np.floor(np.log2(np.arange(1, self.lengths.max() + 2))).astype(np.int64)
        self.n_sums = len(sums.value)
        self.constant = sums.constant
        self.flat_table = np.ascontiguousarray(self.groups.table.ravel())
        self.row_base = 256 * np.arange(len(self.groups.mask), dtype=np.int64)
        root = self.whole()[0].bound[:, 0].astype(np.float64)
        self.norm = np.maximum(np.abs(root), 1.0)

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
                mask[rows] &= self._range(feature, low[feature], high[feature])
        flat = self.row_base[:, None] + mask
        best = best_value(self.groups.table, flat, self.groups.counts)
        bound = best.sum(axis=0, dtype=np.int32).T + self.constant[:, None]
        return Boxes(low, high, mask, np.ascontiguousarray(bound))

    def _depends(self) -> npt.NDArray[np.uint8]:
        depends = np.zeros((len(self.groups.mask), 1), dtype=np.uint8)
        for rows in self.groups.rows:
            depends[rows] = 255
        return depends

    def _range(self, feature: int, low: Any, high: Any) -> npt.NDArray[np.uint8]:
        """Leaves of the feature's rows that some position of each range admits."""
        table, n_positions = self.ranges[feature], self.lengths[feature]
        level = self.level[high - low]
        first = level * n_positions + low
        last = level * n_positions + high - (1 << level) + 1
        return np.asarray(table[:, first] | table[:, last])

    def volume(self, ranges: list[Range]) -> float:
        """Share of all state rows that lie in some disjoint boxes."""
        share = 0.0
        for low, high in ranges:
            width = (high - low + 1) / self.lengths[:, None]
            share += float(width.prod(axis=0).sum())
        return min(1.0, share)

    def run(
        self, boxes: list[Boxes], max_boxes: int, deadline: float
    ) -> tuple[Answer, npt.NDArray[np.int32] | None, list[Boxes]]:
        """Depth first until nothing is left, something is found or the budget ran out."""
        stack = list(boxes)
        while stack:
            batch = stack.pop()
            while stack and len(batch) + len(stack[-1]) <= _BATCH:
                batch = join([stack.pop(), batch])
            if len(batch) > _BATCH:
                stack.append(batch.take(slice(None, -_BATCH)))
                batch = batch.take(slice(-_BATCH, None))
            if self.n_boxes >= max_boxes or time.monotonic() >= deadline:
                return Answer.UNKNOWN, None, [*stack, batch]
            self.n_boxes += len(batch)
            batch = self.filter(batch)
            found = self.try_points(batch)
            if found is not None:
                return Answer.FOUND, found, stack
            batch = batch.take(np.flatnonzero((batch.low < batch.high).any(axis=0)))
            if len(batch):
                stack.append(self.branch(batch))
        return Answer.PROVED, None, []

    def filter(self, boxes: Boxes) -> Boxes:
        """Drop the boxes that cannot hold a counterexample."""
        boxes = boxes.take(np.flatnonzero((boxes.bound >= 0).all(axis=0)))
        if self.game.region.tau is not None and len(boxes):
            extra = self.region.cheapest(boxes.low, boxes.high) - self.base_score
            room = self.budget if self.score_sum < 0 else boxes.bound[self.score_sum]
            boxes = boxes.take(np.flatnonzero(extra <= room))
        impossible = self.region.impossible(boxes.low, boxes.high)
        if impossible is not None:
            boxes = boxes.take(np.flatnonzero(~impossible))
        return boxes

    def try_points(self, boxes: Boxes) -> npt.NDArray[np.int32] | None:
        """Check one point of some boxes exactly, and every box that is a single point."""
        single = (boxes.low == boxes.high).all(axis=0)
        single[-_TRIED:] = True
        columns = np.flatnonzero(single)
        if len(columns) == 0:
            return None
        middle = (boxes.low[:, columns] + boxes.high[:, columns]) // 2
        states = np.stack([self.order[j][row] for j, row in enumerate(middle)], axis=1)
        against = counterexamples(self.game, self.pruned, self.question, states)
        if not against.any():
            return None
        return np.asarray(states[int(np.argmax(against))], dtype=np.int32)

    def branch(self, boxes: Boxes) -> Boxes:
        """Halve every box along the feature that promises the lowest bounds of the halves."""
        chosen = self._choose(boxes)
        children = []
        table = self.groups.table
        for feature in np.unique(chosen):
            columns = np.flatnonzero(chosen == feature)
            parent = boxes.take(columns)
            low, high = parent.low[feature], parent.high[feature]
            middle = (low + high) // 2
            rows, counts = self.groups.rows[feature], self.groups.feature_counts[feature]
            base = self.row_base[rows][:, None]
            own = parent.mask[rows]
            rest = parent.bound
            if len(rows):
                before = best_value(table, base + own, counts).sum(axis=0, dtype=np.int32)
                rest = parent.bound - before.T
            for side_low, side_high in ((low, middle), (middle + 1, high)):
                mask, bound = parent.mask, parent.bound
                if len(rows):
                    half = own & self._range(int(feature), side_low, side_high)
                    mask = parent.mask.copy()
                    mask[rows] = half
                    after = best_value(table, base + half, counts).sum(axis=0, dtype=np.int32)
                    bound = rest + after.T
                new_low, new_high = parent.low.copy(), parent.high.copy()
                new_low[feature], new_high[feature] = side_low, side_high
                alive = np.flatnonzero((bound >= 0).all(axis=0))
                self.n_boxes += len(columns) - len(alive)
                children.append(Boxes(new_low, new_high, mask, bound).take(alive))
        everything = join(children)
        # the most promising last, because the stack is worked off from its end
        slack = (everything.bound / self.norm[:, None]).min(axis=0)
        return everything.take(np.argsort(slack, kind="stable"))

    def _choose(self, boxes: Boxes) -> IntArray:
        """The feature to branch on; heuristic, so floats may take part."""
        n_boxes = len(boxes)
        best_sum = (boxes.bound / self.norm[:, None]).argmin(axis=0)
        slack = boxes.bound[best_sum, np.arange(n_boxes)].astype(np.float64)
        per_unit = _STEEPNESS / np.maximum(slack, 1.0)
        flat = (self.row_base[:, None] + boxes.mask) * self.n_sums + best_sum
        current = best_value(self.flat_table, flat, self.groups.counts)
        effort = np.full((len(self.order), n_boxes), np.inf)
        for feature, rows in enumerate(self.groups.rows):
            columns = np.flatnonzero(boxes.high[feature] > boxes.low[feature])
            if len(columns) == 0:
                continue
            if len(rows) == 0:
                effort[feature, columns] = 1e300 / (1 + boxes.high - boxes.low)[feature, columns]
                continue
            low, high = boxes.low[feature, columns], boxes.high[feature, columns]
            middle = (low + high) // 2
            counts, owners = self.groups.feature_counts[feature], self.groups.groups[feature]
            own = boxes.mask[rows][:, columns]
            base = self.row_base[rows][:, None]
            before = current[owners][:, columns].sum(axis=0)
            total = np.zeros(len(columns))
            for side_low, side_high in ((low, middle), (middle + 1, high)):
                half = own & self._range(feature, side_low, side_high)
                flat = (base + half) * self.n_sums + best_sum[columns]
                after = best_value(self.flat_table, flat, counts).sum(axis=0)
                rest = (slack[columns] + (after - before)) * per_unit[columns]
                total += np.where(rest < 0, 0.0, np.exp2(rest))
            effort[feature, columns] = total
        return np.asarray(effort.argmin(axis=0))


def counterexamples(
    game: Game, pruned: PrunedForest, question: Question, states: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """The exact test: in the region, the original decides the side, the pruned model does not."""
    leaves = game.trees.leaves(states)
    decided = game.decided(game.original_margins_int(leaves))[:, question.index]
    after = margins_int(pruned_leaves_int(game, pruned), leaves) + pruned.intercept_int
    loses = game.side_int(after, question) < needed_sides(game, pruned.grid)[question.index]
    return np.asarray(decided & loses & game.region.contains(states))


def _orders(game: Game) -> list[IntArray]:
    """States worth looking at, per feature; categories in the order of the original's margin."""
    region = game.region
    allowed = [states.copy() for states in region.allowed]
    bins = cheapest_bins(region)
    if bins is not None and region.score is not None and region.tau is not None:
        for feature, cost in enumerate(bins):
            allowed[feature] &= (cost <= region.tau)[region.score.bins[feature]]
    orders = []
    for feature, states in enumerate(allowed):
        order = np.flatnonzero(states)
        if game.space.axes[feature].codes is not None and len(order) > 2:
            order = order[np.argsort(_mean_margin(game, feature, order), kind="stable")]
        orders.append(order.astype(np.int64))
    return orders


def _mean_margin(game: Game, feature: int, states: IntArray) -> npt.NDArray[np.float64]:
    """Margin over the leaves that each state of a feature leaves reachable; only for ordering."""
    words = np.ascontiguousarray(game.masks.mask[game.masks.state_offset[feature] + states])
    flags = np.unpackbits(words.astype("<u8").view(np.uint8), axis=2, bitorder="little")
    leaf, tree = np.arange(game.trees.n_leaves), game.trees.leaf_tree
    reachable = flags[:, tree, leaf - game.trees.leaf_offset[tree]].astype(np.float64)
    counts = np.add.reduceat(reachable, game.trees.leaf_offset[:-1], axis=1)
    value = reachable * game.original_int[:, 0]
    sums = np.add.reduceat(value, game.trees.leaf_offset[:-1], axis=1)
    return np.asarray((sums / counts).sum(axis=1))
