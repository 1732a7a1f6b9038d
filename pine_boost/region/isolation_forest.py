"""Isolation forest: inputs that random splits isolate early are implausible.

scikit-learn grows the trees. Routing and scoring are done here, with the model's own comparison; the trees'
thresholds join the model's in the state space.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MissingDependencyError, install_with
from pine_boost.model.exact import FLOAT32_MAX, SCORE_SCALE
from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.reference import cast_value
from pine_boost.model.routing import StateTrees, make_trees, route
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.states import StateSpace, build_space
from pine_boost.region.score_tables import RegionTables, ScoreTables, TreeCost, score_of_leaves
from pine_boost.tables.rows import MemoryRows, Rows

SAMPLED_ROWS = 100_000  # rows that the trees are grown on; each tree uses 256 of them


def grow_trees(
    X: FloatArray | Rows, forest: Forest, n_trees: int = 30, max_samples: int = 256, random_state: int = 0
) -> tuple[StateTrees, StateSpace]:
    """Isolation trees grown on X, over a space with their thresholds and the model's."""
    rows = X if isinstance(X, Rows) else MemoryRows(X)
    n_sampled = min(rows.n_rows, SAMPLED_ROWS)
    sampled = np.random.default_rng(random_state).choice(rows.n_rows, n_sampled, replace=False)
    X = rows.take(np.sort(sampled))
    base = build_space(forest)
    grown = _grow(_visible_values(X, base), n_trees, min(max_samples, len(X)), random_state)
    grown = _in_terms_of_the_model(grown, forest, base)
    numeric = [grown.threshold[(grown.kind == SplitKind.NUMERIC) & (grown.feature == j)] for j in range(len(base.axes))]
    space = build_space(forest, [np.unique(own) if len(own) else None for own in numeric])
    return route(grown, space), space


def isolation_tables(trees: StateTrees, visits: IntArray, space: StateSpace) -> ScoreTables:
    """The score ``-mean(depth + c(n))`` over the trees, with ``n`` the ``visits`` of the leaf by rows of X_fit.

    ``c(n) = 2 H(n-1) - 2 (n-1) / n``. Thresholds are compared as the model compares its own, so the score
    need not equal scikit-learn's ``score_samples``. A categorical feature is split by the number of its
    state; missing values go to the side that scikit-learn chose for them.
    """
    path = trees.subtrees.depth[trees.subtrees.leaf_node] + average_path_length(visits)
    cost = -np.rint(path * SCORE_SCALE / trees.n_trees).astype(np.int64)
    return score_of_leaves(space, TreeCost(trees, cost, of_model=False), SCORE_SCALE)


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


def _grow(X: FloatArray, n_trees: int, max_samples: int, random_state: int) -> Forest:
    try:
        from sklearn.ensemble import IsolationForest
    except ImportError as error:
        raise MissingDependencyError(
            f"The isolation-forest score needs scikit-learn; use score='chow-liu', or {install_with('sklearn')}",
            option="score",
        ) from error
    from pine_boost.parsers.sklearn.read import read_isolation_forest

    model = IsolationForest(n_estimators=n_trees, max_samples=max_samples, random_state=random_state)
    return read_isolation_forest(model.fit(X))


def _in_terms_of_the_model(grown: Forest, forest: Forest, space: StateSpace) -> Forest:
    """The trees with the model's comparison; splits of category states by their number become sets of codes."""
    threshold = grown.threshold + 0.0  # -0.0 and 0.0 are one threshold
    if space.comparison is Comparison.FLOAT32_LESS:
        threshold = threshold.astype(np.float32).astype(np.float64)
    kind, default_left, set_left = grown.kind.copy(), grown.default_left.copy(), grown.set_left.copy()
    sets = [np.zeros(0, dtype=np.int64)] * grown.n_nodes
    for node in np.flatnonzero(kind == SplitKind.NUMERIC):
        axis = space.axes[grown.feature[node]]
        if axis.codes is None:
            continue
        left = np.arange(axis.n_states) <= threshold[node]
        kind[node] = SplitKind.CATEGORICAL
        default_left[node] = axis.missing_state >= 0 and left[axis.missing_state]
        set_left[node] = axis.other_state < 0 or not left[axis.other_state]
        sets[node] = axis.codes[left[axis.code_states] == set_left[node]]
    return replace(
        grown,
        threshold=threshold,
        kind=kind,
        default_left=default_left,
        set_left=set_left,
        category_offset=np.cumsum([0, *map(len, sets)]),
        category=np.concatenate(sets).astype(np.int32),
        comparison=forest.comparison,
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
    trees, subtrees = cost.trees, cost.trees.subtrees
    ends = trees.leaf_of_node >= 0
    ends[subtrees.levels[min(depth, trees.depth)]] = True
    kept = np.sort(np.concatenate(subtrees.levels[: depth + 1]))
    number = np.full(len(ends), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    ends = ends[kept]
    left, right = number[trees.left[kept]], number[trees.right[kept]]
    splits = {name: getattr(trees, name)[kept] for name in ("feature", "rank", "first_special", "special_offset")}
    root, special_left = number[trees.root], trees.special_left
    shorter = make_trees(root, ends, left, right, **splits, special_left=special_left, n_states=trees.n_states)
    # leaves are numbered from left to right, before and after
    leaf_cost = np.minimum.reduceat(cost.cost, np.sort(subtrees.first[kept[ends]]))
    return TreeCost(shorter, leaf_cost, cost.of_model)
