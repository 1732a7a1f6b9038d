"""A flat forest bound to the C kernel: pointers made once, calls that release the GIL."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, FloatArray, Int32Array, Link, NativeSum, TableSums
from pine_boost.kernels.library import RegionStruct, ScorerStruct, TableStruct

REFUSED = -2  # the class of a row that the library itself would refuse
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
        self._struct = ScorerStruct()
        self._fill_forest(flat)
        if native is not None:
            self._fill_native(native)
        if plan is not None:
            self._fill_plan(flat, plan)
        self._region = RegionStruct()
        if sums is not None:
            self._region.n_terms, self._region.n_groups = len(sums.first), len(sums.limit)
            self._region.has_trees = int(sums.leaf_cost.any())
            for name in (entry[0] for entry in RegionStruct._fields_[3:]):
                self._point(name, getattr(sums, name), getattr(sums, name).dtype, self._region)
        self._pointer = ctypes.addressof(self._struct)
        #: class of one row: called with the bytes of its numbers and whether these are float32
        self.class_of_row = partial(library.pine_score_row, ctypes.c_void_p(self._pointer))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays alone; they are bound again where they arrive."""
        from pine_boost.kernels import bind

        return bind, self._bound

    def leaves(self, X: npt.NDArray[Any]) -> Int32Array:
        """Leaf number of every row in every tree, (n_rows, n_trees)."""
        table, _kept = self._table(X, is_raw=False)
        found = np.empty((len(X), self._flat.n_trees), dtype=np.int32)
        self._run(self._library.pine_leaves, table, 0, len(X), found.ctypes.data)
        return found

    def margins(
        self, X: npt.NDArray[Any], *, link: Link | None = None, is_raw: bool = False, n_jobs: int = 1
    ) -> tuple[FloatArray, bool]:
        """The library's own sums, or what a link makes of them, and whether it would refuse a row."""
        code = -1 if link is None else int(link)
        table, _kept = self._table(X, is_raw)
        found = np.empty((len(X), self._flat.n_outputs))
        place = found.ctypes.data
        codes = self._spread(
            lambda begin, end: self._run(self._library.pine_margins, table, begin, end, code, place), len(X), n_jobs
        )
        return found, any(codes)

    def classes(
        self, X: npt.NDArray[Any], *, is_raw: bool = False, n_jobs: int = 1, met: Int32Array | None = None
    ) -> Int32Array:
        """Class of every row with exits; ``REFUSED`` where the library would raise.

        ``met``, if given, is filled with the number of trees that each row has seen.
        """
        table, _kept = self._table(X, is_raw)
        found = np.empty(len(X), dtype=np.int32)
        place, counts = found.ctypes.data, None if met is None else met.ctypes.data
        self._spread(
            lambda begin, end: self._run(self._library.pine_score, table, begin, end, place, counts), len(X), n_jobs
        )
        return found

    def membership(self, X: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Whether each row lies in the region, and its score."""
        table, _kept = self._table(X, is_raw=False)
        inside, scores = np.empty(len(X), dtype=bool), np.empty(len(X), dtype=np.int64)
        region, places = ctypes.addressof(self._region), (inside.ctypes.data, scores.ctypes.data)
        if self._library.pine_region(self._pointer, region, ctypes.addressof(table), 0, len(X), *places):
            raise MemoryError("No memory for a block of rows.")
        return inside, scores

    def _run(self, function: Any, table: TableStruct, begin: int, end: int, *rest: Any) -> int:
        code: int = function(self._pointer, ctypes.addressof(table), begin, end, *rest)
        if code == _NO_MEMORY:
            raise MemoryError("No memory for a block of rows.")
        return code

    @staticmethod
    def _spread(call: Any, n_rows: int, n_jobs: int) -> list[int]:
        n_threads = min(n_jobs, n_rows // _ROWS_PER_THREAD)
        if n_threads <= 1:
            return [call(0, n_rows)]
        # several parts per thread: rows that exit late cluster in real tables
        n_parts = min(4 * n_threads, n_rows // _ROWS_PER_THREAD)
        edges = [n_rows * part // n_parts // 64 * 64 for part in range(n_parts)] + [n_rows]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(call, edges[:-1], edges[1:]))

    def _table(self, X: npt.NDArray[Any], is_raw: bool) -> tuple[TableStruct, npt.NDArray[Any]]:
        if X.dtype not in (np.float32, np.float64) or X.strides[0] % X.itemsize or X.strides[1] % X.itemsize:
            X = np.ascontiguousarray(X, dtype=np.float64)
        strides = (X.strides[0] // X.itemsize, X.strides[1] // X.itemsize)
        return TableStruct(X.ctypes.data, X.dtype == np.float32, *strides, is_raw, len(X)), X

    def _point(self, name: str, array: npt.NDArray[Any], dtype: Any, struct: Any = None) -> None:
        array = np.ascontiguousarray(array, dtype=dtype)
        self._kept.append(array)
        setattr(struct or self._struct, name, array.ctypes.data if array.size else None)

    def _fill_forest(self, flat: FlatForest) -> None:
        struct = self._struct
        for name in ("n_features", "n_outputs", "n_trees", "n_sources", "n_columns"):
            setattr(struct, name, getattr(flat, name))
        for name in ("is_float32", "is_closed", "refuses_missing", "refuses_infinite"):
            setattr(struct, name, int(getattr(flat, name)))
        struct.snaps, struct.zero = int(flat.zero >= 0), flat.zero
        struct.missing_value, struct.has_missing_value = flat.missing_value, int(not np.isnan(flat.missing_value))
        struct.category_rule = int(flat.code_rule)
        for name in (entry[0] for entry in ScorerStruct._fields_):
            if isinstance(array := getattr(flat, name, None), np.ndarray):
                self._point(name, array, array.dtype)
        quick, quick_tree = quick_nodes(flat)
        self._point("quick", quick, np.uint64)
        self._point("quick_tree", quick_tree, np.int32)
        struct.divisor = struct.slope = 1.0

    def _fill_native(self, native: NativeSum) -> None:
        struct, dtype = self._struct, native.value.dtype
        struct.sums_float32 = int(dtype == np.float32)
        struct.native_width = native.value.shape[1]
        struct.link, struct.n_cuts, struct.wins_ties = int(native.link), len(native.cuts), int(native.wins_ties)
        struct.divisor, struct.slope = native.divisor, native.slope
        struct.intercept_last = int(native.intercept_last)
        self._point("native_value", native.value, dtype)
        self._point("native_intercept", native.intercept, dtype)
        self._point("cut", native.cuts, np.float64)

    def _fill_plan(self, flat: FlatForest, plan: ExitPlan) -> None:
        struct = self._struct
        struct.n_stages, struct.n_sets, struct.width = plan.n_stages, plan.n_sets, plan.value.shape[2]
        struct.n_exits = plan.low.shape[1]
        offset, fresh = fresh_sources(flat, plan.order)
        for name, array in (("order", plan.order), ("fresh_offset", offset), ("fresh_source", fresh)):
            self._point(name, array, np.int32)
        self._point("stage", plan.stage, np.int32)
        self._point("stage_set", plan.stage_set, np.int32)
        for name in ("value", "intercept", "low", "high", "gap"):
            self._point(name, getattr(plan, name), np.float64)


def quick_nodes(flat: FlatForest) -> tuple[npt.NDArray[np.uint64], Int32Array]:
    """Nodes as the kernel reads them fastest, see trees.c, and whether each tree has them."""
    rank = flat.node & np.uint64(0xFFFF)
    column = flat.node >> np.uint64(16) & np.uint64(0x7FFFFF)
    step = flat.node >> np.uint64(40)
    n_leaves = np.diff(flat.leaf_offset)
    is_quick = (flat.tree_set < 0) & (np.maximum.reduceat(step, flat.root) < 2**16) & (n_leaves <= 2**16)
    is_leaf = flat.leaf_of_node >= 0
    number = flat.leaf_of_node[is_leaf] - np.repeat(flat.leaf_offset[:-1], n_leaves)  # each tree's leaves are together
    rank[is_leaf] = number.astype(np.uint64) & np.uint64(0xFFFF)
    return rank | (step & np.uint64(0xFFFF)) << np.uint64(16) | column << np.uint64(33), is_quick.astype(np.int32)


def fresh_sources(flat: FlatForest, order: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Which sources the trees of an order need first: offsets per place, and the sources."""
    column = (flat.node >> np.uint64(16) & np.uint64(0x7FFFFF)).astype(np.int64)
    inner = np.flatnonzero(flat.leaf_of_node < 0)
    source = np.searchsorted(flat.source_column, column[inner], side="right") - 1
    tree = np.searchsorted(flat.root, inner, side="right") - 1
    place = np.empty(flat.n_trees, dtype=np.int64)
    place[order] = np.arange(flat.n_trees)
    first = np.full(flat.n_sources, flat.n_trees, dtype=np.int64)
    np.minimum.at(first, source, place[tree])
    by_place = np.argsort(first, kind="stable")
    offset = np.searchsorted(first[by_place], np.arange(flat.n_trees + 1))
    return offset.astype(np.int32), by_place.astype(np.int32)
