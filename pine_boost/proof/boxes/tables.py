"""Tables over boxes: trees merged into groups, and what all questions of a problem share.

The questions share the order of states, which leaves each state admits, and the region. A group of trees is bounded
together: only combinations of leaves that some input reaches count.

A box is an inclusive range of positions per feature. What questions share does not depend on them or on a pruned model,
except that the first question chooses which trees are bounded together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import ABSENT, EMPTY_SET
from pine_boost.model.forest import BoolArray, IntArray
from pine_boost.model.routing import LeafMasks, StateTrees, leaf_masks
from pine_boost.proof.problem import Problem
from pine_boost.region.score_tables import RegionTables

_MERGE_LEAVES = 1600  # with more leaves no trees are merged: the table of pairs would be too large
_MERGE_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of trees as rows of eight leaves each.

    Groups are sorted by decreasing number of rows; the first rows of all groups come first, then the second rows of
    those that have one, and so on.

    Attributes
    ----------
    counts : tuple of int
        Number of groups with a first row, a second row, ...
    mask : uint8 (n_rows, n_positions)
        Which leaves of a row are reachable at each position of each feature.
    table : int32 (n_rows * 256, n_sums)
        The largest value of every set of leaves of a row, for every sum.
    rows, groups : per feature
        The rows and groups that depend on it.
    feature_counts : per feature
        ``counts`` of its groups.
    """

    counts: tuple[int, ...]
    mask: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int32]
    rows: tuple[IntArray, ...]
    groups: tuple[IntArray, ...]
    feature_counts: tuple[tuple[int, ...], ...]


# combinations of leaves of the trees of a group: one row per combination, one column per tree
TreeGroup = IntArray


def leaves_inside(trees: StateTrees, masks: LeafMasks, order: list[IntArray]) -> IntArray:
    """Leaves that admit a position of every feature; the others hold no point of any box."""
    own = [masks.mask[masks.state_offset[j] + states] for j, states in enumerate(order)]
    inside = np.bitwise_and.reduce([np.bitwise_or.reduce(words, axis=0) for words in own])
    return np.flatnonzero(_flags(trees, inside[None])[0])


