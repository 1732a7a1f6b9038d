"""The fit rows as the search sees them: distinct, with what the original says on them.

In come the states of X_fit; out go those that become rows of the game at once, nearest to the
boundary first, and later those that a candidate would lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import PrunedForest
from pine_boost.proof.problem import Game, margins_int, pruned_leaves_int
from pine_boost.search.grid import Reference, build_reference, needed_sides
from pine_boost.search.rows import pruned_sides

_MOST_AT_ONCE = 20_000
_MOST_PER_ROUND = 500


@dataclass(frozen=True, eq=False)
class FitRows:
    """The distinct state rows of X_fit, and what the original says on them."""

    states: npt.NDArray[np.int32]
    reference: Reference

    def nearest(self) -> npt.NDArray[np.int32]:
        """Rows to begin with, those near the boundary first; the others join when lost."""
        distance = np.abs(self.reference.margins).min(axis=1)
        return self.states[np.argsort(distance, kind="stable")[:_MOST_AT_ONCE]]

    def lost_by(self, game: Game, pruned: PrunedForest) -> npt.NDArray[np.int32]:
        """Some rows that the pruned model loses, where not all were rows at once."""
        if len(self.states) <= _MOST_AT_ONCE:
            return self.states[:0]
        leaves = self.reference.leaves
        decided = game.decided(game.original_margins_int(leaves))
        margins = margins_int(pruned_leaves_int(game, pruned), leaves) + pruned.intercept_int
        sides = pruned_sides(game, margins)
        lost = (decided & (sides < needed_sides(game, pruned.grid))).any(axis=1)
        return self.states[np.flatnonzero(lost)[:_MOST_PER_ROUND]]


def distinct_fit_rows(game: Game, states: npt.NDArray[Any]) -> FitRows:
    """Distinct state rows and the original's margins; only features with states are compared."""
    used = np.flatnonzero(game.space.n_states > 1)
    compact = states[:, used].astype(np.min_scalar_type(int(game.space.n_states.max())))
    _, first, counts = np.unique(compact, axis=0, return_index=True, return_counts=True)
    distinct = states[first].astype(np.int32)
    return FitRows(distinct, build_reference(game, game.trees.leaves(distinct), counts))
