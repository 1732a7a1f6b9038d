"""Chow-Liu tree: the negative log-likelihood of a tree-shaped distribution over quantile bins.

Bin edges are the thresholds nearest to the quantiles. Per threshold only the number of nearest values and the
smallest and largest of them are kept; that is all the nearest threshold of a quantile depends on, so chunks in any
number give exactly the bins of the whole table.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model.exact import FLOAT32_MAX, SCORE_SCALE
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.reference import cast_value
from pine_boost.model.states import Axis, StateSpace
from pine_boost.options import MAX_BINS, require_whole
from pine_boost.region.score_tables import PSEUDO_COUNT, PairTable, ScoreTables


@dataclass(frozen=True, eq=False)
class Nearest:
    """Values of one feature grouped by their nearest finite threshold."""

    count: IntArray
    least: FloatArray
    largest: FloatArray

    def __add__(self, other: Nearest) -> Nearest:
        return Nearest(
            self.count + other.count, np.minimum(self.least, other.least), np.maximum(self.largest, other.largest)
        )


def count_nearest(space: StateSpace, X: FloatArray) -> tuple[Nearest, ...]:
    """The present values of every feature of a chunk, grouped by their nearest threshold."""
    return tuple(nearest_of_axis(space, axis, X[:, feature]) for feature, axis in enumerate(space.axes))


def add_nearest(chunks: Iterable[tuple[Nearest, ...]]) -> tuple[Nearest, ...]:
    """The sum over all chunks."""
    return reduce(lambda total, chunk: tuple(map(operator.add, total, chunk)), chunks)


def nearest_of_axis(space: StateSpace, axis: Axis, x: FloatArray) -> Nearest:
    """The present values of one feature, grouped by their nearest threshold; empty for categories."""
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

    Ties go to the larger threshold. A quantile interpolates between two neighbouring values. If both have the
    same nearest threshold, so has the quantile; otherwise they are the largest value of one group and the
    smallest of the next, which are known.
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
    """Position of the nearest edge, ties to the larger; non-decreasing in x."""
    above = np.clip(np.searchsorted(edges, x), 1, max(len(edges) - 1, 1))
    if len(edges) == 1:
        return np.zeros(len(x), dtype=np.int64)
    is_above = edges[above] - x <= x - edges[above - 1]
    return np.asarray(np.where(is_above, above, above - 1))


def _between(low: FloatArray, high: FloatArray, part: FloatArray) -> FloatArray:
    """Linear interpolation exactly as in numpy.quantile."""
    with np.errstate(invalid="ignore"):
        step = high - low
        return np.where(part < 0.5, low + step * part, high - step * (1 - part))


def chow_liu_of_states(
    bins: tuple[IntArray, ...], states: npt.NDArray[Any], budget: Budget | None = None
) -> ScoreTables:
    """The tables for rows in memory; pairs of features are counted on demand.

    ``exp(-score / SCORE_SCALE)`` sums to 1 over the bins, up to the rounding of the tables. Raises `OutOfTime`
    if the budget ends before the counting does.
    """
    budget = budget or Budget()
    binned = [small(table)[states[:, feature]] for feature, table in enumerate(bins)]

    def joint(first: int, second: int) -> IntArray:
        budget.check()
        return _joint_counts(binned[first], binned[second], *_sizes(bins, first, second))

    return chow_liu_tables(bins, joint)


def bins_of(space: StateSpace, nearest: tuple[Nearest, ...], n_bins: int) -> tuple[IntArray, ...]:
    """The bin of every state of every feature.

    A numeric feature has at most ``n_bins`` quantile bins, with boundaries moved to the nearest thresholds of
    the trees (ties to the larger) and duplicates merged. Missing, zero as missing, and every group of
    categories are bins of their own.
    """
    require_whole(n_bins, "n_bins", 1, MAX_BINS)
    return tuple(
        _bins(axis, edges_at_quantiles(axis, values, n_bins)) for axis, values in zip(space.axes, nearest, strict=True)
    )


def chow_liu_tables(bins: tuple[IntArray, ...], joint: Callable[[int, int], IntArray]) -> ScoreTables:
    """The tables from the bins and a function that returns the joint counts of two features."""
    used = [feature for feature, table in enumerate(bins) if table.max() > 0]
    unary = [np.zeros(int(table.max()) + 1, dtype=np.int64) for table in bins]
    if not used:
        return ScoreTables(bins, tuple(unary))
    # the counts of the root are the diagonal of its joint counts with itself
    unary[used[0]] = _cost(np.diagonal(joint(used[0], used[0])))
    pairs = [PairTable(first, second, _cost(joint(first, second))) for first, second in _spanning_tree(used, joint)]
    return ScoreTables(bins, tuple(unary), tuple(pairs))


def count_pairs(bins: tuple[IntArray, ...], states: npt.NDArray[Any]) -> IntArray:
    """Joint counts of all pairs of features with several bins, concatenated."""
    used = [feature for feature, table in enumerate(bins) if table.max() > 0]
    binned = {feature: small(bins[feature])[states[:, feature]] for feature in used}
    tables = [
        _joint_counts(binned[first], binned[second], *_sizes(bins, first, second)).ravel()
        for first, second in combinations_with_replacement(used, 2)
    ]
    return np.concatenate(tables) if tables else np.zeros(0, dtype=np.int64)


def pairs_of_counts(bins: tuple[IntArray, ...], counts: IntArray) -> Callable[[int, int], IntArray]:
    """A function that looks the counts of `count_pairs` up by feature."""
    used = [feature for feature, table in enumerate(bins) if table.max() > 0]
    tables, start = {}, 0
    for first, second in combinations_with_replacement(used, 2):
        n_first, n_second = _sizes(bins, first, second)
        part = counts[start : start + n_first * n_second].reshape(n_first, n_second)
        tables[first, second], tables[second, first] = part, part.T
        start += part.size
    return lambda first, second: tables[first, second]


def n_pair_cells(bins: tuple[IntArray, ...]) -> int:
    """The number of counts that `count_pairs` returns."""
    sizes = np.array([int(table.max()) + 1 for table in bins if table.max() > 0], dtype=np.int64)
    return int((sizes.sum() ** 2 + (sizes**2).sum()) // 2)


def small(table: IntArray) -> npt.NDArray[Any]:
    """The same numbers in the smallest integer type."""
    return table.astype(np.min_scalar_type(int(table.max(initial=0))))


def _sizes(bins: tuple[IntArray, ...], first: int, second: int) -> tuple[int, int]:
    return int(bins[first].max()) + 1, int(bins[second].max()) + 1


def _bins(axis: Axis, chosen: IntArray) -> IntArray:
    if axis.codes is not None:
        return np.arange(axis.n_states, dtype=np.int64)
    bins = np.empty(axis.n_states, dtype=np.int64)
    # state s lies to the right of the edges 0 .. s - 1
    bins[: axis.n_intervals] = np.searchsorted(chosen, np.arange(axis.n_intervals), side="left")
    specials = np.arange(axis.n_intervals, axis.n_states)
    bins[specials] = len(chosen) + 1 + specials - axis.n_intervals
    return bins


def _spanning_tree(nodes: list[int], joint: Callable[[int, int], IntArray]) -> list[tuple[int, int]]:
    """Edges (parent, child) of the maximum spanning tree of mutual information, rooted at the first node.

    Prim's algorithm; ties go to the lowest child, then to the lowest parent.
    """
    best = np.full(len(nodes), -np.inf)
    parent = np.zeros(len(nodes), dtype=np.int64)
    in_tree = np.zeros(len(nodes), dtype=bool)
    edges = []
    node = 0
    for _ in range(len(nodes) - 1):
        in_tree[node] = True
        for other in np.flatnonzero(~in_tree):
            information = _mutual_information(joint(nodes[node], nodes[other]))
            if information > best[other]:
                best[other], parent[other] = information, node
        node = int(np.argmax(np.where(in_tree, -np.inf, best)))
        edges.append((nodes[int(parent[node])], nodes[node]))
    return edges


def _mutual_information(counts: IntArray) -> float:
    joint = counts / counts.sum()
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    present = joint > 0
    information = np.sum(joint[present] * np.log(joint[present] / independent[present]))
    # rounded so that the last bit of a sum does not decide between equal candidates
    return round(float(information), 12) + 0.0


def _joint_counts(first: npt.NDArray[Any], second: npt.NDArray[Any], n_first: int, n_second: int) -> IntArray:
    cells = first.astype(np.min_scalar_type(n_first * n_second)) * n_second + second
    counts: IntArray = np.bincount(cells, minlength=n_first * n_second)
    return counts.reshape(n_first, n_second)


def _cost(counts: IntArray) -> IntArray:
    """Integer ``-log`` of the smoothed shares along the last axis."""
    smoothed = counts + PSEUDO_COUNT
    share = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return np.asarray(np.rint(-np.log(share) * SCORE_SCALE), dtype=np.int64)
