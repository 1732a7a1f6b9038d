"""Needles: models that differ from their pruned version in one tiny corner of the input space.

In come a random forest and a path of conditions; out goes the forest with one more tree, whose
only non-zero leaf lies at the end of that path, and the pruned model without that tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.forest import Comparison, Forest, PrunedForest, SplitKind, find_leaves
from pine_boost.inputs import schema_of
from pine_boost.region.chow_liu import fit_chow_liu
from pine_boost.region.domain import compile_domain
from pine_boost.search.game import Game, build_game
from pine_boost.states import build_space
from tests.forests import Manner, random_forest, random_rows
from tests.naive import Case, every_row, in_region, total_score

GRID = 10
BASE_GRID = 3  # leaves of the base forests are eighths
CATEGORICAL = 1


@dataclass(frozen=True)
class Step:
    """One split of the needle's path: which way it goes, and where NaN goes."""

    feature: int
    threshold: float = 0.0
    codes: tuple[int, ...] = ()
    to_left: bool = True
    nan_left: bool = True


def exactly(forest: Forest, feature: int, value: float) -> list[Step]:
    """Only this very number (one float of the native type), never NaN."""
    if forest.comparison is Comparison.FLOAT32_LESS:
        above = float(np.nextafter(np.float32(value), np.float32(np.inf)))
        low, high = float(np.float32(value)), above
    elif forest.comparison is Comparison.FLOAT64_LESS_EQUAL:
        low, high = float(np.nextafter(value, -np.inf)), value
    else:
        low = float(np.nextafter(np.float32(value), np.float32(-np.inf)))
        high = float(np.float32(value))
    return [
        Step(feature, low, to_left=False, nan_left=True),
        Step(feature, high, to_left=True, nan_left=False),
    ]


def only_nan(feature: int, threshold: float) -> list[Step]:
    """Left and right of the same threshold: no number can do that, NaN can."""
    return [
        Step(feature, threshold, to_left=True, nan_left=True),
        Step(feature, threshold, to_left=False, nan_left=False),
    ]


def only_unseen(forest: Forest, feature: int) -> list[Step]:
    """None of the codes that any split names."""
    nodes = np.flatnonzero((forest.feature == feature) & (forest.kind == SplitKind.CATEGORICAL))
    named = {int(code) for node in nodes for code in forest.categories_of(int(node))} | {0}
    in_set_left = forest.library != "xgboost"
    # XGBoost: NaN goes with the named ones. LightGBM reads NaN as in no set, scikit-learn reads
    # an unknown category as missing: there both go the needle's way.
    return [Step(feature, codes=tuple(sorted(named)), to_left=not in_set_left, nan_left=False)]


def add_needle(forest: Forest, path: list[Step], value: float, output: int = 0) -> Forest:
    """Append a tree that is 0 everywhere but at the end of the path."""
    start = forest.n_nodes
    columns: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "left", "right", "default_left", "kind")
    }
    sets: list[tuple[int, ...]] = []
    for number, step in enumerate(path):
        inner, off = start + 2 * number, start + 2 * number + 1
        onward = inner + 2
        columns["feature"] += [step.feature, -1]
        columns["threshold"] += [step.threshold, 0.0]
        columns["left"] += [onward if step.to_left else off, -1]
        columns["right"] += [off if step.to_left else onward, -1]
        columns["default_left"] += [step.nan_left, False]
        kind = SplitKind.CATEGORICAL if step.codes else SplitKind.NUMERIC
        columns["kind"] += [kind, SplitKind.LEAF]
        sets += [step.codes, ()]
    for name, entry in (("feature", -1), ("threshold", 0.0), ("left", -1), ("right", -1),
                        ("default_left", False), ("kind", SplitKind.LEAF)):  # fmt: skip
        columns[name].append(entry)
    sets.append(())
    n_new = len(sets)
    leaf = np.zeros((n_new, 1))
    leaf[-1] = value
    sizes = np.cumsum([len(codes) for codes in sets])

    def extended(name: str) -> Any:
        old = getattr(forest, name)
        return np.concatenate([old, np.array(columns[name], dtype=old.dtype)])

    return replace(
        forest,
        **{name: extended(name) for name in columns},
        tree_offset=np.append(forest.tree_offset, start + n_new),
        missing=np.append(forest.missing, np.zeros(n_new, dtype=np.uint8)),
        set_left=np.append(forest.set_left, np.full(n_new, forest.library != "xgboost")),
        category_offset=np.concatenate(
            [forest.category_offset, forest.category_offset[-1] + sizes]
        ),
        category=np.concatenate(
            [forest.category, np.array([c for codes in sets for c in codes], dtype=np.int32)]
        ),
        value=np.concatenate([forest.value, leaf]),
        tree_output=np.append(forest.tree_output, np.int32(output)),
        tree_round=np.append(forest.tree_round, forest.tree_round.max() + 1).astype(np.int32),
        tree_bias=np.append(forest.tree_bias, 0.0),
    )


def base_forest(rng: np.random.Generator, manner: Manner, n_outputs: int = 1) -> Forest:
    """A small forest on eighths; its second feature is categorical."""
    return random_forest(
        rng, n_trees=4 * n_outputs, depth=2, n_features=3, n_outputs=n_outputs, manner=manner,
        categorical=(CATEGORICAL,), n_thresholds=3, n_categories=3, leaf_grid=BASE_GRID,
    )  # fmt: skip


def largest_margin(forest: Forest) -> float:
    """No input's margin passes this."""
    largest = np.maximum.reduceat(np.abs(forest.value[:, 0]), forest.tree_offset[:-1])
    return float(largest.sum() + np.abs(forest.intercept).max())


def without_last(forest: Forest, keep: bool = False, grid: int = GRID) -> PrunedForest:
    """The forest on a grid, its last tree dropped or kept."""
    weights = np.ones(forest.n_trees)
    weights[-1] = float(keep)
    value = forest.value * weights[forest.node_tree][:, None]
    value_int = np.rint(np.ldexp(value, grid)).astype(np.int64)
    intercept = np.rint(np.ldexp(forest.intercept, grid)).astype(np.int64)
    return PrunedForest(forest, np.flatnonzero(weights), value_int, grid, intercept, weights)


def case_of(forest: Forest, rng: np.random.Generator, scored: bool = False) -> Case:
    """The whole space, or a Chow-Liu region that holds most of it."""
    space = build_space(forest)
    tables = compile_domain(None, space, schema_of(forest))
    rows = every_row(space)
    if scored:
        X = random_rows(rng, forest, 50)
        score = fit_chow_liu(space.states(X), space, X, n_bins=3)
        tables = replace(tables, score=score, tau=int(total_score(score, rows).max()))
    game = build_game(forest, space, tables, unit="tree")
    nodes = find_leaves(forest, space.representative(rows))
    return Case(game, rows, nodes, in_region(tables, rows))


def with_tau(case: Case, tau: int) -> Case:
    """The same case with another threshold of its score."""
    tables = replace(case.game.region, tau=tau)
    game: Game = replace(case.game, region=tables)
    return Case(game, case.rows, case.nodes, in_region(tables, case.rows))
