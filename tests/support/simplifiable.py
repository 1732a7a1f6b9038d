"""Drawn models in which there is something to leave out, written as real models of each library."""

from dataclasses import replace

import numpy as np

from pine_boost.model.forest import Model
from pine_boost.model.rules import SplitKind
from tests.adversary.natives import N_CATEGORIES, native_model
from tests.support.forests import HISTOGRAM, LIGHTGBM, SKLEARN, XGBOOST, Manner, random_forest
from tests.support.grids import edge_rows

MANNERS = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM, "gradient": SKLEARN, "histogram": HISTOGRAM}


def drawn_model(manner: Manner, seed: int, n_outputs: int) -> tuple[Model, int | None]:
    """A real model with contradicting paths, equal leaves, zero and constant trees."""
    rng = np.random.default_rng(seed)
    category = None if manner is SKLEARN else 1
    forest = random_forest(
        rng,
        n_trees=4 * n_outputs,
        depth=4,
        n_features=3,
        n_outputs=n_outputs,
        manner=manner,
        categorical=() if category is None else (category,),
        n_categories=N_CATEGORIES,
        n_thresholds=3,
        leaf_grid=1,
        leaf_probability=0.25,
        accepts_missing=manner is not SKLEARN,
    )
    value = forest.value.copy()
    value[value == 0] = rng.choice([0.0, -0.0], size=np.count_nonzero(value == 0))
    for tree in range(forest.n_trees):
        nodes = slice(forest.tree_offset[tree], forest.tree_offset[tree + 1])
        leaves = forest.kind[nodes] == SplitKind.LEAF
        if rng.random() < 0.3:
            value[nodes][leaves] = rng.choice([0.0, -0.0, 0.25])
    value[forest.kind != SplitKind.LEAF] = 0.0
    forest = replace(forest, value=value, intercept=np.zeros(n_outputs))
    return native_model(forest, manner, category), category


def probe(model: Model, seed: int, category: int | None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(30, model.forest.n_features)) * 2
    if category is not None:
        base[:, category] = rng.integers(0, N_CATEGORIES + 2, len(base))
    rows = np.vstack([base, edge_rows(model.forest, base, limit=40, seed=seed)])
    return rows if model.forest.accepts_missing else np.nan_to_num(rows)
