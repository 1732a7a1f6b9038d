"""Fit a plausibility score by name, or check the tables of a user's own score.

The scores are Chow-Liu, leaf support and isolation forest. A value that is never missing in X_fit gets a high
price when it is missing later: any score keeps the conformal guarantee, and without the price the smoothing
alone would put missing values that nobody ever saw into the region.
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
from pine_boost.model.exact import COST_LIMIT, ROW_LIMIT, SCORE_SCALE
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import States, StateSpace, build_space
from pine_boost.options import SCORE_NAMES, is_whole
from pine_boost.region.isolation_forest import grow_trees, isolation_tables
from pine_boost.region.score_tables import PSEUDO_COUNT, PairTable, ScoreTables, TreeCost, score_of_leaves
from pine_boost.region.scores.chow_liu import (
    add_nearest,
    bins_of,
    chow_liu_of_states,
    chow_liu_tables,
    count_nearest,
    count_pairs,
    n_pair_cells,
    pairs_of_counts,
)
from pine_boost.tables.rows import MemoryRows, Rows

PAIR_CELLS = 2**25  # joint counts kept at once while a table is read in chunks: 256 MiB
UNSEEN_MISSING_NATS = 200  # e**200 times less likely: above every tau of real data


@dataclass(frozen=True, eq=False)
class FittedScore:
    """A score and the state space of its tables."""

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
        Quantile bins per feature of the Chow-Liu score.
    random_state : int
        Seed of the isolation forest.
    budget : Budget, optional

    Raises
    ------
    InvalidInputError
        The name is unknown, or the tables do not fit the model's state space.
    OutOfTime
        The budget's deadline has passed.
    """
    budget = budget or Budget()
    rows = X if isinstance(X, Rows) else MemoryRows(X)
    if isinstance(score, str) and score in SCORE_NAMES:
        return _fit_named(score, forest, rows, n_bins, random_state, budget)
    space, name, own = build_space(forest), "custom", score
    if not isinstance(score, ScoreTables):
        if not hasattr(score, "tables"):
            raise InvalidInputError(
                f"score is {score!r}; accepted are {', '.join(SCORE_NAMES)}, a ScoreTables, or an "
                "object with tables(space) -> ScoreTables."
            )
        name, own = str(getattr(score, "name", "custom")), score.tables(space)
    if not isinstance(own, ScoreTables):
        raise InvalidInputError(f"tables(space) must return a ScoreTables, got {type(own).__name__}.")
    check_tables(own, space)
    return FittedScore(name, _as_int64(own), space)


def _as_int64(tables: ScoreTables) -> ScoreTables:
    """The tables in int64: sums and cell positions would overflow in smaller types."""
    trees = tables.trees
    return replace(
        tables,
        bins=tuple(table.astype(np.int64) for table in tables.bins),
        unary=tuple(cost.astype(np.int64) for cost in tables.unary),
        pairs=tuple(replace(pair, cost=pair.cost.astype(np.int64)) for pair in tables.pairs),
        trees=None if trees is None else replace(trees, cost=trees.cost.astype(np.int64)),
    )


def _fit_named(score: str, forest: Forest, rows: Rows, n_bins: int, random_state: int, budget: Budget) -> FittedScore:
    budget.check()
    space = build_space(forest)
    if score == "isolation-forest":
        trees, space = grow_trees(rows, forest, random_state=random_state)
        visits, seen = _count(rows, space, trees.visits)
        tables = isolation_tables(trees, visits, space)
    elif score == "leaf-support":
        trees = route(forest, space)
        visits, seen = _count(rows, space, trees.visits)
        tables = leaf_support_tables(trees, visits, space)
    else:
        bins = bins_of(space, add_nearest(rows.map_values(partial(count_nearest, space))), n_bins)
        if isinstance(rows, MemoryRows):
            states = rows.states(space)
            tables, seen = chow_liu_of_states(bins, states, budget=budget), missing_seen(space, states)
        elif n_pair_cells(bins) <= PAIR_CELLS:
            counts, seen = _count(rows, space, partial(count_pairs, bins))
            tables = chow_liu_tables(bins, pairs_of_counts(bins, counts))
        else:
            raise InvalidInputError(
                f"Counting all pairs of bins of this table in chunks would take {n_pair_cells(bins)} "
                f"counts; at most {PAIR_CELLS} are accepted. Use fewer n_bins, another score, or a "
                "table in memory.",
                option="n_bins",
            )
    return FittedScore(score, price_unseen_missing(tables, space, seen), space)