def leaf_members(trees: StateTrees, masks: LeafMasks, order: list[IntArray], leaves: IntArray) -> BoolArray:
    """Which positions each of these leaves (ascending) admits, (n_leaves, n_positions)."""
    rows = np.concatenate([masks.state_offset[j] + states for j, states in enumerate(order)])
    member = np.empty((len(leaves), len(rows)), dtype=bool)
    ends = np.searchsorted(leaves, trees.leaf_offset)
    for tree, (start, stop) in enumerate(pairwise(ends)):
        words = np.ascontiguousarray(masks.mask[rows, tree].T)
        bit = leaves[start:stop, None] - trees.leaf_offset[tree]
        member[start:stop] = (words[bit[:, 0] // 64] >> (bit % 64).astype(np.uint64)) & np.uint64(1)
    return member


def reachable_leaves(trees: StateTrees, masks: LeafMasks, rows: IntArray) -> BoolArray:
    """Which leaves some rows of the masks admit, (n_rows, n_leaves)."""
    return _flags(trees, np.ascontiguousarray(masks.mask[rows]))


def _flags(trees: StateTrees, words: npt.NDArray[np.uint64]) -> BoolArray:
    """One flag per leaf from words of bits, (n_rows, n_leaves)."""
    flags = np.unpackbits(words.astype("<u8").view(np.uint8), axis=2, bitorder="little")
    tree = trees.leaf_tree
    return flags[:, tree, np.arange(trees.n_leaves) - trees.leaf_offset[tree]].astype(bool)


def merge_trees(
    member: BoolArray,
    value: npt.NDArray[np.int32],
    leaf_offset: IntArray,
    *,
    limit: int,
    n_merged: int,
    compatible: BoolArray | None,
) -> list[TreeGroup]:
    """Which trees are bounded together; bounds hold for any choice, some are tighter.

    Parameters
    ----------
    member : bool (n_leaves, n_positions)
        Of the leaves that lie inside.
    value : int32 (n_leaves,)
        The sum whose bound decides which trees are merged.
    limit : int
        The largest number of leaf combinations in a group; larger trees stay alone.
    n_merged : int
        The first trees, those of the model, may be merged; all later ones stay alone.
    compatible : bool (n_leaves, n_leaves) or None
        For the trees that may be merged; None merges none.
    """
    groups = [np.arange(a, b)[:, None] for a, b in pairwise(leaf_offset)]
    groups, alone = groups[:n_merged], groups[n_merged:]
    if compatible is not None:
        for _ in range(_MERGE_ROUNDS):
            merged = _merge_round(groups, compatible, value, limit)
            if len(merged) == len(groups):
                break
            groups = merged
    return groups + alone


def compatible_leaves(member: BoolArray, position_offset: IntArray) -> BoolArray | None:
    """Whether two leaves can be reached by one input, judging by each feature alone; None for too many leaves."""
    if len(member) > _MERGE_LEAVES:
        return None
    compatible = np.ones((len(member), len(member)), dtype=bool)
    for start, stop in pairwise(position_offset):
        part = member[:, start:stop]
        partial = np.flatnonzero(~part.all(axis=1))
        if len(partial):
            own = part[partial].astype(np.float32)
            compatible[np.ix_(partial, partial)] &= (own @ own.T) > 0
    return compatible


def _merge_round(
    groups: list[TreeGroup], compatible: BoolArray, value: npt.NDArray[np.int32], limit: int
) -> list[TreeGroup]:
    """Merge disjoint pairs of groups, those with the greatest gain in the bound first."""
    small = [g for g in groups if len(g) * 2 <= limit]
    large = [g for g in groups if len(g) * 2 > limit]
    if len(small) < 2:
        return groups
    joint = _joint(small, compatible)
    sizes = np.array([len(g) for g in small])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    total = np.concatenate([value[g].sum(axis=1, dtype=np.int64) for g in small])
    pair_value = np.where(joint, total[:, None] + total[None], 2 * EMPTY_SET)
    count = np.add.reduceat(np.add.reduceat(joint, starts, axis=0, dtype=np.int64), starts, axis=1)
    best = np.maximum.reduceat(np.maximum.reduceat(pair_value, starts, axis=0), starts, axis=1)
    single = np.maximum.reduceat(total, starts)
    gain = (single[:, None] + single[None] - best).astype(np.float64)
    # among pairs without gain now, those with few combinations gain most in smaller boxes
    share = count / (sizes[:, None] * sizes[None])
    spread = single - np.minimum.reduceat(total, starts)
    gain += (1 - share) * np.minimum(spread[:, None], spread[None])
    gain[(count > limit) | (gain <= 0)] = -1
    gain[np.tril_indices(len(small))] = -1
    taken = np.zeros(len(small), dtype=bool)
    merged = []
    for flat in np.argsort(-gain, axis=None, kind="stable"):
        first, second = divmod(int(flat), len(small))
        if gain[first, second] < 0:
            break
        if taken[first] or taken[second]:
            continue
        taken[[first, second]] = True
        block = joint[starts[first] : starts[first] + sizes[first], starts[second] : starts[second] + sizes[second]]
        a, b = np.nonzero(block)
        merged.append(np.hstack([small[first][a], small[second][b]]))
    return [*large, *(g for g, gone in zip(small, taken, strict=True) if not gone), *merged]


def _joint(groups: list[TreeGroup], compatible: BoolArray) -> BoolArray:
    """Compatibility of the combinations of all groups."""
    width = max(g.shape[1] for g in groups)
    # pad by repeating a leaf, which does not change compatibility
    padded = np.concatenate([np.hstack([g, *[g[:, :1]] * (width - g.shape[1])]) for g in groups])
    joint = np.ones((len(padded), len(padded)), dtype=bool)
    for a in range(width):
        for b in range(width):
            joint &= compatible[padded[:, a][:, None], padded[:, b][None]]
    return joint


def tabulate(
    groups: list[TreeGroup], member: BoolArray, value: npt.NDArray[np.int32], position_offset: IntArray
) -> Groups:
    """Masks and tables of merged trees; ``value`` is int32 (n_sums, n_leaves)."""
    groups = sorted(groups, key=lambda g: -len(g))
    n_rows = np.array([-(-len(g) // 8) for g in groups])
    owner, rank = _layout(n_rows)
    n_sums = len(value)
    slots = np.full((len(owner), 8, n_sums), EMPTY_SET, dtype=np.int32)
    flags = np.zeros((len(owner), 8, member.shape[1]), dtype=bool)
    for row, (group, eighth) in enumerate(zip(owner, rank, strict=True)):
        leaves = groups[group][8 * eighth : 8 * eighth + 8]
        slots[row, : len(leaves)] = value[:, leaves].sum(axis=2, dtype=np.int32).T
        flags[row, : len(leaves)] = member[leaves].all(axis=1)
    mask = np.packbits(flags, axis=1, bitorder="little")[:, 0]
    table = np.full((len(owner), 256, n_sums), EMPTY_SET, dtype=np.int32)
    for bit in range(8):
        half = 1 << bit
        table[:, half : 2 * half] = np.maximum(table[:, :half], slots[:, bit, None])
    rows, owners, counts = [], [], []
    for start, stop in pairwise(position_offset):
        changes = (mask[:, start:stop] != mask[:, start : start + 1]).any(axis=1)
        depends = np.zeros(len(groups), dtype=bool)
        depends[owner[changes]] = True
        rows.append(np.flatnonzero(depends[owner]))
        owners.append(np.flatnonzero(depends))
        counts.append(_row_counts(n_rows[depends]))
    return Groups(
        _row_counts(n_rows),
        np.ascontiguousarray(mask),
        table.reshape(-1, n_sums),
        tuple(rows),
        tuple(owners),
        tuple(counts),
    )


def _layout(n_rows: IntArray) -> tuple[IntArray, IntArray]:
    """Owner and rank of each row: the first rows of all groups, then the second ones, ..."""
    pairs = [(g, k) for k in range(int(n_rows.max())) for g in np.flatnonzero(n_rows > k)]
    return np.array([g for g, _ in pairs]), np.array([k for _, k in pairs])


def _row_counts(n_rows: IntArray) -> tuple[int, ...]:
    """How many groups have a first row, a second row, ..."""
    return tuple(int((n_rows > k).sum()) for k in range(int(n_rows.max(initial=0))))


def range_tables(groups: Groups, position_offset: IntArray) -> list[npt.NDArray[np.uint8]]:
    """Per feature the ORs of runs of 2**level positions, (n_rows of it, n_levels * n_positions)."""
    tables = []
    for feature, rows in enumerate(groups.rows):
        start, stop = position_offset[feature], position_offset[feature + 1]
        level = np.ascontiguousarray(groups.mask[rows, start:stop])
        levels, width = [level], 1
        while 2 * width <= stop - start:
            wider = level.copy()
            wider[:, : -width or None] |= level[:, width:]
            levels.append(wider)
            level, width = wider, 2 * width
        tables.append(np.hstack(levels))
    return tables


def best_value(table: Any, flat: Any, counts: tuple[int, ...]) -> Any:
    """Largest value of each group from flat table positions of its rows."""
    value = table.take(flat, axis=0)
    best = value[: counts[0]]
    start = counts[0]
    # groups with further rows come first, so slices replace a slow reduceat
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

    def impossible(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
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


_GROUP_LIMIT = 64
Range = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


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
        self._merged: list[TreeGroup] | None = None
        own = leaves_inside(problem.trees, problem.masks, self.order)
        self.n_leaves = len(own)
        self._members = [(problem.trees, problem.masks, self.order, own)]
        if problem.region.extra_trees is not None:
            extra = problem.region.extra_trees.trees
            masks = leaf_masks(extra, problem.space)
            self._members.append((extra, masks, self.order, leaves_inside(extra, masks, self.order)))
            own = np.concatenate([own, problem.trees.n_leaves + self._members[1][3]])
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
    def compatible(self) -> BoolArray | None:
        """Which pairs of leaves of the model one input can reach; None for too many leaves."""
        return compatible_leaves(self.member[: self.n_leaves], self.offset)

    def merged(self, guide: npt.NDArray[np.int32], leaf_offset: IntArray) -> list[TreeGroup]:
        """Trees that are bounded together, chosen by the first ``guide`` only; both are about `leaves`."""
        if self._merged is None:
            self._merged = merge_trees(
                self.member,
                guide,
                leaf_offset,
                limit=_GROUP_LIMIT,
                n_merged=self._problem.trees.n_trees,
                compatible=self.compatible,
            )
        return self._merged

    @cached_property
    def borders(self) -> list[IntArray]:
        """Per feature the positions after which the reachable leaves of the model change."""
        member = self.member[: self.n_leaves]
        return [_borders(member[:, a:b]) for a, b in pairwise(self.offset)]

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


def _borders(member: npt.NDArray[np.bool_]) -> IntArray:
    """Positions after which some leaf of the model becomes or stops being reachable."""
    return np.flatnonzero((member[:, 1:] != member[:, :-1]).any(axis=0))


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


def _mean_margin(problem: Problem, feature: int, states: IntArray) -> npt.NDArray[np.float64]:
    """The mean margin over the leaves that each state of a feature admits; only for ordering."""
    rows = problem.masks.state_offset[feature] + states
    reachable = reachable_leaves(problem.trees, problem.masks, rows).astype(np.float64)
    counts = np.add.reduceat(reachable, problem.trees.leaf_offset[:-1], axis=1)
    sums = np.add.reduceat(reachable * problem.original_int[:, 0], problem.trees.leaf_offset[:-1], axis=1)
    return np.asarray((sums / counts).sum(axis=1))
