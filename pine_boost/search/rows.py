"""The rows of the game: points of the region that the pruned model must keep.

In come state rows; out go deduplicated points with their leaves, and the row of the linear
program for every question a point belongs to. Nothing is ever removed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.proof.problem import Game, Question, margins_int, pruned_leaves_int
from pine_boost.search.grid import needed_sides
from pine_boost.search.weights import WeightProgram

# Points nearer to the cut than this share of the median count as narrow; their rows are scaled up
# by at most the inverse of the other number, more would be noise of the linear program.
_NARROW = 0.01
_NARROWEST = 1e-4


class RowPool:
    """Points known to matter, and the linear program they make.

    Attributes
    ----------
    states : int32 (n_points, n_features)
    leaves : int32 (n_points, n_trees)
    decided : bool (n_points, n_questions)
        The questions each point belongs to.
    inside : bool (n_points,)
        Whether the point lies in the region (rows of X_fit are kept even outside it).
    program : WeightProgram
        One row for every (point, question) pair.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.states: npt.NDArray[np.int32] = np.zeros((0, game.space.n_features), np.int32)
        self.leaves: npt.NDArray[np.int32] = np.zeros((0, game.trees.n_trees), np.int32)
        self.original: IntArray = np.zeros((0, game.forest.n_outputs), np.int64)
        self.decided: npt.NDArray[np.bool_] = np.zeros((0, len(game.questions)), dtype=bool)
        self.inside: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.column_value, self.column_scale = _column_values(game)
        self.unit_matrix = np.zeros((game.trees.n_trees, game.n_units))
        self.unit_matrix[np.arange(game.trees.n_trees), game.unit] = 1.0
        self.program = WeightProgram(game.n_units, n_free_columns(game))
        self._seen: set[bytes] = set()
        self._typical: float | None = None

    def __len__(self) -> int:
        return len(self.states)

    def move_to(self, game: Game) -> None:
        """Go on with a larger region of the same model: all rows stay, membership is renewed."""
        if game.forest is not self.game.forest or not np.array_equal(game.least, self.game.least):
            raise ValueError("Rows can only be reused for another region of the same model.")
        self.game = game
        self.inside = game.region.contains(self.states)

    def add(self, states: npt.NDArray[Any]) -> int:
        """Add the points that are new and decided; returns how many those were."""
        states = np.ascontiguousarray(states, dtype=np.int32)
        fresh = []
        for index, row in enumerate(states):
            key = row.tobytes()
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(index)
        if not fresh:
            return 0
        states = states[fresh]
        leaves = self.game.trees.leaves(states)
        original = self.game.original_margins_int(leaves)
        decided = self.game.decided(original)
        useful = decided.any(axis=1)
        states, leaves, original = states[useful], leaves[useful], original[useful]
        decided = decided[useful]
        self.states = np.concatenate([self.states, states])
        self.leaves = np.concatenate([self.leaves, leaves])
        self.original = np.concatenate([self.original, original])
        self.decided = np.concatenate([self.decided, decided])
        self.inside = np.concatenate([self.inside, self.game.region.contains(states)])
        for question in self.game.questions:
            mine = decided[:, question.index]
            if mine.any():
                rows, free_rows = self._rows(leaves[mine], question)
                width = self._width(original[mine], question)[:, None]
                self.program.add_rows(
                    rows / width, free_rows / width, self.game.strict[question.index], 1 / width
                )
        return len(states)

    def _width(self, original: IntArray, question: Question) -> FloatArray:
        """How wide a margin to ask for: in proportion to the original's, where that is small.

        A point that the original itself decides narrowly can only be kept narrowly. With one
        width for all, such points alone would make the value of the game vanish, and a set of
        trees that wins would count as lost.
        """
        side = self.game.side_int(original, question).astype(np.float64)
        if self.game.forest.n_outputs == 1:
            cut = self.game.forest.decision.cuts[question.cut] * 2.0**self.game.scale
            side = side - question.sign * cut
        side = np.abs(side)
        if self._typical is None:
            self._typical = max(float(np.median(side)), 1.0)
        return np.clip(side / (_NARROW * self._typical), _NARROWEST, 1.0)

    def _rows(
        self, leaves: npt.NDArray[np.int32], question: Question
    ) -> tuple[FloatArray, FloatArray]:
        if self.game.forest.n_outputs == 1:
            value = question.sign * self.column_value[:, 0]
        else:
            value = self.column_value[:, question.plus] - self.column_value[:, question.minus]
        rows = (value[leaves] @ self.unit_matrix) / self.column_scale
        free = np.tile(free_columns(self.game, question), (len(leaves), 1))
        return rows, free

    def loses(self, pruned: PrunedForest) -> bool:
        """Whether a model on the grid loses a question that a point belongs to."""
        leaf_int = pruned_leaves_int(self.game, pruned)
        sides = pruned_sides(self.game, margins_int(leaf_int, self.leaves) + pruned.intercept_int)
        return bool((self.decided & (sides < needed_sides(self.game, pruned.grid))).any())


def pruned_sides(game: Game, margins: IntArray) -> IntArray:
    """Margins of the pruned model as seen by every question, (n_points, n_questions)."""
    return np.stack([game.side_int(margins, question) for question in game.questions], axis=1)


def n_free_columns(game: Game) -> int:
    """Columns that cost nothing: a constant per output, and the scale when several cuts fix it."""
    if not game.forest.free_intercept:
        return 0
    if game.forest.n_outputs > 1:
        return game.forest.n_outputs
    return 1 if len(game.forest.decision.cuts) == 1 else 2


def free_columns(game: Game, question: Question) -> FloatArray:
    """The free part of a row: ``+-1`` on the intercepts, and minus the distance of the cuts."""
    free = np.zeros(n_free_columns(game))
    if not game.forest.free_intercept:
        return free
    if game.forest.n_outputs > 1:
        free[question.plus], free[question.minus] = 1.0, -1.0
        return free
    free[0] = question.sign
    cuts = game.forest.decision.cuts
    if len(cuts) > 1:
        free[1] = -question.sign * (cuts[question.cut] - cuts[0]) / (cuts[-1] - cuts[0])
    return free


def _column_values(game: Game) -> tuple[FloatArray, FloatArray]:
    """Leaf values without the bias of their trees, and the largest entry of every column."""
    bias = game.forest.tree_bias[game.trees.leaf_tree]
    value = game.forest.leaf_vectors()[game.leaf_node].copy()
    if game.forest.value.shape[1] == 1:
        output = game.forest.tree_output[game.trees.leaf_tree]
        value[np.arange(len(value)), output] -= bias
    largest = np.maximum.reduceat(np.abs(value).max(axis=1), game.trees.leaf_offset[:-1])
    scale = np.zeros(game.n_units)
    np.maximum.at(scale, game.unit, largest)
    return value, np.where(scale > 0, scale, 1.0)
