"""The same problem on larger regions, over fewer states.

In comes a problem whose score is hard to prove with; out go problems on regions that contain it,
from the largest inwards. A model that keeps every decision there keeps them here; the points of
one are translated to the states of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.model.routing import leaf_masks, route
from pine_boost.proof.problem import Problem
from pine_boost.region.fast.coarse import coarsen
from pine_boost.region.isolation_forest.enclosing import enclosing


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A problem on a larger region.

    Attributes
    ----------
    name : str
        What the region is, in a few words.
    problem : Problem
    kept : tuple of int64 (n_states of the feature in the larger region,)
        The first of the inner problem's states that each state stands for.
    """

    name: str
    problem: Problem
    kept: tuple[IntArray, ...]

    def outward(self, states: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """State rows of the inner problem as rows of this one."""
        columns = [
            np.searchsorted(kept, states[:, feature], side="right") - 1 for feature, kept in enumerate(self.kept)
        ]
        return np.stack(columns, axis=1).astype(np.int32)

    def inward(self, states: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """One state row of the inner problem for each row of this one."""
        columns = [kept[states[:, feature]] for feature, kept in enumerate(self.kept)]
        return np.stack(columns, axis=1).astype(np.int32)


def enclosures(problem: Problem) -> list[Enclosure]:
    """Games on larger regions, from the largest inwards; none where the score is easy."""
    found = []
    for name, tables in enclosing(problem.region):
        space, region, kept = coarsen(problem.space, tables, problem.trees)
        trees = route(problem.forest, space)
        masks = leaf_masks(trees, space)
        larger = replace(problem, space=space, region=region, trees=trees, masks=masks)
        found.append(Enclosure(name, larger, kept))
    return found
