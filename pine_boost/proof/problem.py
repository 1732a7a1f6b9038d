"""The problem on integers: the questions to prove, from which margin on the original decides each, and answers.

Floats enter once, when the original's leaves are scaled to integers; the error of that is added to the band in which
the original counts as undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.digits import exactly
from pine_boost.model.forest import BoolArray, Decision, Forest, Int32Array, IntArray, PrunedForest, spread
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import StateSpace
from pine_boost.region.isolation_forest import enclosing
from pine_boost.region.score_tables import RegionTables, coarsen

_Number = TypeVar("_Number", float, Fraction)


@dataclass(frozen=True)
class Question:
    """One side of a decision boundary that the pruned model must keep.

    With several outputs: where the original decides for class ``plus``, the pruned model must score ``plus``
    above ``minus``; ``cut`` is -1. With one output: ``sign`` is +1 for inputs above ``cut``, -1 for those below.
    """

    index: int
    name: str
    plus: int
    minus: int
    sign: int
    cut: int

    def side(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The signed margin of the question, from values per output (last axis); larger is safer."""
        if self.cut >= 0:
            return np.asarray(self.sign * values[..., 0])
        return np.asarray(values[..., self.plus] - values[..., self.minus])

    def side_of(self, constant: IntArray) -> int:
        """The signed margin of one constant per output, such as an intercept."""
        return int(self.side(constant))

    def cut_side(self, decision: Decision) -> Fraction:
        """The side at which the boundary lies: the signed cut, or 0 between two classes."""
        return self.sign * Fraction(decision.cuts[self.cut]) if self.cut >= 0 else Fraction(0)

    def beyond_first(self, cuts: Sequence[_Number]) -> _Number:
        """The signed distance of its cut from the first cut; exact if the cuts are."""
        return self.sign * (cuts[self.cut] - cuts[0])

    def wins_tie(self, decision: Decision) -> bool:
        """Whether an input exactly on the boundary belongs to this side."""
        if self.cut >= 0:
            return decision.wins_tie(self.sign, -self.sign)
        return decision.wins_tie(self.plus, self.minus)

    def is_mirror(self, other: Question) -> bool:
        """Whether the other question is about the opposite side of the same boundary."""
        if self.cut >= 0:
            return self.cut == other.cut and self.sign == -other.sign
        return self.plus == other.minus and self.minus == other.plus

    def is_rival(self, other: Question) -> bool:
        """Whether the other question is about the same class against another one."""
        return self.cut < 0 and self.plus == other.plus and self.minus != other.minus


def questions_of(forest: Forest) -> tuple[Question, ...]:
    """Both sides of every cut, or every ordered pair of classes."""
    questions: list[Question] = []
    if forest.n_outputs == 1:
        named = forest.decision.thresholds
        for cut in range(len(forest.decision.cuts)):
            for sign in (1, -1):
                if named:
                    name = f"{'above' if sign > 0 else 'below'} {exactly(named[cut])}"
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


class Answer(Enum):
    """How one attempt to answer a question ended."""

    PROVED = "no counterexample exists"
    FOUND = "counterexample"
    UNKNOWN = "budget ran out"


