"""A flat forest bound to the C kernel: pointers made once, calls that release the GIL."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.flat_forest import (
    TOP_BIN,
    ExitPlan,
    FlatForest,
    FloatArray,
    Int32Array,
    Link,
    NativeSum,
    TableSums,
)
from pine_boost.kernels.leaf_masks import LANES, mask_tables
from pine_boost.kernels.library import RegionStruct, ScorerStruct, TableStruct

_NO_MEMORY = -3
_ROWS_PER_THREAD = 2048  # fewer are not worth a thread


class CompiledTrees:
    """The functions of trees.c for one forest; safe to use from several threads at once."""

    def __init__(
        self,
        library: Any,
        flat: FlatForest,
        native: NativeSum | None,
        plan: ExitPlan | None,
        sums: TableSums | None = None,
    ) -> None:
        self._library, self._flat = library, flat
        self._bound = flat, native, plan, sums
        self._kept: list[Any] = []  # the arrays that C points into
        self._struct = self._filled(ScorerStruct(), scorer_fields(flat, native, plan))
        self._region = RegionStruct()
        if sums is not None:
            tables = {name: getattr(sums, name) for name, *_ in RegionStruct._fields_[3:]}
            counts = {"n_terms": len(sums.first), "n_groups": len(sums.limit), "has_trees": int(sums.leaf_cost.any())}
            self._filled(self._region, counts | tables)
        self._pointer = ctypes.addressof(self._struct)
        if plan is not None and (masks := mask_tables(flat, plan.order)) is not None:
            read_as, part_of_column = masks.pop("read_as"), np.zeros(flat.n_columns, dtype=np.int32)
            self._filled(self._struct, masks)
            places = (array.ctypes.data for array in (part_of_column, masks["mask"], masks["all_leaves"]))
            library.pine_fill_masks(self._pointer, read_as.ctypes.data, len(flat.node), *places)
        #: class of one row: called with the bytes of its numbers and whether these are float32
        self.class_of_row = partial(library.pine_score_row, bytes(self._struct))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays alone; they are bound again where they arrive."""
        from pine_boost.kernels import bind

        return bind, self._bound

    def leaves(self, X: npt.NDArray[Any]) -> Int32Array:
        """Leaf number of every row in every tree, (n_rows, n_trees)."""
        found = np.empty((len(X), self._flat.n_trees), dtype=np.int32)
        self._run(self._library.pine_leaves, X, found.ctypes.data)
        return found

    def margins(
        self, X: npt.NDArray[Any], *, link: Link | None = None, is_raw: bool = False, n_jobs: int = 1
    ) -> tuple[FloatArray, bool]:
        """The library's own sums, or what a link makes of them, and whether it would refuse a row."""
        code, found = -1 if link is None else int(link), np.empty((len(X), self._flat.n_outputs))
        codes = self._run(self._library.pine_margins, X, code, found.ctypes.data, is_raw=is_raw, n_jobs=n_jobs)
        return found, any(codes)

    def classes(
        self, X: npt.NDArray[Any], *, is_raw: bool = False, n_jobs: int = 1, met: Int32Array | None = None
    ) -> Int32Array:
        """Class of every row with exits; ``REFUSED`` where the library would raise.

        ``met``, if given, is filled with the number of trees that each row has seen.
        """
        found = np.empty(len(X), dtype=np.int32)
        places = found.ctypes.data, None if met is None else met.ctypes.data
        self._run(self._library.pine_score, X, *places, is_raw=is_raw, n_jobs=n_jobs)
        return found

    def membership(self, X: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Whether each row lies in the region, and its score."""
        inside, scores = np.empty(len(X), dtype=bool), np.empty(len(X), dtype=np.int64)
        region, function = ctypes.addressof(self._region), self._library.pine_region
        self._run(lambda scorer, *rest: function(scorer, region, *rest), X, inside.ctypes.data, scores.ctypes.data)
        return inside, scores

    def _run(
        self, function: Any, X: npt.NDArray[Any], *places: Any, is_raw: bool = False, n_jobs: int = 1
    ) -> list[int]:
        """What a function of the kernel returns for the rows, in as many threads as these are worth."""
        table, _kept = self._table(X, is_raw)

        def call(begin: int, end: int) -> int:
            code: int = function(self._pointer, ctypes.addressof(table), begin, end, *places)
            if code == _NO_MEMORY:
                raise MemoryError("No memory for a block of rows.")
            return code

        n_rows = len(X)
        n_threads = min(n_jobs, n_rows // _ROWS_PER_THREAD)
        if n_threads <= 1:
            return [call(0, n_rows)]
        # several parts per thread: rows that exit late cluster in real tables
        n_parts = min(4 * n_threads, n_rows // _ROWS_PER_THREAD)
        edges = [n_rows * part // n_parts // 64 * 64 for part in range(n_parts)] + [n_rows]
        from concurrent.futures import ThreadPoolExecutor  # a scorer loads in milliseconds

        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(call, edges[:-1], edges[1:]))

    def _table(self, X: npt.NDArray[Any], is_raw: bool) -> tuple[Any, npt.NDArray[Any]]:
        if X.dtype not in (np.float32, np.float64) or X.strides[0] % X.itemsize or X.strides[1] % X.itemsize:
            X = np.ascontiguousarray(X, dtype=np.float64)
        strides = (X.strides[0] // X.itemsize, X.strides[1] // X.itemsize)
        return TableStruct(X.ctypes.data, X.dtype == np.float32, *strides, is_raw, len(X)), X

    def _filled(self, struct: Any, fields: dict[str, Any]) -> Any:
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                self._kept.append(array := np.ascontiguousarray(value))
                value = array.ctypes.data if array.size else None
            setattr(struct, name, value)
        return struct


def scorer_fields(flat: FlatForest, native: NativeSum | None, plan: ExitPlan | None) -> dict[str, Any]:
    """The fields of ``scorer_t``, see trees.c: integers, floats and arrays; those that are left out stay 0."""

    def named(record: Any, *left_out: str) -> dict[str, Any]:
        """What the struct takes from a record under the same name."""
        names = (name for name, *_ in ScorerStruct._fields_ if name not in left_out)
        return {name: getattr(record, name) for name in names if hasattr(record, name)}

    quick, quick_tree = quick_nodes(flat)
    has_missing_value = not np.isnan(flat.missing_value)
    found = {"divisor": 1.0, "slope": 1.0, "quick": quick, "quick_tree": quick_tree, **named(flat)}
    found |= {"has_missing_value": has_missing_value, "missing_value": flat.missing_value if has_missing_value else 0.0}
    if native is not None:
        found |= named(native, "value", "intercept")
        found |= {"native_value": native.value, "native_intercept": native.intercept, "n_cuts": len(native.cuts)}
        found |= {"native_width": native.value.shape[1], "sums_float32": native.value.dtype == np.float32}
    if plan is not None:
        offset, fresh = fresh_sources(flat, plan.order)
        found |= named(plan) | row_walks(flat, plan.order, quick, quick_tree)
        found |= {"width": plan.value.shape[2], "n_exits": plan.low.shape[1]}
        found |= {"fresh_offset": offset, "fresh_source": fresh, "row_source": row_sources(flat)[fresh]}
    return {
        name: value if isinstance(value, np.ndarray) else float(value) if isinstance(value, float) else int(value)
        for name, value in found.items()
    }


def quick_nodes(flat: FlatForest) -> tuple[npt.NDArray[Any], Int32Array]:
    """Nodes as the kernel reads them fastest, and whether each tree has them."""
    rank, step = flat.rank, flat.step
    n_leaves = np.diff(flat.leaf_offset)
    is_quick = (flat.tree_set < 0) & (np.maximum.reduceat(step, flat.root) < 2**16) & (n_leaves <= 2**16)
    is_leaf = flat.leaf_of_node >= 0
    # each tree's leaves are together
    rank[is_leaf] = flat.leaf_of_node[is_leaf] - np.repeat(flat.leaf_offset[:-1], n_leaves)
    quick = np.empty(len(rank), dtype=[("rank", np.uint16), ("step", np.uint16), ("column", np.uint32)])
    quick["rank"], quick["step"], quick["column"] = rank, step, flat.column
    return quick, is_quick.astype(np.int32)


def row_walks(flat: FlatForest, order: Int32Array, quick: npt.NDArray[Any], quick_tree: Int32Array) -> dict[str, Any]:
    """The walks of a single row: nodes in half the bytes where they fit, roots and leaves in the order of visits."""
    is_quick = quick_tree[order] > 0
    found: dict[str, Any] = {"row_depth": int(flat.depth[order][is_quick].max(initial=0))}
    root = flat.root[order]
    if is_quick.all() and max(quick["step"].max(), quick["column"].max()) < 2**8:
        size = np.diff(np.append(flat.root, len(quick)))[order]
        first = np.cumsum(size) - size
        nodes = quick[np.repeat(root - first, size) + np.arange(len(quick))]
        brief = np.empty(len(quick), dtype=[("rank", np.uint16), ("step", np.uint8), ("column", np.uint8)])
        for name in brief.dtype.names or ():
            brief[name] = nodes[name]
        found["brief"], root = brief, first
    # the last node is a leaf: trees without quick nodes stay there, and what fills up the last lanes
    last = len(quick) - 1
    found["row_root"] = np.append(np.where(is_quick, root, last), np.full(LANES - 1, last)).astype(np.int32)
    found["row_leaf"] = np.where(is_quick, flat.leaf_offset[:-1][order], -1).astype(np.int32)
    return found


def row_sources(flat: FlatForest) -> Int32Array:
    """Feature, first edge, number of edges, first column of each source and one past the last, as ``row_source``."""
    first, end, n_edges = flat.source_column[:-1], flat.source_column[1:], np.diff(flat.source_edge)
    is_plain = (flat.source_known < 0) & (n_edges > 0) & (n_edges <= TOP_BIN)
    if len(first):
        is_plain &= np.logical_and.reduceat((flat.column_zero < 0) & (flat.column_base == 0), first)
    found = [flat.source_feature, flat.source_edge[:-1], n_edges, first, np.where(is_plain, end, first)]
    return np.stack(found, axis=1).astype(np.int32)


def fresh_sources(flat: FlatForest, order: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Which sources the trees of an order need first: offsets per place, and the sources."""
    place = np.empty(flat.n_trees, dtype=np.int64)
    place[order] = np.arange(flat.n_trees)
    is_inner = flat.leaf_of_node < 0
    first = np.full(flat.n_sources, flat.n_trees, dtype=np.int64)
    np.minimum.at(first, flat.column_source[flat.column[is_inner]], place[flat.node_tree[is_inner]])
    by_place = np.argsort(first, kind="stable")
    offset = np.searchsorted(first[by_place], np.arange(flat.n_trees + 1))
    return offset.astype(np.int32), by_place.astype(np.int32)
