"""The plausibility scores by name: one entrance for the three of the paper and a user's own.

In come X_fit and the model; out go integer tables and the space they refer to. Refuses unknown
names and tables that do not fit the space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import COST_LIMIT
from pine_boost.model.forest import FloatArray, Forest, IntArray
from pine_boost.model.routing import route
from pine_boost.model.states import States, StateSpace, build_space
from pine_boost.options import SCORE_NAMES, is_whole
from pine_boost.region.score_tables import ScoreTables
from pine_boost.region.scores.chow_liu import (
    bins_of,
    chow_liu_of_states,
    chow_liu_tables,
    count_pairs,
    n_pair_cells,
    pairs_of_counts,
)
from pine_boost.region.scores.isolation_forest import grow_trees, isolation_tables
from pine_boost.region.scores.leaf_support import leaf_tables
from pine_boost.region.scores.missing import missing_seen, price_unseen, price_unseen_missing
from pine_boost.region.scores.quantiles import add_nearest, count_nearest
from pine_boost.tables.rows import MemoryRows, Rows

SAMPLED_ROWS = 100_000  # that isolation trees are grown on; they look at a few thousand
PAIR_CELLS = 2**25  # joint counts kept at once while a table is read in chunks: 256 MiB


@dataclass(frozen=True, eq=False)
class FittedScore:
    """A score and the state space that its tables refer to."""

    name: str
    tables: ScoreTables
    space: StateSpace


def fit_score(
    score: Any,
    forest: Forest,
    X: FloatArray | Rows,
    *,
    n_bins: int = 4,
    random_state: int = 0,
    budget: Budget | None = None,
) -> FittedScore:
    """Fit a score by name, or take a user's own tables.

    Parameters
    ----------
    score : str, ScoreTables, or object with ``tables(space) -> ScoreTables``
    forest : Forest
    X : float64 (n_rows, n_features), or Rows
        X_fit.
    n_bins : int
        Of Chow-Liu.
    random_state : int
        Of the isolation forest.
    budget : Budget, optional
        `OutOfTime` is raised once its deadline has passed.
    """
    budget = budget or Budget()
    rows = X if isinstance(X, Rows) else MemoryRows(X)
    if isinstance(score, str) and score in SCORE_NAMES:
        return _fit_named(score, forest, rows, n_bins, random_state, budget)
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
    return FittedScore(name, _in_words(own), space)


def _in_words(tables: ScoreTables) -> ScoreTables:
    """The tables in int64: sums and positions of cells would wrap in smaller types."""
    trees = tables.trees
    return replace(
        tables,
        bins=tuple(table.astype(np.int64) for table in tables.bins),
        unary=tuple(cost.astype(np.int64) for cost in tables.unary),
        pairs=tuple(replace(pair, cost=pair.cost.astype(np.int64)) for pair in tables.pairs),
        trees=None if trees is None else replace(trees, cost=trees.cost.astype(np.int64)),
    )


def _fit_named(score: str, forest: Forest, rows: Rows, n_bins: int, random_state: int, budget: Budget) -> FittedScore:
    """Count over the rows, then make the tables."""
    budget.check()
    if score == "isolation-forest":
        n_sampled = min(rows.n_rows, SAMPLED_ROWS)
        sampled = np.random.default_rng(random_state).choice(rows.n_rows, n_sampled, replace=False)
        grown = grow_trees(rows.take(np.sort(sampled)), forest, random_state=random_state)
        visits, seen = _counted(rows, grown.space, grown.trees.visits)
        return FittedScore(score, price_unseen(isolation_tables(grown, visits), grown.space, seen), grown.space)
    space = build_space(forest)
    if score == "leaf-support":
        trees = route(forest, space)
        visits, seen = _counted(rows, space, trees.visits)
        return FittedScore(score, price_unseen(leaf_tables(trees, visits, space), space, seen), space)
    bins = bins_of(space, add_nearest(rows.map_values(partial(count_nearest, space))), n_bins)
    if isinstance(rows, MemoryRows):
        states = rows.states(space)
        tables = chow_liu_of_states(bins, states, budget=budget)
        return FittedScore(score, price_unseen_missing(tables, space, states), space)
    if n_pair_cells(bins) > PAIR_CELLS:
        raise InvalidInputError(
            f"Counting all pairs of bins of this table in chunks would take {n_pair_cells(bins)} "
            f"counts; at most {PAIR_CELLS} are accepted. Use fewer n_bins, another score, or a "
            "table in memory."
        )
    counts, seen = _counted(rows, space, partial(count_pairs, bins))
    tables = chow_liu_tables(bins, pairs_of_counts(bins, counts))
    return FittedScore(score, price_unseen(tables, space, seen), space)


def _counted(
    rows: Rows, space: StateSpace, count: Callable[[States], IntArray]
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Counts over all rows, and which features some row misses."""
    total, seen = np.zeros(1, dtype=np.int64), np.zeros(space.n_features, dtype=bool)
    for counts, missing in rows.map_states(space, partial(_count_chunk, space, count)):
        total, seen = total + counts, seen | missing
    return total, seen


def _count_chunk(
    space: StateSpace, count: Callable[[States], IntArray], states: States
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    return count(states), missing_seen(space, states)


def check_tables(tables: ScoreTables, space: StateSpace) -> None:
    """Refuse tables that are not integers over the states and bins of this space."""
    n_features = space.n_features
    if len(tables.bins) != n_features or len(tables.unary) != n_features:
        raise InvalidInputError(f"The score has tables for {len(tables.bins)} features, the model has {n_features}.")
    arrays = [*tables.bins, *tables.unary, *(pair.cost for pair in tables.pairs)]
    if tables.trees is not None:
        arrays.append(tables.trees.cost)
    if any(array.dtype.kind not in "iu" for array in arrays):
        raise InvalidInputError("The tables of a score must be integers; multiply and round them.")
    if not is_whole(tables.scale) or tables.scale < 1:
        raise InvalidInputError(f"The scale of a score is {tables.scale!r}, no positive integer.")
    if any(array.size and not -COST_LIMIT <= array.min() <= array.max() <= COST_LIMIT for array in arrays):
        raise InvalidInputError("A cost of the score is beyond 2**31; use a coarser scale.")
    for feature, (bins, unary) in enumerate(zip(tables.bins, tables.unary, strict=True)):
        n_states = space.axes[feature].n_states
        if bins.shape != (n_states,) or unary.ndim != 1 or len(unary) < 1:
            raise InvalidInputError(f"Feature {feature} has {n_states} states; its bins have shape {bins.shape}.")
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
