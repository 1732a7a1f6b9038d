"""Shared test helpers: a model on its dyadic grid, its integer margins, and rows on every edge.

In come a Forest and per-tree weights; out goes a PrunedForest that an exporter can write.
Refuses nothing: a test that asks for a grid that does not fit gets an AssertionError.
"""

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import MAX_GRID, PRECISION
from pine_boost.model.forest import FloatArray, Forest, IntArray, PrunedForest, spread
from pine_boost.model.reference import find_leaves
from pine_boost.model.rules import Comparison, SplitKind


def grid_forest(forest: Forest, weights: npt.ArrayLike | None = None, grid: int | None = None) -> PrunedForest:
    """Reweight the trees (0 = dropped), fold the intercept, round to the finest grid that fits.

    Reweighting multiplies ``value - tree_bias``; the biases of all trees are intercept and stay.
    With ``free_intercept`` the intercept goes into the first kept tree of its output, or into
    ``intercept_int`` where no tree of that output is kept.
    """
    weight = np.ones(forest.n_trees) if weights is None else np.asarray(weights, dtype=float)
    assert weight.shape == (forest.n_trees,)
    kept = np.flatnonzero(weight)
    is_leaf = forest.kind == SplitKind.LEAF
    tree = forest.node_tree
    value = weight[tree, None] * (forest.value - forest.tree_bias[tree, None])
    value[~is_leaf] = 0.0
    intercept = forest.intercept.astype(np.float64).copy()
    for t in range(forest.n_trees):
        outputs = slice(None) if forest.tree_output[t] < 0 else forest.tree_output[t]
        intercept[outputs] += forest.tree_bias[t]
    if not forest.free_intercept:
        assert not np.any(intercept), "an intercept that the model may not carry"
    unfolded = intercept.copy()
    for t in kept:
        nodes = np.flatnonzero(is_leaf & (tree == t))
        if forest.tree_output[t] < 0:
            value[nodes] += unfolded
            unfolded[:] = 0.0
        else:
            value[nodes, 0] += unfolded[forest.tree_output[t]]
            unfolded[forest.tree_output[t]] = 0.0
    if grid is not None:
        value_int, intercept_int = _round_to_grid(value, unfolded, grid)
        assert _fits(forest, value_int, intercept_int), f"grid {grid} is too fine"
    else:
        for grid in range(MAX_GRID[forest.arithmetic], -1, -1):
            value_int, intercept_int = _round_to_grid(value, unfolded, grid)
            if _fits(forest, value_int, intercept_int):
                break
        else:
            raise AssertionError("no grid fits these leaves")
    return PrunedForest(forest, kept, value_int, grid, intercept_int, weight)


def integer_margins(pruned: PrunedForest, X: FloatArray) -> IntArray:
    """Integer sums of a pruned forest, (n_rows, n_outputs): the margins times 2**grid."""
    forest = pruned.forest
    leaves = find_leaves(forest, X)
    value = spread(forest, pruned.value_int)
    return value[leaves[:, pruned.kept]].sum(axis=1) + pruned.intercept_int


def edge_rows(
    forest: Forest, base: FloatArray, *, infinite: bool = False, limit: int = 400, seed: int = 0
) -> FloatArray:
    """Rows of ``base`` with one or all features moved onto the edges of the forest.

    Edges: every threshold and its neighbours in the float type of the comparison and in float64,
    NaN, +-0, denormals, huge values; for categorical features every code of a set, its neighbours,
    unseen, fractional and negative codes.
    """
    random = np.random.default_rng(seed)
    rows = [base[:0]]
    for feature in range(forest.n_features):
        edges = feature_edges(forest, feature, infinite=infinite)
        if len(edges) > limit:
            edges = random.choice(edges, limit, replace=False)
        moved = base[random.integers(len(base), size=len(edges))].copy()
        moved[:, feature] = edges
        rows.append(moved)
    everywhere = base[random.integers(len(base), size=limit)].copy()
    for feature in range(forest.n_features):
        edges = feature_edges(forest, feature, infinite=infinite)
        everywhere[:, feature] = random.choice(edges, len(everywhere))
    return np.vstack([*rows, everywhere])


def feature_edges(forest: Forest, feature: int, *, infinite: bool = False) -> FloatArray:
    """The values of one feature at which a prediction may change, and their neighbours."""
    mine = forest.feature == feature
    edges = [np.array([np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-38, 5e-324, 1e30, -1e30])]
    if infinite:
        edges.append(np.array([np.inf, -np.inf]))
    thresholds = np.unique(forest.threshold[mine & (forest.kind == SplitKind.NUMERIC)])
    thresholds = thresholds[np.isfinite(thresholds)]
    edges += [thresholds, np.nextafter(thresholds, np.inf), np.nextafter(thresholds, -np.inf)]
    if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
        near = thresholds.astype(np.float32)
        edges += [np.nextafter(near, np.float32(side)).astype(np.float64) for side in (np.inf, -np.inf)]
    categorical = np.flatnonzero(mine & (forest.kind == SplitKind.CATEGORICAL))
    if len(categorical):
        codes = np.unique(np.concatenate([forest.categories_of(int(i)) for i in categorical]))
        codes = codes.astype(np.float64)
        edges += [codes, codes + 1, codes - 1, codes + 0.5]
        edges.append(np.array([-1.0, -0.5, -7.0, 1.9, 63.0, 64.0, 1000.0, 2.0**24, 2.0**31]))
    return np.concatenate(edges)


def _round_to_grid(value: FloatArray, intercept: FloatArray, grid: int) -> tuple[IntArray, IntArray]:
    return (np.rint(np.ldexp(value, grid)).astype(np.int64), np.rint(np.ldexp(intercept, grid)).astype(np.int64))


def _fits(forest: Forest, value_int: IntArray, intercept_int: IntArray) -> bool:
    """|any partial sum| <= sum of the largest |leaf| of each tree < 2**precision, per output."""
    magnitude = np.abs(spread(forest, value_int))
    largest = np.maximum.reduceat(magnitude, forest.tree_offset[:-1], axis=0)
    total = largest.sum(axis=0) + np.abs(intercept_int)
    return bool(total.max() < 2 ** PRECISION[forest.arithmetic])
