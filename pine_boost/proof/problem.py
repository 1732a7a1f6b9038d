"""The problem in integers: which side of which cut must be kept, on which points.

In come a Forest, its state space and a region; out go the questions that a proof must answer and
integer margins of any state row. Floats enter once, when the original's leaves are scaled, and
the error of that is added to the band. Knows nothing of units, weights or how a model was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, Decision, Forest, IntArray, PrunedForest, spread
from pine_boost.model.routing import LeafMasks, StateTrees, leaf_masks, route
from pine_boost.model.states import StateSpace
from pine_boost.proof.question import Question, questions_of
from pine_boost.region.score_tables import RegionTables


@dataclass(frozen=True)
class Band:
    """Where the original's class is certain, as exact fractions in units of ``2**-scale``.

    The native margin differs from the exact sum by at most `exact.summation_band`, the integers
    from 2**scale times the exact sum by half a unit per tree and for the intercept. Beyond both,
    and the guard of the decision, the original's class is certain. A region with indifference
    starts at ``delta`` instead; there everything whose native or real margin might be at delta or
    beyond is asked about, so both roundings are subtracted.
    """

    unit: Fraction
    native: Fraction
    rounding: Fraction
    inside: Fraction
    is_exact: bool
    has_delta: bool

    @classmethod
    def of(cls, forest: Forest, scale: int, is_whole: bool, is_exact: bool, delta: float) -> Band:
        """The band of a model; ``is_whole``: its leaves are integers, ``is_exact``: sums too."""
        n_sums = 1 if forest.n_outputs == 1 else 2  # a gap is the difference of two sums
        unit = Fraction(2) ** scale
        rounding = Fraction(0) if is_whole else n_sums * Fraction(forest.n_trees + 1, 2)
        summation = n_sums * Fraction(exact.summation_band(forest))
        native = Fraction(0) if is_exact else summation + Fraction(forest.decision.guard)
        inside = (Fraction(delta) - summation) * unit - rounding - 1
        return cls(unit, native * unit, rounding, inside, is_exact, delta > 0)

    def least(self, decision: Decision, question: Question, undecided: float) -> int:
        """Smallest integer side that is decided for certain."""
        cut = question.cut_side(decision) * self.unit
        if self.is_exact and not self.has_delta:
            # decided iff cut < side, or cut <= side for the one that wins ties
            return math.ceil(cut) if question.wins_tie(decision) else math.floor(cut) + 1
        needed = self.native + self.rounding
        wider = Fraction(undecided) * self.unit - self.rounding
        return math.floor(cut + max(needed, self.inside, wider)) + 1

    def parts(self, undecided: float) -> tuple[float, float]:
        """What the library's rounding and what the integers leave undecided, as margins."""
        if self.is_exact or self.inside >= self.native + self.rounding:
            return 0.0, 0.0
        native = math.nextafter(float(self.native / self.unit), math.inf)
        solver = float((2 * self.rounding + 1) / self.unit) if self.rounding else 0.0
        return native, max(solver, undecided - native)


