"""The thresholds nearest to the quantiles of a feature, from counts that add up.

In come chunks of values; out go, per threshold, how many values are nearest to it, the least and
the largest of them: that is all a quantile's nearest threshold depends on, so chunks in any
number give exactly what all values together give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pine_boost.model.exact import FLOAT32_MAX
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.reference import cast_value
from pine_boost.model.states import Axis, StateSpace


@dataclass(frozen=True, eq=False)
class Nearest:
    """Values of one feature by their nearest finite threshold."""

    count: IntArray
    least: FloatArray
    largest: FloatArray

    def __add__(self, other: Nearest) -> Nearest:
        return Nearest(
            self.count + other.count, np.minimum(self.least, other.least), np.maximum(self.largest, other.largest)
        )


def count_nearest(space: StateSpace, X: FloatArray) -> tuple[Nearest, ...]:
    """Present values of every feature of a chunk by their nearest threshold."""
    return tuple(nearest_of_axis(space, axis, X[:, feature]) for feature, axis in enumerate(space.axes))


def add_nearest(chunks: Iterable[tuple[Nearest, ...]]) -> tuple[Nearest, ...]:
    """The counts of all chunks together."""
    total: tuple[Nearest, ...] | None = None
    for chunk in chunks:
        together = chunk if total is None else (a + b for a, b in zip(total, chunk, strict=True))
        total = tuple(together)
    assert total is not None
    return total


def nearest_of_axis(space: StateSpace, axis: Axis, x: FloatArray) -> Nearest:
    """Present values of one feature by their nearest threshold; no category has any."""
    edges = axis.edges[np.isfinite(axis.edges)]
    none = np.zeros(len(edges), dtype=np.int64)
    if axis.codes is not None or len(edges) == 0:
        return Nearest(none, none.astype(float), none.astype(float))
    x = np.sort(cast_value(space.comparison, x[~np.isnan(x)]))
    if axis.zero_state >= 0:
        x = x[x != 0]
    # an infinite value would make an interpolated quantile NaN
    x = np.clip(x, -FLOAT32_MAX, FLOAT32_MAX)
    ends = np.searchsorted(_nearest(edges, x), np.arange(len(edges)), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    least, largest = np.full(len(edges), np.inf), np.full(len(edges), -np.inf)
    used = ends > starts
    least[used], largest[used] = x[starts[used]], x[ends[used] - 1]
    return Nearest(ends - starts, least, largest)


def edges_at_quantiles(axis: Axis, nearest: Nearest, n_bins: int) -> IntArray:
    """Positions of the thresholds nearest to the quantiles 1/n, ..., (n-1)/n, each once.

    Of two equally near ones the larger. The quantile interpolates between two values in rank
    order: where both have the same nearest threshold it has that one too; else they are the
    largest of one group and the least of the next, which are known.
    """
    finite = np.flatnonzero(np.isfinite(axis.edges))
    n_values = int(nearest.count.sum())
    if n_values == 0 or n_bins == 1:
        return np.zeros(0, dtype=np.int64)
    position = (n_values - 1) * (np.arange(1, n_bins) / n_bins)
    rank = np.floor(position).astype(np.int64)
    last = np.cumsum(nearest.count)  # rank r lies in the first group with last > r
    first_group = np.searchsorted(last, rank, side="right")
    second_group = np.searchsorted(last, np.minimum(rank + 1, n_values - 1), side="right")
    low, high = nearest.largest[first_group], nearest.least[second_group]
    quantile = _between(low, high, position - rank)
    found = np.where(first_group == second_group, first_group, _nearest(axis.edges[finite], quantile))
    return np.unique(finite[found])


def _nearest(edges: FloatArray, x: FloatArray) -> IntArray:
    """Position of the nearest edge, of two equally near ones the larger; ascends with x."""
    above = np.clip(np.searchsorted(edges, x), 1, max(len(edges) - 1, 1))
    if len(edges) == 1:
        return np.zeros(len(x), dtype=np.int64)
    is_above = edges[above] - x <= x - edges[above - 1]
    return np.asarray(np.where(is_above, above, above - 1))


def _between(low: FloatArray, high: FloatArray, part: FloatArray) -> FloatArray:
    """Linear interpolation as numpy.quantile does it."""
    with np.errstate(invalid="ignore"):
        step = high - low
        return np.where(part < 0.5, low + step * part, high - step * (1 - part))
