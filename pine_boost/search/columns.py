"""The columns of the game: what a weight belongs to, and what it costs to keep.

In comes a problem and the unit; out go the real entries of rows for the linear program, and which
units a set of weights keeps. Columns are whole units, or the leaves of some of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, IntArray, PrunedForest, tree_units
from pine_boost.model.trimming import leaf_count
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Question
from pine_boost.search.leaf_order import Directions, kept_directions, ordered_leaves, renamed

Support = npt.NDArray[np.bool_]  # which units are kept


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
        The unit that each column belongs to; a unit is kept as soon as one of its columns is.
    value : float64 (n_leaves, n_outputs)
        Leaf values without the bias of their trees.
    scale : float64 (n_columns,)
        The largest entry of each column: columns of the linear program are divided by it.
    free : float64 (n_questions, n_free)
        Entries of the columns that cost nothing: a constant per output, and the distance of the
        cuts where there are several.
    leaf_column : int64 (n_leaves,) or None
        The column of each leaf, -1 without; None where columns are units.
    order : int64 (n_pairs, 2)
        Columns of leaves, of which the first may not exceed the second.
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
        """What a model counts; None is the original."""
        if self.name == "leaf":
            return len(self.value) if pruned is None else leaf_count(pruned)
        return int(np.count_nonzero(self.kept_units(pruned)))


def build_columns(problem: Problem, unit: str = "round") -> Columns:
    """Columns of whole rounds or single trees; where leaves are counted, of trees."""
    forest, trees = problem.forest, problem.trees
    unit = "tree" if unit == "leaf" else unit
    tree_unit = tree_units(forest, unit)
    value = forest.leaf_vectors()[problem.leaf_node].copy()
    if forest.value.shape[1] == 1:
        output = forest.tree_output[trees.leaf_tree]
        value[np.arange(len(value)), output] -= forest.tree_bias[trees.leaf_tree]
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

    ``monotone`` as in `SearchOptions`.
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
    """``+-1`` on the constants, and minus the distance of the cuts where several fix the scale."""
    forest = problem.forest
    if not forest.free_intercept:
        return np.zeros(0)
    constants = np.asarray(question.side(np.eye(forest.n_outputs)), dtype=np.float64)
    cuts = forest.decision.cuts
    if len(cuts) < 2:
        return constants
    return np.append(constants, -question.beyond_first(cuts) / (cuts[-1] - cuts[0]))