_AT_ONCE = 10**6  # leaves whose values are held at once


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything about the original model that a proof needs, on integers.

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
        The original decides a question's side for certain iff its side is ``>= least``.
    native_band : float
        Part of ``undecided`` that the library's own rounding makes: its sum, sigmoid or softmax.
    solver_band : float
        Part of ``undecided`` that the rounding of leaves to integers makes here.
    strict : bool (n_questions,)
        Whether the pruned model must stay strictly off the cut (False: it wins ties natively and
        the original's arithmetic is exact, so a tie is a faithful answer).
    delta : float
        Indifference: inputs nearer to the cut than this are not part of the region; 0: none.
    permitted : int or None
        None: the pruned model must be on the needed side. Else it must only not be this many grid
        units or more beyond the cut on the other side (`proof.serving`).
    copies : int64 (n_leaves,) or None
        How many leaves of the original each leaf stands for, where a search works on smaller trees;
        None: one each.
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
    native_band: float
    solver_band: float
    strict: BoolArray
    delta: float = 0.0
    permitted: int | None = None
    copies: IntArray | None = None

    @property
    def undecided(self) -> float:
        """Inputs nearer to a cut (or two best classes) than this are not part of the claim."""
        return self.native_band + self.solver_band

    def rivals(self, question: Question) -> list[Question]:
        """The questions that an input must all belong to, to belong to this one; itself first."""
        return [question, *(q for q in self.questions if q.is_rival(question))]

    def sides(self, margins: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Margins (n_points, n_outputs) as seen by every question, (n_points, n_questions)."""
        return np.stack([question.side(margins) for question in self.questions], axis=-1)

    def sides_asked(self, margins: IntArray, asked: IntArray) -> IntArray:
        """Margins (n_rows, n_changes, n_outputs) as each row's own question sees them."""
        if self.forest.n_outputs == 1:
            return np.asarray(self._unit_side[asked, None] * margins[..., 0])
        pair = self._pairs[asked, None]
        own, rival = np.moveaxis(np.take_along_axis(margins, pair, axis=-1), -1, 0)
        return np.asarray(own - rival)

    def decides_asked(self, original: IntArray, asked: IntArray) -> BoolArray:
        """Whether the original certainly answers each row's own question, (n_rows, n_changes)."""
        if self.forest.n_outputs == 1:
            return np.asarray(self.sides_asked(original, asked) >= self.least[asked, None])
        plus = self._pairs[asked, 0]
        own = np.take_along_axis(original, plus[:, None, None], axis=-1)
        return np.asarray((own - original >= self._least_over[plus, None]).all(axis=-1))

    @cached_property
    def _unit_side(self) -> IntArray:
        """A margin of one unit as every question sees it, for one output."""
        unit = np.ones(1, dtype=np.int64)
        return np.array([question.side_of(unit) for question in self.questions])

    @cached_property
    def class_questions(self) -> list[list[int]]:
        """Indices of the questions that ask for each class; for several outputs."""
        classes = range(self.forest.n_outputs)
        return [[q.index for q in self.questions if q.asks_for(index)] for index in classes]

    @cached_property
    def _pairs(self) -> IntArray:
        """``plus`` and ``minus`` of every question."""
        return np.array([[question.plus, question.minus] for question in self.questions])

    @cached_property
    def _least_over(self) -> IntArray:
        """``least`` by class and rival; a class never has to beat itself."""
        n_outputs = self.forest.n_outputs
        least = np.full((n_outputs, n_outputs), -exact.WORD_LIMIT)
        least[self._pairs[:, 0], self._pairs[:, 1]] = self.least
        return least

    @cached_property
    def whole_leaves(self) -> npt.NDArray[Any]:
        """Leaf values of the original times a common power of two, as Python integers, exactly."""
        return exact.whole_numbers(self.forest.leaf_vectors()[self.leaf_node])

    def original_margins_int(self, leaves: npt.NDArray[Any]) -> IntArray:
        """Integer margins of the original, (n_rows, n_outputs)."""
        return leaf_sums(self.original_int, leaves, self.trees.leaf_offset) + self.intercept_int

    def pruned_leaves_int(self, pruned: PrunedForest) -> IntArray:
        """Leaf values of a pruned model in its grid units, (n_leaves, n_outputs)."""
        return np.asarray(spread(self.forest, pruned.value_int)[self.leaf_node])

    def pruned_margins_int(self, pruned: PrunedForest, leaves: npt.NDArray[Any]) -> IntArray:
        """Margins of a pruned model in its grid units: exactly what its library computes."""
        values = self.pruned_leaves_int(pruned)
        return leaf_sums(values, leaves, self.trees.leaf_offset) + pruned.intercept_int

    def needed_sides(self, grid: int) -> IntArray:
        """The smallest side in grid units with which a pruned model answers each question right."""
        cuts, off = required_int(self.forest, grid)
        needed = []
        for question in self.questions:
            distance = off if self.strict[question.index] else 0
            if self.permitted is not None:
                distance = 1 - self.permitted
            needed.append(question.cut_int(cuts) + distance)
        return np.array(needed, dtype=np.int64)

    def decided(self, original: IntArray) -> BoolArray:
        """Which questions each point belongs to: (n_points, n_questions).

        With several outputs a point belongs to the pairs of its class only if that class beats
        every rival for certain.
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

        True where the point lies in the region, the original decides the question's side, and the
        pruned model does not.
        """
        leaves = self.trees.leaves(states)
        broken = self.decided(self.original_margins_int(leaves)) & self.falls_short(pruned, leaves)
        return np.asarray(broken & self.region.contains(states)[:, None])

    def settled(self, states: npt.NDArray[Any]) -> BoolArray:
        """Whether the original's class (and band) of each state row is certain."""
        decided = self.decided(self.original_margins_int(self.trees.leaves(states)))
        if self.forest.n_outputs > 1:
            return np.asarray(decided.any(axis=1))
        cuts = range(len(self.forest.decision.cuts))
        sides = [[q.index for q in self.questions if q.cut == cut] for cut in cuts]
        return np.asarray(np.all([decided[:, own].any(axis=1) for own in sides], axis=0))


def leaf_sums(
    values: npt.NDArray[Any], leaves: npt.NDArray[Any], leaf_offset: IntArray | None = None
) -> npt.NDArray[Any]:
    """Sum leaf values over trees, (n_rows, n_outputs).

    Integers of few rows all at once, everything else tree by tree: that bounds the memory, and
    floats are added in the order of the trees. With the leaves of each tree (``leaf_offset``) one
    that says nothing of an output (all but one of a multiclass round) is passed over.
    """
    total = np.zeros((len(leaves), values.shape[1]), dtype=values.dtype)
    speaks = np.ones((leaves.shape[1], values.shape[1]), dtype=bool)
    if leaf_offset is not None:
        speaks = np.logical_or.reduceat(values != 0, leaf_offset[:-1], axis=0)
    at_once = leaves.size <= _AT_ONCE and np.issubdtype(values.dtype, np.integer)
    for output in range(values.shape[1]):
        column = np.ascontiguousarray(values[:, output])
        trees = np.flatnonzero(speaks[:, output])
        if at_once:
            own = leaves if len(trees) == leaves.shape[1] else leaves[:, trees]
            total[:, output] = column.take(own).sum(axis=1)
            continue
        for tree in trees:
            total[:, output] += column.take(leaves[:, tree])
    return total


def build_problem(forest: Forest, space: StateSpace, region: RegionTables, *, delta: float = 0.0) -> Problem:
    """Scale the original to integers and state the questions.

    Parameters
    ----------
    forest, space, region
    delta : float
        Indifference: only inputs at least this far from the cut belong to the region.
    """
    trees = route(forest, space)
    leaf_node = np.argsort(np.where(trees.leaf_of_node < 0, trees.n_leaves, trees.leaf_of_node))
    leaf_node = leaf_node[: trees.n_leaves]
    value = forest.leaf_vectors()[leaf_node]
    scale, _ = exact.original_scale(forest)
    return Problem(
        forest=forest,
        space=space,
        trees=trees,
        masks=leaf_masks(trees, space),
        leaf_node=leaf_node,
        original_int=exact.to_units(value, scale),
        intercept_int=exact.to_units(forest.intercept, scale),
        scale=scale,
        **_stated(forest, region, delta, 0.0),
    )


def restated(problem: Problem, region: RegionTables, delta: float, undecided: float = 0.0) -> Problem:
    """The problem of the same model and states in another region.

    ``undecided`` leaves out a wider band than needed: that of a certificate of an earlier version.
    """
    return replace(problem, **_stated(problem.forest, region, delta, undecided))


def _stated(forest: Forest, region: RegionTables, delta: float, undecided: float) -> dict[str, Any]:
    """A region, the questions of a model in it, and from where on the original decides them."""
    scale, is_whole = exact.original_scale(forest)
    guard = forest.decision.guard
    unguarded = guard < 2.0**-scale and not forest.decision.thresholds
    is_exact = is_whole and unguarded and exact.is_exact(forest)
    questions = questions_of(forest)
    band = Band.of(forest, scale, is_whole, is_exact, delta)
    least = [band.least(forest.decision, question, undecided) for question in questions]
    strict = [not is_exact or not q.wins_tie(forest.decision) for q in questions]
    native, solver = band.parts(undecided)
    return {
        "region": region,
        "questions": questions,
        "least": np.array(least, dtype=np.int64),
        "native_band": native,
        "solver_band": solver,
        "strict": np.array(strict),
        "delta": delta,
    }


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
