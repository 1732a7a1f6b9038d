"""Branch and bound over boxes of states: a complete method that uses no solver.

Integers decide; only the order of branching is heuristic. The parts of a question are cut from its own search, so the
answer does not depend on the number of processes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, Int32Array, IntArray, PrunedForest
from pine_boost.proof.boxes.tables import Range, SharedTables, best_value, range_tables, tabulate
from pine_boost.proof.problem import Answer, Problem, Proof, Question

METHOD = "boxes"
_ALONE = 20_000  # boxes of a question before other processes are worth their start-up
_PARTS = 8  # per process, because parts differ in size
_Outcome = tuple[Answer, Any, list[Range]]
_CELLS_A_SECOND = 2 * 10**8  # of the tables, as measured at 10**9 cells
_BATCH = 512
_TRIED = 64  # points tried per batch
_FIRST_TRIALS, _NEXT_TRIAL = 3, 4  # points are tried in the first batches, then in every fourth one
_STEEPNESS = 8.0  # how strongly a lower bound of one half makes up for the other


def prove_boxes(
    problem: Problem,
    pruned: PrunedForest,
    question: Question,
    *,
    max_boxes: int,
    budget: Budget,
    shared: SharedTables | None = None,
    n_jobs: int = 1,
) -> Proof:
    """Answer one question by branch and bound.

    Parameters
    ----------
    problem, pruned, question
    max_boxes : int
        Give up after this many boxes.
    budget : Budget
    shared : SharedTables, optional
        What all questions of the problem share; built if not given.
    n_jobs : int
        Processes for what is left after a first part of the search.

    Returns
    -------
    Proof
        PROVED if no box is left, FOUND with a counterexample that was checked exactly, or UNKNOWN with the share
        of the region (by number of state rows) that was covered.
    """
    started = time.monotonic()
    shared = shared or SharedTables(problem)
    if shared.n_cells > _CELLS_A_SECOND * budget.remaining:  # the tables alone would take longer
        return Proof(question, METHOD, Answer.UNKNOWN, time.monotonic() - started, None, 0.0)
    search = BoxSearch(problem, pruned, question, shared)
    first = min(max_boxes, _ALONE) if n_jobs > 1 else max_boxes
    answer, states, boxes = search.run(search.tables.whole(), first, budget)
    left = [part.range for part in boxes]
    if answer is Answer.UNKNOWN and first < max_boxes and not budget.is_over:
        parts = _split(left, n_jobs * _PARTS)
        each = (max_boxes - search.n_boxes) // len(parts)
        # monotonic clocks differ between processes: pass the deadline in wall time
        end = time.time() + budget.remaining
        results = _run_parts([(problem, pruned, question, *part, each, end) for part in parts], n_jobs)
        found = [states for answer, states, _ in results if answer is Answer.FOUND]
        left = [part for _, _, rest in results for part in rest]
        answer, states = Answer.PROVED, None
        if found:
            answer, states = Answer.FOUND, found[0]
        elif left:
            answer = Answer.UNKNOWN
    covered = 1.0 if answer is Answer.PROVED else 1.0 - search.tables.volume(left)
    return Proof(question, METHOD, answer, time.monotonic() - started, states, covered)


def prove_in_boxes(problem: Problem, pruned: PrunedForest, max_boxes: int, budget: Budget, n_jobs: int) -> list[Proof]:
    """Answer every question of the problem; each gets its share of the remaining time."""
    n_questions, shared = len(problem.questions), SharedTables(problem)
    return [
        prove_boxes(
            problem,
            pruned,
            question,
            max_boxes=max_boxes,
            budget=budget.share(1 / (n_questions - number)),
            shared=shared,
            n_jobs=n_jobs,
        )
        for number, question in enumerate(problem.questions)
    ]


class BoxSearch:
    """The search for one question; boxes go in and out, so that parts can run in other processes."""

    def __init__(
        self, problem: Problem, pruned: PrunedForest, question: Question, shared: SharedTables | None = None
    ) -> None:
        self.problem, self.pruned, self.question = problem, pruned, question
        self.tables = QuestionTables(problem, pruned, question, shared or SharedTables(problem))
        self.n_boxes = 0

    def run(self, boxes: list[Boxes], max_boxes: int, budget: Budget) -> tuple[Answer, Int32Array | None, list[Boxes]]:
        """Depth first, until no box is left, a counterexample is found or the budget runs out."""
        stack = list(boxes)
        n_batches = 0
        while stack:
            batch = stack.pop()
            while stack and len(batch) + len(stack[-1]) <= _BATCH:
                batch = join([stack.pop(), batch])
            if len(batch) > _BATCH:
                stack.append(batch.take(np.arange(len(batch) - _BATCH)))
                batch = batch.take(np.arange(len(batch) - _BATCH, len(batch)))
            if self.n_boxes >= max_boxes or budget.is_over:
                return Answer.UNKNOWN, None, [*stack, batch]
            self.n_boxes += len(batch)
            batch = self.filter(batch)
            n_tried = _TRIED if n_batches < _FIRST_TRIALS or n_batches % _NEXT_TRIAL == 0 else 0
            n_batches += 1
            found = self.try_points(batch, n_tried)
            if found is not None:
                return Answer.FOUND, found, stack
            batch = batch.take(np.flatnonzero((batch.low < batch.high).any(axis=0)))
            if len(batch):
                stack.append(self.branch(batch))
        return Answer.PROVED, None, []

    def filter(self, boxes: Boxes) -> Boxes:
        """Drop the boxes that cannot contain a counterexample."""
        boxes = boxes.take(np.flatnonzero((boxes.bound >= 0).all(axis=0)))
        if self.problem.region.tau is not None and len(boxes):
            boxes = boxes.take(np.flatnonzero(self.tables.has_room(boxes)))
        impossible = self.tables.region.impossible(boxes.low, boxes.high)
        if impossible is not None:
            boxes = boxes.take(np.flatnonzero(~impossible))
        return boxes

    def try_points(self, boxes: Boxes, n_tried: int) -> Int32Array | None:
        """Check a point of the last ``n_tried`` boxes exactly, and every box that is a single point."""
        single = (boxes.low == boxes.high).all(axis=0)
        single[max(0, len(single) - n_tried) :] = True
        columns = np.flatnonzero(single)
        if len(columns) == 0:
            return None
        middle = (boxes.low.take(columns, axis=1) + boxes.high.take(columns, axis=1)) // 2
        states = np.stack([self.tables.order[j][row] for j, row in enumerate(middle)], axis=1)
        against = self.problem.lost(self.pruned, states)[:, self.question.index]
        if not against.any():
            return None
        return np.asarray(states[int(np.argmax(against))], dtype=np.int32)

    def branch(self, boxes: Boxes) -> Boxes:
        """Halve every box along the feature that promises the lowest bounds of its halves."""
        chosen = self._choose(boxes)
        children = join([self._halves(boxes, int(feature), chosen) for feature in np.unique(chosen)])
        alive = np.flatnonzero((children.bound >= 0).all(axis=0))
        self.n_boxes += len(children) - len(alive)
        # the most promising last, because the stack is popped from its end
        slack = (children.bound.take(alive, axis=1) / self.tables.norm[:, None]).min(axis=0)
        return children.take(alive[np.argsort(slack, kind="stable")])

    def _halves(self, boxes: Boxes, feature: int, chosen: IntArray) -> Boxes:
        """The lower halves, then the upper halves, of the boxes for which a feature was chosen."""
        columns = np.flatnonzero(chosen == feature)
        n_boxes = len(columns)
        halves = boxes.take(np.concatenate([columns, columns]))
        middle = self.tables.middle(feature, halves.low[feature, :n_boxes], halves.high[feature, :n_boxes])
        halves.high[feature, :n_boxes] = middle
        halves.low[feature, n_boxes:] = middle + 1
        trees = self.tables.trees
        rows, counts = trees.rows[feature], trees.feature_counts[feature]
        if len(rows) == 0:
            return halves
        base = self.tables.row_base[rows][:, None]
        own = halves.mask.take(rows, axis=0)
        half = own & self.tables.range_mask(feature, halves.low[feature], halves.high[feature])
        before = best_value(trees.table, base + own[:, :n_boxes], counts)
        after = best_value(trees.table, base + half, counts).sum(axis=0, dtype=np.int32)
        rest = halves.bound[:, :n_boxes] - before.sum(axis=0, dtype=np.int32).T
        halves.mask[rows] = half
        return replace(halves, bound=np.hstack([rest, rest]) + after.T)

    def _choose(self, boxes: Boxes) -> IntArray:
        """The feature to branch on; a heuristic, so floats may be used."""
        n_boxes = len(boxes)
        borders = self.tables.n_borders(boxes)
        # Once a box is a single point to the model, leaf costs decide; before that they would lead to splits
        # that change no margin.
        is_point = np.asarray(borders.max(axis=0) == 0)
        ratio = boxes.bound / self.tables.norm[:, None]
        if self.tables.has_score.any():
            ratio[self.tables.has_score[:, None] != is_point] = np.inf
        best_sum = ratio.argmin(axis=0)
        slack = boxes.bound[best_sum, np.arange(n_boxes)].astype(np.float64)
        per_unit = _STEEPNESS / np.maximum(slack, 1.0)
        flat = (self.tables.row_base[:, None] + boxes.mask) * self.tables.n_sums + best_sum
        current = best_value(self.tables.flat_table, flat, self.tables.trees.counts)
        width = boxes.high - boxes.low
        effort = np.where(width > 0, 1e300 / (1 + width), np.inf)
        useful_in = (width > 0) & ((borders > 0) | is_point)
        for feature in np.flatnonzero(useful_in.any(axis=1) & self.tables.has_rows):
            rows = self.tables.trees.rows[feature]
            useful = np.flatnonzero(useful_in[feature])
            low, high = boxes.low[feature].take(useful), boxes.high[feature].take(useful)
            middle = self.tables.middle(int(feature), low, high)
            counts, owners = (self.tables.trees.feature_counts[feature], self.tables.trees.trees[feature])
            before = current.take(owners, axis=0).take(useful, axis=1).sum(axis=0)
            both = np.concatenate([useful, useful])  # lower halves, then upper halves
            half = boxes.mask.take(rows, axis=0).take(both, axis=1) & self.tables.range_mask(
                int(feature), np.concatenate([low, middle + 1]), np.concatenate([middle, high])
            )
            base = self.tables.row_base[rows][:, None]
            flat = (base + half) * self.tables.n_sums + best_sum.take(both)
            after = best_value(self.tables.flat_table, flat, counts).sum(axis=0)
            rest = (slack[useful] + (after.reshape(2, -1) - before)) * per_unit[useful]
            effort[feature, useful] = np.where(rest < 0, 0.0, np.exp2(rest)).sum(axis=0)
        return np.asarray(effort.argmin(axis=0))


def _split(ranges: list[Range], n_parts: int) -> list[Range]:
    """Distribute boxes round-robin, because neighbours on the stack are similar."""
    low, high = (np.concatenate([part[side] for part in ranges], axis=1) for side in (0, 1))
    n_parts = min(n_parts, low.shape[1])
    return [(low[:, start::n_parts], high[:, start::n_parts]) for start in range(n_parts)]


def _run_parts(tasks: list[tuple[Any, ...]], n_jobs: int) -> list[_Outcome]:
    try:
        from joblib import Parallel, delayed
    except ImportError:  # one after the other
        return [_run_part(*task) for task in tasks]
    return list(Parallel(n_jobs=n_jobs)(delayed(_run_part)(*task) for task in tasks))


def _run_part(
    problem: Problem, pruned: PrunedForest, question: Question, low: Any, high: Any, max_boxes: int, end: float
) -> _Outcome:
    """Search some boxes of a question until a moment in wall time."""
    search = BoxSearch(problem, pruned, question)
    answer, states, left = search.run([search.tables.boxes(low, high)], max_boxes, Budget.of(end - time.time()))
    return answer, states, [boxes.range for boxes in left]


# One question over boxes: linear rows over leaves, sums of rows, and upper bounds of the sums in every box. Every
# counterexample satisfies ``sum(value[leaf]) + constant >= 0`` for each row, and so for every non-negative combination
# of rows. A box in which the upper bound of one combination is negative holds no counterexample. A point of the region
# that satisfies all rows is one.
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

    value: Int32Array
    constant: Int32Array
    shift: IntArray
    has_score: BoolArray


def question_rows(problem: Problem, pruned: PrunedForest, question: Question, room: int) -> LeafRows:
    """The rows of a question; ``room`` is the most that leaf costs may add to the score."""
    rivals = problem.rivals(question)
    of_rivals = [problem.original_row(rival) for rival in rivals]
    after, most = problem.pruned_row(pruned, question)
    rows, constants = [*(values for values, _ in of_rivals), -after], [*(-least for _, least in of_rivals), most]
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

    low: Int32Array
    high: Int32Array
    mask: npt.NDArray[np.uint8]
    bound: Int32Array

    def __len__(self) -> int:
        return int(self.low.shape[1])

    @property
    def parts(self) -> tuple[Any, ...]:
        """All arrays."""
        return self.low, self.high, self.mask, self.bound

    @property
    def range(self) -> Range:
        """``low`` and ``high``."""
        return self.low, self.high

    def take(self, columns: IntArray) -> Boxes:
        """Some of the boxes; `take` is several times faster than indexing here."""
        return Boxes(*(part.take(columns, axis=1) for part in self.parts))


def join(parts: list[Boxes]) -> Boxes:
    """Boxes of several parts side by side."""
    return Boxes(*(np.concatenate(arrays, axis=1) for arrays in zip(*(boxes.parts for boxes in parts), strict=True)))


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
        value = np.ascontiguousarray(sums.value[:, shared.leaves])
        leaf_offset = np.searchsorted(shared.leaves, rows.leaf_offset)
        self.trees = tabulate(leaf_offset, shared.member, value, self.offset)
        self.ranges = range_tables(self.trees, self.offset)
        self.has_rows = np.array([len(rows) > 0 for rows in self.trees.rows])
        self.level = np.floor(np.log2(np.arange(1, self.lengths.max() + 2))).astype(np.int64)
        self.n_sums = len(sums.value)
        self.constant = sums.constant
        self.flat_table = np.ascontiguousarray(self.trees.table.ravel())
        self.row_base = 256 * np.arange(len(self.trees.mask), dtype=np.int64)
        root = self.whole()[0].bound[:, 0].astype(np.float64)
        self.norm = np.maximum(np.abs(root), 1.0)
        self.has_score = sums.has_score

    def whole(self) -> list[Boxes]:
        """The box of all states; no box if some feature has no state."""
        return [] if self.shared.is_empty else [self.boxes(*self.shared.whole)]

    def boxes(self, low: Int32Array, high: Int32Array) -> Boxes:
        """Boxes with masks and bounds, computed from their ranges."""
        mask = np.full((len(self.trees.mask), low.shape[1]), 255, dtype=np.uint8)
        # a row that does not depend on a feature has the same byte at all of its positions
        mask &= np.bitwise_and.reduce(self.trees.mask[:, self.offset[:-1]], axis=1)[:, None] | (self._depends())
        for feature, rows in enumerate(self.trees.rows):
            if len(rows):
                mask[rows] &= self.range_mask(feature, low[feature], high[feature])
        flat = self.row_base[:, None] + mask
        best = best_value(self.trees.table, flat, self.trees.counts)
        bound = best.sum(axis=0, dtype=np.int32).T + self.constant[:, None]
        return Boxes(low, high, mask, np.ascontiguousarray(bound))

    def _depends(self) -> npt.NDArray[np.uint8]:
        depends = np.zeros((len(self.trees.mask), 1), dtype=np.uint8)
        for rows in self.trees.rows:
            depends[rows] = 255
        return depends

    def range_mask(self, feature: int, low: Any, high: Any) -> npt.NDArray[np.uint8]:
        """Leaves of the feature's rows that some position of each range admits."""
        table, n_positions = self.ranges[feature], self.lengths[feature]
        level = self.level[high - low]
        first = level * n_positions + low
        last = level * n_positions + high - (1 << level) + 1
        return np.asarray(table.take(first, axis=1) | table.take(last, axis=1))

    def has_room(self, boxes: Boxes) -> BoolArray:
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
