"""The plausibility scores by name: one entrance for the three of the paper and a user's own.

In come X_fit and the model; out go integer tables and the space they refer to. Refuses unknown
names and tables that do not fit the space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.routing import route
from pine_boost.model.states import StateSpace, build_space
from pine_boost.options import is_whole
from pine_boost.region.score_tables import ScoreTables
from pine_boost.region.scores.chow_liu import fit_chow_liu
from pine_boost.region.scores.isolation_forest import grow_trees, isolation_tables
from pine_boost.region.scores.leaf_support import fit_leaf_support
from pine_boost.region.scores.missing import price_unseen_missing

SCORE_NAMES = ("chow-liu", "leaf-support", "isolation-forest")


@dataclass(frozen=True, eq=False)
class FittedScore:
    """A score, the state space that its tables refer to, and the states of X_fit in it."""

    name: str
    tables: ScoreTables
    space: StateSpace
    states: npt.NDArray[np.int32]


def fit_score(
    score: Any, forest: Forest, X: FloatArray, *, n_bins: int = 4, random_state: int = 0
) -> FittedScore:
    """Fit a score by name, or take a user's own tables.

    Parameters
    ----------
    score : str, ScoreTables, or object with ``tables(space) -> ScoreTables``
    forest : Forest
    X : float64 (n_rows, n_features)
        X_fit.
    n_bins : int
        Of Chow-Liu.
    random_state : int
        Of the isolation forest.
    """
    if isinstance(score, str) and score in SCORE_NAMES:
        if score == "isolation-forest":
            grown = grow_trees(X, forest, random_state=random_state)
            space = grown.space
            states = space.states(X)
            tables = isolation_tables(grown, grown.trees.visits(states))
        else:
            space = build_space(forest)
            states = space.states(X)
            if score == "chow-liu":
                tables = fit_chow_liu(states, space, X, n_bins=n_bins)
            else:
                tables = fit_leaf_support(states, route(forest, space), space)
        return FittedScore(score, price_unseen_missing(tables, space, states), space, states)
    space = build_space(forest)
    if not isinstance(score, ScoreTables):
        if not hasattr(score, "tables"):
            raise InvalidInputError(
                f"score is {score!r}; accepted are {', '.join(SCORE_NAMES)}, a ScoreTables, or an "
                "object with tables(space) -> ScoreTables."
            )
        name = str(getattr(score, "name", "custom"))
        own = score.tables(space)
    else:
        name, own = "custom", score
    if not isinstance(own, ScoreTables):
        raise InvalidInputError(f"tables(space) returned {type(own).__name__}, no ScoreTables.")
    check_tables(own, space)
    return FittedScore(name, own, space, space.states(X))


def check_tables(tables: ScoreTables, space: StateSpace) -> None:
    """Refuse tables that are not integers over the states and bins of this space."""
    n_features = space.n_features
    if len(tables.bins) != n_features or len(tables.unary) != n_features:
        raise InvalidInputError(
            f"The score has tables for {len(tables.bins)} features, the model has {n_features}."
        )
    arrays = [*tables.bins, *tables.unary, *(pair.cost for pair in tables.pairs)]
    if tables.trees is not None:
        arrays.append(tables.trees.cost)
    if any(array.dtype.kind not in "iu" for array in arrays):
        raise InvalidInputError("The tables of a score must be integers; multiply and round them.")
    if not is_whole(tables.scale) or tables.scale < 1:
        raise InvalidInputError(f"The scale of a score is {tables.scale!r}, no positive integer.")
    if any(array.size and np.abs(array).max() > 2**31 for array in arrays):
        raise InvalidInputError("A cost of the score is beyond 2**31; use a coarser scale.")
    for feature, (bins, unary) in enumerate(zip(tables.bins, tables.unary, strict=True)):
        n_states = space.axes[feature].n_states
        if bins.shape != (n_states,) or unary.ndim != 1 or len(unary) < 1:
            raise InvalidInputError(
                f"Feature {feature} has {n_states} states; its bins have shape {bins.shape}."
            )
        if bins.min() < 0 or bins.max() >= len(unary):
            raise InvalidInputError(f"Feature {feature} has a bin outside 0..{len(unary) - 1}.")
    for pair in tables.pairs:
        if not (0 <= pair.first < n_features and 0 <= pair.second < n_features):
            raise InvalidInputError(f"A pair names the features {pair.first}, {pair.second}.")
        expected = (len(tables.unary[pair.first]), len(tables.unary[pair.second]))
        if pair.first == pair.second or pair.cost.shape != expected:
            raise InvalidInputError(
                f"The pair ({pair.first}, {pair.second}) has shape {pair.cost.shape}, "
                f"expected {expected} for two different features."
            )
    if tables.trees is not None and tables.trees.cost.shape != (tables.trees.trees.n_leaves,):
        raise InvalidInputError("The score has not one cost for each leaf of its trees.")
