"""Which shapes are put to the test, and in which order: chosen before X_val is seen.

In come shapes of the path and slices with their estimated share of changed rows; out go a few,
from the largest to the smallest. An estimate only orders; it promises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pine_boost.compression.goal import Goal
from pine_boost.compression.least_squares_rows import Points
from pine_boost.compression.shape import SLICE, Shape, margins

# Levels of the estimate, as multiples of the share that the test allows. Rows made by swapping
# values are harder or easier than real ones by some factor (much easier where a forest knows its
# training rows by heart), so the levels reach far to both sides. Validation rows drawn again and
# again on five data sets: 8 levels 48.2 % of the leaves gone, 12 49.4, 24 48.8, 40 50.0, 100 50.1;
# a forest on Balance-Scale: 26 % with the upper 40 alone, 48 % with the lower ones.
_LEVELS = np.concatenate([np.geomspace(0.0004, 0.02, 27, endpoint=False), np.geomspace(0.02, 6.0, 40)])
_FEW = 4  # below so many tests the largest size is no good beginning
_SAFE = 0.25  # of the share that the test allows: expected to pass


@dataclass(frozen=True, eq=False)
class Candidate:
    """A shape and the share of rows on which it is expected to differ."""

    shape: Shape
    estimate: float

    @cached_property
    def n_leaves(self) -> int:
        """Leaves of the shape."""
        return self.shape.n_leaves


def estimate(goal: Goal, points: Points, shape: Shape) -> float:
    """Share of rows that change, on synthetic rows that the path was not fitted to."""
    changed = goal.changed(points.margins, margins(shape, goal.forest, points.leaves))
    return float(np.average(changed, weights=points.weight))


@dataclass(frozen=True, eq=False)
class Chains:
    """The two sequences that are tested, each from its largest shape to its smallest.

    Slices of the original stand in the first where their estimate is good, and alone in the
    second: where estimates mislead, the result is still no larger than a slice that passes.
    """

    first: list[Candidate]
    slices: list[Candidate]

    def thinned(self, n_most: int, allowed_share: float) -> Chains:
        """At most so many of each, evenly.

        The largest is the first of them, but where only one to three can be tested: these begin
        with the smallest that is expected to change far fewer rows than the test allows.
        """
        first, slices = (
            chain if len(chain) <= n_most else _thinned(chain, n_most, allowed_share)
            for chain in (self.first, self.slices)
        )
        return Chains(first, slices)


def _thinned(chain: list[Candidate], n_most: int, allowed_share: float) -> list[Candidate]:
    start, end = 0, len(chain) - 1
    if n_most < _FEW:
        below = [candidate.estimate <= _SAFE * allowed_share for candidate in chain]
        start = max(0, sum(below) - 1)
        end = max(start, sum(candidate.estimate <= allowed_share for candidate in chain) - 1)
    return [chain[i] for i in np.unique(np.linspace(start, end, n_most).astype(int))]


def choose_chains(found: Sequence[Candidate], allowed_share: float) -> Chains:
    """Both sequences, each ordered by the estimates of its own shapes."""
    slices = [candidate for candidate in found if candidate.shape.name == SLICE]
    return Chains(choose(found, allowed_share), choose(slices, allowed_share))


def choose(found: Sequence[Candidate], allowed_share: float) -> list[Candidate]:
    """For every level of the estimate the smallest shape below it, largest shapes first.

    Spacing by the estimate and not by size passes over stretches where a smaller shape is as
    good: every further candidate is one more chance to fail by bad luck.
    """
    if not found:
        return []
    best = undominated(found)
    estimates = [candidate.estimate for candidate in best]
    n_below = np.searchsorted(estimates, _LEVELS * allowed_share, side="right")
    chosen = [best[i] for i in np.unique(n_below[n_below > 0]) - 1]
    # the safest first, whatever the estimates are worth: of several, the largest
    safest = min(found, key=lambda candidate: (candidate.estimate, -candidate.n_leaves))
    if chosen and chosen[0].n_leaves >= safest.n_leaves:
        return chosen
    return [safest, *chosen]


def undominated(found: Sequence[Candidate]) -> list[Candidate]:
    """Shapes that no smaller one equals by the estimate, largest first.

    Along the path estimates rise and fall again: a group of equal rows close to the decision may
    change its class in one shape and keep it in the next. Such a shape is good for nothing.
    """
    best: list[Candidate] = []
    for candidate in sorted(found, key=lambda candidate: (candidate.n_leaves, candidate.estimate)):
        if not best or candidate.estimate < best[-1].estimate:
            best.append(candidate)
    return best[::-1]
