"""Least squares on leaf values: a row pulls only while its sum is outside its interval.

In come a sparse matrix of rows by leaf values, an interval per row and a ridge towards the present
values; out go new values, by a few Newton steps with conjugate gradients. Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pine_boost.model.forest import FloatArray

# More steps take longer and keep fresh rows no better: stopping early is a ridge too.
_NEWTON_STEPS = 2
_GRADIENT_STEPS = 8
_ENOUGH = 1e-4  # of the first residual: the next collapse changes more than that
RIDGE = 30.0  # in rows of weight 1; facts/REAL_SIZES.md: 3 is too little on noisy data


@dataclass(frozen=True, eq=False)
class Intervals:
    """Where each row's sum should lie, and how much it matters."""

    low: FloatArray
    high: FloatArray
    weight: FloatArray


def residuals(sums: FloatArray, intervals: Intervals) -> FloatArray:
    """How far each sum is from its interval, signed: what would have to be added."""
    short = np.maximum(intervals.low - sums, 0.0)
    return np.asarray(short - np.maximum(sums - intervals.high, 0.0))


def refit(matrix: Any, offset: FloatArray, values: FloatArray, fixed: Any, intervals: Intervals) -> FloatArray:
    """Values with which the sums ``matrix @ values + offset`` lie closer to their intervals.

    Entries of the matrix are 1 or -1; ``fixed`` are columns that must keep their value.
    """
    start, current = values, values
    for _ in range(_NEWTON_STEPS):
        residual = residuals(matrix @ current + offset, intervals)
        pulling = np.flatnonzero(residual)
        if len(pulling) == 0:
            break
        part = matrix[pulling]
        weight = intervals.weight[pulling]
        gradient = part.T @ (weight * residual[pulling]) - RIDGE * (current - start)
        squares = sparse.csr_matrix((np.ones(part.nnz), part.indices, part.indptr), part.shape)
        diagonal = squares.T @ weight + RIDGE
        current = current + _solve(part, weight, gradient, np.where(fixed, 0.0, 1.0 / diagonal))
    return current


def _solve(part: Any, weight: FloatArray, gradient: FloatArray, scale: FloatArray) -> FloatArray:
    """Conjugate gradients for (A'WA + ridge) x = gradient, preconditioned by ``scale``."""
    solution = np.zeros_like(gradient)
    rest = gradient.copy()
    scaled = scale * rest
    direction = scaled.copy()
    size = first = float(rest @ scaled)
    for _ in range(_GRADIENT_STEPS):
        if size <= _ENOUGH * first:
            break
        image = part.T @ (weight * (part @ direction)) + RIDGE * direction
        step = size / float(direction @ image)
        solution += step * direction
        rest -= step * image
        scaled = scale * rest
        size, previous = float(rest @ scaled), size
        direction = scaled + (size / previous) * direction
    return solution
