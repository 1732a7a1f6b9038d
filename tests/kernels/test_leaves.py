"""Leaves of the kernel and of its numpy twin against the slow reference, on rows where converters fail."""

import numpy as np
import pytest

from pine_boost import kernels
from pine_boost.kernels.numpy_twin import NumpyTrees
from pine_boost.model.flatten import flatten
from pine_boost.model.reference import find_leaves
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import find_subtrees
from pine_boost.parsers import read_model
from tests.support.hard_rows import hard_rows
from tests.support.native_models import MODELS, built


@pytest.mark.parametrize("name", MODELS)
def test_leaves_are_those_of_the_reference(name):
    forest = read_model(built(name)[0]).forest
    flat, X = flatten(forest), hard_rows(forest, 1500)
    subtrees = find_subtrees(forest.tree_offset[:-1], forest.kind == SplitKind.LEAF, forest.left, forest.right)
    expected = subtrees.first[find_leaves(forest, X)]
    assert np.array_equal(kernels.leaves(flat, X), expected)
    assert np.array_equal(NumpyTrees(flat, None, None).leaves(X), expected)


@pytest.mark.parametrize("layout", ["fortran", "float32", "strided", "reversed", "one row", "no row"])
def test_tables_of_every_layout_are_read_in_place(layout):
    forest = read_model(built("xgb binary")[0]).forest
    flat = flatten(forest)
    X = np.clip(hard_rows(forest, 300), -1e30, 1e30).astype(np.float32).astype(np.float64)
    made = {
        "fortran": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "strided": np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": X[::-1],
        "one row": X[:1],
        "no row": X[:0],
    }[layout]
    assert np.array_equal(kernels.leaves(flat, made), kernels.leaves(flat, np.array(made, dtype=np.float64, order="C")))
