"""Trees merged into groups, and byte tables that bound the groups over boxes.

In come leaf sets over states and the sums to be bounded; out go byte masks per (row, position)
and tables of the largest value of any set of eight leaves. A group of trees is bounded together:
only combinations of their leaves that some input reaches count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.forest import IntArray
from pine_boost.routing import LeafMasks, StateTrees

NOTHING = -(2**30)  # value of an empty set of leaves, below every real one
_MERGE_LEAVES = 1600  # more leaves than this are not merged: the table of pairs would be too large
_MERGE_ROUNDS = 3

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of trees as rows of eight leaves each.

    Attributes
    ----------
    row_start : int64 (n_groups,)
        First row of each group; rows of a group are adjacent.
    mask : uint8 (n_rows, n_positions)
        Which of a row's leaves each position of each feature leaves reachable.
    table : int32 (n_rows * 256, n_sums)
        The largest value of every set of a row's leaves, for every sum.
    rows, groups : per feature
        The rows and groups that depend on it.
    starts : per feature
        Where the groups begin within ``rows[feature]``.
    """

    row_start: IntArray
    mask: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int32]
    rows: tuple[IntArray, ...]
    groups: tuple[IntArray, ...]
    starts: tuple[IntArray, ...]


@dataclass(frozen=True, eq=False)
class _Group:
    """Combinations of leaves of several trees: one line per combination, one column per tree."""

    leaves: IntArray


def leaf_members(trees: StateTrees, masks: LeafMasks, order: list[IntArray]) -> BoolArray:
    """Which positions each leaf admits, (n_leaves, n_positions)."""
    rows = np.concatenate([masks.state_offset[j] + states for j, states in enumerate(order)])
    words = np.ascontiguousarray(masks.mask[rows])
    flags = np.unpackbits(words.astype("<u8").view(np.uint8), axis=2, bitorder="little")
    leaf = np.arange(trees.n_leaves)
    tree = trees.leaf_tree
    return np.ascontiguousarray(flags[:, tree, leaf - trees.leaf_offset[tree]].T.astype(bool))


def build_groups(
    member: BoolArray,
    value: npt.NDArray[np.int32],
    leaf_offset: IntArray,
    position_offset: IntArray,
    *,
    guide: int,
    limit: int,
) -> Groups:
    """Merge trees and tabulate them.

    Parameters
    ----------
    member : bool (n_leaves, n_positions)
    value : int32 (n_sums, n_leaves)
    guide : int
        The sum whose bound decides which trees are merged.
    limit : int
        Most combinations of leaves in a group (trees that are larger stay alone).
    """
    n_features = len(position_offset) - 1
    inside = np.stack(
        [member[:, position_offset[j] : position_offset[j + 1]].any(axis=1)
         for j in range(n_features)]
    ).all(axis=0)  # fmt: skip
    trees = [np.arange(a, b) for a, b in zip(leaf_offset[:-1], leaf_offset[1:], strict=True)]
    groups = [_Group(leaves[inside[leaves]][:, None]) for leaves in trees]
    alive = sum(len(group.leaves) for group in groups)
    if alive <= _MERGE_LEAVES:
        compatible = _compatible(member, position_offset)
        for _ in range(_MERGE_ROUNDS):
            merged = _merge_round(groups, compatible, value[guide], limit)
            if len(merged) == len(groups):
                break
            groups = merged
    return _tabulate(groups, member, value, position_offset)


def _compatible(member: BoolArray, position_offset: IntArray) -> BoolArray:
    """Whether some input reaches both of two leaves, as far as each feature alone can tell."""
    compatible = np.ones((len(member), len(member)), dtype=bool)
    for start, stop in zip(position_offset[:-1], position_offset[1:], strict=True):
        part = member[:, start:stop]
        partial = np.flatnonzero(~part.all(axis=1))
        if len(partial):
            own = part[partial].astype(np.float32)
            compatible[np.ix_(partial, partial)] &= (own @ own.T) > 0
    return compatible


