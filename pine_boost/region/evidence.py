"""What X_fit and X_cal say of rare inputs and of toss-ups, kept apart.

In come the original, a fitted score and rows; out go scores and distances from the decision. What
is chosen is chosen from `FitEvidence` alone; `CalEvidence` only calibrates.
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
