"""The same problem in larger regions over fewer states, for regions in which CP-SAT is slow.

A model that keeps every decision in a larger region keeps it in the region itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.model.routing import leaf_masks, route
from pine_boost.proof.problem import Problem
from pine_boost.region.coarse import coarsen
from pine_boost.region.isolation_forest import enclosing


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A problem on a larger region.

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

    def outward(self, states: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """State rows of the inner problem as state rows of this one."""
        columns = [
            np.searchsorted(kept, states[:, feature], side="right") - 1 for feature, kept in enumerate(self.kept)
        ]
        return np.stack(columns, axis=1).astype(np.int32)

    def inward(self, states: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """One state row of the inner problem for each state row of this one."""
        columns = [kept[states[:, feature]] for feature, kept in enumerate(self.kept)]
        return np.stack(columns, axis=1).astype(np.int32)


def enclosures(problem: Problem) -> list[Enclosure]:
    """Problems in larger regions, largest first; none for regions that are easy to prove in."""
    found = []
    for name, tables in enclosing(problem.region):
        space, region, kept = coarsen(problem.space, tables, problem.trees)
        trees = route(problem.forest, space)
        masks = leaf_masks(trees, space)
        larger = replace(problem, space=space, region=region, trees=trees, masks=masks)
        found.append(Enclosure(name, larger, kept))
    return found
