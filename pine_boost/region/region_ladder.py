"""A ladder of nested regions: one calibrated step sets both how rare and how undecided an input may be.

The step of an input is a single conformal score, so any ladder that is built without X_cal keeps the guarantee.
What is chosen is chosen from `FitEvidence` alone; X_cal only calibrates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pine_boost.model.exact import off_rounding
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import States, StateSpace
from pine_boost.model.synthetic_rows import most_similar
from pine_boost.region.margins import float_margins
from pine_boost.region.score_tables import RegionTables, ScoreTables
from pine_boost.tables.rows import Rows

_MOST_BASES = 5000  # rows of X_fit, evenly spaced, whose values are swapped
_SWAPPED = 4  # new rows per base row
_CANDIDATES = 16  # random rows; the one that shares most leaves with the base row is its partner
_RATIO = 63 / 64  # the share of X_fit that may lie outside shrinks by this factor per step
_LAST = 1 / 32  # expected undecided rows of X_fit at which the ladder ends
_TAIL = 10  # the rarest 1 / _TAIL of X_fit sets how tau grows beyond its rarest row


@dataclass(frozen=True, eq=False)
class FitEvidence:
    """Scores of X_fit and distances of the original from its decision, each ascending.

    Attributes
    ----------
    scores : int64 (n_fit,)
    distances : float64 (n_fit,)
        Distances on X_fit, lowered by the largest possible rounding error.
    swapped : float64
        Distances on rows made by swapping values between rows of X_fit: a model is much more certain about
        the rows it was trained on than about others.
    """

    scores: IntArray
    distances: FloatArray
    swapped: FloatArray


@dataclass(frozen=True, eq=False)
class Measured:
    """Scores and distances of rows, row by row, and whether the domain allows them; no distances without original."""

    scores: IntArray
    distances: FloatArray
    possible: BoolArray


def measure(
    rows: Rows, space: StateSpace, tables: RegionTables, score: ScoreTables, original: Forest | None
) -> Measured:
    """Score every row, and measure the distance of the original from its decision."""
    trees = None if original is None else route(original, space)

    def of_chunk(states: States) -> tuple[IntArray, FloatArray, BoolArray]:
        distances = np.zeros(0) if original is None or trees is None else distance_of(original, trees, states)
        return score.score(states), distances, tables.permits(states)

    return Measured(*map(np.concatenate, zip(*rows.map_states(space, of_chunk), strict=True)))


def fit_evidence(forest: Forest, space: StateSpace, fit: Rows, found: Measured, random_state: int) -> FitEvidence:
    """What was measured of X_fit, and distances of rows with swapped values."""
    trees = route(forest, space)
    n_bases = min(fit.n_rows, _MOST_BASES)
    bases = np.arange(n_bases, dtype=np.int64) * fit.n_rows // n_bases
    states = np.ascontiguousarray(fit.take_states(space, bases))
    random = np.random.default_rng(random_state)
    swapped = distance_of(forest, trees, _swapped(states, trees.leaves(states), random))
    limits = (off_rounding(np.sort(each), forest) for each in (found.distances, swapped))
    return FitEvidence(np.sort(found.scores), *limits)


def distance_of(forest: Forest, trees: StateTrees, states: States) -> FloatArray:
    """The original's distance from its decision on state rows, in float64."""
    return forest.decision.distance(float_margins(forest, trees, states))


def _swapped(states: States, leaves: States, random: np.random.Generator) -> States:
    """Rows that take about half of their values from another row which shares many leaves.

    `verify` rebuilds the same rows from X_fit, so a change here changes what a region is.
    """
    base = np.repeat(np.arange(len(states)), _SWAPPED)
    partner = most_similar(leaves, base, (random.integers(0, len(states), len(base)) for _ in range(_CANDIDATES)))
    taken = random.random((len(base), states.shape[1])) < 0.5
    return np.where(taken, states[partner], states[base])


@dataclass(frozen=True, eq=False)
class RegionLadder:
    """Regions ``score <= tau[step] and distance >= delta[step]``, each inside the next.

    Beyond the last step, where delta is 0, every further step adds one unit to tau.

    Attributes
    ----------
    share : float
        The part of alpha meant for undecided inputs; 0 < share < 1.
    tau : int64 (n_steps,)
        Non-decreasing.
    delta : float64 (n_steps,)
        Non-increasing, 0 at the end.
    """

    share: float
    tau: IntArray
    delta: FloatArray

    def calibration(self, found: Measured) -> IntArray:
        """The steps of the rows that the domain allows, ascending."""
        return np.sort(self.levels(found.scores[found.possible], found.distances[found.possible]))

    def levels(self, scores: IntArray, distances: FloatArray) -> IntArray:
        """The first step whose region contains each input; exactly as `Region.contains` compares."""
        by_score = np.searchsorted(self.tau, scores, side="left")
        by_distance = np.searchsorted(-self.delta, -distances, side="left")
        beyond = scores - self.tau[-1] + len(self.tau) - 1
        level = np.where(scores > self.tau[-1], beyond, np.maximum(by_score, by_distance))
        return np.asarray(level, dtype=np.int64)

    def limits(self, level: int) -> tuple[int, float | None]:
        """Tau and delta of a step; delta is None if undecided inputs belong to the region."""
        last = len(self.tau) - 1
        if level >= last:
            return int(self.tau[-1]) + level - last, None
        delta = float(self.delta[level])
        return int(self.tau[level]), delta if delta > 0 else None

    def expected(self, alpha: float) -> tuple[int, float | None]:
        """Tau and delta if future inputs were distributed like X_fit; for estimates only."""
        step, left = 0, 1.0
        while left > alpha:
            step, left = step + 1, left * _RATIO
        return self.limits(step)


def build_ladder(evidence: FitEvidence, share: float) -> RegionLadder:
    """The ladder whose outside is undecided inputs for a ``share``, and rare inputs for the rest.

    Beyond the data, delta falls linearly to 0 below the nearest row of X_fit, and tau grows by the mean
    excess of the rarest tenth per factor e. Only multiplications and additions are used, so every machine
    builds the same ladder.
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
    return RegionLadder(
        float(share), np.maximum.accumulate(np.array(tau, dtype=np.int64)), np.minimum.accumulate(np.array(delta))
    )


def _score_at(scores: IntArray, above: float) -> int:
    """The score with ``above`` rows above it, interpolated and rounded down."""
    position = max(0.0, len(scores) - 1 - above)
    low = int(position)
    high = min(low + 1, len(scores) - 1)
    return int(scores[low]) + int((position - low) * int(scores[high] - scores[low]))


def _distance_at(distances: FloatArray, below: float) -> float:
    """The distance with ``below`` rows below it, interpolated; 0 for none."""
    low = min(int(below), len(distances) - 1)
    first = 0.0 if low == 0 else float(distances[low - 1])
    return first + (min(below, len(distances)) - low) * (float(distances[low]) - first)
