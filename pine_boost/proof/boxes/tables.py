"""Tables over boxes: the leaves of every tree in bits and bytes, and what all questions of a problem share.

The questions share the order of states, which leaves each state admits, and the region.

A box is an inclusive range of positions per feature. What questions share does not depend on them or on a pruned model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import ABSENT, EMPTY_SET
from pine_boost.model.forest import BoolArray, FloatArray, Int32Array, IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.proof.problem import Problem
from pine_boost.region.score_tables import RegionTables


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Trees as rows of eight leaves each.

    Trees are sorted by decreasing number of rows; the first rows of all trees come first, then the second rows of
    those that have one, and so on.

    Attributes
    ----------
    counts : tuple of int
        Number of trees with a first row, a second row, ...
    mask : uint8 (n_rows, n_positions)
        Which leaves of a row are reachable at each position of each feature.
    table : int32 (n_rows * 256, n_sums)
        The largest value of every set of leaves of a row, for every sum.
    rows, trees : per feature
        The rows and trees that depend on it.
    feature_counts : per feature
        ``counts`` of its trees.
    """

    counts: tuple[int, ...]
    mask: npt.NDArray[np.uint8]
    table: Int32Array
    rows: tuple[IntArray, ...]
    trees: tuple[IntArray, ...]
    feature_counts: tuple[tuple[int, ...], ...]


def leaves_inside(trees: StateTrees, order: list[IntArray]) -> IntArray:
    """Leaves that admit a position of every feature; the others hold no point of any box."""
    own = (trees.masks.of(j, states) for j, states in enumerate(order))
    inside = np.bitwise_and.reduce([np.bitwise_or.reduce(words, axis=0) for words in own])
    return np.flatnonzero(_flags(trees, inside[None])[0])


