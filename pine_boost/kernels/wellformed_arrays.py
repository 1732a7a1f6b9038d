"""Whether arrays from a file may be given to the kernel: nothing it reads lies outside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MalformedModelError
from pine_boost.kernels.flat_forest import CATEGORY_BIT, TOP_BIN, ExitPlan, FlatForest, Link, NativeSum, TableSums

_ANY = -(2**31), 2**31  # bounds of an int32
_SIGNED, _LONG, _REAL, _WORD = (np.dtype(kind) for kind in (np.int32, np.int64, np.float64, np.uint64))


def require_wellformed(flat: FlatForest, native: NativeSum, plan: ExitPlan) -> None:
    """Refuse arrays that do not form trees, or exits and values that do not fit them.

    Raises
    ------
    MalformedModelError
    """
    with np.errstate(invalid="ignore", over="ignore"):
        _check_sources(flat)
        _check_trees(flat)
        _check_native(flat, native)
        _check_plan(flat, native, plan)


def require_wellformed_region(flat: FlatForest, sums: TableSums) -> None:
    """Refuse trees or tables of a region that the kernel would read beyond their ends.

    Raises
    ------
    MalformedModelError
    """
    _check_sources(flat)
    _check_trees(flat)
    n_terms, n_groups = len(sums.first), len(sums.limit)
    columns = dict.fromkeys(("first", "second"), (n_terms, 0, flat.n_columns))
    _integers(sums, {**columns, "width": (n_terms, 0, 2**31)})
    _array(sums.offset, "offset", _LONG, n_terms)
    _array(sums.group_end, "group_end", _SIGNED, n_groups)
    _require(_ascends(np.concatenate([[0], sums.group_end, [n_terms]]), strictly=False), "group_end does not ascend")
    for name, length in (("cost", len(sums.cost)), ("limit", n_groups), ("leaf_cost", int(flat.leaf_offset[-1]))):
        _array(getattr(sums, name), name, _LONG, length)
    bound = 2**62 // (n_terms + flat.n_trees)  # the costs of a row are added in int64
    is_small = all(np.all((costs >= -bound) & (costs <= bound)) for costs in (sums.cost, sums.leaf_cost))
    _require(is_small, "the costs of the region can add up to more than int64 holds")
    # the largest bin of each column: that of the last interval, of a special state, or of a category
    source = flat.column_source[1:]
    most = np.maximum(np.diff(flat.source_edge)[source] - flat.column_base[1:], 0)
    most = np.maximum(np.maximum(most, flat.column_nan[1:]), flat.column_zero[1:])
    is_category = flat.source_known[source] >= 0
    states = flat.most_states[source]
    largest = np.concatenate([[0], np.where(is_category, states, np.minimum(most, 2**16 - 1))])
    last = sums.offset + sums.width.astype(np.int64) * largest[sums.first] + largest[sums.second]
    # the offset alone, too: a sum beyond int64 would be negative
    fits = (sums.offset >= 0) & (sums.offset < len(sums.cost)) & (last < len(sums.cost))
    _require(np.all(fits), "a table of the region is too short")


def _require(condition: Any, what: str) -> None:
    if not bool(condition):
        raise MalformedModelError(f"Invalid scorer: {what}. Save the scorer again with AccelerateResult.save.")


def _array(array: npt.NDArray[Any], name: str, dtype: np.dtype[Any], *shape: int) -> None:
    _require(isinstance(array, np.ndarray) and array.dtype == dtype, f"{name} is not an array of {dtype}")
    _require(array.shape == shape, f"{name} has the shape {array.shape}, expected {shape}")


def _integers(record: Any, expected: dict[str, tuple[int, int, int]]) -> None:
    """Refuse arrays of int32 that have another length, or an entry below the first bound or not below the second."""
    for name, (length, low, high) in expected.items():
        array = getattr(record, name)
        _array(array, name, _SIGNED, length)
        _require(np.all((array >= low) & (array < high)), f"{name} is out of range")


def _ascends(array: npt.NDArray[Any], *, strictly: bool) -> bool:
    """Whether no entry is below the one before; compared, as differences of int32 can wrap around."""
    return bool(np.all(array[1:] > array[:-1] if strictly else array[1:] >= array[:-1]))


def _offsets(array: npt.NDArray[Any], name: str, length: int, first: int, last: int) -> None:
    _array(array, name, _SIGNED, length + 1)
    _require(
        len(array) and array[0] == first and array[-1] == last and _ascends(array, strictly=False),
        f"{name} does not ascend",
    )


def _check_sources(flat: FlatForest) -> None:
    n_sources, n_columns = len(flat.source_feature), flat.n_columns
    _require(0 < flat.n_features < 2**31 and 0 < flat.n_outputs < 2**20, "the number of features or outputs")
    _require(0 < n_columns < 2**23, "the number of columns")
    states = n_sources, 0, 2**16
    _integers(flat, {"source_feature": (n_sources, 0, flat.n_features), "source_known": (n_sources, -1, 2**31)})
    _integers(flat, {"source_other": states, "source_missing": states, "code_state": (len(flat.code), 0, 2**16)})
    _integers(flat, {"code": (len(flat.code), 0, 2**31), "column_base": (n_columns, 0, 2**31)})
    _integers(flat, {"column_nan": (n_columns, 0, 2**16), "column_zero": (n_columns, -1, 2**16)})
    _array(flat.edge, "edge", _REAL, len(flat.edge))
    _offsets(flat.source_edge, "source_edge", n_sources, 0, len(flat.edge))
    _offsets(flat.source_code, "source_code", n_sources, 0, len(flat.code))
    _offsets(flat.source_column, "source_column", n_sources, 1, n_columns)
    _require(_ascends(flat.source_column, strictly=True), "a source without a column")
    # the kernel fills one column of a category source
    n_filled = np.diff(flat.source_column)[flat.source_known >= 0]
    _require(np.all(n_filled == 1), "a category feature with several columns")
    # the kernel counts the bins of a block from 0 unless there are more thresholds than a column can tell apart
    is_split = (np.diff(flat.source_edge) > TOP_BIN)[flat.column_source[1:]]
    _require(not flat.column_base[0] and not flat.column_base[1:][~is_split].any(), "a column_base of few thresholds")
    for values, offset, name in ((flat.edge, flat.source_edge, "edge"), (flat.code, flat.source_code, "code")):
        inside = np.ones(max(len(values) - 1, 0), dtype=bool)
        starts = offset[1:-1]
        inside[starts[(starts > 0) & (starts < len(values))] - 1] = False
        _require(np.all((values[1:] > values[:-1])[inside]) and not np.isnan(values).any(), f"{name} does not ascend")


def _check_trees(flat: FlatForest) -> None:
    n_trees, n_nodes = len(flat.root), len(flat.node)
    _require(n_trees > 0, "there is no tree")
    _array(flat.node, "node", _WORD, n_nodes)
    n_sets = max(len(flat.set_word) - 1, 1)
    _integers(flat, {"tree_output": (n_trees, -1, flat.n_outputs), "tree_set": (n_trees, -1, n_sets)})
    _integers(flat, {"root": (n_trees, *_ANY), "depth": (n_trees, *_ANY), "leaf_of_node": (n_nodes, *_ANY)})
    _require(
        flat.root[0] == 0 and _ascends(flat.root, strictly=True) and flat.root[-1] < n_nodes, "root does not ascend"
    )
    # narrow types: most of the time here goes into fresh memory
    tree, step = flat.node_tree, flat.step
    inner, leaf = np.flatnonzero(step), np.flatnonzero(step == 0)
    left = inner + step[inner]
    _require(np.all(left + 1 < np.append(flat.root[1:], n_nodes)[tree[inner]]), "a child lies outside its tree")
    # children come after their parents, each node but the roots once: trees, without a cycle
    is_met = np.zeros(n_nodes, dtype=bool)
    is_met[left] = is_met[left + 1] = is_met[flat.root] = True
    _require(is_met.all() and 2 * len(left) + n_trees == n_nodes, "the nodes do not form trees")
    _require(np.all(flat.node[leaf] < np.uint64(1 << 16)), "a leaf with a split")
    _require(np.all(flat.leaf_of_node[inner] == -1), "leaf_of_node names a split")
    _offsets(flat.leaf_offset, "leaf_offset", n_trees, 0, len(leaf))
    numbers = flat.leaf_of_node[leaf]
    _require(np.array_equal(np.sort(numbers), np.arange(len(leaf))), "leaf_of_node does not number the leaves")
    owner = tree[leaf]
    _require(
        np.all((numbers >= flat.leaf_offset[owner]) & (numbers < flat.leaf_offset[owner + 1])),
        "a leaf is numbered in another tree",
    )
    _check_depth(flat, tree, inner, left)
    _check_splits(flat, inner, tree[inner])


def _check_depth(flat: FlatForest, tree: npt.NDArray[Any], inner: npt.NDArray[Any], left: npt.NDArray[Any]) -> None:
    child = np.zeros(len(flat.node), dtype=np.int64)
    child[inner] = left
    level, depth = flat.root.astype(np.int64), np.zeros(len(flat.root), dtype=np.int64)
    while len(level := level[child[level] > 0]):
        depth[tree[level]] += 1
        level = np.concatenate([child[level], child[level] + 1])
    _require(np.array_equal(depth, flat.depth), "depth is not that of the trees")


def _check_splits(flat: FlatForest, inner: npt.NDArray[Any], tree: npt.NDArray[Any]) -> None:
    n_sets, column = len(flat.set_word) - 1, flat.column[inner]
    _require(np.all((column >= 1) & (column < flat.n_columns)), "a column is out of range")
    _array(flat.word, "word", _WORD, len(flat.word))
    _offsets(flat.set_word, "set_word", n_sets, 0, len(flat.word))
    source = flat.column_source[column]
    of_category = flat.source_known[source] >= 0
    is_category = flat.node[inner] >> np.uint64(CATEGORY_BIT) & np.uint64(1) > 0
    _require(np.array_equal(of_category, is_category), "a split and its feature differ in kind")
    first, source = flat.tree_set[tree[of_category]], source[of_category]
    number = first.astype(np.int64) + flat.rank[inner[of_category]]
    _require(np.all(first >= 0) and np.all(number < n_sets), "a category set is out of range")
    _require(np.all(64 * np.diff(flat.set_word)[number] > flat.most_states[source]), "a category set is too short")


def _check_native(flat: FlatForest, native: NativeSum) -> None:
    dtype, n_leaves = native.value.dtype, int(flat.leaf_offset[-1])
    _require(dtype in (np.float32, np.float64), "native_value is not of floats")
    width = native.value.shape[1] if native.value.ndim == 2 else 0
    _array(native.value, "native_value", dtype, n_leaves, width)
    is_vector = bool((flat.tree_output < 0).all())
    _require(is_vector or (flat.tree_output >= 0).all(), "some trees have vector leaves")
    _require(width == (flat.n_outputs if is_vector else 1), "the width of native_value")
    _array(native.intercept, "native_intercept", dtype, flat.n_outputs)
    _array(native.cuts, "cut", _REAL, len(native.cuts))
    _require(native.link in list(Link), "an unknown link")
    _require(not native.intercept_last or dtype == np.float64, "an intercept after a float32 sum")
    _require(len(native.cuts) == 0 or flat.n_outputs == 1, "cuts of several outputs")
    numbers: list[Any] = [native.value, native.intercept, native.cuts, native.divisor, native.slope]
    _require(all(np.all(np.isfinite(part)) for part in numbers) and native.divisor != 0, "a number is not finite")


def _check_plan(flat: FlatForest, native: NativeSum, plan: ExitPlan) -> None:
    n_trees, n = len(flat.root), flat.n_outputs
    n_stages, n_sets, n_cuts = len(plan.stage), plan.value.shape[1] if plan.value.ndim == 3 else 0, len(native.cuts)
    _integers(
        plan, {"order": (n_trees, 0, n_trees), "stage": (n_stages, 1, n_trees + 1), "stage_set": (n_stages, 0, n_sets)}
    )
    _require(np.array_equal(np.sort(plan.order), np.arange(n_trees)), "the order does not visit every tree once")
    _require(n_stages > 0 and n_sets > 0, "there is no stage")
    _require(_ascends(plan.stage, strictly=True) and plan.stage[-1] == n_trees, "the stages")
    _require(_ascends(plan.stage_set, strictly=False), "stage_set does not ascend")
    _array(plan.value, "value", _REAL, int(flat.leaf_offset[-1]), n_sets, native.value.shape[1])
    _array(plan.intercept, "intercept", _REAL, n_sets, n)
    _array(plan.low, "low", _REAL, n_stages, n_cuts)
    _array(plan.high, "high", _REAL, n_stages, n_cuts)
    _array(plan.gap, "gap", _REAL, n_stages if n > 1 else 0, n, n)
    _require(np.all(np.isfinite(plan.value)) and np.all(np.isfinite(plan.intercept)), "a stage value is not finite")
    _require(not any(np.isnan(part).any() for part in (plan.low, plan.high, plan.gap)), "an exit is not a number")
