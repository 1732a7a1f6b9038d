"""Nested regions: one calibrated level decides how rare and how undecided an input may be.

In come scores and distances of X_fit and the share of alpha that toss-ups get; out goes a ladder of
regions, each inside the next, and the step of every input. That step is one conformal score, so any
ladder that is made without X_cal keeps the guarantee. Refuses nothing: the last steps are wide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pine_boost.model.exact import off_rounding
from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import States, StateSpace
from pine_boost.region.margins import float_margins
from pine_boost.region.score_tables import RegionTables, ScoreTables
from pine_boost.tables.rows import Rows

_MOST_BASES = 5000  # rows of X_fit, evenly spaced, whose values are swapped
_SWAPPED = 4  # rows made of each
_CANDIDATES = 16  # rows of which the one that shares most leaves is the partner


@dataclass(frozen=True, eq=False)
class FitEvidence:
    """What X_fit says of rare inputs and of toss-ups, each ascending.

    Attributes
    ----------
    scores : int64 (n_fit,)
    distances : float64 (n_fit,)
        Of the original from its decision, as limits: lowered by what rounding can do.
    swapped : float64
        The same on rows with values swapped between rows of X_fit: a model is far surer of the
        rows that it was trained on than of others.
    """

    scores: IntArray
    distances: FloatArray
    swapped: FloatArray


@dataclass(frozen=True, eq=False)
class CalEvidence:
    """Scores and distances of the rows of X_cal that the domain permits, in one order."""

    scores: IntArray
    distances: FloatArray


def fit_evidence(forest: Forest, space: StateSpace, score: ScoreTables, fit: Rows, random_state: int) -> FitEvidence:
    """Scores and distances of X_fit, and distances of rows with values swapped between them."""
    trees = route(forest, space)
    measure = partial(_score_and_distance, forest, trees, score, None)
    scores, distances = _joined(fit, space, measure)
    n_bases = min(fit.n_rows, _MOST_BASES)
    bases = np.arange(n_bases, dtype=np.int64) * fit.n_rows // n_bases
    states = np.ascontiguousarray(fit.take_states(space, bases))
    random = np.random.default_rng(random_state)
    swapped = _swapped(states, trees.leaves(states), random)
    found = distance_of(forest, trees, swapped)
    limits = (off_rounding(np.sort(each), forest) for each in (distances, found))
    return FitEvidence(np.sort(scores), *limits)


def cal_evidence(forest: Forest, space: StateSpace, score: ScoreTables, tables: RegionTables, cal: Rows) -> CalEvidence:
    """Scores and distances of those rows of X_cal that the domain permits."""
    measure = partial(_score_and_distance, forest, route(forest, space), score, tables)
    return CalEvidence(*_joined(cal, space, measure))


def distance_of(forest: Forest, trees: StateTrees, states: States) -> FloatArray:
    """How far the original is from its decision on states, in float64."""
    return forest.decision.distance(float_margins(forest, trees, states))


def _swapped(states: States, leaves: States, random: np.random.Generator) -> States:
    """Rows of which half of the values come from a row that shares many leaves.

    Part of what a region is: `verify` makes the same rows from X_fit, so this must stay as it is.
    """
    base = np.repeat(np.arange(len(states)), _SWAPPED)
    own = leaves[base]
    partner, most = base, np.full(len(base), -1)
    for _ in range(_CANDIDATES):
        other = random.integers(0, len(states), len(base))
        shared = np.where(other == base, -1, (leaves[other] == own).sum(axis=1))
        partner, most = np.where(shared > most, other, partner), np.maximum(shared, most)
    taken = random.random((len(base), states.shape[1])) < 0.5
    return np.where(taken, states[partner], states[base])


def _score_and_distance(
    forest: Forest, trees: StateTrees, score: ScoreTables, tables: RegionTables | None, states: States
) -> tuple[IntArray, FloatArray]:
    if tables is not None:
        states = states[tables.permits(states)]
    return score.score(states), distance_of(forest, trees, states)


def _joined(
    rows: Rows, space: StateSpace, measure: Callable[[States], tuple[IntArray, FloatArray]]
) -> tuple[IntArray, FloatArray]:
    scores, distances = zip(*rows.map_states(space, measure), strict=True)
    return np.concatenate(scores), np.concatenate(distances)


_RATIO = 63 / 64  # from step to step: the share of X_fit that may lie outside
_LAST = 1 / 32  # rows of X_fit: below that nothing is left of the toss-ups
_TAIL = 10  # one row in so many is the tail that is continued beyond the rarest row


@dataclass(frozen=True, eq=False)
class Nesting:
    """Regions ``score <= tau[step] and distance >= delta[step]`` that grow from step to step.

    Beyond the last step, where delta is 0, every further step allows one more unit of the score.

    Attributes
    ----------
    share : float
        The part of alpha that was meant for toss-ups; 0 < share < 1.
    tau : int64 (n_steps,)
        Never falling.
    delta : float64 (n_steps,)
        Never rising, 0 at the end.
    """

    share: float
    tau: IntArray
    delta: FloatArray

    def levels(self, scores: IntArray, distances: FloatArray) -> IntArray:
        """The smallest step whose region holds each input; exact, as `Region.contains` compares."""
        by_score = np.searchsorted(self.tau, scores, side="left")
        by_distance = np.searchsorted(-self.delta, -distances, side="left")
        beyond = scores - self.tau[-1] + len(self.tau) - 1
        level = np.where(scores > self.tau[-1], beyond, np.maximum(by_score, by_distance))
        return np.asarray(level, dtype=np.int64)

    def limits(self, level: int) -> tuple[int, float | None]:
        """Tau and delta of a step; delta is None where toss-ups belong to the region."""
        last = len(self.tau) - 1
        if level >= last:
            return int(self.tau[-1]) + level - last, None
        delta = float(self.delta[level])
        return int(self.tau[level]), delta if delta > 0 else None

    def expected(self, alpha: float) -> tuple[int, float | None]:
        """Tau and delta if future inputs were like X_fit; for estimates only."""
        step, left = 0, 1.0
        while left > alpha:
            step, left = step + 1, left * _RATIO
        return self.limits(step)


def nest(evidence: FitEvidence, share: float) -> Nesting:
    """The ladder along which ``share`` of what lies outside are toss-ups, the rest rare inputs.

    Where X_fit ends, both go on: delta falls linearly to 0 below the nearest row, and tau grows by
    the mean excess of the rarest tenth for every factor e. Only multiplications and additions, so
    that every machine makes the same ladder.
    """
    n_rows = len(evidence.scores)
    n_tail = -(-n_rows // _TAIL)
    tail = evidence.scores[n_rows - n_tail :]
    growth = 1 + int((tail - tail[0]).sum()) // (64 * n_tail)
    tau: list[int] = []
    delta: list[float] = []
    outside = float(n_rows)
    while True:
        rare, undecided = (1 - share) * outside, share * outside
        beyond = rare < 1 and len(tau) > 0
        tau.append(tau[-1] + growth if beyond else _score_at(evidence.scores, rare))
        delta.append(
            min(
                _distance_at(evidence.distances, undecided),
                _distance_at(evidence.swapped, undecided * len(evidence.swapped) / n_rows),
            )
        )
        if undecided < _LAST:
            break
        outside *= _RATIO
    delta[-1] = 0.0
    return Nesting(
        float(share), np.maximum.accumulate(np.array(tau, dtype=np.int64)), np.minimum.accumulate(np.array(delta))
    )


def _score_at(scores: IntArray, above: float) -> int:
    """The score with so many rows above it, between two of them the nearer to the lower."""
    position = max(0.0, len(scores) - 1 - above)
    low = int(position)
    high = min(low + 1, len(scores) - 1)
    return int(scores[low]) + int((position - low) * int(scores[high] - scores[low]))


def _distance_at(distances: FloatArray, below: float) -> float:
    """The distance with so many rows below it; 0 with none."""
    low = min(int(below), len(distances) - 1)
    first = 0.0 if low == 0 else float(distances[low - 1])
    return first + (min(below, len(distances)) - low) * (float(distances[low]) - first)
