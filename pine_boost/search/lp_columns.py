"""The columns of the linear program: whole units or leaves, and which leaf values may not exceed others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import BoolArray, FloatArray, IntArray, PrunedForest, spread, tree_units
from pine_boost.model.routing import walk_states
from pine_boost.model.states import unique_rows
from pine_boost.model.trimming import leaf_count
from pine_boost.proof.problem import Problem, Question

Support = BoolArray  # which units are kept


@dataclass(frozen=True, eq=False)
class Columns:
    """One column for every unit of trees, or for every leaf of some of them.

    The weight of a unit multiplies all its leaves and is never negative; that of a leaf is its
    value, of either sign.

    Attributes
    ----------
    name : str
        What is counted: ``"round"``, ``"tree"``, or ``"leaf"`` (units are trees then).
    tree_unit : int64 (n_trees,)
        The unit of each tree.
    column_unit : int64 (n_columns,)
        The unit of each column; a unit is kept as soon as one of its columns is.
    value : float64 (n_leaves, n_outputs)
        Leaf values without the bias of their trees.
    scale : float64 (n_columns,)
        The largest entry of each column: columns of the linear program are divided by it.
    free : float64 (n_questions, n_free)
        Entries of the columns that cost nothing: a constant per output, and the distance of the
        cuts if there are several.
    leaf_column : int64 (n_leaves,) or None
        The column of each leaf, -1 if it has none; None if columns are units.
    order : int64 (n_pairs, 2)
        Pairs of leaf columns: the first value may not exceed the second.
    """

    name: str
    tree_unit: IntArray
    column_unit: IntArray
    value: FloatArray
    scale: FloatArray
    free: FloatArray
    leaf_column: IntArray | None = None
    order: IntArray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))

    @cached_property
    def n_units(self) -> int:
        """Number of units that the original has."""
        return int(self.tree_unit.max()) + 1

    @property
    def n_columns(self) -> int:
        """Number of columns that cost something."""
        return len(self.column_unit)

    @property
    def n_free(self) -> int:
        """Number of columns that cost nothing."""
        return int(self.free.shape[1])

    def rows(self, leaves: npt.NDArray[Any], question: Question) -> FloatArray:
        """Entries of points for one question, scaled: (n_points, n_columns)."""
        if self.leaf_column is not None:
            entries = np.zeros((len(leaves), self.n_columns + 1))  # the last one is for no column
            points = np.arange(len(leaves))[:, None]
            entries[points, self.leaf_column[leaves]] = question.side(self.value)[leaves]
            return np.asarray(entries[:, :-1] / self.scale)
        return np.asarray((question.side(self.value)[leaves] @ self._matrix) / self.scale)

    @cached_property
    def _matrix(self) -> FloatArray:
        """1 where a tree belongs to a column, (n_trees, n_columns)."""
        return np.asarray(self.tree_unit[:, None] == np.arange(self.n_columns), dtype=np.float64)

    def tree_weights(self, weights: FloatArray) -> FloatArray:
        """Weights of scaled columns as the weight of each tree."""
        return np.asarray((weights / self.scale)[self.tree_unit])

    def units_of(self, weights: FloatArray) -> Support:
        """The units that weights of columns keep."""
        return np.asarray(np.bincount(self.column_unit[weights != 0], minlength=self.n_units) > 0)

    def kept_units(self, pruned: PrunedForest | None) -> Support:
        """The units that a model keeps; all of them for None, the original."""
        if pruned is None:
            return np.ones(self.n_units, dtype=bool)
        return np.asarray(np.bincount(self.tree_unit[pruned.kept], minlength=self.n_units) > 0)

    def size_of(self, pruned: PrunedForest | None) -> int:
        """The size of a model in what is counted; None is the original."""
        if self.name == "leaf":
            return len(self.value) if pruned is None else leaf_count(pruned)
        return int(np.count_nonzero(self.kept_units(pruned)))


def leaf_values(problem: Problem) -> FloatArray:
    """Leaf values without the bias of their trees, (n_leaves, width)."""
    forest = problem.forest
    value = forest.value[problem.leaf_node]
    return value - forest.tree_bias[problem.trees.leaf_tree, None] if value.shape[1] == 1 else value


def build_columns(problem: Problem, unit: str = "round") -> Columns:
    """Columns of whole rounds or single trees; of trees if leaves are counted."""
    forest, trees = problem.forest, problem.trees
    unit = "tree" if unit == "leaf" else unit
    tree_unit = tree_units(forest, unit)
    value = spread(forest, leaf_values(problem), trees.leaf_tree)
    largest = np.maximum.reduceat(np.abs(value).max(axis=1), trees.leaf_offset[:-1])
    scale = np.zeros(int(tree_unit.max()) + 1)
    np.maximum.at(scale, tree_unit, largest)
    return Columns(
        name=unit,
        tree_unit=tree_unit,
        column_unit=np.arange(len(scale)),
        value=value,
        scale=np.where(scale > 0, scale, 1.0),
        free=np.stack([_free_row(problem, question) for question in problem.questions]),
    )


def leaf_columns(columns: Columns, problem: Problem, units: Support, monotone: Directions | None = ()) -> Columns:
    """A column for every leaf of some units, for trees of one output each.

    ``monotone`` as in `SearchTask`.
    """
    if monotone is None:
        monotone = kept_directions(problem)
    leaf_tree = problem.trees.leaf_tree
    chosen = np.flatnonzero(units[columns.tree_unit[leaf_tree]])
    leaf_column = np.full(len(leaf_tree), -1, dtype=np.int64)
    leaf_column[chosen] = np.arange(len(chosen))
    return replace(
        columns,
        column_unit=columns.tree_unit[leaf_tree[chosen]],
        value=np.eye(problem.forest.n_outputs)[problem.forest.tree_output[leaf_tree]],
        scale=np.ones(len(chosen)),
        leaf_column=leaf_column,
        order=renamed(ordered_leaves(problem, monotone), leaf_column),
    )


def _free_row(problem: Problem, question: Question) -> FloatArray:
    """``+-1`` on the constants, and minus the distance of the cuts if several fix the scale."""
    forest = problem.forest
    if not forest.free_intercept:
        return np.zeros(0)
    constants = np.asarray(question.side(np.eye(forest.n_outputs)), dtype=np.float64)
    cuts = forest.decision.cuts
    if len(cuts) < 2:
        return constants
    return np.append(constants, -question.beyond_first(cuts) / (cuts[-1] - cuts[0]))


Directions = tuple[int, ...]  # 1 rises, -1 falls, 0 is free, for every feature


def ordered_leaves(problem: Problem, directions: Directions) -> IntArray:
    """Pairs of leaves, (n_pairs, 2): the first value may not exceed the second.

    The two are neighbours along a feature: some input reaches one just below a threshold, and the
    other just above it with all other values unchanged. If every pair is in order, the tree is
    monotone on every input. A missing value has no place in the order.
    """
    pairs = []
    for feature, low, high in _neighbours(problem, np.flatnonzero(directions)):
        pairs.append((low, high) if directions[feature] > 0 else (high, low))
    return np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2)


def kept_directions(problem: Problem) -> Directions:
    """The directions that every tree of the original keeps, for a model that does not name any.

    If it was trained with constraints, these are among them.
    """
    space, forest = problem.space, problem.forest
    value = forest.leaf_vectors()[problem.leaf_node].sum(axis=1)  # a tree has one output
    rises = np.zeros(space.n_features, dtype=bool)
    falls = np.zeros(space.n_features, dtype=bool)
    numeric = [feature for feature, axis in enumerate(space.axes) if axis.codes is None]
    for feature, low, high in _neighbours(problem, numeric):
        rises[feature] |= value[low] < value[high]
        falls[feature] |= value[low] > value[high]
    return tuple(int(up) - int(down) for up, down in zip(rises, falls, strict=True))


def in_order(value: npt.NDArray[Any], pairs: IntArray) -> npt.NDArray[Any]:
    """The least values that are not below the given ones and keep every pair in order."""
    value = value.copy()
    while len(pairs) and (value[pairs[:, 0]] > value[pairs[:, 1]]).any():
        np.maximum.at(value, pairs[:, 1], value[pairs[:, 0]])
    return value


def renamed(pairs: IntArray, column: IntArray) -> IntArray:
    """Pairs of leaves as distinct pairs of their columns; a leaf without a column is -1."""
    found: IntArray = column[pairs].reshape(-1, 2)
    found = found[(found >= 0).all(axis=1) & (found[:, 0] != found[:, 1])]
    first, _ = unique_rows(found)
    return np.asarray(found[first])


def _neighbours(problem: Problem, features: Iterable[int]) -> list[tuple[int, int, int]]:
    """Feature, and the leaves below and above a threshold that an input can cross by that feature alone.

    The paths of two such leaves part at a split of this feature and threshold.
    """
    asked = {int(feature) for feature in features}
    if not asked:
        return []
    trees, axes = problem.trees, problem.space.axes
    boxes = dict(walk_states(trees, trees.root))
    below: dict[int, list[int]] = {}
    found = []
    for node in reversed(boxes):
        if trees.leaf_of_node[node] >= 0:
            below[node] = [node]
            continue
        lower, upper = (below.get(int(child[node]), []) for child in (trees.left, trees.right))
        below[node] = lower + upper
        feature, rank = int(trees.feature[node]), int(trees.rank[node])
        if feature not in asked or rank + 1 >= axes[feature].n_intervals:
            continue
        found += [
            (feature, int(trees.leaf_of_node[low]), int(trees.leaf_of_node[high]))
            for low in lower
            for high in upper
            if boxes[low][feature] >> rank & boxes[high][feature] >> (rank + 1) & 1
            and all(states & boxes[high].get(f, -1) for f, states in boxes[low].items() if f != feature)
        ]
    return found
