"""Shapes, that is sets of splits that stay, and leaf values for what is left of the trees.

A split stays only if all splits above it do.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from pine_boost.budget import Budget
from pine_boost.model.exact import SAME_LEAVES
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray, PrunedForest
from pine_boost.model.shape import begins, collapsed, numbers, owners
from pine_boost.model.trimming import forest_subtrees, trim_pruned
from pine_boost.proof.minsum import cheapest_leaves
from pine_boost.proof.problem import Problem
from pine_boost.search.leaf_values import nearest_leaves
from pine_boost.search.lp import LinearProgram, UnsolvedProgramError, WeightProgram, Weights, add_order_rows
from pine_boost.search.lp_columns import Columns, Support, renamed
from pine_boost.search.search_state import ProposalStatus, SearchState

Kept = BoolArray  # which splits stay
# How often small ranges are made more expensive, so that more vanish, and whether remaining splits
# are tried one by one. The first levels keep more splits: they are found and proved sooner.
LEVELS = ((1, False), (6, False), (6, True))
_SMALL = 0.02  # of the median range: smaller ones count as about to vanish
_AT_ONCE = 8  # an eighth of the splits is collapsed at first


class Splits:
    """The inner nodes of all trees, parents before children.

    Attributes
    ----------
    forest : Forest
    subtrees : Subtrees
    node : int64 (n_splits,)
    parent : int64 (n_splits,)
        Position of the split above, -1 at a root.
    is_root : bool (n_splits,)
    """

    def __init__(self, forest: Forest) -> None:
        self.forest, self.subtrees = forest, forest_subtrees(forest)
        self.node = node = self.subtrees.inner
        position = np.full(forest.n_nodes + 1, -1)  # the last one is for roots
        position[node] = np.arange(len(node))
        self.parent: IntArray = position[self.subtrees.parent[node]]
        self.is_root: BoolArray = self.parent < 0

    def size(self, kept: Kept) -> int:
        """Leaves of the trees that are left: one more than splits in every tree that has any."""
        return int(np.count_nonzero(kept) + np.count_nonzero(kept & self.is_root))

    def ends(self, kept: Kept) -> Kept:
        """The kept splits with only leaves below, which can be collapsed next."""
        above = self.parent[kept & ~self.is_root]
        ends = kept.copy()
        ends[above] = False
        return ends

    def ranges(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Largest minus smallest leaf value below every split."""
        return self.subtrees.ranges(values, self.node)

    def owners(self, kept: Kept) -> IntArray:
        """The node at which the path to each leaf of the original ends, as in `model.shape`."""
        stays = np.zeros(self.forest.n_nodes, dtype=bool)
        stays[self.node[kept]] = True
        return owners(self.forest, self.subtrees, stays)

    def of_model(self, pruned: PrunedForest | None) -> Kept:
        """The splits that a model still has."""
        if pruned is None:
            return np.ones(len(self.node), dtype=bool)
        trimming = trim_pruned(pruned)
        return np.isin(self.node, trimming.node[~trimming.is_leaf])

    def collapse(self, pruned: PrunedForest, kept: Kept) -> PrunedForest:
        """The model with all other splits collapsed; the leaves below each of them agree already.

        Splits above equal values go, too, but not the root of a kept tree.
        """
        value = pruned.value_int[self.subtrees.leaf_node, 0]
        return collapsed(pruned, self.subtrees, self.owners(kept & ((self.ranges(value) > 0) | self.is_root)))

    def spared(self, problem: Problem, seen: npt.NDArray[Any], value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Leaf values of a model in which unreached leaves take the value of their neighbours.

        No input of the region and no row reaches such a leaf (``seen`` are leaves of rows). From the
        leaves upwards, if the reached leaves below a split have one value, the others take it.
        """
        alive = cheapest_leaves(problem.region, problem.trees, problem.region.allowed)
        alive[np.unique(seen)] = True
        value = value.copy()
        for node in self.node[::-1]:
            below = slice(self.subtrees.first[node], self.subtrees.last[node])
            own = value[below][alive[below]]
            if 0 < len(own) < below.stop - below.start and np.all(own == own[0]):
                value[below] = own[0]
        return value


class CollapsedTrees:
    """The splits that stay, and the linear program of the leaves that are left, at first without rows.

    Attributes
    ----------
    kept : Kept
    support : Support
        The trees that are left.
    program : WeightProgram
        One column for every leaf that is left; leaves of the original share them. The rows of the search
        join when `solve` is called.
    merge : sparse (n_leaves, n_left)
        1 where a leaf of the original belongs to a leaf that is left.
    """

    def __init__(self, columns: Columns, splits: Splits, kept: Kept) -> None:
        self.kept, owner = kept, splits.owners(kept)
        number, tree = numbers(owner), splits.subtrees.leaf_tree[begins(owner)]
        own = np.flatnonzero(number >= 0)
        self.merge = csr_matrix((np.ones(len(own)), (own, number[own])), shape=(len(number), len(tree)))
        order = renamed(columns.order, number)  # every leaf has a column of its own there
        merged = replace(columns, column_unit=tree, scale=np.ones(len(tree)), leaf_column=number, order=order)
        self.support: Support = np.bincount(tree, minlength=columns.n_units) > 0
        self.program = WeightProgram(merged)

    def solve(self, state: SearchState, active: IntArray) -> Weights | None:
        """Values with the widest margin on every row of the search, or None.

        ``active`` are rows that mattered when the shape was found.
        """
        rows = state.constraints.program
        fresh = slice(len(self.program.rows), len(rows.rows))
        merged = np.asarray(rows.rows[fresh] @ self.merge)
        self.program.add_rows(merged, rows.free_rows[fresh], rows.strict[fresh], rows.magnified[fresh])
        if fresh.start == 0:
            self.program.lp.join(active)
        found = self.program.solve(self.support, state.budget)
        return found if isinstance(found, Weights) else None


class Collapser:
    """Proposes sets of splits that stay, and writes models with them."""

    def __init__(self, state: SearchState, splits: Splits) -> None:
        self.splits = splits
        self._program = RangeProgram(state.constraints.program, splits)
        self._shape: CollapsedTrees | None = None

    def write(self, state: SearchState, kept: Kept) -> PrunedForest | ProposalStatus:
        """A model with these splits on the grid, or why there is none."""
        shape = self._shape_of(state, kept)
        try:
            weights = shape.solve(state, self._program.active)
        except UnsolvedProgramError:  # other shapes may do
            return ProposalStatus.UNWRITABLE
        if weights is None:
            return ProposalStatus.EXCLUDED
        pruned = state.round(shape.program, shape.support, weights)
        return ProposalStatus.UNWRITABLE if pruned is None else self.splits.collapse(pruned, kept)

    def write_near(self, state: SearchState, kept: Kept) -> PrunedForest | None:
        """The same with values close to the original's, or None."""
        shape = self._shape_of(state, kept)
        weights = shape.solve(state, self._program.active)
        if weights is None:
            return None
        pruned = nearest_leaves(state, shape.program, shape.support, weights)
        return None if pruned is None else self.splits.collapse(pruned, kept)

    def _shape_of(self, state: SearchState, kept: Kept) -> CollapsedTrees:
        if self._shape is None or not np.array_equal(self._shape.kept, kept):
            self._shape = CollapsedTrees(state.columns, self.splits, kept)
        return self._shape

    def shrink(
        self, state: SearchState, kept: Kept, seed: int | None = None, *, level: int = len(LEVELS) - 1
    ) -> Kept | None:
        """Fewer splits with which every row can be kept, or None.

        Minimises the sum of all ranges, then again with small ranges more expensive until they
        vanish or stay, as far as ``level`` says. Another ``seed`` gives other costs, and so another
        answer.
        """
        n_solved, descends = LEVELS[level]
        splits, program = self.splits, self._program
        program.permit(kept)
        base: FloatArray = np.where(splits.is_root, 2.0, 1.0)  # a tree saves one leaf more
        if seed is not None:
            base = base * np.random.default_rng(seed).uniform(0.3, 1.7, len(base))
        cost, differ = base, kept
        for _ in range(n_solved):
            program.set_cost(cost)
            if not program.solve(state.budget, is_feasible=bool(kept.all())):
                return None
            ranges, differ = self._ranges()
            small = _SMALL * float(np.median(ranges[differ])) if differ.any() else 1.0
            cost = base * small / (ranges + small)
        kept = kept & differ
        if not kept.any():
            kept[np.argmax(splits.is_root)] = True  # the smallest shape: the first split of one tree
            return kept
        return self._descend(state, kept) if descends else kept

    def _ranges(self) -> tuple[FloatArray, Kept]:
        """Ranges of the last solution, and which are not 0."""
        ranges = self.splits.ranges(self._program.values)
        return ranges, np.asarray(ranges > SAME_LEAVES * max(1.0, float(ranges.max(initial=0.0))))

    def _descend(self, state: SearchState, kept: Kept) -> Kept:
        """Collapse lowest splits, many at once, as long as every row can be kept."""
        needed = np.zeros_like(kept)
        n_tried = max(1, int(np.count_nonzero(kept)) // _AT_ONCE)
        while True:
            open_ends = np.flatnonzero(self.splits.ends(kept) & ~needed)
            if len(open_ends) == 0:
                return kept
            ranges = self._ranges()[0][open_ends]
            trial = kept.copy()
            tried = open_ends[np.argsort(ranges, kind="stable")[:n_tried]]
            trial[tried] = False
            self._program.permit(trial)
            if trial.any() and self._program.solve(state.budget):
                kept = trial & self._ranges()[1]
                n_tried = max(1, min(2 * n_tried, int(np.count_nonzero(kept)) // _AT_ONCE))
            elif len(tried) == 1:
                needed[tried] = True
            else:
                n_tried = max(1, len(tried) // 4)


class RangeProgram:
    """``min sum c (high - low) : A v + B f >= 1``, with high and low of the leaf values below a split.

    A split whose leaves all agree can go. The first leaf of every tree is 0: constants are free, and
    a tree whose leaves agree is gone.

    Attributes
    ----------
    values : float64 (n_leaves,)
        Of the last solution.
    """

    def __init__(self, rows: WeightProgram, splits: Splits) -> None:
        self._rows = rows
        subtrees, forest = splits.subtrees, splits.forest
        n_leaves, n_splits = len(subtrees.leaf_node), len(splits.node)
        self.values: FloatArray = np.zeros(n_leaves)
        n_values = n_leaves + rows.n_free
        lower = np.full(n_values + 2 * n_splits, -math.inf)
        upper = -lower
        first = subtrees.leaf_offset[:-1]
        lower[first] = upper[first] = 0.0
        self.lp = LinearProgram(
            np.zeros(len(lower)), lower, upper, self, size=n_leaves, rows_per_pass=60, most_passes=100
        )
        # the variables that hold the highest and the lowest value at or below a node
        high, low = np.zeros(forest.n_nodes, dtype=np.int64), np.zeros(forest.n_nodes, dtype=np.int64)
        high[subtrees.leaf_node] = low[subtrees.leaf_node] = np.arange(n_leaves)
        high[splits.node] = n_values + np.arange(n_splits)
        low[splits.node] = high[splits.node] + n_splits
        self._range_rows = []
        for node in splits.node:
            for child in (forest.left[node], forest.right[node]):
                self.lp.add_row([high[node], high[child]], [1.0, -1.0], 0.0)
                self.lp.add_row([low[child], low[node]], [1.0, -1.0], 0.0)
            self._range_rows.append(self.lp.add_row([high[node], low[node]], [1.0, -1.0], -math.inf))
        add_order_rows(self.lp, rows.columns.order, np.arange(n_leaves))

    def __len__(self) -> int:
        return len(self._rows)

    def lines(self, indices: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows of the linear program."""
        rows = self._rows
        return np.column_stack([rows.rows[indices], rows.free_rows[indices]]), rows.strict[indices].astype(np.float64)

    def slack(self, x: FloatArray) -> FloatArray:
        """How far a solution exceeds the margin of 1 at every row."""
        n_leaves = len(self.values)
        values, free = x[:n_leaves], x[n_leaves : n_leaves + self._rows.n_free]
        return np.asarray(self._rows.sides(values, free) - self._rows.strict)

    @property
    def active(self) -> IntArray:
        """The rows that took part."""
        return np.sort(np.array(self.lp.active, dtype=np.int64))

    def permit(self, kept: Kept) -> None:
        """Leaves below a split that is not kept must agree."""
        for row, may_differ in zip(self._range_rows, kept.tolist(), strict=True):
            self.lp.set_upper(row, math.inf if may_differ else 0.0)

    def set_cost(self, cost: FloatArray) -> None:
        """What the range below each split costs."""
        self.lp.set_cost(np.concatenate([np.zeros(len(self.values) + self._rows.n_free), cost, -cost]))

    def solve(self, budget: Budget, *, is_feasible: bool = False) -> bool:
        """Whether there are such leaf values, as far as floats can tell."""
        solution = self.lp.solve(budget, is_feasible=is_feasible)
        if solution is None:
            return False
        self.values = solution.x[: len(self.values)]
        return True
