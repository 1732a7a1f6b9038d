"""The three scores as they are before the price of unseen missing values, on small data."""

from typing import Any

import numpy as np

from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import StateSpace, build_space
from pine_boost.region.isolation_forest import grow_trees, isolation_tables
from pine_boost.region.score_tables import ScoreTables
from pine_boost.region.scores.chow_liu import bins_of, chow_liu_of_states, count_nearest
from pine_boost.region.scores.fit_score import leaf_support_tables

States = np.ndarray[Any, np.dtype[Any]]


def fit_chow_liu(states: States, space: StateSpace, X: FloatArray, n_bins: int = 4) -> ScoreTables:
    """Chow-Liu tables of rows and their states."""
    return chow_liu_of_states(bins_of(space, count_nearest(space, X), n_bins), states)


def fit_leaf_support(states: States, trees: StateTrees, space: StateSpace) -> ScoreTables:
    """Leaf Support of the model's trees over a space."""
    return leaf_support_tables(trees, trees.visits(states), space)


def fit_isolation_forest(
    X: FloatArray, forest: Forest, *, n_trees: int = 30, max_samples: int = 256, random_state: int = 0
) -> tuple[ScoreTables, StateSpace]:
    """Isolation trees and the space that their thresholds and the model's make."""
    trees, space = grow_trees(X, forest, n_trees, max_samples, random_state)
    return isolation_tables(trees, trees.visits(space.states(X)), space), space


def fit_small(kind: str | None, X: FloatArray, forest: Forest, seed: int) -> tuple[ScoreTables | None, StateSpace]:
    """A score of this name, small enough to list everything, and its space; None: no score."""
    space = build_space(forest)
    if kind == "chow-liu":
        return fit_chow_liu(space.states(X), space, X, n_bins=3), space
    if kind == "leaf-support":
        return fit_leaf_support(space.states(X), route(forest, space), space), space
    if kind == "isolation-forest":
        return fit_isolation_forest(X, forest, n_trees=3, max_samples=5, random_state=seed)
    return None, space