@dataclass(frozen=True, eq=False)
class Proof:
    """The answer of one method to one question.

    Attributes
    ----------
    question : Question
    method : str
    answer : Answer
    seconds : float
    states : int32 (n_features,) or None
        The counterexample, checked on exact integers, if the answer is FOUND.
    covered : float or None
        Share of the region that was covered, if the method knows it.
    """

    question: Question
    method: str
    answer: Answer
    seconds: float
    states: Int32Array | None = None
    covered: float | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """The original model and the region, on integers.

    Attributes
    ----------
    forest, space, trees, region
    original_int : int64 (n_leaves, n_outputs)
        Leaf values of the original times ``2**scale``, rounded to nearest.
    intercept_int : int64 (n_outputs,)
    scale : int
    questions : tuple of Question
    least : int64 (n_questions,)
        The original certainly decides for a question's side iff its side is ``>= least``.
    native_band : float
        Part of ``undecided`` due to the library's own rounding: its sum, sigmoid or softmax.
    solver_band : float
        Part of ``undecided`` due to rounding the leaves to integers.
    strict : bool (n_questions,)
        Whether the pruned model must stay strictly off the cut. False if this side wins ties natively and the
        original's arithmetic is exact: a tie is then a faithful answer.
    delta : float
        Indifference: inputs nearer to the cut are not part of the region; 0 for none.
    permitted : int or None
        None: the pruned model must be on the needed side. Otherwise it must only stay fewer than this many
        grid units beyond the cut on the other side (`standalone_margin`).
    copies : int64 (n_leaves,) or None
        How many leaves of the original each leaf stands for, if a search works on smaller trees; None means
        one each.
    """

    forest: Forest
    space: StateSpace
    trees: StateTrees
    region: RegionTables
    original_int: IntArray
    intercept_int: IntArray
    scale: int
    questions: tuple[Question, ...]
    least: IntArray
    native_band: float
    solver_band: float
    strict: BoolArray
    delta: float = 0.0
    permitted: int | None = None
    copies: IntArray | None = None

    @property
    def leaf_node(self) -> IntArray:
        """The node of each leaf."""
        return self.trees.subtrees.leaf_node

    @property
    def undecided(self) -> float:
        """Inputs nearer to a cut, or to a tie of the two best classes, are not part of the claim."""
        return self.native_band + self.solver_band

    def rivals(self, question: Question) -> list[Question]:
        """The question itself and all others about the same class: an input must belong to all of them."""
        return [question, *(q for q in self.questions if q.is_rival(question))]

    def mirror(self, question: Question) -> Question:
        """The question about the opposite side of the same boundary."""
        return next(other for other in self.questions if other.is_mirror(question))

    def original_row(self, question: Question) -> tuple[IntArray, int]:
        """A value per leaf, and the least sum of them with which the original certainly decides for the side."""
        least = int(self.least[question.index]) - question.side_of(self.intercept_int)
        return question.side(self.original_int), least

    def pruned_row(self, pruned: PrunedForest, question: Question) -> tuple[IntArray, int]:
        """A value per leaf, and the largest sum of them with which a pruned model is not on the needed side."""
        most = int(self.needed_sides(pruned.grid)[question.index]) - 1 - question.side_of(pruned.intercept_int)
        return question.side(self.pruned_leaves_int(pruned)), most

    def sides(self, margins: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sides (n_points, n_questions) of margins (n_points, n_outputs)."""
        return np.stack([question.side(margins) for question in self.questions], axis=-1)

    @cached_property
    def class_questions(self) -> list[list[int]]:
        """Indices of the questions about each class; for several outputs."""
        return [[q.index for q in self.questions if q.plus == plus] for plus in range(self.forest.n_outputs)]

    @cached_property
    def whole_leaves(self) -> npt.NDArray[Any]:
        """Leaf values of the original times a common power of two, exactly, as Python integers."""
        return exact.whole_numbers(self.forest.leaf_vectors()[self.leaf_node])

    def original_margins_int(self, leaves: npt.NDArray[Any]) -> IntArray:
        """Integer margins of the original, (n_rows, n_outputs)."""
        return leaf_sums(self.original_int, leaves, self.trees.leaf_offset) + self.intercept_int

    def pruned_leaves_int(self, pruned: PrunedForest) -> IntArray:
        """Leaf values of a pruned model in its grid units, (n_leaves, n_outputs)."""
        return np.asarray(spread(self.forest, pruned.value_int)[self.leaf_node])

    def pruned_margins_int(self, pruned: PrunedForest, leaves: npt.NDArray[Any]) -> IntArray:
        """Margins of a pruned model in its grid units; exactly what its library computes."""
        values = self.pruned_leaves_int(pruned)
        return leaf_sums(values, leaves, self.trees.leaf_offset) + pruned.intercept_int

    def needed_sides(self, grid: int) -> IntArray:
        """The smallest side, in grid units, with which a pruned model gives the right answer, per question."""
        cuts, off = required_int(self.forest, grid)
        distance = np.where(self.strict, off, 0) if self.permitted is None else 1 - self.permitted
        sides = [q.sign * int(cuts[q.cut]) if q.cut >= 0 else 0 for q in self.questions]
        return np.array(sides, dtype=np.int64) + np.asarray(distance, dtype=np.int64)

    def decided(self, original: IntArray) -> BoolArray:
        """Which questions each point belongs to, (n_points, n_questions).

        With several outputs, a point belongs to the questions of its class only if that class certainly beats
        every other one.
        """
        is_decided = np.asarray(self.sides(original) >= self.least)
        if self.forest.n_outputs > 1:
            for own in self.class_questions:
                is_decided[:, own] &= is_decided[:, own].all(axis=1, keepdims=True)
        return is_decided

    def falls_short(self, pruned: PrunedForest, leaves: npt.NDArray[Any]) -> BoolArray:
        """Where a pruned model is not on the needed side, (n_points, n_questions)."""
        sides = self.sides(self.pruned_margins_int(pruned, leaves))
        return np.asarray(sides < self.needed_sides(pruned.grid))

    def lost(self, pruned: PrunedForest, states: npt.NDArray[Any]) -> BoolArray:
        """The exact test for counterexamples, (n_points, n_questions).

        True if the point lies in the region, the original decides for the question's side and the pruned model
        does not.
        """
        leaves = self.trees.leaves(states)
        broken = self.decided(self.original_margins_int(leaves)) & self.falls_short(pruned, leaves)
        return np.asarray(broken & self.region.contains(states)[:, None])

    def settled(self, states: npt.NDArray[Any]) -> BoolArray:
        """Whether the original's class is certain on each state row, for every cut."""
        decided = self.decided(self.original_margins_int(self.trees.leaves(states)))
        if self.forest.n_outputs > 1:
            return np.asarray(decided.any(axis=1))
        cuts = range(len(self.forest.decision.cuts))
        sides = [[q.index for q in self.questions if q.cut == cut] for cut in cuts]
        return np.asarray(np.all([decided[:, own].any(axis=1) for own in sides], axis=0))


def leaf_sums(
    values: npt.NDArray[Any], leaves: npt.NDArray[Any], leaf_offset: IntArray | None = None
) -> npt.NDArray[Any]:
    """The sum of leaf values over trees, (n_rows, n_outputs).

    Tree by tree: that bounds the memory and adds floats in the order of the trees. With ``leaf_offset``, trees whose
    values for an output are all zero (all but one of a multiclass round) are skipped.
    """
    total = np.zeros((len(leaves), values.shape[1]), dtype=values.dtype)
    is_used = np.ones((leaves.shape[1], values.shape[1]), dtype=bool)
    if leaf_offset is not None:
        is_used = np.logical_or.reduceat(values != 0, leaf_offset[:-1], axis=0)
    for output in range(values.shape[1]):
        column = np.ascontiguousarray(values[:, output])
        for tree in np.flatnonzero(is_used[:, output]):
            total[:, output] += column.take(leaves[:, tree])
    return total


def build_problem(forest: Forest, space: StateSpace, region: RegionTables, *, delta: float = 0.0) -> Problem:
    """Scale the original to integers and list the questions.

    Parameters
    ----------
    forest, space, region
    delta : float
        Indifference: only inputs at least this far from the cut belong to the region.
    """
    trees = route(forest, space)
    _ = trees.masks  # raises here, before a search, if they would not fit
    scale, _ = exact.original_scale(forest)
    return Problem(
        forest=forest,
        space=space,
        trees=trees,
        original_int=exact.to_units(forest.leaf_vectors()[trees.subtrees.leaf_node], scale),
        intercept_int=exact.to_units(forest.intercept, scale),
        scale=scale,
        **_stated(forest, region, delta),
    )


def restated(problem: Problem, region: RegionTables, delta: float) -> Problem:
    """The problem of the same model and states in another region."""
    return replace(problem, **_stated(problem.forest, region, delta))


def _stated(forest: Forest, region: RegionTables, delta: float) -> dict[str, Any]:
    """The fields of a Problem that depend on the region: where the original's class is certain, in exact fractions.

    With S the exact sum of the leaves, the native margin differs from S by at most `exact.summation_band`, and
    the integer margin from ``2**scale * S`` by at most half a unit per tree and for the intercept. Beyond both
    errors and the guard of the decision, the original's class is certain. A region with indifference starts at
    ``delta`` instead: every input whose native or exact margin may reach delta has to be covered, so both
    errors are subtracted there.
    """
    decision = forest.decision
    scale, is_whole = exact.original_scale(forest)
    unit, n_sums = Fraction(2) ** scale, 1 if forest.n_outputs == 1 else 2  # a gap is the difference of two sums
    is_exact = is_whole and decision.guard < 2.0**-scale and not decision.thresholds and exact.is_exact(forest)
    # in units of 2**-scale
    rounding = Fraction(0) if is_whole else n_sums * Fraction(forest.n_trees + 1, 2)
    summation = n_sums * Fraction(exact.summation_band(forest))
    native = Fraction(0) if is_exact else (summation + Fraction(decision.guard)) * unit
    inside = (Fraction(delta) - summation) * unit - rounding - 1

    def least_side(question: Question) -> int:
        """The smallest integer side from which the original's class is certain."""
        cut = question.cut_side(decision) * unit
        if is_exact and not delta > 0:
            # decided iff cut < side, or cut <= side for the side that wins ties
            return math.ceil(cut) if question.wins_tie(decision) else math.floor(cut) + 1
        return math.floor(cut + max(native + rounding, inside)) + 1

    questions = questions_of(forest)
    has_band = not is_exact and inside < native + rounding
    return {
        "region": region,
        "questions": questions,
        "least": np.array([least_side(question) for question in questions], dtype=np.int64),
        "native_band": math.nextafter(float(native / unit), math.inf) if has_band else 0.0,
        "solver_band": float((2 * rounding + 1) / unit) if has_band and rounding else 0.0,
        "strict": np.array([not is_exact or not question.wins_tie(decision) for question in questions]),
        "delta": delta,
    }


def required_int(forest: Forest, grid: int) -> tuple[IntArray, int]:
    """Cuts of the pruned model in grid units, and how far from them its margin must stay.

    Without a guard one unit is enough: the native cut lies within one unit of 0 (MAX_GRID). With a guard, the
    margin must clear both the guard and the rounding of the cut itself (1/2).
    """
    cuts = [Fraction(cut) * 2**grid for cut in forest.decision.cuts]
    cuts_int = np.array([round(cut) for cut in cuts], dtype=np.int64)
    guard = Fraction(forest.decision.guard) * 2**grid
    if guard < Fraction(1, 2) and not forest.decision.thresholds:
        return cuts_int, 1
    return cuts_int, math.ceil(guard + Fraction(1, 2)) + 1


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A problem on a larger region over fewer states: a model that keeps every decision there keeps it here.

    Attributes
    ----------
    name : str
        A short name of the region.
    problem : Problem
    kept : tuple of int64 (n_states of the feature in the larger region,)
        The first state of the inner problem that each state stands for.
    """

    name: str
    problem: Problem
    kept: tuple[IntArray, ...]

    def outward(self, states: npt.NDArray[Any]) -> Int32Array:
        """State rows of the inner problem as state rows of this one."""
        columns = [
            np.searchsorted(kept, states[:, feature], side="right") - 1 for feature, kept in enumerate(self.kept)
        ]
        return np.stack(columns, axis=1).astype(np.int32)

    def inward(self, states: npt.NDArray[Any]) -> Int32Array:
        """One state row of the inner problem for each state row of this one."""
        columns = [kept[states[:, feature]] for feature, kept in enumerate(self.kept)]
        return np.stack(columns, axis=1).astype(np.int32)


def enclosures(problem: Problem) -> list[Enclosure]:
    """Problems in larger regions, largest first, where CP-SAT is slow; none for regions that are easy to prove in."""
    found = []
    for name, tables in enclosing(problem.region):
        space, region, kept = coarsen(problem.space, tables, problem.trees)
        larger = replace(problem, space=space, region=region, trees=route(problem.forest, space))
        found.append(Enclosure(name, larger, kept))
    return found
