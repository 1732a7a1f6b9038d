"""Convert columns of floats to integer states, like `StateSpace.states` but several times faster.

Values are compared with the library's own rule; unusual features use `StateSpace` itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.rules import Comparison
from pine_boost.model.states import Axis, StateSpace

CHUNK_ROWS = 2**16  # columns of one-byte states stay in the cache, and calls are worth their cost
_TRANSPOSED_ROWS = 512  # rows whose cells stay in the first-level cache while they are turned
_CELLS = 4096
# Measured in units of one comparison of a column: counting needs 1 per edge, the grid about 9 and
# 5 more for each edge that shares a cell, a binary search of unsorted values about 240.
_GRID_COST, _CELL_EDGE_COST, _SEARCH_COST = 9, 5, 240

AnyFloats = npt.NDArray[Any]
AnyInts = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Grid:
    """Equal cells over the edges; a value is compared only with the edges of its own cell.

    The cell of a number is computed by the same monotone float operations for values and edges,
    so an edge in a lower (higher) cell is certainly smaller (larger) than the value.
    """

    origin: Any
    factor: Any
    below: AnyInts  # number of edges in lower cells, per cell
    edges: AnyFloats  # (most edges in a cell, cells), NaN where a cell has fewer

    def cells(self, x: AnyFloats) -> IntArray:
        """Cell of every value; x has no NaN."""
        cell = (x - self.origin) * self.factor
        np.maximum(cell, 0, out=cell)
        np.minimum(cell, _CELLS - 1, out=cell)
        # 32 bits first: this conversion is vectorised, the one to 64 bits is not
        return np.asarray(cell.astype(np.int32), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Digitizer:
    """The states of one feature.

    Attributes
    ----------
    edges : float32 or float64
        Thresholds for raw values of this type: state ``s`` lies right of ``s`` of them.
    closed : bool
        Whether a value on its edge lies right of it.
    """

    space: StateSpace
    axis: Axis
    edges: AnyFloats
    closed: bool
    grid: Grid | None
    ordinary: bool

    def states(self, x: AnyFloats, raw: FloatArray) -> AnyInts:
        """States of the values ``x``, which are ``raw`` in the native type."""
        dtype = small_dtype(self.axis.n_states)
        if self.axis.n_states == 1:
            return np.zeros(len(x), dtype=dtype)
        if self.ordinary:
            return self.space.axis_states(self.axis, raw).astype(dtype)
        states = np.empty(len(x), dtype=dtype)
        is_nan = np.isnan(x)
        has_nan = bool(is_nan.any())
        compared = np.where(is_nan, x.dtype.type(0), x) if has_nan else x
        if self.grid is not None:
            self._look_up(self.grid, compared, states)
        else:
            self._count(compared, states)
        if self.axis.zero_state >= 0:
            zero = LIGHTGBM_ZERO if self.space.snaps_to_zero else 0.0
            states[np.abs(x) <= zero] = self.axis.zero_state
        if has_nan:
            states[is_nan] = self.axis.missing_state
        return states

    def _count(self, x: AnyFloats, states: AnyInts) -> None:
        compare = np.greater_equal if self.closed else np.greater
        right = np.empty(len(x), dtype=bool)
        states[:] = 0
        for edge in self.edges:
            compare(x, edge, out=right)
            np.add(states, right.view(np.uint8), out=states)

    def _look_up(self, grid: Grid, x: AnyFloats, states: AnyInts) -> None:
        compare = np.greater_equal if self.closed else np.greater
        cell = grid.cells(x)
        grid.below.take(cell, out=states, mode="clip")
        for edges in grid.edges:
            right = compare(x, edges.take(cell, mode="clip"))
            np.add(states, right.view(np.uint8), out=states)


def digitizers(space: StateSpace) -> list[Digitizer]:
    """One per feature."""
    return [_digitizer(space, axis) for axis in space.axes]


def small_dtype(count: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds ``0 .. count - 1``."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32


def read_chunk(columns: Sequence[Digitizer], X: FloatArray) -> list[AnyInts]:
    """States of a chunk of rows, one array per feature."""
    space = columns[0].space
    is_double = space.comparison is Comparison.FLOAT64_LESS_EQUAL
    values = np.empty((X.shape[1], len(X)), dtype=np.float64 if is_double else np.float32)
    # float32 overflows to infinity as in the native library; NaN and infinities are expected
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for start in range(0, len(X), _TRANSPOSED_ROWS):
            stop = start + _TRANSPOSED_ROWS
            values[:, start:stop] = X[start:stop].T
        return [column.states(values[feature], X[:, feature]) for feature, column in enumerate(columns)]


def _digitizer(space: StateSpace, axis: Axis) -> Digitizer:
    is_less = space.comparison is Comparison.FLOAT32_LESS
    is_double = space.comparison is Comparison.FLOAT64_LESS_EQUAL
    edges: AnyFloats = axis.edges
    if space.snaps_to_zero:
        edges = _edges_before_snapping(edges)
    if not is_double:
        edges = _rounded_to_float32(edges, up=is_less)
    grid, cost = None, float(len(edges))
    if len(edges) > _GRID_COST:
        grid = _grid(edges, small_dtype(axis.n_states))
        if grid is not None:
            grid_cost = _GRID_COST + _CELL_EDGE_COST * len(grid.edges)
            grid, cost = (grid, grid_cost) if grid_cost < cost else (None, cost)
    odd = axis.codes is not None or (space.snaps_to_zero and not is_double)
    return Digitizer(space, axis, edges, is_less, grid, bool(odd or cost > _SEARCH_COST))


def _edges_before_snapping(edges: FloatArray) -> FloatArray:
    """Edges for ``x > edge`` that give the side of x after LightGBM reads tiny values as zero."""
    snapped = np.where((edges >= 0) & (edges <= LIGHTGBM_ZERO), LIGHTGBM_ZERO, edges)
    negative = (edges < 0) & (edges >= -LIGHTGBM_ZERO)
    return np.where(negative, np.nextafter(-LIGHTGBM_ZERO, -np.inf), snapped)


def _rounded_to_float32(edges: FloatArray, up: bool) -> npt.NDArray[np.float32]:
    """The float32 edges with the same side for every float32 value.

    ``x >= e`` iff ``x >= `` the smallest float32 not below e; ``x > e`` iff ``x >`` the largest
    float32 not above e.
    """
    with np.errstate(over="ignore", under="ignore"):
        rounded = edges.astype(np.float32)
        wrong = rounded.astype(np.float64) < edges if up else rounded.astype(np.float64) > edges
        towards = np.float32(np.inf if up else -np.inf)
        return np.where(wrong, np.nextafter(rounded, towards), rounded)


def _grid(edges: AnyFloats, dtype: type[np.unsignedinteger[Any]]) -> Grid | None:
    finite = edges[np.isfinite(edges)]
    if len(finite) < 2:
        return None
    number = edges.dtype.type
    with np.errstate(over="ignore", divide="ignore", under="ignore"):
        factor = number(_CELLS - 1) / (finite[-1] - finite[0])
    if not (np.isfinite(factor) and factor > 0):
        return None
    empty = np.zeros(0, dtype=np.int64)
    with np.errstate(over="ignore"):
        cell = Grid(finite[0], factor, empty, edges).cells(edges)
    count = np.bincount(cell, minlength=_CELLS)
    below = np.cumsum(count) - count
    table = np.full((int(count.max()), _CELLS), np.nan, dtype=edges.dtype)
    table[np.arange(len(edges)) - below[cell], cell] = edges
    return Grid(finite[0], factor, below.astype(dtype), table)
