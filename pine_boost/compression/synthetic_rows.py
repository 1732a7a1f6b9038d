"""Synthetic rows: values swapped between rows of X_fit that share a leaf of some tree.

In come state rows and their leaves; out go new state rows. Whole values are swapped, so only
categories and gaps that were seen occur. The original's own output is their label.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray


def swap_values(
    states: npt.NDArray[np.int32],
    leaves: npt.NDArray[np.int32],
    random: np.random.Generator,
    n_rows: int,
) -> npt.NDArray[np.int32]:
    """Rows of which a random share of the values comes from a row in the same leaf."""
    base = random.integers(0, len(states), n_rows)
    tree = random.integers(0, leaves.shape[1], n_rows)
    partner = _partners(leaves, base, tree, random)
    share = random.random((n_rows, 1))
    swapped = random.random((n_rows, states.shape[1])) < share
    return np.where(swapped, states[partner], states[base])


def stream(
    states: npt.NDArray[np.int32], leaves: npt.NDArray[np.int32], seed: int, chunk: int
) -> Iterator[npt.NDArray[np.int32]]:
    """Chunks of synthetic rows without end."""
    random = np.random.default_rng(seed)
    while True:
        yield swap_values(states, leaves, random, chunk)


def _partners(
    leaves: npt.NDArray[np.int32], base: IntArray, tree: IntArray, random: np.random.Generator
) -> IntArray:
    """For every row one that shares its leaf of the given tree, perhaps itself."""
    partner = np.empty(len(base), dtype=np.int64)
    draw = random.random(len(base))
    order_of_trees = np.argsort(tree, kind="stable")
    bounds = np.searchsorted(tree[order_of_trees], np.arange(leaves.shape[1] + 1))
    for t in range(leaves.shape[1]):
        chosen = order_of_trees[bounds[t] : bounds[t + 1]]
        if len(chosen) == 0:
            continue
        order = np.argsort(leaves[:, t], kind="stable")
        column = leaves[order, t]
        own = leaves[base[chosen], t]
        low = np.searchsorted(column, own, side="left")
        high = np.searchsorted(column, own, side="right")
        partner[chosen] = order[low + (draw[chosen] * (high - low)).astype(np.int64)]
    return partner
