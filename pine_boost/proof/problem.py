"""The game between points and trees, in integers.

In come a Forest, its state space and a region; out go the questions that a proof must answer and
integer margins of any state row. Floats enter once, when the original's leaves are scaled, and
the error of that is added to the band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import (
    FloatArray,
    Forest,
    IntArray,
    PrunedForest,
    SplitKind,
    Tie,
    spread,
)
from pine_boost.model.routing import LeafMasks, StateTrees, leaf_masks, route
from pine_boost.model.states import StateSpace
from pine_boost.region.score_tables import RegionTables


@dataclass(frozen=True)
class Question:
    """One side that the pruned model must keep: ``plus`` over ``minus``, or a side of a cut.

    With several outputs: the original decides class ``plus``, the pruned model must score it above
    ``minus``. With one output: ``sign`` = +1 asks about inputs above ``cut``, -1 below.
    """

    index: int
    name: str
    plus: int
    minus: int
    sign: int
    cut: int


@dataclass(frozen=True, eq=False)
class Game:
    """Everything about the original model that the search needs, on integers.

    Attributes
    ----------
    forest, space, trees, masks, region : the road of the data so far
    leaf_node : int64 (n_leaves,)
        Node of each leaf.
    original_int : int64 (n_leaves, n_outputs)
        Leaf values of the original times ``2**scale``, rounded to nearest.
    intercept_int : int64 (n_outputs,)
    scale : int
    questions : tuple of Question
    least : int64 (n_questions,)
        The original decides a question's side for certain iff ``side_int >= least``.
    undecided : float
        Inputs whose exact margin is closer than this to a cut (or whose two best classes are
        closer) are not part of the claim; 0 when every input is decided.
    strict : bool (n_questions,)
        Whether the pruned model must stay strictly off the cut (False: it wins ties natively and
        the original's arithmetic is exact, so a tie is a faithful answer).
    unit : int64 (n_trees,)
        Column of the game that each tree belongs to (a round or the tree itself).
    delta : float
        Indifference: inputs nearer to the cut than this are not part of the region; 0: none.
    """

    forest: Forest
    space: StateSpace
    trees: StateTrees
    masks: LeafMasks
    region: RegionTables
    leaf_node: IntArray
    original_int: IntArray
    intercept_int: IntArray
    scale: int
    questions: tuple[Question, ...]
    least: IntArray
    undecided: float
    strict: npt.NDArray[np.bool_]
    unit: IntArray
    delta: float = 0.0

    @property
    def n_units(self) -> int:
        """Number of columns that cost something."""
        return int(self.unit.max()) + 1

    def side_int(self, margins_int: IntArray, question: Question) -> IntArray:
        """How far integer margins of the original lie on the question's side of zero or the cut."""
        if self.forest.n_outputs == 1:
            return question.sign * margins_int[:, 0]
        return margins_int[:, question.plus] - margins_int[:, question.minus]

    def original_margins_int(self, leaves: npt.NDArray[Any]) -> IntArray:
        """Integer margins of the original, (n_rows, n_outputs)."""
        return margins_int(self.original_int, leaves) + self.intercept_int

    def decided(self, original: IntArray) -> npt.NDArray[np.bool_]:
        """Which questions each point belongs to: (n_points, n_questions).

        With several outputs a point belongs to the pairs of its class only if that class beats
        every rival for certain.
        """
        holds = np.stack(
            [self.side_int(original, q) >= self.least[q.index] for q in self.questions], axis=1
        )
        if self.forest.n_outputs > 1:
            for plus in range(self.forest.n_outputs):
                own = [q.index for q in self.questions if q.plus == plus]
                holds[:, own] &= holds[:, own].all(axis=1, keepdims=True)
        return holds


def settled(game: Game, states: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether the original's class (and band) of each state row is certain."""
    decided = game.decided(game.original_margins_int(game.trees.leaves(states)))
    if game.forest.n_outputs > 1:
        return np.asarray(decided.any(axis=1))
    cuts = range(len(game.forest.decision.cuts))
    sides = [[q.index for q in game.questions if q.cut == cut] for cut in cuts]
    return np.asarray(np.all([decided[:, own].any(axis=1) for own in sides], axis=0))


def margins_int(leaf_int: IntArray, leaves: npt.NDArray[Any]) -> IntArray:
    """Sum integer leaf values over trees, (n_rows, n_outputs)."""
    total = np.zeros((len(leaves), leaf_int.shape[1]), dtype=np.int64)
    for tree in range(leaves.shape[1]):
        total += leaf_int[leaves[:, tree]]
    return total


def build_game(
    forest: Forest,
    space: StateSpace,
    region: RegionTables,
    *,
    unit: str = "round",
    delta: float = 0.0,
) -> Game:
    """Scale the original to integers and state the questions.

    Parameters
    ----------
    forest, space, region
    unit : {"round", "tree"}
        What one weight belongs to.
    delta : float
        Indifference: only inputs at least this far from the cut belong to the region.
    """
    trees = route(forest, space)
    leaf_node = np.argsort(np.where(trees.leaf_of_node < 0, trees.n_leaves, trees.leaf_of_node))
    leaf_node = leaf_node[: trees.n_leaves]
    value = forest.leaf_vectors()[leaf_node]
    is_exact, scale = _original_scale(forest, value)
    original_int = np.rint(np.ldexp(value, scale)).astype(np.int64)
    intercept_int = np.rint(np.ldexp(forest.intercept, scale)).astype(np.int64)
    questions = _questions(forest)
    # |2**scale * exact sum - integer sum| <= half a unit per tree and for the intercept
    rounding = Fraction(0) if is_exact else Fraction(forest.n_trees + 1, 2)
    least, undecided = _least_sides(forest, questions, scale, is_exact, rounding, delta)
    if unit not in ("round", "tree"):
        raise ValueError(f"unit={unit!r}: accepted are 'round' and 'tree'.")
    units = forest.tree_round if unit == "round" else np.arange(forest.n_trees)
    return Game(
        forest=forest,
        space=space,
        trees=trees,
        masks=leaf_masks(trees, space),
        region=region,
        leaf_node=leaf_node,
        original_int=original_int,
        intercept_int=intercept_int,
        scale=scale,
        questions=questions,
        least=least,
        undecided=undecided,
        strict=np.array([not is_exact or not _wins_ties(forest, q) for q in questions]),
        unit=np.unique(units, return_inverse=True)[1].astype(np.int64),
        delta=delta,
    )


def pruned_leaves_int(game: Game, pruned: PrunedForest) -> IntArray:
    """Leaf values of the pruned model in grid units over the outputs, (n_leaves, n_outputs)."""
    return spread(game.forest, pruned.value_int)[game.leaf_node]


def required_int(forest: Forest, grid: int) -> tuple[IntArray, int]:
    """Cuts of the pruned model in grid units, and how far off them its margin must stay.

    Without a guard one unit is enough: the native cut lies within one unit of 0 (MAX_GRID). With
    a guard, the cut's own rounding (1/2) and the guard are both left empty.
    """
    cuts = [Fraction(cut) * 2**grid for cut in forest.decision.cuts]
    cuts_int = np.array([round(cut) for cut in cuts], dtype=np.int64)
    guard = Fraction(forest.decision.guard) * 2**grid
    if guard < Fraction(1, 2) and not forest.decision.thresholds:
        return cuts_int, 1
    return cuts_int, math.ceil(guard + Fraction(1, 2)) + 1


def _original_scale(forest: Forest, value: FloatArray) -> tuple[bool, int]:
    """Exponent by which the original's leaves become integers; exactly where that fits."""
    row_sum = float(np.abs(value).sum(axis=0).max() + np.abs(forest.intercept).max())
    if forest.n_outputs > 1:
        row_sum *= 2
    # the cut stands on the other side of the row: a bound counts towards the solver's safe range
    row_sum += max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    largest = exact.integer_scale(row_sum)
    leaves = forest.value[forest.kind == SplitKind.LEAF]
    numbers = np.concatenate([leaves.ravel(), forest.intercept])
    needed = exact.dyadic_exponent(numbers)
    unguarded = forest.decision.guard < 2.0 ** -(needed or 0) and not forest.decision.thresholds
    if exact.is_exact(forest) and needed is not None and needed <= largest and unguarded:
        return True, needed
    return False, largest


def _questions(forest: Forest) -> tuple[Question, ...]:
    questions: list[Question] = []
    if forest.n_outputs == 1:
        named = forest.decision.thresholds
        for cut in range(len(forest.decision.cuts)):
            for sign in (1, -1):
                if named:
                    name = f"{'above' if sign > 0 else 'below'} {named[cut]:g}"
                else:
                    ordered = forest.classes[::-1] if sign > 0 else forest.classes
                    name = f"class {ordered[0]} over {ordered[1]}"
                questions.append(Question(len(questions), name, 0, 0, sign, cut))
        return tuple(questions)
    for plus in range(forest.n_outputs):
        for minus in range(forest.n_outputs):
            if plus != minus:
                name = f"class {forest.classes[plus]} over {forest.classes[minus]}"
                questions.append(Question(len(questions), name, plus, minus, 1, -1))
    return tuple(questions)


def _wins_ties(forest: Forest, question: Question) -> bool:
    lowest = forest.decision.tie is Tie.LOWEST
    if forest.n_outputs == 1:
        return question.sign < 0 if lowest else question.sign > 0
    return question.plus < question.minus if lowest else question.plus > question.minus


def _least_sides(
    forest: Forest,
    questions: tuple[Question, ...],
    scale: int,
    is_exact: bool,
    rounding: Fraction,
    delta: float,
) -> tuple[IntArray, float]:
    """Smallest integer side that is decided for certain, per question, and the band it leaves.

    The native margin differs from the exact sum by at most `exact.summation_band`, the integers
    from 2**scale times the exact sum by ``rounding``. Beyond both, and the guard of the decision,
    the original's class is certain. A region with indifference starts at ``delta`` instead; there
    everything whose native or real margin might be at delta or beyond is asked about, so both
    roundings are subtracted.
    """
    n_sums = 1 if forest.n_outputs == 1 else 2  # a gap is the difference of two sums
    unit = Fraction(2) ** scale
    summation = n_sums * Fraction(exact.summation_band(forest))
    band = Fraction(0) if is_exact else summation + Fraction(forest.decision.guard)
    needed = band * unit + n_sums * rounding
    inside = (Fraction(delta) - summation) * unit - n_sums * rounding - 1
    least = []
    for question in questions:
        cut = Fraction(0)
        if forest.n_outputs == 1:
            cut = question.sign * Fraction(forest.decision.cuts[question.cut]) * unit
        if is_exact and delta == 0:
            # decided iff cut < side, or cut <= side for the one that wins ties
            wins = _wins_ties(forest, question)
            least.append(math.ceil(cut) if wins else math.floor(cut) + 1)
        else:
            least.append(math.floor(cut + max(needed, inside)) + 1)
    undecided = 0.0
    if not is_exact and inside < needed:
        undecided = float((needed + n_sums * rounding + 1) / unit)
    return np.array(least, dtype=np.int64), undecided