def _merge_round(
    groups: list[_Group], compatible: BoolArray, value: npt.NDArray[np.int32], limit: int
) -> list[_Group]:
    """Merge disjoint pairs of groups, those first whose common bound is lowest against their own."""
    small = [g for g in groups if len(g.leaves) * 2 <= limit]
    large = [g for g in groups if len(g.leaves) * 2 > limit]
    if len(small) < 2:
        return groups
    joint = _joint(small, compatible)
    sizes = np.array([len(g.leaves) for g in small])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    total = np.concatenate([value[g.leaves].sum(axis=1, dtype=np.int64) for g in small])
    pair_value = np.where(joint, total[:, None] + total[None], 2 * NOTHING)
    count = np.add.reduceat(np.add.reduceat(joint, starts, axis=0, dtype=np.int64), starts, axis=1)
    best = np.maximum.reduceat(np.maximum.reduceat(pair_value, starts, axis=0), starts, axis=1)
    single = np.maximum.reduceat(total, starts)
    gain = (single[:, None] + single[None] - best).astype(np.float64)
    # of pairs that gain nothing now, those with few combinations gain most in smaller boxes
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
        block = joint[starts[first] : starts[first] + sizes[first],
                      starts[second] : starts[second] + sizes[second]]  # fmt: skip
        a, b = np.nonzero(block)
        merged.append(_Group(np.hstack([small[first].leaves[a], small[second].leaves[b]])))
    return [*large, *(g for g, gone in zip(small, taken, strict=True) if not gone), *merged]


def _joint(groups: list[_Group], compatible: BoolArray) -> BoolArray:
    """Compatibility of the combinations of all groups."""
    width = max(g.leaves.shape[1] for g in groups)
    # repeat a leaf to fill up: it is compatible with whatever it already was
    padded = np.concatenate(
        [np.hstack([g.leaves, *[g.leaves[:, :1]] * (width - g.leaves.shape[1])]) for g in groups]
    )
    joint = np.ones((len(padded), len(padded)), dtype=bool)
    for a in range(width):
        for b in range(width):
            joint &= compatible[padded[:, a][:, None], padded[:, b][None]]
    return joint


def _tabulate(
    groups: list[_Group],
    member: BoolArray,
    value: npt.NDArray[np.int32],
    position_offset: IntArray,
) -> Groups:
    n_rows = np.array([max(1, -(-len(g.leaves) // 8)) for g in groups])
    row_start = np.concatenate([[0], np.cumsum(n_rows)])
    n_sums = len(value)
    slots = np.full((8 * int(row_start[-1]), n_sums), NOTHING, dtype=np.int32)
    flags = np.zeros((8 * int(row_start[-1]), member.shape[1]), dtype=bool)
    for group, start in zip(groups, 8 * row_start[:-1], strict=True):
        stop = start + len(group.leaves)
        slots[start:stop] = value[:, group.leaves].sum(axis=2, dtype=np.int32).T
        flags[start:stop] = member[group.leaves].all(axis=1)
    mask = np.packbits(flags.reshape(-1, 8, member.shape[1]), axis=1, bitorder="little")[:, 0]
    slots = slots.reshape(-1, 8, n_sums)
    table = np.full((len(slots), 256, n_sums), NOTHING, dtype=np.int32)
    for bit in range(8):
        half = 1 << bit
        table[:, half : 2 * half] = np.maximum(table[:, :half], slots[:, bit, None])
    rows, owners, starts = [], [], []
    for start, stop in zip(position_offset[:-1], position_offset[1:], strict=True):
        changes = (mask[:, start:stop] != mask[:, start : start + 1]).any(axis=1)
        own = np.flatnonzero(np.logical_or.reduceat(changes, row_start[:-1]))
        owners.append(own)
        parts = [np.arange(row_start[g], row_start[g + 1]) for g in own]
        rows.append(np.concatenate([*parts, np.zeros(0, dtype=np.int64)]).astype(np.int64))
        starts.append((np.cumsum(n_rows[own]) - n_rows[own]).astype(np.int64))
    return Groups(
        row_start[:-1].astype(np.int64),
        np.ascontiguousarray(mask),
        table.reshape(-1, n_sums),
        tuple(rows),
        tuple(owners),
        tuple(starts),
    )


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


def best_value(table: Any, flat: Any, starts: Any) -> Any:
    """Largest value of each group from flat table positions of its rows."""
    return np.maximum.reduceat(table.take(flat, axis=0), starts, axis=0)
