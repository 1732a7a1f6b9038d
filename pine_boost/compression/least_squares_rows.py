"""Rows of the least squares: for each point the differences of margins that its class hangs on.

In come points with their leaves and original margins; out goes a sparse matrix over leaf values
and intercepts with one nonzero per tree. Several classes: the two strongest rivals pull.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pine_boost.compression.goal import Goal
from pine_boost.compression.shape import Shape
from pine_boost.model.forest import FloatArray, Forest, Int32Array, IntArray

_RIVALS = 2


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs as the trees see them.

    Attributes
    ----------
    leaves : int32 (n_points, n_trees)
    margins : float64 (n_points, n_outputs)
        Of the original.
    weight : float64 (n_points,)
    """

    leaves: Int32Array
    margins: FloatArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class Pulls:
    """Linear functions of the leaf values, one for each thing a point must keep.

    Attributes
    ----------
    indptr, indices, data : of a CSR matrix over ``leaf * width + output``, then the intercepts
    offset : float64 (n_pulls,)
        Added to the product (the cut).
    distance : float64 (n_pulls,)
        What the original makes of it; at least 0 where a class is kept.
    weight : float64 (n_pulls,)
    width : int
    """

    indptr: Int32Array
    indices: Int32Array
    data: FloatArray
    offset: FloatArray
    distance: FloatArray
    weight: FloatArray
    width: int

    @cached_property
    def unsigned(self) -> FloatArray:
        """The entries without their sign: all of them are 1 or -1."""
        return np.ones(len(self.indices))

    def leaf_weight(self, weight: FloatArray, n_leaves: int) -> FloatArray:
        """Weight of the pulls that end in each original leaf."""
        size = (len(self.offset), int(self.indices.max()) + 1)
        matrix = sparse.csr_matrix((self.unsigned, self.indices, self.indptr), size, copy=False)
        columns = (matrix.T @ weight)[: n_leaves * self.width]
        return np.asarray(columns.reshape(n_leaves, self.width).sum(axis=1))

    def intercept_signs(self, n_leaves: int, n_outputs: int) -> npt.NDArray[np.int8]:
        """How each pull counts each intercept, (n_outputs, n_pulls): 1, -1, or 0 for not at all."""
        entry = np.flatnonzero(self.indices >= n_leaves * self.width)
        pull = np.searchsorted(self.indptr, entry, side="right") - 1
        signs = np.zeros((n_outputs, len(self.offset)), dtype=np.int8)
        signs[self.indices[entry] - n_leaves * self.width, pull] = self.data[entry]
        return signs

    def matrix(self, shape: Shape) -> tuple[Any, IntArray]:
        """The matrix over the present leaves, and each original leaf's number among them.

        The last leaf number is a column for everything that was dropped.
        """
        begins = shape.begins
        n_present = int(np.count_nonzero(begins))
        number = np.where(shape.owner >= 0, np.cumsum(begins) - 1, n_present)
        width, n_outputs = self.width, len(shape.intercept)
        own = (number[:, None] * width + np.arange(width)).ravel()
        last = (n_present + 1) * width + np.arange(n_outputs)
        column = np.concatenate([own, last]).astype(np.int32)
        size = (len(self.offset), (n_present + 1) * width + n_outputs)
        indices = column.take(self.indices)
        return sparse.csr_matrix((self.data, indices, self.indptr), size, copy=False), number


def build_pulls(goal: Goal, points: Points) -> Pulls:
    """The pulls of all points, grouped by the outputs they compare."""
    point, plus, minus, offset, distance = _comparisons(goal, points.margins)
    group = (plus * (goal.forest.n_outputs + 1) + minus + 1) * 2 + (distance < 0)
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
    width = goal.forest.value.shape[1]
    parts, lengths = [], []
    for start, stop in itertools.pairwise(bounds):
        rows = order[start:stop]
        indices, signs = _block(goal.forest, points.leaves[point[rows]], plus[rows[0]], minus[rows[0]])
        if goal.keeps_class and distance[rows[0]] < 0:
            signs = -signs
        parts.append((indices.ravel(), np.tile(signs, len(rows))))
        lengths.append(np.full(len(rows), indices.shape[1], dtype=np.int64))
    sign = np.where((distance < 0) & goal.keeps_class, -1.0, 1.0)[order]
    return Pulls(
        indptr=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int32),
        indices=np.concatenate([indices for indices, _ in parts]),
        data=np.concatenate([signs for _, signs in parts]),
        offset=sign * offset[order],
        distance=sign * distance[order],
        weight=points.weight[point[order]],
        width=width,
    )


def _comparisons(goal: Goal, margins: FloatArray) -> tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]:
    """Per pull: its point, the output counted up, the one counted down (-1: none), cut, sum."""
    n_points, n_outputs = margins.shape
    every = np.arange(n_points)
    if n_outputs > 1:
        n_rivals = min(_RIVALS, n_outputs - 1)
        ranked = np.argsort(-margins, axis=1, kind="stable")[:, : n_rivals + 1]
        point = np.repeat(every, n_rivals)
        plus, minus = np.repeat(ranked[:, 0], n_rivals), ranked[:, 1:].ravel()
        distance = margins[point, plus] - margins[point, minus]
        return point, plus, minus, np.zeros(len(point)), distance
    if not goal.keeps_class:
        nothing = np.zeros(n_points)
        return every, np.zeros_like(every), np.full(n_points, -1), nothing, margins[:, 0]
    cuts = np.array(goal.forest.decision.cuts)
    nearest = np.argsort(np.abs(margins - cuts), axis=1, kind="stable")[:, :2]
    point = np.repeat(every, nearest.shape[1])
    offset = -cuts[nearest.ravel()]
    distance = margins[point, 0] + offset
    return point, np.zeros_like(point), np.full(len(point), -1), offset, distance


def _block(forest: Forest, leaves: Int32Array, plus: int, minus: int) -> tuple[Int32Array, FloatArray]:
    """Columns and signs of points that compare the same two outputs."""
    n_leaves = int(np.count_nonzero(forest.left < 0))
    width = forest.value.shape[1]
    columns, signs = [], []
    for output, sign in ((plus, 1.0), (minus, -1.0)):
        if output < 0:
            continue
        if width == forest.n_outputs:
            columns.append(leaves * width + (output if width > 1 else 0))
        else:
            columns.append(leaves[:, forest.tree_output == output])
        columns.append(np.full((len(leaves), 1), n_leaves * width + output, dtype=np.int32))
        signs.append(np.full(columns[-2].shape[1] + 1, sign))
    return np.concatenate(columns, axis=1).astype(np.int32), np.concatenate(signs)
