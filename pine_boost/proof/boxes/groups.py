"""Trees merged into groups, and byte tables that bound the groups over boxes.

A group of trees is bounded together: only combinations of leaves that some input reaches count.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import EMPTY_SET
from pine_boost.model.forest import BoolArray, IntArray
from pine_boost.model.routing import LeafMasks, StateTrees

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
