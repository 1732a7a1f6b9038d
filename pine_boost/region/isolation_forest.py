"""Isolation forest: inputs that random splits isolate early are implausible.

scikit-learn grows the trees. Routing and scoring are done here, with the model's own comparison; the trees'
thresholds join the model's in the state space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MissingDependencyError
from pine_boost.model.exact import FLOAT32_MAX, SCORE_SCALE
from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.reference import cast_value
from pine_boost.model.routing import StateTrees, TreeShape, make_trees
from pine_boost.model.rules import Comparison
from pine_boost.model.states import StateSpace, build_space
from pine_boost.model.trimming import node_levels
from pine_boost.region.score_tables import RegionTables, ScoreTables, TreeCost, score_of_leaves
from pine_boost.tables.rows import MemoryRows, Rows

SAMPLED_ROWS = 100_000  # rows that the trees are grown on; each tree uses 256 of them


@dataclass(frozen=True, eq=False)
class IsolationTrees:
    """Stacked trees as scikit-learn grew them; ``left`` and ``right`` index the nodes of all trees, -1 at leaves."""

    root: IntArray
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    missing_left: npt.NDArray[np.bool_]
    depth_of_node: IntArray


@dataclass(frozen=True, eq=False)
class GrownForest:
    """Isolation trees over states, the depth of each leaf, and their state space."""

    trees: StateTrees
    depth: FloatArray
    space: StateSpace


def grow_trees(
    X: FloatArray | Rows, forest: Forest, n_trees: int = 30, max_samples: int = 256, random_state: int = 0
) -> GrownForest:
    """Isolation trees grown on X, over a space with their thresholds and the model's."""
    rows = X if isinstance(X, Rows) else MemoryRows(X)
    n_sampled = min(rows.n_rows, SAMPLED_ROWS)
    sampled = np.random.default_rng(random_state).choice(rows.n_rows, n_sampled, replace=False)
    X = rows.take(np.sort(sampled))
    base = build_space(forest)
    grown = _grow(_visible_values(X, base), n_trees, min(max_samples, len(X)), random_state)
    edges = [_extra_edges(base, grown, feature) for feature in range(forest.n_features)]
    space = build_space(forest, extra_edges=edges)
    trees = _state_trees(grown, space)
    is_leaf = trees.leaf_of_node >= 0
    depth = np.zeros(trees.n_leaves)
    depth[trees.leaf_of_node[is_leaf]] = grown.depth_of_node[is_leaf]
    return GrownForest(trees, depth, space)


def isolation_tables(grown: GrownForest, visits: IntArray) -> ScoreTables:
    """The score ``-mean(depth + c(n))`` over the trees, with ``n`` the ``visits`` of the leaf by rows of X_fit.

    ``c(n) = 2 H(n-1) - 2 (n-1) / n``. Thresholds are compared as the model compares its own, so the score
    need not equal scikit-learn's ``score_samples``. A categorical feature is split by the number of its
    state; missing values go to the side that scikit-learn chose for them.
    """
    path = grown.depth + average_path_length(visits)
    cost = -np.rint(path * SCORE_SCALE / grown.trees.n_trees).astype(np.int64)
    tree_cost = TreeCost(grown.trees, cost, of_model=False)
    return score_of_leaves(grown.space, tree_cost, SCORE_SCALE)


def average_path_length(count: npt.ArrayLike) -> FloatArray:
    """``c(n)``: the mean depth of an unsuccessful search in a binary tree of n keys."""
    n = np.asarray(count, dtype=np.int64)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(int(n.max(initial=0)), 2)))])
    several = np.maximum(n, 1)
    return np.where(n > 1, 2 * harmonic[several - 1] - 2 * (several - 1) / several, 0.0)


def _visible_values(X: FloatArray, space: StateSpace) -> FloatArray:
    """X as scikit-learn may see it: state numbers for categories, finite float32 for numbers."""
    visible = np.clip(cast_value(space.comparison, X), -FLOAT32_MAX, FLOAT32_MAX)
    for feature, axis in enumerate(space.axes):
        if axis.codes is not None:
            visible[:, feature] = space.axis_states(axis, X[:, feature])
        elif 0 <= axis.missing_state < axis.n_intervals and len(axis.edges):
            # the model reads NaN as zero, and so must its score
            visible[np.isnan(X[:, feature]), feature] = 0.0
    return visible