def leaf_members(trees: StateTrees, order: list[IntArray], leaves: IntArray) -> BoolArray:
    """Which positions each of these leaves (ascending) admits, (n_leaves, n_positions)."""
    masks = trees.masks
    rows = np.concatenate([masks.state_offset[j] + states for j, states in enumerate(order)])
    member = np.empty((len(leaves), len(rows)), dtype=bool)
    ends = np.searchsorted(leaves, trees.leaf_offset)
    for tree, (start, stop) in enumerate(pairwise(ends)):
        words = np.ascontiguousarray(masks.mask[rows, tree].T)
        bit = leaves[start:stop, None] - trees.leaf_offset[tree]
        member[start:stop] = (words[bit[:, 0] // 64] >> (bit % 64).astype(np.uint64)) & np.uint64(1)
    return member


def _flags(trees: StateTrees, words: npt.NDArray[np.uint64]) -> BoolArray:
    """One flag per leaf from words of bits, (n_rows, n_leaves)."""
    flags = np.unpackbits(words.astype("<u8").view(np.uint8), axis=2, bitorder="little")
    tree = trees.leaf_tree
    return flags[:, tree, np.arange(trees.n_leaves) - trees.leaf_offset[tree]].astype(bool)


def tabulate(leaf_offset: IntArray, member: BoolArray, value: Int32Array, position_offset: IntArray) -> TreeRows:
    """Masks and tables of the leaves inside, tree after tree; ``value`` is int32 (n_sums, n_leaves)."""
    n_sums, n_leaves = value.shape
    n_rows = -(-np.diff(leaf_offset) // 8)
    place = np.argsort(np.argsort(-n_rows, kind="stable"), kind="stable")  # of each tree in the order
    counts = _row_counts(n_rows)
    owner = np.concatenate([np.arange(count) for count in counts])  # the place of the tree of each row
    first = np.cumsum([0, *counts[:-1]])
    tree = np.repeat(np.arange(len(n_rows)), np.diff(leaf_offset))
    number = np.arange(n_leaves) - leaf_offset[tree]
    at = first[number // 8] + place[tree], number % 8
    slots = np.full((len(owner), 8, n_sums), EMPTY_SET, dtype=np.int32)
    slots[at] = value.T
    flags = np.zeros((len(owner), 8, member.shape[1]), dtype=bool)
    flags[at] = member
    mask = np.packbits(flags, axis=1, bitorder="little")[:, 0]
    table = np.full((len(owner), 256, n_sums), EMPTY_SET, dtype=np.int32)
    for bit in range(8):
        half = 1 << bit
        table[:, half : 2 * half] = np.maximum(table[:, :half], slots[:, bit, None])
    rows, trees, feature_counts = [], [], []
    for start, stop in pairwise(position_offset):
        changes = (mask[:, start:stop] != mask[:, start : start + 1]).any(axis=1)
        depends = np.zeros(len(n_rows), dtype=bool)
        depends[owner[changes]] = True
        rows.append(np.flatnonzero(depends[owner]))
        trees.append(np.flatnonzero(depends))
        feature_counts.append(_row_counts(np.bincount(owner)[depends]))
    return TreeRows(
        counts, np.ascontiguousarray(mask), table.reshape(-1, n_sums), tuple(rows), tuple(trees), tuple(feature_counts)
    )


def _row_counts(n_rows: IntArray) -> tuple[int, ...]:
    """How many trees have a first row, a second row, ..."""
    return tuple(int((n_rows > k).sum()) for k in range(int(n_rows.max(initial=0))))


def range_tables(trees: TreeRows, position_offset: IntArray) -> list[npt.NDArray[np.uint8]]:
    """Per feature the ORs of runs of 2**level positions, (n_rows of it, n_levels * n_positions)."""
    tables = []
    for feature, rows in enumerate(trees.rows):
        start, stop = position_offset[feature], position_offset[feature + 1]
        level = np.ascontiguousarray(trees.mask[rows, start:stop])
        levels, width = [level], 1
        while 2 * width <= stop - start:
            wider = level.copy()
            wider[:, : -width or None] |= level[:, width:]
            levels.append(wider)
            level, width = wider, 2 * width
        tables.append(np.hstack(levels))
    return tables


def best_value(table: Any, flat: Any, counts: tuple[int, ...]) -> Any:
    """Largest value of each tree from flat table positions of its rows."""
    value = table.take(flat, axis=0)
    best = value[: counts[0]]
    start = counts[0]
    # trees with further rows come first, so slices replace a slow reduceat
    for count in counts[1:]:
        np.maximum(best[:count], value[start : start + count], out=best[:count])
        start += count
    return best


@dataclass(frozen=True, eq=False)
class _Link:
    """An edge of the score's tree: ``cost[bin of parent, bin of child]``."""

    child: int
    parent: int
    cost: IntArray


class BoxRegion:
    """Lower bounds on the score, and emptiness by the domain, for many boxes at once.

    Boxes are arrays ``low`` and ``high`` of shape (n_features, n_boxes): inclusive positions in ``order[feature]``.
    The bounds are exact for single points; a larger box may be kept in vain.
    """

    def __init__(self, region: RegionTables, order: list[IntArray]) -> None:
        self.region = region
        self.score = region.score if region.tau is not None else None
        self._counts: dict[int, IntArray] = {}
        self._links: list[_Link] = []
        self._roots: list[int] = []
        self._extra: list[Any] = []
        if self.score is not None:
            self._orient(order)
        self._pairs = []
        for pair in region.forbidden:
            free = ~pair.forbidden[np.ix_(order[pair.first], order[pair.second])]
            table = np.zeros((free.shape[0] + 1, free.shape[1] + 1), dtype=np.int64)
            table[1:, 1:] = free.cumsum(axis=0).cumsum(axis=1)
            self._pairs.append((pair.first, pair.second, table))
        self._clauses = [
            [(j, np.concatenate([[0], np.cumsum(literal[order[j]])])) for j, literal in clause]
            for clause in region.at_least_one
        ]

    def _orient(self, order: list[IntArray]) -> None:
        """Root the pair tables: a spanning forest is minimised exactly, the remaining pairs one by one."""
        score = self.score
        assert score is not None
        used = {j for j, cost in enumerate(score.unary) if cost.any()}
        used |= {j for pair in score.pairs for j in (pair.first, pair.second)}
        for j in sorted(used):
            member = score.bins[j][order[j]][:, None] == np.arange(len(score.unary[j]))
            self._counts[j] = np.concatenate([np.zeros_like(member[:1]), member]).cumsum(axis=0).T
        left = list(score.pairs)
        reached: set[int] = set()
        downward: list[_Link] = []
        for root in sorted(used):
            if root in reached:
                continue
            reached.add(root)
            self._roots.append(root)
            queue = [root]
            while queue:
                feature = queue.pop(0)
                for pair in [p for p in left if feature in (p.first, p.second)]:
                    other = pair.second if pair.first == feature else pair.first
                    if other in reached:
                        continue
                    reached.add(other)
                    left.remove(pair)
                    cost = pair.cost if pair.first == feature else pair.cost.T
                    downward.append(_Link(other, feature, cost.astype(np.int64)))
                    queue.append(other)
        self._links = downward[::-1]
        self._extra = left

    def cheapest(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> IntArray:
        """The least cost of the bins of every box, without leaf costs."""
        n_boxes = low.shape[1]
        total = np.zeros(n_boxes, dtype=np.int64)
        if self.score is None:
            return total
        below: dict[int, IntArray] = {}
        for j, counts in self._counts.items():
            present = counts.take(high[j] + 1, axis=1) > counts.take(low[j], axis=1)
            below[j] = np.where(present, self.score.unary[j][:, None], ABSENT)
        for pair in self._extra:
            first, second = below[pair.first] < ABSENT, below[pair.second] < ABSENT
            cell = np.where(first[:, None] & second[None], pair.cost[:, :, None], ABSENT)
            total += cell.min(axis=(0, 1))
        for link in self._links:
            message = (below[link.child][None] + link.cost[:, :, None]).min(axis=1)
            below[link.parent] = below[link.parent] + message
        for root in self._roots:
            total += below[root].min(axis=0)
        return total

    def impossible(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> BoolArray | None:
        """Boxes without an allowed point; None if no pair or clause restricts the domain."""
        if not self._pairs and not self._clauses:
            return None
        empty = np.zeros(low.shape[1], dtype=bool)
        for first, second, table in self._pairs:
            a, b, c, d = low[first], high[first] + 1, low[second], high[second] + 1
            empty |= table[b, d] - table[a, d] - table[b, c] + table[a, c] == 0
        for clause in self._clauses:
            is_met = np.zeros(low.shape[1], dtype=bool)
            for j, counts in clause:
                is_met |= counts[high[j] + 1] > counts[low[j]]
            empty |= ~is_met
        return empty


Range = tuple[Int32Array, Int32Array]


class SharedTables:
    """Positions of states, and which leaves they admit.

    Attributes
    ----------
    order : list of int64 arrays
        Per feature the states that can occur within tau, by position.
    lengths : int64 (n_features,)
    is_empty : bool
        Some feature has no such state: the region is empty.
    n_leaves : int
        Leaves of the model that lie inside: those that admit a position of every feature.
    leaves : IntArray
        Leaves inside, of the model, then of the score's own trees, which are bounded beside the model's.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.order = _orders(problem)
        self.lengths = np.array([len(states) for states in self.order], dtype=np.int64)
        self.offset = np.concatenate([[0], np.cumsum(self.lengths)])
        self.is_empty = bool((self.lengths == 0).any())
        trees, extra = problem.trees, problem.region.extra_trees
        own = leaves_inside(trees, self.order)
        self.n_leaves = len(own)
        self._members = [(trees, self.order, own)]
        if extra is not None:
            of_extra = leaves_inside(extra.trees, self.order)
            self._members.append((extra.trees, self.order, of_extra))
            own = np.concatenate([own, trees.n_leaves + of_extra])
        self.leaves = own

    @property
    def n_cells(self) -> int:
        """Leaves inside times positions, which the time for the tables grows with."""
        return len(self.leaves) * int(self.offset[-1])

    @property
    def whole(self) -> Range:
        """The range of all positions."""
        high = (self.lengths - 1).astype(np.int32)[:, None]
        return np.zeros_like(high), high

    @cached_property
    def region(self) -> BoxRegion:
        """The region over boxes of these positions."""
        return BoxRegion(self._problem.region, self.order)

    @cached_property
    def base_score(self) -> int:
        """The least cost of the bins over all boxes."""
        return int(self.region.cheapest(*self.whole)[0])

    @cached_property
    def member(self) -> BoolArray:
        """Which positions each of `leaves` admits."""
        members = [leaf_members(*of_trees) for of_trees in self._members]
        return members[0] if len(members) == 1 else np.concatenate(members)  # not a gigabyte twice

    @cached_property
    def borders(self) -> list[IntArray]:
        """Per feature the positions after which the reachable leaves of the model change."""
        member = self.member[: self.n_leaves]
        of_features = np.split(member, self.offset[1:-1], axis=1)
        return [np.flatnonzero((own[:, 1:] != own[:, :-1]).any(axis=0)) for own in of_features]

    @cached_property
    def passed(self) -> list[IntArray]:
        """Per feature the number of borders before each position."""
        return [
            np.searchsorted(borders, np.arange(length))
            for borders, length in zip(self.borders, self.lengths, strict=True)
        ]

    @cached_property
    def all_passed(self) -> IntArray:
        """`passed` of all features, concatenated."""
        return np.concatenate(self.passed)


def _orders(problem: Problem) -> list[IntArray]:
    """States within tau, per feature; categories are sorted by the original's margin."""
    orders = []
    for feature, states in enumerate(_affordable(problem.region)):
        order = np.asarray(states, dtype=np.int64)
        if problem.space.axes[feature].codes is not None and len(order) > 2:
            order = order[np.argsort(_mean_margin(problem, feature, order), kind="stable")]
        orders.append(order)
    return orders


def _affordable(region: RegionTables) -> list[IntArray]:
    """Allowed states whose cheapest completion is within tau.

    The solver's encoding drops states by other code: the two methods must not share an error.
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
    cheapest = BoxRegion(region, allowed).cheapest(low, high)
    if region.score.trees is not None:
        by_tree = np.split(region.score.trees.cost, region.score.trees.trees.leaf_offset[1:-1])
        cheapest += sum(int(costs.min()) for costs in by_tree)
    stays = cheapest <= region.tau
    return [states[stays[owner == j]] for j, states in enumerate(allowed)]


def _mean_margin(problem: Problem, feature: int, states: IntArray) -> FloatArray:
    """The mean margin over the leaves that each state of a feature admits; only for ordering."""
    reachable = _flags(problem.trees, problem.trees.masks.of(feature, states)).astype(np.float64)
    counts = np.add.reduceat(reachable, problem.trees.leaf_offset[:-1], axis=1)
    sums = np.add.reduceat(reachable * problem.original_int[:, 0], problem.trees.leaf_offset[:-1], axis=1)
    return np.asarray((sums / counts).sum(axis=1))
