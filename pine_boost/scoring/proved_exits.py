"""Builds the exits of a proved scorer: what the remaining trees can add, and the order of the trees.

What is built here is only proposed; `proof.exits` checks it against the forest.
"""

from __future__ import annotations

import numpy as np

from pine_boost.kernels.flat_forest import ExitPlan
from pine_boost.model.exact import certain_distance
from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.reach import find_live
from pine_boost.model.rules import SplitKind
from pine_boost.scoring.native_sum import leaf_nodes

# Of the sum of all magnitudes: far above the rounding of the sums here, far below what an exit is worth
_SAFETY = 2.0**-44
_LARGEST_TABLE = 2_000_000  # entries of the table of gaps


def build_exits(forest: Forest, order: IntArray | None = None) -> ExitPlan:
    """Exits with the original's leaf values that no completion by the remaining trees contradicts."""
    nodes = leaf_nodes(forest)
    lowest, highest = rises(forest)
    if order is None:
        order = widest_first(lowest, highest)
    stage = choose_stages(forest)
    value = forest.value[nodes].astype(np.float64)
    n_cuts = len(forest.decision.cuts)
    low = high = np.zeros((len(stage), 0))
    gap = np.zeros((0, forest.n_outputs, forest.n_outputs))
    largest = np.abs(np.stack([lowest, highest])).max(axis=0)
    scale = float(np.abs(forest.intercept).max() + largest.sum() + max(np.abs(forest.decision.cuts), default=0.0))
    band = certain_distance(forest) + _SAFETY * scale
    if n_cuts:
        cuts = np.array(forest.decision.cuts)
        low = cuts - _rest(highest[order, 0, 0], stage)[:, None] - band
        high = cuts - _rest(lowest[order, 0, 0], stage)[:, None] + band
    elif forest.n_outputs > 1:
        # what the rest can add to a rival's lead over the leader: gap[stage, leader, rival]
        gap = _rest(highest[order], stage) + band
    return ExitPlan(
        order=order.astype(np.int32),
        stage=stage.astype(np.int32),
        stage_set=np.zeros(len(stage), dtype=np.int32),
        value=value[:, None, :],
        intercept=forest.intercept[None, :].astype(np.float64),
        low=low,
        high=high,
        gap=gap,
    )


def rises(forest: Forest) -> tuple[FloatArray, FloatArray]:
    """Least and largest addition of each tree, over the leaves that some input reaches.

    One output: (n_trees, 1, 1), to the margin. Several: (n_trees, leader, rival), to the sum of
    the rival minus that of the leader.
    """
    alive = find_live(forest) & (forest.kind == SplitKind.LEAF)
    nodes = np.flatnonzero(alive)
    first = np.searchsorted(nodes, forest.tree_offset[:-1])  # every tree has a live leaf
    value = forest.value[nodes]
    n = forest.n_outputs
    if n == 1:
        lowest, highest = (f.reduceat(value, first, axis=0)[:, :, None] for f in (np.minimum, np.maximum))
        return lowest, highest
    if forest.value.shape[1] == 1:
        low, high = (f.reduceat(value[:, 0], first) for f in (np.minimum, np.maximum))
        lowest, highest = np.zeros((2, forest.n_trees, n, n))
        trees = np.arange(forest.n_trees)
        lowest[trees, :, forest.tree_output], highest[trees, :, forest.tree_output] = low[:, None], high[:, None]
        lowest[trees, forest.tree_output, :], highest[trees, forest.tree_output, :] = -high[:, None], -low[:, None]
    else:
        lowest, highest = np.empty((2, forest.n_trees, n, n))
        for leader in range(n):
            lead = value - value[:, leader : leader + 1]
            lowest[:, leader], highest[:, leader] = (f.reduceat(lead, first, axis=0) for f in (np.minimum, np.maximum))
    diagonal = np.arange(n)
    lowest[:, diagonal, diagonal] = highest[:, diagonal, diagonal] = 0.0
    return lowest, highest


def widest_first(lowest: FloatArray, highest: FloatArray) -> IntArray:
    """Trees by the width of what they can add, the widest first."""
    width = (highest - lowest).sum(axis=(1, 2))
    return np.argsort(-width, kind="stable")


def choose_stages(forest: Forest) -> IntArray:
    """After how many trees an input may exit: about every fiftieth of the trees, no table too large."""
    n = forest.n_trees
    entries = forest.n_outputs**2 if forest.n_outputs > 1 else 1
    step = max(1, n // 48, -(-n * entries // _LARGEST_TABLE))
    stages = np.arange(step, n + step, step)
    return np.minimum(stages, n)


def _rest(added: FloatArray, stage: IntArray) -> FloatArray:
    """Sums over the trees after each stage; trees along the first axis, in the order of visits."""
    total = np.zeros((len(added) + 1, *added.shape[1:]))
    total[:-1] = np.cumsum(added[::-1], axis=0)[::-1]
    return total[stage]
