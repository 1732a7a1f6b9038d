"""Synthetic rows: between two rows of X_fit that the trees find alike.

In come state rows and their leaves; out go new state rows. Numbers lie anywhere between those of
the two rows; categories and gaps are taken whole from one of them, so only those that were seen
occur. The original's own output is their label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.model.states import StateSpace

# Of so many rows that share a leaf of some tree, the one that shares most leaves is the partner.
# Rows that take each value whole from one of two rows lie too near to training rows: a model that
# knows these by heart changes there as it never does on fresh rows, and slices look worse than
# they are. Between two rows that are alike, estimates are close to the truth.
_N_PARTNERS = 3
_COMPARED_TREES = 40


@dataclass(frozen=True, eq=False)
class Sources:
    """Rows of X_fit to draw from.

    Attributes
    ----------
    states : int32 (n_rows, n_features)
    leaves : int32 (n_rows, n_trees)
    n_intervals : int64 (n_features,)
        States below this one are intervals in their order; 0 for categories.
    """

    states: npt.NDArray[np.int32]
    leaves: npt.NDArray[np.int32]
    n_intervals: IntArray

    @cached_property
    def order(self) -> npt.NDArray[np.int32]:
        """The rows of each tree sorted by their leaf, (n_trees, n_rows)."""
        columns = np.ascontiguousarray(self.leaves.T)
        return np.argsort(columns, axis=1, kind="stable").astype(np.int32)

    @cached_property
    def ordered(self) -> npt.NDArray[np.int32]:
        """The leaves of each tree in that order."""
        return np.take_along_axis(self.leaves.T, self.order, axis=1)


def intervals_of(space: StateSpace) -> IntArray:
    """How many states of each feature are intervals in their order."""
    return np.array([axis.n_intervals for axis in space.axes], dtype=np.int64)


def draw_between(sources: Sources, random: np.random.Generator, n_rows: int) -> npt.NDArray[np.int32]:
    """Rows between a random one and one that is like it."""
    base = random.integers(0, len(sources.states), n_rows)
    first, second = sources.states[base], sources.states[_alike(sources, base, random)]
    share = random.random(first.shape)
    between = np.rint(first + share * (second - first)).astype(np.int32)
    is_ordered = np.maximum(first, second) < sources.n_intervals
    return np.where(is_ordered, between, np.where(share < 0.5, first, second))


def stream(sources: Sources, seed: int, chunk: int) -> Iterator[npt.NDArray[np.int32]]:
    """Chunks of synthetic rows without end."""
    random = np.random.default_rng(seed)
    while True:
        yield draw_between(sources, random, chunk)


def _alike(sources: Sources, base: IntArray, random: np.random.Generator) -> IntArray:
    """For every row the one of a few that shares most leaves with it, itself if it is alone."""
    leaves = sources.leaves
    n_trees = leaves.shape[1]
    compared = leaves[:, random.permutation(n_trees)[:_COMPARED_TREES]]
    own = compared[base]
    best, most = base, np.full(len(base), -1)
    for _ in range(_N_PARTNERS):
        partner = _partners(sources, base, random.integers(0, n_trees, len(base)), random)
        shared = np.where(partner == base, -1, (compared[partner] == own).sum(axis=1))
        best, most = np.where(shared > most, partner, best), np.maximum(shared, most)
    return best


def _partners(sources: Sources, base: IntArray, tree: IntArray, random: np.random.Generator) -> IntArray:
    """For every row one that shares its leaf of the given tree, perhaps itself."""
    leaves = sources.leaves
    partner = np.empty(len(base), dtype=np.int64)
    draw = random.random(len(base))
    order_of_trees = np.argsort(tree, kind="stable")
    bounds = np.searchsorted(tree[order_of_trees], np.arange(leaves.shape[1] + 1))
    for t in range(leaves.shape[1]):
        chosen = order_of_trees[bounds[t] : bounds[t + 1]]
        if len(chosen) == 0:
            continue
        order, column = sources.order[t], sources.ordered[t]
        own = leaves[base[chosen], t]
        low = np.searchsorted(column, own, side="left")
        high = np.searchsorted(column, own, side="right")
        partner[chosen] = order[low + (draw[chosen] * (high - low)).astype(np.int64)]
    return partner
