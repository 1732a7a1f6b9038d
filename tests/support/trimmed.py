"""Forests with nodes cut off: made at random, and compared node by node with what a file says.

In comes a Forest (or a PrunedForest); out goes a PrunedForest with ``is_leaf``, or an
AssertionError at the first node that differs.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import Forest, PrunedForest
from pine_boost.model.rules import SplitKind
from tests.support.grids import grid_forest


def cut_forest(
    forest: Forest, weights: npt.ArrayLike | None = None, *, share: float = 0.3, seed: int = 0
) -> PrunedForest:
    """Cut a share of the inner nodes off; the new leaf has the number of its first leaf."""
    return cut(grid_forest(forest, weights), share=share, seed=seed)


def cut(pruned: PrunedForest, *, share: float = 0.3, seed: int = 0) -> PrunedForest:
    forest = pruned.forest
    inner = forest.kind != SplitKind.LEAF
    random = np.random.default_rng(seed)
    chosen = inner & (random.random(forest.n_nodes) < share)
    value_int = pruned.value_int.copy()
    below = np.zeros(forest.n_nodes, dtype=bool)
    for node in np.flatnonzero(chosen):
        if below[node]:
            continue
        found = nodes_below(forest, int(node))
        leaves = found[~inner[found]]
        below[found] = True
        value_int[[node, *leaves]] = value_int[leaves[0]]
    is_leaf = (chosen | ~inner) & ~below
    return replace(pruned, value_int=value_int, is_leaf=is_leaf)


def nodes_below(forest: Forest, node: int) -> npt.NDArray[np.int64]:
    """All nodes below one, itself excluded, first leaf by the left path among them."""
    found, open_nodes = [], [node]
    while open_nodes:
        here = open_nodes.pop()
        if here != node:
            found.append(here)
        if forest.kind[here] != SplitKind.LEAF:
            open_nodes += [int(forest.right[here]), int(forest.left[here])]
    return np.array(found)


def assert_same_trees(pruned: PrunedForest, written: Forest, offset: float = 0.0) -> int:
    """The kept trees, node by node: splits as in the original, values on the grid.

    ``written`` may have constant trees besides (fillers, intercepts), which are skipped by their
    place: the n-th tree of an output with a kept tree. Returns the number of nodes compared.
    """
    forest = pruned.forest
    is_leaf = (
        forest.kind == SplitKind.LEAF if pruned.is_leaf is None else pruned.is_leaf | (forest.kind == SplitKind.LEAF)
    )
    compared = 0
    for tree, root in zip(pruned.kept, written_roots(pruned, written), strict=True):
        pairs = [(int(forest.tree_offset[tree]), root)]
        while pairs:
            old, new = pairs.pop()
            compared += 1
            assert is_leaf[old] == (written.kind[new] == SplitKind.LEAF)
            if is_leaf[old]:
                value = np.ldexp(pruned.value_int[old].astype(float), -pruned.grid) + offset
                np.testing.assert_array_equal(value, written.value[new])
                continue
            for field in ("kind", "feature", "threshold", "default_left", "missing", "set_left"):
                assert getattr(forest, field)[old] == getattr(written, field)[new], field
            np.testing.assert_array_equal(forest.categories_of(old), written.categories_of(new))
            pairs.append((int(forest.left[old]), int(written.left[new])))
            pairs.append((int(forest.right[old]), int(written.right[new])))
    return compared


def written_roots(pruned: PrunedForest, written: Forest) -> list[int]:
    """Roots of the written trees that stand for the kept ones, by output and order."""
    forest = pruned.forest
    if len(pruned.kept) == written.n_trees:
        return written.tree_offset[:-1].tolist()
    kept_rounds = np.unique(forest.tree_round[pruned.kept])
    # XGBoost's constants for the intercept are a round of their own before all others
    first = int(forest.library == "xgboost" and written.tree_round.max() + 1 > len(kept_rounds))
    rounds = {int(r): i + first for i, r in enumerate(kept_rounds)}
    roots: list[int] = []
    used: set[int] = set()
    for tree in pruned.kept:
        output = forest.tree_output[tree]
        mine = [t for t in np.flatnonzero(written.tree_output == output) if t not in used]
        exact = [t for t in mine if written.tree_round[t] == rounds[int(forest.tree_round[tree])]]
        found = (exact or mine)[0]
        used.add(found)
        roots.append(int(written.tree_offset[found]))
    return roots


def reached(pruned: PrunedForest) -> npt.NDArray[np.bool_]:
    """Nodes of the kept trees that are not below a leaf of the smaller forest."""
    forest = pruned.forest
    is_leaf = forest.kind == SplitKind.LEAF
    if pruned.is_leaf is not None:
        is_leaf |= pruned.is_leaf
    found = np.zeros(forest.n_nodes, dtype=bool)
    open_nodes = forest.tree_offset[:-1][pruned.kept].tolist()
    while open_nodes:
        node = open_nodes.pop()
        found[node] = True
        if not is_leaf[node]:
            open_nodes += [int(forest.left[node]), int(forest.right[node])]
    return found


def n_remaining(pruned: PrunedForest) -> int:
    """Nodes of the smaller forest."""
    return int(reached(pruned).sum())