def _grow(X: FloatArray, n_trees: int, max_samples: int, random_state: int) -> IsolationTrees:
    try:
        from sklearn.ensemble import IsolationForest
    except ImportError as error:
        raise MissingDependencyError(
            "The isolation-forest score needs scikit-learn; pip install scikit-learn, or use score='chow-liu'.",
            option="score",
        ) from error
    model = IsolationForest(n_estimators=n_trees, max_samples=max_samples, random_state=random_state)
    model.fit(X)
    parts = [estimator.tree_ for estimator in model.estimators_]
    root = np.concatenate([[0], np.cumsum([tree.node_count for tree in parts])])
    starts = np.repeat(root[:-1], np.diff(root))
    left, right = (
        np.concatenate([getattr(tree, side) for tree in parts]) for side in ("children_left", "children_right")
    )
    left, right = (np.where(child < 0, -1, child + starts) for child in (left, right))
    depth = np.zeros(len(left), dtype=np.int64)
    level = root[:-1]
    while len(level):
        inner = level[left[level] >= 0]
        for child in (left[inner], right[inner]):
            depth[child] = depth[inner] + 1
        level = np.concatenate([left[inner], right[inner]])
    return IsolationTrees(
        root=root[:-1],
        feature=np.concatenate([tree.feature for tree in parts]).astype(np.int64),
        threshold=np.concatenate([tree.threshold for tree in parts]),
        left=left,
        right=right,
        missing_left=np.concatenate([tree.missing_go_to_left for tree in parts]).astype(bool),
        depth_of_node=depth,
    )


def _extra_edges(space: StateSpace, grown: IsolationTrees, feature: int) -> FloatArray | None:
    nodes = np.flatnonzero((grown.left >= 0) & (grown.feature == feature))
    if len(nodes) == 0 or space.axes[feature].codes is not None:
        return None
    return np.unique(_native_threshold(space, grown.threshold[nodes]))


def _native_threshold(space: StateSpace, threshold: FloatArray) -> FloatArray:
    if space.comparison is Comparison.FLOAT32_LESS:
        return threshold.astype(np.float32).astype(np.float64) + 0.0
    return threshold + 0.0  # -0.0 and 0.0 are one threshold


def _state_trees(grown: IsolationTrees, space: StateSpace) -> StateTrees:
    """The isolation trees over states, in the form that `routing.route` returns."""
    n_nodes = len(grown.left)
    is_leaf = grown.left < 0
    rank = np.full(n_nodes, -1)
    first_special, special_offset = np.zeros((2, n_nodes), dtype=np.int64)
    sides: list[npt.NDArray[np.bool_]] = []
    filled = 0
    for node in np.flatnonzero(~is_leaf):
        axis = space.axes[grown.feature[node]]
        first_special[node] = axis.n_intervals
        if axis.codes is not None:
            side = np.arange(axis.n_states) <= grown.threshold[node]
        else:
            threshold = _native_threshold(space, grown.threshold[node : node + 1])[0]
            rank[node] = np.searchsorted(axis.edges, threshold)
            side = np.zeros(axis.n_states - axis.n_intervals, dtype=bool)
            if axis.zero_state >= 0:
                below = space.comparison is Comparison.FLOAT32_LESS
                zero_left = threshold > 0 if below else threshold >= 0
                side[axis.zero_state - axis.n_intervals] = zero_left
            if axis.missing_state >= axis.n_intervals:
                side[axis.missing_state - axis.n_intervals] = grown.missing_left[node]
        special_offset[node] = filled
        filled += len(side)
        sides.append(side)
    return make_trees(
        TreeShape(grown.root, is_leaf, grown.left, grown.right),
        grown.feature,
        rank,
        first_special,
        special_offset,
        np.concatenate([*sides, [False]]),
    )


# Larger regions that are easier to prove in: what is proved there also holds in the region itself.
DEPTHS = (4,)  # at which isolation trees are cut off


def enclosing(tables: RegionTables) -> list[tuple[str, RegionTables]]:
    """Regions that contain this one, largest first, each with a short name; empty if CP-SAT copes without them."""
    extra = tables.extra_trees
    if extra is None or tables.score is None:
        return []
    larger = [("whole domain", replace(tables, score=None, tau=None))]
    for depth in DEPTHS:
        if depth < extra.trees.depth:
            cut = replace(tables, score=replace(tables.score, trees=cut_trees(extra, depth)))
            larger.append((f"isolation trees of depth {depth}", cut))
    return larger


def cut_trees(cost: TreeCost, depth: int) -> TreeCost:
    """The trees down to ``depth``; a subtree that is cut off costs what its cheapest leaf costs."""
    trees = cost.trees
    is_leaf = trees.leaf_of_node >= 0
    levels = node_levels(trees.root, is_leaf, trees.left, trees.right)
    cheapest = np.where(is_leaf, cost.cost[np.maximum(trees.leaf_of_node, 0)], 0)
    for level in reversed(levels):
        inner = level[~is_leaf[level]]
        cheapest[inner] = np.minimum(cheapest[trees.left[inner]], cheapest[trees.right[inner]])
    kept = np.sort(np.concatenate(levels[: depth + 1]))
    ends = is_leaf.copy()
    if depth < len(levels):
        ends[levels[depth]] = True
    number = np.full(len(is_leaf), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    ends, root = ends[kept], number[trees.root]
    left, right = number[trees.left[kept]], number[trees.right[kept]]
    shorter = make_trees(
        TreeShape(root, ends, left, right),
        trees.feature[kept],
        trees.rank[kept],
        trees.first_special[kept],
        trees.special_offset[kept],
        trees.special_left,
    )
    leaf_cost = np.zeros(shorter.n_leaves, dtype=np.int64)
    leaf_cost[shorter.leaf_of_node[ends]] = cheapest[kept][ends]
    return TreeCost(shorter, leaf_cost, cost.of_model)
