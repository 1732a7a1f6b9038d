"""Walks over states, sums over leaves and the products of the least squares, in C where it can be compiled."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels import numpy_twin
from pine_boost.kernels.flat_forest import FloatArray, Int32Array
from pine_boost.kernels.library import SignedStruct, load

NODE = np.dtype(
    [(name, np.int32) for name in ("feature", "rank", "left", "right", "first_special", "leaf")]
    + [("special", np.int64)]
)


@dataclass(frozen=True, eq=False)
class StateNodes:
    """Trees over states as the kernel walks them; whatever the arrays hold, nothing outside of them is read.

    Attributes
    ----------
    node : NODE (n_nodes,)
        States up to ``rank`` go left. From ``first_special`` on, state ``s`` goes left if ``side[special + s]``.
        A leaf is its own child.
    root : int32 (n_trees,)
    side : bool
    depth : int
        Levels that are walked.
    """

    node: npt.NDArray[Any]
    root: Int32Array
    side: npt.NDArray[np.bool_]
    depth: int

    def __post_init__(self) -> None:
        places = [self.root, self.node["left"], self.node["right"]]
        if any(len(part) and not 0 <= part.min() <= part.max() < len(self.node) for part in places):
            raise IndexError("A child lies outside the trees.")

    def leaves(self, states: Int32Array) -> Int32Array:
        """Leaf of every row of states in every tree, (n_rows, n_trees)."""
        n_rows, n_features = states.shape
        if self.depth and not 0 <= self.node["feature"].min() <= self.node["feature"].max() < n_features:
            raise IndexError(f"The trees ask for other features than the {n_features} of the rows.")
        library = load()
        if library is None:
            return numpy_twin.walk_states(self, states)
        states = np.ascontiguousarray(states, dtype=np.int32)
        found = np.empty((n_rows, len(self.root)), dtype=np.int32)
        code = library.pine_walk_states(
            *(self.node.ctypes.data, self.root.ctypes.data, len(self.root), self.depth),
            *(self.side.ctypes.data, len(self.side), states.ctypes.data, n_rows, n_features, found.ctypes.data),
        )
        if code:
            raise IndexError("A state is not one of its feature.")
        return found


def sum_leaves(leaves: Int32Array, value: FloatArray, output: Int32Array, start: FloatArray) -> FloatArray:
    """``start`` plus the values of each row's leaves, added tree by tree, (n_rows, n_outputs).

    ``value`` has a column for every output, or a single one for that of the tree, ``output``.
    """
    sums = np.tile(start, (len(leaves), 1))
    library = load()
    if library is None:
        return numpy_twin.add_leaves(leaves, value, output, sums)
    leaves = np.ascontiguousarray(leaves, dtype=np.int32)
    value, output = np.ascontiguousarray(value, dtype=np.float64), np.ascontiguousarray(output, dtype=np.int32)
    place = None if value.shape[1] == sums.shape[1] else output.ctypes.data
    library.pine_sum_leaves(
        leaves.ctypes.data, *leaves.shape, value.ctypes.data, place, sums.shape[1], sums.ctypes.data
    )
    return sums


class SignedMatrix:
    """A sparse matrix by rows whose entries are 1 or -1, at most two runs of equal ones in a row.

    Row ``r`` has ``sign[r]`` in the columns ``indices[indptr[2 * r]:indptr[2 * r + 1]]``, and ``-sign[r]`` in those
    from there to ``indptr[2 * r + 2]``.
    """

    def __init__(self, indptr: npt.NDArray[Any], indices: npt.NDArray[Any], sign: npt.NDArray[Any], width: int) -> None:
        self.indptr = np.ascontiguousarray(indptr, dtype=np.int32)
        self.indices = np.ascontiguousarray(indices, dtype=np.int32)
        self.sign = np.ascontiguousarray(sign, dtype=np.int8)
        self.shape = (len(self.sign), width)
        self._struct = SignedStruct(self.indptr.ctypes.data, self.indices.ctypes.data, self.sign.ctypes.data)
        self._every = np.arange(self.shape[0], dtype=np.int32)

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        return self._call("products", self._every, np.empty(self.shape[0]), vector)

    def transposed(self, weight: FloatArray, rows: Int32Array | None = None, *, unsigned: bool = False) -> FloatArray:
        """The transposed matrix times ``weight``, as far as it consists of some rows; without signs if asked."""
        return self._call(
            "transposed", self._every if rows is None else rows, np.zeros(self.shape[1]), weight, unsigned
        )

    def normal(self, weight: FloatArray, vector: FloatArray, rows: Int32Array) -> FloatArray:
        """``A' W A vector`` for the matrix A of some rows."""
        return self._call("normal", rows, np.zeros(self.shape[1]), weight, vector)

    def renumbered(self, number: Int32Array, width: int, rows: Int32Array) -> SignedMatrix:
        """Some rows over other columns; entries of columns with a negative number are left out."""
        library = load()
        number, rows = (np.ascontiguousarray(part, dtype=np.int32) for part in (number, rows))
        if library is None:
            return SignedMatrix(*numpy_twin.renumber(self, rows, number), self.sign[rows], width)
        length = self.indptr[2 * rows + 2] - self.indptr[2 * rows]
        start, column = np.empty(2 * len(rows) + 1, dtype=np.int32), np.empty(int(length.sum()), dtype=np.int32)
        n = library.pine_renumber(
            *(ctypes.addressof(self._struct), rows.ctypes.data, len(rows), number.ctypes.data),
            *(start.ctypes.data, column.ctypes.data),
        )
        return SignedMatrix(start, column[:n], self.sign[rows], width)

    def _call(self, name: str, rows: Int32Array, found: FloatArray, *given: Any) -> FloatArray:
        library = load()
        if library is None:
            return np.asarray(getattr(numpy_twin, name)(self, rows, found, *given))
        vectors = [np.ascontiguousarray(part, dtype=np.float64) if np.ndim(part) else part for part in given]
        rows = np.ascontiguousarray(rows, dtype=np.int32)
        getattr(library, f"pine_{name}")(
            *(ctypes.addressof(self._struct), rows.ctypes.data, len(rows)),
            *(part.ctypes.data if np.ndim(part) else part for part in vectors),
            found.ctypes.data,
        )
        return found
