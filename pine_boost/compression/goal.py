"""What must not change: the class, the probability within a tolerance, or the value within one.

In come a Forest and what the user asked for; out goes a Goal: decisions and distances of margins,
and which of two lists of margins differ. These are estimates; the native library decides later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.margin_probabilities import probabilities_of


@dataclass(frozen=True, eq=False)
class Goal:
    """What a smaller model has to keep.

    Attributes
    ----------
    forest : Forest
        The original.
    keeps_class : bool
        False for models without classes.
    tolerance : float or None
        How far a probability (with classes) or the value (without) may move.
    """

    forest: Forest
    keeps_class: bool
    tolerance: float | None

    @property
    def n_summands(self) -> int:
        """What the native library divides a sum by: the trees of an average, else 1."""
        return 1 if self.forest.free_intercept else self.forest.n_trees

    def changed(self, before: FloatArray, after: FloatArray) -> npt.NDArray[np.bool_]:
        """Rows on which two lists of margins differ by more than the goal allows."""
        if not self.keeps_class:
            assert self.tolerance is not None
            moved = np.abs(after - before).max(axis=1) / self.n_summands
            return np.asarray(moved > self.tolerance)
        classes = self.forest.decision.classes
        changed = classes(before) != classes(after)
        if self.tolerance is not None:
            moved = probabilities_of(self.forest, after) - probabilities_of(self.forest, before)
            changed = changed | (np.abs(moved).max(axis=1) > self.tolerance)
        return np.asarray(changed)

    def distances(self, margins: FloatArray) -> FloatArray:
        """Distance of each row from the decision; 0 where nearness does not matter."""
        if not self.keeps_class or self.tolerance is not None:
            return np.zeros(len(margins))
        return self.forest.decision.distance(margins)

    def interval(self, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where a sum that was ``distance`` may move to within half the tolerance."""
        if self.tolerance is None:
            return np.full(len(distance), -np.inf), np.full(len(distance), np.inf)
        half = self.tolerance / 2
        if not self.keeps_class or not self.forest.free_intercept:
            room = half * self.n_summands
            return distance - room, distance + room
        slope = self.forest.slope
        chance = expit(slope * distance)
        # a probability that would pass 0 or 1 gives no bound: its logit is infinite
        low, high = (logit(np.clip(chance + step, 0.0, 1.0)) / slope for step in (-half, half))
        return np.asarray(low), np.asarray(high)