def _count(rows: Rows, space: StateSpace, count: Callable[[States], IntArray]) -> tuple[IntArray, BoolArray]:
    """Counts over all rows, and which features are missing in some row."""

    def of_chunk(states: States) -> tuple[IntArray, BoolArray]:
        return count(states), missing_seen(space, states)

    total, seen = np.zeros(1, dtype=np.int64), np.zeros(space.n_features, dtype=bool)
    for counts, missing in rows.map_states(space, of_chunk):
        total, seen = total + counts, seen | missing
    return total, seen


def leaf_support_tables(trees: StateTrees, visits: IntArray, space: StateSpace) -> ScoreTables:
    """Leaf support: the sum over trees of ``-log`` of the share of X_fit in the leaf reached.

    ``visits`` counts the rows of X_fit in every leaf. The unit is 1 / SCORE_SCALE nat, or coarser by powers
    of ten if the costs of all leaves would not fit into one row of the solver.
    """
    smoothed = visits + PSEUDO_COUNT
    total = np.add.reduceat(smoothed, trees.leaf_offset[:-1])[trees.leaf_tree]
    nats = -np.log(smoothed / total)
    scale = SCORE_SCALE
    while scale > 1 and nats.sum() * scale > ROW_LIMIT // 4:
        scale //= 10
    cost = np.rint(nats * scale).astype(np.int64)
    return score_of_leaves(space, TreeCost(trees, cost, of_model=True), scale)


def check_tables(tables: ScoreTables, space: StateSpace) -> None:
    """Raise InvalidInputError unless the tables are integers over the states and bins of this space."""
    n_features = space.n_features
    if len(tables.bins) != n_features or len(tables.unary) != n_features:
        raise InvalidInputError(f"The score has tables for {len(tables.bins)} features, the model has {n_features}.")
    arrays = [*tables.bins, *tables.unary, *(pair.cost for pair in tables.pairs)]
    if tables.trees is not None:
        arrays.append(tables.trees.cost)
    if any(array.dtype.kind not in "iu" for array in arrays):
        raise InvalidInputError("The tables of a score must be integers; multiply and round them.")
    if not is_whole(tables.scale) or tables.scale < 1:
        raise InvalidInputError(f"The scale of a score must be a positive integer, got {tables.scale!r}.")
    if any(array.size and not -COST_LIMIT <= array.min() <= array.max() <= COST_LIMIT for array in arrays):
        raise InvalidInputError("A cost of the score exceeds 2**31; use a coarser scale.")
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
        raise InvalidInputError("The score needs exactly one cost for each leaf of its trees.")


def missing_seen(space: StateSpace, states: npt.NDArray[Any]) -> BoolArray:
    """Which features are missing in some row of ``states``."""
    return np.array([np.any(states[:, j] == axis.missing_state) for j, axis in enumerate(space.axes)])


def price_unseen_missing(tables: ScoreTables, space: StateSpace, seen: BoolArray) -> ScoreTables:
    """Add UNSEEN_MISSING_NATS to the missing state of every feature that is not ``seen`` missing in X_fit.

    With very many such features each of them costs less, so that all prices together leave half of a solver
    row to the score itself.
    """
    unseen = [j for j, axis in enumerate(space.axes) if axis.missing_state >= axis.n_intervals and not seen[j]]
    price = min(UNSEEN_MISSING_NATS * tables.scale, ROW_LIMIT // 2 // max(1, len(unseen)))
    bins, unary, pairs = list(tables.bins), list(tables.unary), list(tables.pairs)
    for feature in unseen:
        missing = space.axes[feature].missing_state
        shared = int(bins[feature][missing])
        own = shared
        if np.count_nonzero(bins[feature] == shared) > 1:  # give the missing state a bin of its own
            own = len(unary[feature])
            bins[feature] = np.where(np.arange(len(bins[feature])) == missing, own, bins[feature])
            unary[feature] = np.append(unary[feature], unary[feature][shared])
            pairs = [_with_copied_bin(pair, feature, shared) for pair in pairs]
        unary[feature] = unary[feature] + price * (np.arange(len(unary[feature])) == own)
    return replace(tables, bins=tuple(bins), unary=tuple(unary), pairs=tuple(pairs))


def _with_copied_bin(pair: PairTable, feature: int, copied: int) -> PairTable:
    """The pair table with one more bin of ``feature`` that costs what bin ``copied`` costs."""
    if pair.first == feature:
        return replace(pair, cost=np.vstack([pair.cost, pair.cost[copied]]))
    if pair.second == feature:
        return replace(pair, cost=np.hstack([pair.cost, pair.cost[:, [copied]]]))
    return pair
