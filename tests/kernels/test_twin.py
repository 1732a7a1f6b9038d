"""The C kernel and its numpy twin agree bit for bit on random forests, plans and rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.kernels import ExitPlan, bind, leaf_masks, leaf_tables, name
from pine_boost.kernels.flat_forest import Link
from pine_boost.kernels.leaf_tables import SignedMatrix, sum_leaves
from pine_boost.kernels.numpy_twin import NumpyTrees
from pine_boost.model.flatten import flatten
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from tests.support.forests import MANNERS, random_forest
from tests.support.hard_rows import hard_rows
from tests.support.plain_sums import plain_sum

pytestmark = pytest.mark.skipif(name() != "C", reason="no C compiler: there is only the twin")


def random_plan(rng, forest, flat):
    """Any order, stages and exits, with several value sets: the kernel does not judge them."""
    n_trees, n = forest.n_trees, forest.n_outputs
    stage = np.unique(np.append(rng.integers(1, n_trees + 1, rng.integers(0, 5)), n_trees)).astype(np.int32)
    n_sets = int(rng.integers(1, 4))
    n_cuts = len(forest.decision.cuts)
    width = forest.value.shape[1]
    low = rng.normal(size=(len(stage), n_cuts)) - 1
    return ExitPlan(
        order=rng.permutation(n_trees).astype(np.int32),
        stage=stage,
        stage_set=np.sort(rng.integers(0, n_sets, len(stage))).astype(np.int32),
        value=rng.normal(size=(flat.n_leaves, n_sets, width)),
        intercept=rng.normal(size=(n_sets, n)),
        low=low,
        high=low + rng.random(low.shape) * 3,
        gap=rng.random((len(stage) if n > 1 else 0, n, n)) * 4,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_outputs=st.sampled_from([1, 1, 3]),
    vector=st.booleans(),
    n_trees=st.integers(1, 40),
    depth=st.integers(0, 7),
)
def test_kernel_and_twin_agree(seed, n_outputs, vector, n_trees, depth):
    rng = np.random.default_rng(seed)
    manner = MANNERS[seed % len(MANNERS)]
    forest = random_forest(
        rng, n_trees * n_outputs, depth, 5, n_outputs, manner=manner, vector_leaves=vector, categorical=[1, 3]
    )
    flat, native = flatten(forest), plain_sum(forest, list(Link)[seed % len(Link)])
    plan = random_plan(rng, forest, flat)
    compiled, twin = bind(flat, native, plan), NumpyTrees(flat, native, plan)
    X = hard_rows(forest, int(rng.integers(1, 200)), seed % 1000)
    with np.errstate(over="ignore"):
        other = X.astype(np.float32) if seed % 2 else np.asfortranarray(X)
    for table in (X, other):
        assert np.array_equal(compiled.leaves(table), twin.leaves(table))
        met, seen = np.zeros((2, len(table)), dtype=np.int32)
        assert np.array_equal(compiled.classes(table, met=met), twin.classes(table, met=seen))
        assert np.array_equal(met, seen)
        for raw in (False, True):
            assert np.array_equal(compiled.classes(table, is_raw=raw), twin.classes(table, is_raw=raw))
            for link in (None, *Link):
                ours, refused = compiled.margins(table, link=link, is_raw=raw)
                theirs, also = twin.margins(table, link=link, is_raw=raw)
                assert refused == also
                assert np.array_equal(ours, theirs, equal_nan=True), link
    row = np.ascontiguousarray(X[:1])
    assert compiled.class_of_row(row.tobytes(), False) == twin.class_of_row(row.tobytes(), False)


@pytest.mark.parametrize(("n_features", "categorical"), [(4, []), (4, [1]), (300, [])])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_single_rows_in_deep_trees_agree(n_features, categorical, n_outputs):
    """Short and long paths side by side, more trees than are walked at once, columns of more than a byte."""
    rng = np.random.default_rng(n_features)
    forest = random_forest(
        rng, 90 * n_outputs, 14, n_features, n_outputs, categorical=categorical, leaf_probability=0.42
    )
    flat, native = flatten(forest), plain_sum(forest)
    assert flat.depth.max() > 9
    for plan in [random_plan(rng, forest, flat) for _ in range(4)]:
        compiled, twin = bind(flat, native, plan), NumpyTrees(flat, native, plan)
        X = hard_rows(forest, 40, 1)
        rows = [compiled.class_of_row(np.ascontiguousarray(row).tobytes(), False) for row in X]
        assert rows == twin.classes(X, is_raw=True).tolist()


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_leaves_by_masks_agree(seed, n_outputs, monkeypatch):
    """Trees of one leaf up to as many as a mask has bits, blocks that are not full, categories, NaN and zero."""
    monkeypatch.setattr(leaf_masks, "_LEAST_DEPTH", 0)
    rng = np.random.default_rng(seed)
    manner = MANNERS[seed % len(MANNERS)]
    n_trees = n_outputs * int(rng.integers(1, 50))
    forest = random_forest(
        rng, n_trees, seed % 7, 5, n_outputs, manner=manner, categorical=[1, 3][: seed % 3], leaf_probability=0.1
    )
    flat, native = flatten(forest), plain_sum(forest)
    plan = random_plan(rng, forest, flat)
    assert leaf_masks.mask_tables(flat, plan.order) is not None
    compiled, twin = bind(flat, native, plan), NumpyTrees(flat, native, plan)
    X = hard_rows(forest, 150, seed)
    expected = twin.classes(X, is_raw=True)
    assert np.array_equal(compiled.classes(X, is_raw=True), expected)
    assert [compiled.class_of_row(np.ascontiguousarray(row).tobytes(), False) for row in X] == expected.tolist()
    assert np.array_equal(compiled.leaves(X), twin.leaves(X))
    assert np.array_equal(compiled.margins(X)[0], twin.margins(X)[0], equal_nan=True)


def test_masks_are_left_out_where_they_do_not_fit_or_do_not_pay(monkeypatch):
    rng = np.random.default_rng(0)
    small, large, wide = (
        flatten(random_forest(rng, 9, depth, n_features, leaf_probability=0))
        for depth, n_features in ((6, 1), (7, 1), (6, 200))
    )
    order = np.arange(9, dtype=np.int32)
    assert np.diff(small.leaf_offset).max() == 64
    assert leaf_masks.mask_tables(small, order) is not None
    assert leaf_masks.mask_tables(large, order) is None
    assert leaf_masks.mask_tables(wide, order) is None
    for limit in ("_MOST_LINES", "_MOST_BINS", "_MOST_MASKS"):
        with monkeypatch.context() as patched:
            patched.setattr(leaf_masks, limit, 5)
            assert leaf_masks.mask_tables(small, order) is None


def both_ways(monkeypatch, call):
    """What a function gives with the C kernel and with the twin."""
    with monkeypatch.context() as patched:
        patched.setattr(leaf_tables, "load", lambda: None)
        twin = call()
    return call(), twin


@pytest.mark.parametrize("seed", range(12))
def test_states_and_sums_agree(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n_outputs = (1, 3)[seed % 2]
    forest = random_forest(
        rng, 9, seed, 5, n_outputs, manner=MANNERS[seed % len(MANNERS)], vector_leaves=seed % 3 == 0, categorical=[1, 3]
    )
    space = build_space(forest)
    trees = route(forest, space)
    states = space.states(hard_rows(forest, 150, seed))
    ours, twins = both_ways(monkeypatch, lambda: trees.leaves(states))
    assert np.array_equal(ours, twins)
    value, start = rng.normal(size=(trees.n_leaves, forest.value.shape[1])), rng.normal(size=n_outputs)
    sums, twins = both_ways(monkeypatch, lambda: sum_leaves(ours, value, forest.tree_output, start))
    assert np.array_equal(sums, twins)


def test_states_without_a_side_and_trees_out_of_bounds_are_refused(monkeypatch):
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 5, 3, 2, categorical=[0, 1])
    trees = route(forest, build_space(forest))
    for load in (leaf_tables.load, lambda: None):
        monkeypatch.setattr(leaf_tables, "load", load)
        for wrong in (np.full((3, 2), 10**6), np.full((3, 2), -(10**6)), np.zeros((3, 1), dtype=int)):
            if wrong.min() >= 0:
                with pytest.raises(IndexError):
                    trees.leaves(wrong)
            else:
                assert trees.leaves(wrong).shape == (3, 5)  # below every interval: compared, not looked up
    with pytest.raises(IndexError, match="outside"):
        replace(trees, left=trees.left + len(trees.left)).leaves(np.zeros((1, 2), dtype=np.int32))


@pytest.mark.parametrize("seed", range(8))
def test_products_agree_with_the_twin_and_with_dense_matrices(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n_rows, width = int(rng.integers(1, 60)), int(rng.integers(1, 30))
    dense = rng.integers(-1, 2, size=(n_rows, width))
    sign = rng.choice([-1, 1], n_rows)
    runs = (np.stack([sign, -sign], axis=1)[:, :, None] == dense[:, None]).reshape(2 * n_rows, width)
    matrix = SignedMatrix(np.concatenate([[0], np.cumsum(runs.sum(axis=1))]), np.nonzero(runs)[1], sign, width)
    vector, weight = rng.normal(size=width), rng.normal(size=n_rows)
    rows = np.flatnonzero(rng.random(n_rows) < 0.6)
    number = rng.integers(-2, 4, width)
    columns = np.where(number >= 0, number, 4)
    joined = np.zeros((n_rows, 5))
    np.add.at(joined.T, columns, dense.T)
    part, four = dense[rows], rng.normal(size=4)
    questions = [
        (lambda: matrix @ vector, dense @ vector),
        (lambda: matrix.transposed(weight), dense.T @ weight),
        (lambda: matrix.transposed(weight[rows], rows, unsigned=True), np.abs(part).T @ weight[rows]),
        (lambda: matrix.normal(weight[rows], vector, rows), part.T @ (weight[rows] * (part @ vector))),
        (lambda: matrix.renumbered(number, 4, rows) @ four, joined[rows, :4] @ four),
    ]
    for call, expected in questions:
        ours, twins = both_ways(monkeypatch, call)
        assert np.array_equal(ours, twins)
        np.testing.assert_allclose(ours, expected, atol=1e-12)
