"""The kernel in numpy: the tested reference of trees.c, and what runs where it cannot be compiled."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.flat_forest import (
    CATEGORY_BIT,
    REFUSED,
    CodeRule,
    ExitPlan,
    FlatForest,
    FloatArray,
    Int32Array,
    Link,
    NativeSum,
    TableSums,
)
from pine_boost.kernels.library import RUNTIME

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_CHUNK_CELLS = 4_000_000  # rows x trees walked at once
_LEVELS = 8  # walked before rows that have reached a leaf are dropped


class NumpyTrees:
    """The functions of trees.c for one forest, with the same numbers bit for bit."""

    def __init__(
        self, flat: FlatForest, native: NativeSum | None, plan: ExitPlan | None, sums: TableSums | None = None
    ) -> None:
        self._flat, self._native, self._plan, self._table_sums = flat, native, plan, sums
        self._rank, self._column, self._step = flat.rank, flat.column, flat.step
        self._is_category = (flat.node >> np.uint64(CATEGORY_BIT) & np.uint64(1)).astype(bool)
        self._set = np.where(self._is_category, flat.tree_set[flat.node_tree] + self._rank, 0)

    def leaves(self, X: npt.NDArray[Any]) -> Int32Array:
        """Leaf number of every row in every tree, (n_rows, n_trees)."""
        found = np.empty((len(X), self._flat.n_trees), dtype=np.int32)
        for rows in self._chunks(len(X)):
            found[rows] = self._walk(self.bins(X[rows]), np.arange(self._flat.n_trees))
        return found

    def margins(
        self, X: npt.NDArray[Any], *, link: Link | None = None, is_raw: bool = False, n_jobs: int = 1
    ) -> tuple[FloatArray, bool]:
        """The library's own sums, or what a link makes of them, and whether it would refuse a row."""
        assert self._native is not None
        found = np.empty((len(X), self._flat.n_outputs))
        for rows in self._chunks(len(X)):
            leaves = self._walk(self.bins(X[rows], is_raw), np.arange(self._flat.n_trees))
            found[rows] = self._sums(leaves)
        if link is not None:
            found = apply_link(self._native, link, found)
        return found, bool(self._refused(X, is_raw).any())

    def classes(
        self, X: npt.NDArray[Any], *, is_raw: bool = False, n_jobs: int = 1, met: Int32Array | None = None
    ) -> Int32Array:
        """Class of every row with exits; -2 where the library would raise."""
        found = np.full(len(X), REFUSED, dtype=np.int32)
        for rows in self._chunks(len(X)):
            part = X[rows]
            kept = np.flatnonzero(~self._refused(part, is_raw))
            seen = np.zeros(len(part), dtype=np.int32)
            answers = found[rows]
            answers[kept], seen[kept] = self._score(self.bins(part[kept], is_raw))
            if met is not None:
                met[rows] = seen
        return found

    def class_of_row(self, row: bytes, is_float32: bool) -> int:
        """Class of one row given as the bytes of its numbers; -2 where the library would raise."""
        X = np.frombuffer(row, dtype=np.float32 if is_float32 else np.float64).reshape(1, -1)
        return int(self.classes(X, is_raw=True)[0])

    def membership(self, X: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Whether each row lies in the region, and its score."""
        sums = self._table_sums
        assert sums is not None
        inside, scores = np.ones(len(X), dtype=bool), np.zeros(len(X), dtype=np.int64)
        for rows in self._chunks(len(X)):
            bins = self.bins(X[rows]).astype(np.int64)
            start = 0
            for group, end in enumerate(sums.group_end):
                total = np.zeros(len(bins), dtype=np.int64)
                for term in range(start, end):
                    place = sums.width[term] * bins[:, sums.first[term]] + bins[:, sums.second[term]]
                    total += sums.cost[sums.offset[term] + place]
                if group == 0:
                    if sums.leaf_cost.any():
                        leaves = self._walk(bins.astype(np.int32), np.arange(self._flat.n_trees))
                        total += sums.leaf_cost[leaves].sum(axis=1)
                    scores[rows] = total
                inside[rows] &= total <= sums.limit[group]
                start = end
        return inside, scores

    def _chunks(self, n_rows: int) -> list[slice]:
        size = max(1, _CHUNK_CELLS // self._flat.n_trees)
        return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]

    def _refused(self, X: npt.NDArray[Any], is_raw: bool) -> npt.NDArray[np.bool_]:
        refused = np.zeros(len(X), dtype=bool)
        if is_raw and self._flat.refuses_missing:
            refused |= np.isnan(X).any(axis=1)
        if is_raw and self._flat.refuses_infinite:
            with np.errstate(invalid="ignore"):
                refused |= (np.abs(X.astype(np.float64)) > _FLOAT32_MAX).any(axis=1)
        return refused

    def bins(self, X: npt.NDArray[Any], is_raw: bool = False) -> npt.NDArray[np.int32]:
        """Bins of every row, (n_rows, n_columns)."""
        flat = self._flat
        bins = np.zeros((len(X), flat.n_columns), dtype=np.int32)
        for source, feature in enumerate(flat.source_feature):
            x = X[:, feature].astype(np.float64)
            with np.errstate(over="ignore"):
                if is_raw and not np.isnan(flat.missing_value):
                    x[x.astype(np.float32) == np.float32(flat.missing_value)] = np.nan
                if flat.is_float32:
                    x = x.astype(np.float32).astype(np.float64)
            if flat.zero >= 0:
                x[np.abs(x) <= flat.zero] = 0.0
            first, end = flat.source_column[source], flat.source_column[source + 1]
            if flat.source_known[source] >= 0:
                bins[:, first] = self._states(source, x)
                continue
            edges = flat.edge[flat.source_edge[source] : flat.source_edge[source + 1]]
            is_nan = np.isnan(x)
            passed = np.searchsorted(edges, np.where(is_nan, 0.0, x), side="right" if flat.is_closed else "left")
            for column in range(first, end):
                own = np.clip(passed - flat.column_base[column], 0, 65535)
                if flat.column_zero[column] >= 0:
                    own[x == 0.0] = flat.column_zero[column]
                own[is_nan] = flat.column_nan[column]
                bins[:, column] = own
        return bins

    def _states(self, source: int, x: FloatArray) -> npt.NDArray[np.int64]:
        flat = self._flat
        is_missing = np.isnan(x)
        x = np.where(is_missing, -1.0, x)
        if flat.code_rule is CodeRule.EXACT:
            valid = (x >= 0) & (x < 2**24)
        elif flat.code_rule is CodeRule.TRUNCATED:
            valid = (x > -1) & (x < 2**31)
        else:
            valid = (x >= 0) & (x == np.floor(x)) & (x < flat.source_known[source])
            is_missing |= ~valid
        wanted = np.where(valid, np.floor(np.maximum(np.where(valid, x, 0), 0)), -1).astype(np.int64)
        codes = flat.code[flat.source_code[source] : flat.source_code[source + 1]]
        states = np.full(len(x), flat.source_other[source], dtype=np.int64)
        if len(codes):
            place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            named = codes[place] == wanted
            states[named] = flat.code_state[flat.source_code[source] + place[named]]
        states[is_missing] = flat.source_missing[source]
        return states

    def _walk(self, bins: npt.NDArray[np.int32], trees: npt.NDArray[Any]) -> Int32Array:
        """Leaves of every row in some trees, (n_rows, n_trees)."""
        flat, n_rows = self._flat, len(bins)
        flat_bins = bins.ravel()
        start = np.repeat(np.arange(n_rows, dtype=np.int64) * flat.n_columns, len(trees))
        node = np.tile(flat.root[trees].astype(np.int64), n_rows)
        walking = np.flatnonzero(self._step[node])
        while len(walking):
            here = node[walking]
            bin_ = flat_bins[start[walking] + self._column[here]]
            right = bin_ > self._rank[here]
            sets = np.flatnonzero(self._is_category[here])
            if len(sets):
                state = bin_[sets].astype(np.int64)
                word = flat.word[flat.set_word[self._set[here[sets]]] + (state >> 6)]
                right[sets] = (word >> (state & 63).astype(np.uint64) & np.uint64(1)) == 0
            node[walking] = here + self._step[here] + right
            walking = walking[self._step[node[walking]] > 0]
        return np.asarray(flat.leaf_of_node[node].reshape(n_rows, len(trees)), dtype=np.int32)

    def _sums(self, leaves: Int32Array) -> FloatArray:
        """The library's own sums of all trees in file order, widened to float64."""
        flat, native = self._flat, self._native
        assert native is not None
        start = np.zeros_like(native.intercept) if native.intercept_last else native.intercept
        sums = add_leaves(leaves, native.value, flat.tree_output, np.tile(start, (len(leaves), 1)))
        if native.intercept_last:
            sums += native.intercept
        return sums.astype(np.float64)

    def _score(self, bins: npt.NDArray[np.int32]) -> tuple[Int32Array, Int32Array]:
        """Classes and numbers of trees seen."""
        flat, plan = self._flat, self._plan
        assert plan is not None
        classes = np.full(len(bins), -1, dtype=np.int32)
        met = np.full(len(bins), flat.n_trees, dtype=np.int32)
        sums = np.tile(plan.intercept[None], (len(bins), 1, 1))
        left, place = np.arange(len(bins)), 0
        for stage, end in enumerate(plan.stage):
            trees = plan.order[place:end]
            leaves = self._walk(bins[left], trees)
            own = sums[left]
            for j, tree in enumerate(trees):
                output = flat.tree_output[tree]
                columns = slice(None) if output < 0 else slice(output, output + 1)
                first = plan.stage_set[stage]
                own[:, first:, columns] += plan.value[leaves[:, j], first:]
            sums[left] = own
            place = int(end)
            found = exit_classes(plan, stage, own[:, plan.stage_set[stage]])
            classes[left], met[left] = found, np.where(found >= 0, end, flat.n_trees)
            left = left[found < 0]
            if len(left) == 0:
                break
        if len(left):
            assert self._native is not None
            scores = apply_link(
                self._native, self._native.link, self._sums(self._walk(bins[left], np.arange(flat.n_trees)))
            )
            classes[left] = decide(self._native, scores)
        return classes, met


def walk_states(trees: Any, states: Int32Array) -> Int32Array:
    """Leaves of rows of states, as `StateNodes.leaves`."""
    feature, rank, left, right, first_special, leaf, special = (
        np.ascontiguousarray(trees.node[name]) for name in trees.node.dtype.names
    )
    n_rows, n_features = states.shape
    flat = np.ascontiguousarray(states).ravel()
    row_start = np.repeat(np.arange(n_rows, dtype=np.int64) * n_features, len(trees.root))
    node = np.tile(trees.root, n_rows)
    walking: npt.NDArray[Any] | slice = slice(None)
    for level in range(trees.depth):
        if level % _LEVELS == _LEVELS - 1:  # in deep trees most leaves are far above the deepest one
            walking = np.flatnonzero(left.take(node) != node)
        here = node[walking]
        state = flat.take(row_start[walking] + feature.take(here))
        goes_left = state <= rank.take(here)
        looked_up = np.flatnonzero(state >= first_special.take(here))
        place = special.take(here[looked_up]) + state[looked_up]
        if np.any(place < 0):
            raise IndexError("A state is not one of its feature.")
        goes_left[looked_up] = trees.side[place]
        node[walking] = np.where(goes_left, left.take(here), right.take(here))
    return np.asarray(leaf.take(node).reshape(n_rows, len(trees.root)))


def add_leaves(
    leaves: Int32Array, value: npt.NDArray[Any], output: Int32Array, sums: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """``sums`` plus the values of leaves, tree by tree."""
    for tree in range(leaves.shape[1]):
        columns = slice(None) if value.shape[1] == sums.shape[1] else slice(output[tree], output[tree] + 1)
        sums[:, columns] += value[leaves[:, tree]]
    return sums


def _entries(matrix: Any, rows: Int32Array) -> tuple[npt.NDArray[np.int64], Int32Array, npt.NDArray[np.int8]]:
    """Every entry of some rows in order: the place of its row among them, its column and its sign."""
    begin, length = matrix.indptr[2 * rows], matrix.indptr[2 * rows + 2] - matrix.indptr[2 * rows]
    owner = np.repeat(np.arange(len(rows)), length)
    place = np.arange(len(owner)) + np.repeat(begin - np.cumsum(length) + length, length)
    sign = matrix.sign[rows][owner] * np.where(place < matrix.indptr[2 * rows + 1][owner], 1, -1)
    return owner, matrix.indices[place], sign


def products(matrix: Any, rows: Int32Array, found: FloatArray, vector: FloatArray) -> FloatArray:
    """Products of some rows with a vector."""
    owner, column, sign = _entries(matrix, rows)
    found[:] = 0.0
    np.add.at(found, owner, sign * vector[column])
    return found


def transposed(matrix: Any, rows: Int32Array, found: FloatArray, weight: FloatArray, unsigned: bool) -> FloatArray:
    """Add the transposed rows times their weights to ``found``."""
    owner, column, sign = _entries(matrix, rows)
    np.add.at(found, column, weight[owner] if unsigned else sign * weight[owner])
    return found


def normal(matrix: Any, rows: Int32Array, found: FloatArray, weight: FloatArray, vector: FloatArray) -> FloatArray:
    """Add ``A' W A vector`` to ``found``."""
    return transposed(matrix, rows, found, weight * products(matrix, rows, np.empty(len(rows)), vector), False)


def renumber(matrix: Any, rows: Int32Array, number: Int32Array) -> tuple[npt.NDArray[np.int64], Int32Array]:
    """Offsets and columns of some rows over other columns."""
    owner, column, sign = _entries(matrix, rows)
    run, column = 2 * owner + (sign != matrix.sign[rows][owner]), number[column]
    lengths = np.bincount(run[column >= 0], minlength=2 * len(rows))
    return np.concatenate([[0], np.cumsum(lengths)]), column[column >= 0]


def exit_classes(plan: ExitPlan, stage: int, margins: FloatArray) -> Int32Array:
    """Class of every row that exits at a stage, -1 for the others; margins (n_rows, n_outputs)."""
    if plan.low.shape[1]:
        above = margins[:, :1] > plan.high[stage]
        known = above | (margins[:, :1] < plan.low[stage])
        return np.where(known.all(axis=1), above.sum(axis=1), -1).astype(np.int32)
    if plan.gap.size == 0:
        return np.full(len(margins), -1, dtype=np.int32)
    best = np.argmax(margins, axis=1)
    rows = np.arange(len(margins))
    ahead = margins[rows, best][:, None] - margins > plan.gap[stage][best]
    ahead[rows, best] = True
    return np.where(ahead.all(axis=1), best, -1).astype(np.int32)


def decide(native: NativeSum, scores: FloatArray) -> Int32Array:
    """The library's class from linked scores."""
    if len(native.cuts):
        above = scores[:, :1] >= native.cuts if native.wins_ties else scores[:, :1] > native.cuts
        return np.asarray(above.sum(axis=1), dtype=np.int32)
    return np.asarray(np.argmax(scores, axis=1), dtype=np.int32)


def apply_link(native: NativeSum, link: Link, margins: FloatArray) -> FloatArray:
    """Linked scores in the operations and types of the library."""
    score = margins if native.divisor == 1.0 else margins / native.divisor
    if link is Link.IDENTITY:
        return score
    with np.errstate(over="ignore"):
        narrow = score.astype(np.float32)
        if link is Link.SIGMOID_FLOAT32:
            power = _expf(np.minimum(-narrow, np.float32(88.7)))
            return (np.float32(1) / (power + np.float32(1) + np.float32(1e-16))).astype(np.float64)
        if link is Link.SOFTMAX_FLOAT32:
            terms = _expf(narrow - narrow.max(axis=1, keepdims=True))
            total = np.cumsum(terms, axis=1, dtype=np.float64)[:, -1]  # one after the other, as C adds
            return (terms / total.astype(np.float32)[:, None]).astype(np.float64)
        if link is Link.EXP_FLOAT32:
            return _expf(narrow).astype(np.float64)
        if link is Link.SIGMOID:
            return 1.0 / (1.0 + _exp(-native.slope * score))
        if link is Link.SOFTMAX:
            powers = _exp(score - score.max(axis=1, keepdims=True))
            return np.asarray(powers / np.cumsum(powers, axis=1)[:, -1:])
        return _exp(score)


def _exp(x: FloatArray) -> FloatArray:
    """The exp of the C library, which numpy's own differs from in the last bit."""
    return np.array([_one_exp(value) for value in x.ravel().tolist()]).reshape(x.shape)


def _one_exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _expf(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The expf of the C library."""
    function = _c_expf()
    return np.array([function(value) for value in x.ravel().tolist()], dtype=np.float32).reshape(x.shape)


@lru_cache(maxsize=1)
def _c_expf() -> Any:
    name = RUNTIME if sys.platform == "win32" else ctypes.util.find_library("m")
    try:
        function = ctypes.CDLL(name).expf
    except (OSError, AttributeError, TypeError):  # correctly rounded in all but a few cases
        return lambda value: np.float32(_one_exp(value))
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    return function
