"""Facts of a model: a digest of its values alone, and its work, 2 per tree plus the splits that a row passes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn import ensemble

from pine_boost.model.digest import forest_digest
from pine_boost.model.states import build_space
from pine_boost.model.synthetic_rows import synthetic_rows, work_of
from pine_boost.parsers import read_model
from pine_boost.simplification import simplify
from tests.support.forests import LIGHTGBM, XGBOOST, random_forest


@pytest.mark.parametrize("manner", [XGBOOST, LIGHTGBM])
def test_the_sign_of_zero_is_no_value(manner):
    forest = random_forest(np.random.default_rng(0), manner=manner)
    for name in ("intercept", "threshold", "value"):
        array = getattr(forest, name).copy()
        array[0] = 0.0
        zero = replace(forest, **{name: array})
        negative = replace(forest, **{name: np.where(array == 0, -0.0, array)})
        assert forest_digest(zero) == forest_digest(negative)
        assert forest_digest(replace(forest, **{name: array + np.float32(1e-30)})) != forest_digest(zero)


def test_the_edges_of_a_state_space_have_one_zero():
    forest = random_forest(np.random.default_rng(0), manner=XGBOOST)
    extra = [np.array([-0.0, 1.0])] * forest.n_features
    for axis in build_space(replace(forest, threshold=np.full_like(forest.threshold, -0.0)), extra).axes:
        assert not np.signbit(axis.edges[axis.edges == 0]).any()


def test_splits_are_those_of_the_native_paths():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model = ensemble.RandomForestClassifier(6, max_depth=5, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    forest = read_model(model).forest
    rows = synthetic_rows(forest, 200)
    splits = model.decision_path(rows)[0].sum() / 200 - 6  # nodes of a path without its leaf
    assert work_of(forest, rows) == pytest.approx(2 * 6 + splits)
    met = np.arange(200, dtype=np.int32) % 7
    order = np.array([3, 1, 0, 5, 4, 2], dtype=np.int32)
    paths, starts = model.decision_path(rows)
    own = np.stack([np.asarray(paths[:, a:b].sum(axis=1)).ravel() - 1 for a, b in pairwise(starts)], axis=1)
    visited = [sum(2 + own[row, tree] for tree in order[: met[row]]) for row in range(200)]
    assert work_of(forest, rows, order, met) == pytest.approx(np.mean(visited))


def test_a_simplified_model_says_how_much_work_is_left():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    model = ensemble.RandomForestClassifier(5, criterion="entropy", random_state=0).fit(X, X[:, 0] > 0)
    result = simplify(model)
    assert ("Work per row" in result.summary()) == (result.leaves_after < result.leaves_before)
