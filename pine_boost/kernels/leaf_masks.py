"""Tables that give the leaves of a block of trees without walking their paths: masks of leaves by column and bin.

A column rules out the leaves on the other side of its splits. What all columns leave over, by bitwise and, is one leaf
in each tree, however long the path to it. Bins that no split of a block tells apart share a line of masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.flat_forest import COLUMN_SHIFT, LARGEST_COLUMN, LARGEST_RANK, TOP_BIN, FlatForest, Int32Array

LANES = 8  # trees in a block
_LEAVES = 64  # in a mask
_MOST_LINES = 256  # the number of a line among those of its part is a byte
_LEAST_DEPTH = 5  # levels of a tree for each line that it reads; measured: with fewer, walking is as fast
_MOST_BINS, _MOST_MASKS = 2**22, 2**23


def mask_tables(flat: FlatForest, order: Int32Array) -> dict[str, npt.NDArray[Any]] | None:
    """Tables for trees in an order of visits, see ``trees.c``; None where walking is less work, or tables too large.

    ``mask`` and ``all_leaves`` are filled by the kernel, which needs ``read_as`` for this alone.
    """
    n_blocks = -(-flat.n_trees // LANES)
    if np.diff(flat.leaf_offset).max() > _LEAVES or n_blocks * flat.n_columns > _MOST_BINS:
        return None
    inner = np.flatnonzero(flat.leaf_of_node < 0)
    node, block = flat.node[inner], np.empty(flat.n_trees, dtype=np.int32)
    block[order] = np.arange(flat.n_trees) // LANES
    rank = (node & np.uint64(LARGEST_RANK)).astype(np.int32)
    own_column = (node >> np.uint64(COLUMN_SHIFT) & np.uint64(LARGEST_COLUMN)).astype(np.int32)
    read_as, special, n_bins = _bins(flat, own_column, rank)
    column = read_as[own_column]

    # a part is a block and a column that it reads
    key = block[flat.node_tree[inner]] * np.int32(flat.n_columns) + column
    is_read = np.zeros(n_blocks * flat.n_columns, dtype=bool)
    is_read[key] = True
    read = np.flatnonzero(is_read)
    part_column = read % flat.n_columns
    n_bins = n_bins[part_column]
    if _LEAST_DEPTH * len(read) > flat.depth.sum() or n_bins.sum() > _MOST_BINS:
        return None

    # a line begins at each bin that is the first to go right at some split; of a category, every state has its own
    first_bin = np.cumsum(n_bins) - n_bins
    begins = np.repeat(_is_category(flat)[part_column], n_bins)
    is_numeric = ~_is_category(flat)[column]
    first_of_key = np.zeros(len(is_read), dtype=np.int32)
    first_of_key[read] = first_bin
    begins[(first_of_key[key] + rank + 1)[is_numeric]] = True
    is_shared = np.isin(part_column, column[own_column != column])
    begins[(first_bin + n_bins - 1)[is_shared]] = True
    begins[first_bin] = False
    line = np.cumsum(begins, dtype=np.int32)
    line -= np.repeat(line[first_bin], n_bins)
    n_lines = line[first_bin + n_bins - 1] + 1
    if n_lines.max(initial=0) > _MOST_LINES or LANES * n_lines.sum() > _MOST_MASKS:
        return None
    parts = np.zeros(len(read) + 1, dtype=[(name, np.uint32) for name in ("column", "first_bin", "first_line")])
    parts["column"][:-1], parts["first_bin"][:-1] = part_column, first_bin
    parts["first_line"][1:] = np.cumsum(n_lines)
    return {
        **special,
        "mask": _aligned(LANES * int(n_lines.sum())),
        "row_leaf": np.append(flat.leaf_offset[:-1][order], np.zeros(LANES - 1, dtype=np.int32)),
        "all_leaves": np.ones(LANES * n_blocks, dtype=np.uint64),
        "part": parts,
        "block_part": np.searchsorted(read, np.arange(n_blocks + 1) * flat.n_columns).astype(np.int32),
        "line_of_bin": line.astype(np.uint8),
        "read_as": read_as,
    }


def _is_category(flat: FlatForest) -> npt.NDArray[np.bool_]:
    """Whether the bins of each column are states of a category."""
    return np.append(False, flat.source_known[flat.column_source[1:]] >= 0)


def _bins(
    flat: FlatForest, column: Int32Array, rank: Int32Array
) -> tuple[Int32Array, dict[str, Int32Array], npt.NDArray[np.int64]]:
    """The column that each one is read as, bins of NaN and zero, and numbers of bins.

    These bins are lowered to the first one above every rank of their column. Two columns of a feature that differ in
    the side of NaN alone are read as the one where NaN goes right; its bin is the last there, which others do not have.
    """
    source, is_category = flat.column_source[1:], _is_category(flat)
    top = np.zeros(flat.n_columns, dtype=np.int64)
    np.maximum.at(top, column, rank + 1)
    nan, zero = (
        np.where(is_category, own, np.minimum(own, top)).astype(np.int32) for own in (flat.column_nan, flat.column_zero)
    )
    passed = np.append(0, np.diff(flat.source_edge)[source] - flat.column_base[1:])
    largest = np.where(is_category, np.append(0, flat.most_states[source]), np.maximum(passed, top))

    one = flat.source_column[:-1][np.diff(flat.source_column) == 2]
    other, last = one + 1, np.maximum(largest[one], top[one + 1]) + 1
    is_shared = (flat.column_base[one] == 0) & (zero[one] < 0) & (zero[other] < 0) & (last <= TOP_BIN)
    is_shared &= (flat.column_nan[one] >= last - 1) & (flat.column_nan[other] == 0)
    one, other, last = one[is_shared], other[is_shared], last[is_shared]
    read_as = np.arange(flat.n_columns, dtype=np.int32)
    read_as[other], nan[one], largest[one] = one, last, last
    return read_as, {"column_nan": nan, "column_zero": zero}, largest + 1


def _aligned(n: int) -> npt.NDArray[np.uint64]:
    """Masks with all bits, eight in each line of the cache."""
    words = np.full(n + LANES, 2**64 - 1, dtype=np.uint64)
    skipped = -words.ctypes.data % (8 * LANES) // 8
    return words[skipped : skipped + n]
