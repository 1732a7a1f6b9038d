"""simplify against the libraries: margins bit for bit on every edge, nothing more to leave out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost import simplify
from pine_boost.model.forest import Forest, Model
from pine_boost.model.reach import find_reach
from pine_boost.model.rules import SplitKind
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from tests.support.forests import SKLEARN, XGBOOST, random_forest
from tests.support.grids import edge_rows

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")

from tests.adversary.natives import native_model
from tests.support.native_models import MODELS, built
from tests.support.simplifiable import MANNERS, drawn_model, probe


def bits(model: Model, X: np.ndarray) -> np.ndarray:
    """Native margins by the library itself, as bit patterns."""
    margins, _ = predict_margins(model, X)
    return np.ascontiguousarray(margins, dtype=np.float64).view(np.uint64)


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 10**6), manner=st.sampled_from(sorted(MANNERS)), n_outputs=st.sampled_from([1, 3]))
def test_drawn_models_keep_every_bit(seed: int, manner: str, n_outputs: int) -> None:
    model, category = drawn_model(MANNERS[manner], seed, n_outputs)
    result = simplify(model)
    assert result.exact
    assert result.bound == 0
    rows = probe(model, seed, category)
    np.testing.assert_array_equal(bits(result.simplified, rows), bits(model, rows))
    after = result.simplified.forest
    assert find_reach(after).alive.all()
    assert not has_twins(after)
    assert after.n_nodes <= model.forest.n_nodes
    again = simplify(result.simplified)
    assert again.nodes_after == result.nodes_after
    assert again.simplified is again.original


def has_twins(forest: Forest) -> bool:
    inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
    left, right = forest.left[inner], forest.right[inner]
    both = (forest.kind[left] == SplitKind.LEAF) & (forest.kind[right] == SplitKind.LEAF)
    value = np.ascontiguousarray(forest.value).view(np.uint64)
    return bool(np.any(both & np.all(value[left] == value[right], axis=1)))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), manner=st.sampled_from(sorted(MANNERS)), n_outputs=st.sampled_from([1, 3]))
def test_folded_constants_stay_within_the_bound(seed: int, manner: str, n_outputs: int) -> None:
    model, category = drawn_model(MANNERS[manner], seed, n_outputs)
    # leaves off the grid, so that folding a constant really rounds
    scaled = replace(model.forest, value=model.forest.value * 0.3)
    if MANNERS[manner] is XGBOOST:
        scaled = replace(scaled, value=scaled.value.astype(np.float32).astype(np.float64))
    scaled = replace(scaled, intercept=np.zeros(n_outputs))
    model = native_model(scaled, MANNERS[manner], category)
    plain, folded = simplify(model), simplify(model, fold_constants=True)
    rows = probe(model, seed, category)
    before, _ = predict_margins(model, rows)
    after, _ = predict_margins(folded.simplified, rows)
    assert np.abs(after - before).max() <= folded.bound
    assert folded.trees_after <= plain.trees_after
    if folded.exact:
        np.testing.assert_array_equal(bits(folded.simplified, rows), bits(model, rows))
    else:
        assert folded.bound < 1e-4
        assert folded.trees_after < plain.trees_after
    n_constant = count_constant_units(folded.simplified.forest)
    assert n_constant == 0 or folded.trees_after == n_outputs * n_constant


def count_constant_units(forest: Forest) -> int:
    """Rounds (trees, with one output) in which every tree is a constant."""
    constant = forest.kind[forest.tree_offset[:-1]] == SplitKind.LEAF
    whole = np.ones(int(forest.tree_round.max()) + 1, dtype=bool)
    np.logical_and.at(whole, forest.tree_round, constant)
    return int(whole.sum())


@pytest.mark.parametrize("name", MODELS)
def test_trained_models_keep_every_bit(name: str) -> None:
    native, X = built(name)
    model = read_model(native)
    result = simplify(native)
    assert type(result.model) is type(native)
    assert result.exact
    rows = np.vstack([X, edge_rows(model.forest, X, limit=60)])
    if not model.forest.accepts_missing:
        rows = np.nan_to_num(rows)
    np.testing.assert_array_equal(bits(result.simplified, rows), bits(model, rows))
    np.testing.assert_array_equal(_predict(result.model, rows, model), _predict(native, rows, model))
    assert result.summary()


def _predict(native: Any, rows: np.ndarray, model: Model) -> np.ndarray:
    if type(native).__name__ == "Booster" and model.forest.library == "xgboost":
        return np.asarray(native.inplace_predict(rows))
    return np.asarray(native.predict(rows))


def test_reach_is_what_enumeration_finds() -> None:
    from pine_boost.model.routing import route
    from pine_boost.model.states import build_space
    from tests.support.bruteforce import all_states

    found_dead = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        manner = list(MANNERS.values())[seed % 4]
        forest = random_forest(
            rng,
            n_trees=3,
            depth=4,
            n_features=3,
            manner=manner,
            n_thresholds=3,
            categorical=(1,) if manner is not SKLEARN else (),
            n_categories=3,
            accepts_missing=manner is not SKLEARN,
        )
        space = build_space(forest)
        states = all_states(space)
        possible = np.ones(len(states), dtype=bool)
        for feature, axis in enumerate(space.axes):
            if axis.reachable is not None:
                possible &= axis.reachable[states[:, feature]]
        trees = route(forest, space)
        reached = np.unique(trees.leaves(states[possible]))
        leaf_of_node = trees.leaf_of_node
        is_leaf = leaf_of_node >= 0
        alive = find_reach(forest).alive
        np.testing.assert_array_equal(alive[is_leaf], np.isin(leaf_of_node[is_leaf], reached))
        found_dead += np.count_nonzero(~alive)
    assert found_dead > 100
