"""The pruned model, read from its file, as leaf values over the trees of the original.

Also bounds how far its native margin can be from the integers. Trees that the original does not have are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pine_boost.certificate.certificate import require
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, Forest, IntArray, PrunedForest, spread
from pine_boost.model.reach import find_live, shrink
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import pass_down
from pine_boost.proof.problem import Problem


@dataclass(frozen=True, eq=False)
class MatchedTrees:
    """A pruned model on the original's trees.

    Attributes
    ----------
    pruned : PrunedForest
    deviation : Fraction
        Bound on |native margin - integer sum / 2**grid|, for every input; 0 on an exact grid.
    alive : bool (n_nodes,)
        Nodes of the original that some input reaches; those that none does have no value here.
    """

    pruned: PrunedForest
    deviation: Fraction
    alive: BoolArray


def match_trees(original: Forest, smaller: Forest, kept: Sequence[int], grid: int) -> MatchedTrees:
    """Find each tree of the pruned model among the kept trees of the original, in order.

    Parameters
    ----------
    original, smaller : Forest
        As parsed from what was pruned and from what was written.
    kept : sequence of int
        Indices of the original's trees that the certificate names.
    grid : int
        Leaves are read in units of ``2**-grid``.

    Raises
    ------
    CertificateMismatch
        The two do not read inputs alike, or a tree of one is missing in the other.
    """
    require_same_reading(original, smaller)
    most = exact.MAX_GRID[original.arithmetic]
    require(0 <= grid <= most, f"The certificate's grid is {grid}; 0 to {most} are possible for this kind of model.")
    kept_trees = np.array(kept, dtype=np.int64)
    ascends = np.all(np.diff(kept_trees) > 0) and np.all((kept_trees >= 0) & (kept_trees < original.n_trees))
    require(bool(ascends), f"The certificate's kept trees are not ascending numbers below {original.n_trees}.")
    value_int = _to_grid(smaller.value, grid)
    intercept_int = _to_grid(smaller.intercept, grid)
    placed = np.zeros(original.value.shape, dtype=np.int64)
    expected = kept_trees[np.diff(original.tree_offset)[kept_trees] > 1]
    present = np.flatnonzero(np.diff(smaller.tree_offset) > 1)
    found = f"The pruned model has {len(present)} trees with a split, the certificate keeps {len(expected)}."
    require(len(expected) == len(present), found)
    alive = find_live(original)
    trees = _Originals.of(original, alive)
    is_leaf = original.kind == SplitKind.LEAF
    for theirs, ours in zip(present, expected, strict=True):
        ours_nodes, theirs_nodes = trees.match(int(ours), smaller, int(theirs))
        placed[ours_nodes] = value_int[theirs_nodes]
        is_leaf[ours_nodes] = True
    collapsed = np.flatnonzero(is_leaf & (original.kind != SplitKind.LEAF))
    pass_down(original, collapsed, placed, trees.instead)
    constants = smaller.tree_offset[:-1][np.diff(smaller.tree_offset) == 1]
    intercept_int = intercept_int + spread(smaller, value_int)[constants].sum(axis=0)
    pruned = PrunedForest(
        original,
        kept_trees,
        placed,
        grid,
        intercept_int,
        np.ones(original.n_trees),
        is_leaf if len(collapsed) else None,
        None if alive.all() else trees.passed,
    )
    leaf_value = spread(original, placed)[original.kind == SplitKind.LEAF]
    require(
        int(np.abs(leaf_value).sum(axis=0).max()) <= exact.ROW_LIMIT // 4,
        f"The leaves of the pruned model are too large for the grid 2**-{grid}: their sum would pass what the solver "
        "adds up safely.",
    )
    return MatchedTrees(pruned, _deviation(smaller, value_int, intercept_int, grid), alive)


def require_same_margins(original: Forest, smaller: Forest) -> None:
    """Check that no input can tell two models apart, bit for bit, tree by tree.

    The smaller model may lack splits with a side that no input reaches, and splits all of whose
    leaves have one value.

    Raises
    ------
    CertificateMismatch
        A tree, a leaf or a constant is not the original's.
    """
    require_same_reading(original, smaller)
    for name in ("tree_output", "intercept", "slack", "slope"):
        same = np.array_equal(getattr(original, name), getattr(smaller, name))
        require(same, f"Original and smaller model differ in {name}.")
    require(original.decision == smaller.decision, "Original and smaller model decide in different ways.")
    alive = find_live(original)
    trees = _Originals.of(original, alive)
    bits = np.zeros(original.value.shape, dtype=np.uint64)
    bits[:] = np.ascontiguousarray(original.value).view(np.uint64)
    theirs = np.ascontiguousarray(smaller.value).view(np.uint64)
    live = np.flatnonzero(alive & (original.kind == SplitKind.LEAF))
    for tree in range(original.n_trees):
        ours_nodes, theirs_nodes = trees.match(tree, smaller, tree)
        bits[ours_nodes] = theirs[theirs_nodes]
        pass_down(original, ours_nodes, bits)
    same = np.array_equal(bits[live], np.ascontiguousarray(original.value[live]).view(np.uint64))
    require(same, "A leaf of the smaller model has another value than before.")


def require_decisive(problem: Problem, smaller: Forest, matched: MatchedTrees) -> None:
    """Check that the pruned model's native decision follows from the integer sides to be proved.

    A side of ``needed`` units lies at ``needed / 2**grid``, give or take the deviation; that must
    be beyond the native cut and its guard, or exactly on a cut whose ties fall to this side: then
    the sums must be exact, and the next unit be beyond the guard.
    """
    needed = problem.needed_sides(matched.pruned.grid)
    unit = Fraction(1, 2**matched.pruned.grid)
    decision = smaller.decision
    guard = Fraction(decision.guard) + matched.deviation * (1 if smaller.n_outputs == 1 else 2)
    n_cuts = len(problem.forest.decision.cuts)
    require(len(decision.cuts) == n_cuts, "The pruned model decides at other cuts than the original.")
    for question in problem.questions:
        distance = int(needed[question.index]) * unit - question.cut_side(decision)
        is_exact_tie = distance == 0 == matched.deviation and question.wins_tie(decision)
        require(
            distance > guard or (is_exact_tie and unit > guard),
            f"{question.name}: one step of the grid 2**-{matched.pruned.grid} is smaller than what the native decision "
            "of the pruned model can tell apart; this certificate cannot be verified.",
        )


def require_same_reading(original: Forest, smaller: Forest) -> None:
    """Refuse two models that may send one input different ways at the same split."""
    for name in (
        "library",
        "n_features",
        "n_outputs",
        "comparison",
        "category_rule",
        "arithmetic",
        "accepts_missing",
        "feature_categories",
    ):
        ours, theirs = getattr(original, name), getattr(smaller, name)
        require(ours == theirs, f"Original and pruned model differ in {name}: {ours!r} and {theirs!r}.")
    same = original.value.shape[1] == smaller.value.shape[1]
    require(same, "Original and pruned model have leaves of different width.")
    one, other = original.missing_value, smaller.missing_value
    same = np.array_equal(one, other, equal_nan=True)
    require(same, f"The models read different values as missing: {one:g} and {other:g}.")


@dataclass(frozen=True, eq=False)
class _Originals:
    """The trees of the original, and the node in each one's place without what nothing reaches.

    ``passed`` holds the node in each one's place in the models that were matched.
    """

    forest: Forest
    instead: IntArray
    passed: IntArray

    @classmethod
    def of(cls, forest: Forest, alive: BoolArray) -> _Originals:
        """The trees of which some nodes are alive."""
        instead = shrink(forest, alive).instead
        return cls(forest, instead, instead.copy())

    def match(self, ours: int, smaller: Forest, theirs: int) -> tuple[IntArray, IntArray]:
        """Leaves of two trees in step, level by level; every split of the smaller must be ours.

        Where the smaller tree has a leaf, the original may have a subtree: it became that leaf.
        Splits of the original that every input passes on the same side may be gone.
        """
        forest = self.forest
        a = forest.tree_offset[ours : ours + 1]
        b = smaller.tree_offset[theirs : theirs + 1]
        ours_leaves, theirs_leaves = [], []
        same = bool(forest.tree_output[ours] == smaller.tree_output[theirs])
        while same and len(a):
            here = np.where(same_splits(forest, a, smaller, b), a, self.instead[a])
            self.passed[a] = here
            leaf = smaller.kind[b] == SplitKind.LEAF
            ours_leaves.append(here[leaf])
            theirs_leaves.append(b[leaf])
            a, b = here[~leaf], b[~leaf]
            same = bool(same_splits(forest, a, smaller, b).all())
            a = np.concatenate([forest.left[a], forest.right[a]])
            b = np.concatenate([smaller.left[b], smaller.right[b]])
        require(
            same,
            f"Tree {theirs} of the pruned model is not tree {ours} of the original, which the certificate names: "
            "output or splits differ.",
        )
        return np.concatenate(ours_leaves), np.concatenate(theirs_leaves)


def same_splits(original: Forest, a: IntArray, smaller: Forest, b: IntArray) -> BoolArray:
    """Whether every input goes the same way at two nodes, or both are leaves."""
    same = np.ones(len(a), dtype=bool)
    for name in ("kind", "feature", "threshold", "default_left", "missing", "set_left"):
        same &= getattr(original, name)[a] == getattr(smaller, name)[b]
    for i in np.flatnonzero(same & (original.kind[a] == SplitKind.CATEGORICAL)):
        same[i] = np.array_equal(original.categories_of(int(a[i])), smaller.categories_of(int(b[i])))
    return same


def _to_grid(numbers: np.ndarray, grid: int) -> IntArray:
    scaled = np.ldexp(numbers, grid)
    fits = bool(np.all(np.abs(scaled) <= exact.ROW_LIMIT))
    require(fits, f"A leaf of the pruned model is too large for the certificate's grid 2**-{grid}.")
    return np.asarray(np.rint(scaled), dtype=np.int64)


def _deviation(smaller: Forest, value_int: IntArray, intercept_int: IntArray, grid: int) -> Fraction:
    """Rounding of the leaves to the grid, added over trees, and of the native sum itself."""
    off = np.abs(np.ldexp(smaller.value, grid) - value_int)  # exact: both are near each other
    per_tree = np.maximum.reduceat(off.max(axis=1), smaller.tree_offset[:-1])
    constant = np.abs(np.ldexp(smaller.intercept, grid) - _to_grid(smaller.intercept, grid))
    rounding = Fraction(float(constant.max()))
    for largest in per_tree:
        rounding += Fraction(float(largest))
    return rounding * Fraction(1, 2**grid) + Fraction(exact.summation_band(smaller))
