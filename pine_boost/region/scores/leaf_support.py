"""Leaf Support: how rarely the rows of X_fit visit the leaves that an input reaches.

In come the states of X_fit and the model's own trees; out goes a cost per leaf, -log of its share
of the visits. Refuses nothing.
"""

from __future__ import annotations

import numpy as np

from pine_boost.model.exact import ROW_LIMIT, SCORE_SCALE
from pine_boost.model.forest import IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import StateSpace
from pine_boost.region.score_tables import PSEUDO_COUNT, ScoreTables, TreeCost


def leaf_tables(trees: StateTrees, visits: IntArray, space: StateSpace) -> ScoreTables:
    """The sum over the trees of ``-log`` of the share of X_fit in the leaf reached.

    ``visits`` counts the rows of X_fit in every leaf. In units of 1 / SCORE_SCALE nat; coarser by a
    power of ten where the costs of all leaves would not fit into one row of the solver.
    """
    smoothed = visits + PSEUDO_COUNT
    total = np.add.reduceat(smoothed, trees.leaf_offset[:-1])[trees.leaf_tree]
    nats = -np.log(smoothed / total)
    scale = SCORE_SCALE
    while scale > 1 and nats.sum() * scale > ROW_LIMIT // 4:
        scale //= 10
    cost = np.rint(nats * scale).astype(np.int64)
    return ignoring_features(space, TreeCost(trees, cost, of_model=True), scale)


def ignoring_features(space: StateSpace, trees: TreeCost, scale: int) -> ScoreTables:
    """A score that looks only at leaves."""
    bins = tuple(np.zeros(axis.n_states, dtype=np.int64) for axis in space.axes)
    unary = tuple(np.zeros(1, dtype=np.int64) for _ in space.axes)
    return ScoreTables(bins, unary, (), trees, scale)
