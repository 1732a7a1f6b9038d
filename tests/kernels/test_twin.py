"""The C kernel and its numpy twin agree bit for bit on random forests, plans and rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.kernels import ExitPlan, bind, name
from pine_boost.kernels.flat_forest import Link
from pine_boost.kernels.numpy_twin import NumpyTrees
from pine_boost.model.flatten import flatten
from tests.support.forests import MANNERS, random_forest
from tests.support.hard_rows import hard_rows
from tests.support.plain_sums import plain_sum

pytestmark = pytest.mark.skipif(name() != "C", reason="no C compiler: there is only the twin")


def random_plan(rng: np.random.Generator, forest, flat) -> ExitPlan:
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
