"""Chow-Liu tree: the negative log-likelihood of a tree-shaped distribution over bins.

In come the states and values of X_fit; out go integer tables for the root and for every edge of
the tree. Refuses a non-positive pseudo-count, because an unseen bin would cost infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import SCORE_SCALE
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.reference import cast_value
from pine_boost.model.states import Axis, StateSpace
from pine_boost.options import MAX_BINS, require_whole
from pine_boost.region.score_tables import PairTable, ScoreTables

_FLOAT32_MAX = float(np.finfo(np.float32).max)


def fit_chow_liu(
    states: npt.NDArray[Any],
    space: StateSpace,
    X: FloatArray,
    *,
    n_bins: int = 4,
    beta: float = 1.0,
) -> ScoreTables:
    """Fit ``-log p`` of a Chow-Liu tree, rounded to integers of 1 / SCORE_SCALE nat.

    Parameters
    ----------
    states : int (n_rows, n_features)
        States of X_fit.
    space : StateSpace
    X : float64 (n_rows, n_features)
        X_fit itself, for the quantiles.
    n_bins : int
        Quantile bins of a numeric feature. Their boundaries are moved to the nearest thresholds of
        the trees (of two equally near ones to the larger), duplicates are merged; missing, zero as
        missing and every group of categories is a bin of its own.
    beta : float
        Pseudo-count of every cell of every table.

    Returns
    -------
    ScoreTables
        ``exp(-score / SCORE_SCALE)`` sums to 1 over the bins, up to the rounding of the tables.
    """
    if not beta > 0:
        raise InvalidInputError(f"beta is {beta}; the pseudo-count must be positive.")
    require_whole(n_bins, "n_bins", 1, MAX_BINS)
    bins = tuple(
        bins_of_axis(space, axis, X[:, feature], n_bins) for feature, axis in enumerate(space.axes)
    )
    n_bins_of = np.array([int(table.max()) + 1 for table in bins], dtype=np.int64)
    used = np.flatnonzero(n_bins_of > 1)
    unary = [np.zeros(count, dtype=np.int64) for count in n_bins_of]
    if len(used) == 0:
        return ScoreTables(bins, tuple(unary))
    binned = np.stack([bins[j][states[:, j]] for j in used], axis=1)
    root = int(used[0])
    counts = np.bincount(binned[:, 0], minlength=n_bins_of[root])
    unary[root] = _cost(counts, beta)
    pairs = []
    for parent, child in _spanning_tree(binned, n_bins_of[used]):
        first, second = int(used[parent]), int(used[child])
        joint = _joint_counts(
            binned[:, parent], binned[:, child], n_bins_of[first], n_bins_of[second]
        )
        pairs.append(PairTable(first, second, _cost(joint, beta)))
    return ScoreTables(bins, tuple(unary), tuple(pairs))


def bins_of_axis(space: StateSpace, axis: Axis, x: FloatArray, n_bins: int) -> IntArray:
    """The bin of every state of one feature."""
    if axis.codes is not None:
        return np.arange(axis.n_states, dtype=np.int64)
    chosen = _chosen_edges(space, axis, x, n_bins)
    bins = np.empty(axis.n_states, dtype=np.int64)
    # state s lies to the right of the edges 0 .. s - 1
    bins[: axis.n_intervals] = np.searchsorted(chosen, np.arange(axis.n_intervals), side="left")
    specials = np.arange(axis.n_intervals, axis.n_states)
    bins[specials] = len(chosen) + 1 + specials - axis.n_intervals
    return bins


def _chosen_edges(space: StateSpace, axis: Axis, x: FloatArray, n_bins: int) -> IntArray:
    """Positions of the edges nearest to the quantiles of the present values."""
    finite_edges = np.flatnonzero(np.isfinite(axis.edges))
    x = cast_value(space.comparison, x[~np.isnan(x)])
    if axis.zero_state >= 0:
        x = x[x != 0]
    if len(x) == 0 or len(finite_edges) == 0 or n_bins == 1:
        return np.zeros(0, dtype=np.int64)
    # an infinite value would make the interpolated quantile NaN
    x = np.clip(x, -_FLOAT32_MAX, _FLOAT32_MAX)
    quantiles = np.quantile(x, np.arange(1, n_bins) / n_bins)
    distance = np.abs(axis.edges[finite_edges][None, :] - quantiles[:, None])
    # the last of the nearest: ties go to the larger edge
    nearest = distance.shape[1] - 1 - np.argmin(distance[:, ::-1], axis=1)
    return np.unique(finite_edges[nearest])


def _spanning_tree(binned: npt.NDArray[np.int64], n_bins: IntArray) -> list[tuple[int, int]]:
    """Edges (parent, child) of the maximum spanning tree over mutual information, from node 0.

    Prim's algorithm; of equal candidates the lowest child, then the lowest parent wins.
    """
    n_nodes = binned.shape[1]
    best = np.full(n_nodes, -np.inf)
    parent = np.zeros(n_nodes, dtype=np.int64)
    in_tree = np.zeros(n_nodes, dtype=bool)
    edges = []
    node = 0
    for _ in range(n_nodes - 1):
        in_tree[node] = True
        for other in np.flatnonzero(~in_tree):
            information = _mutual_information(
                binned[:, node], binned[:, other], n_bins[node], n_bins[other]
            )
            if information > best[other]:
                best[other], parent[other] = information, node
        node = int(np.argmax(np.where(in_tree, -np.inf, best)))
        edges.append((int(parent[node]), node))
    return edges


def _mutual_information(
    first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], n_first: int, n_second: int
) -> float:
    joint = _joint_counts(first, second, n_first, n_second) / len(first)
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    present = joint > 0
    information = np.sum(joint[present] * np.log(joint[present] / independent[present]))
    # rounded so that the last bit of a sum cannot decide between equal candidates
    return round(float(information), 12) + 0.0


def _joint_counts(
    first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], n_first: int, n_second: int
) -> IntArray:
    counts: IntArray = np.bincount(first * n_second + second, minlength=n_first * n_second)
    return counts.reshape(int(n_first), int(n_second))


def _cost(counts: IntArray, beta: float) -> IntArray:
    """Integer ``-log`` of the smoothed shares along the last axis."""
    smoothed = counts + beta
    share = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return np.asarray(np.rint(-np.log(share) * SCORE_SCALE), dtype=np.int64)
