"""The digest of a model is one of values: what no prediction can tell apart has one digest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pine_boost.model.digest import forest_digest
from pine_boost.model.states import build_space
from tests.support.forests import LIGHTGBM, XGBOOST, Manner, random_forest


@pytest.mark.parametrize("manner", [XGBOOST, LIGHTGBM])
def test_the_sign_of_zero_is_no_value(manner: Manner) -> None:
    forest = random_forest(np.random.default_rng(0), manner=manner)
    for name in ("intercept", "threshold", "value"):
        array = getattr(forest, name).copy()
        array[0] = 0.0
        zero = replace(forest, **{name: array})
        negative = replace(forest, **{name: np.where(array == 0, -0.0, array)})
        assert forest_digest(zero) == forest_digest(negative)
        assert forest_digest(replace(forest, **{name: array + np.float32(1e-30)})) != forest_digest(zero)


def test_the_edges_of_a_state_space_have_one_zero() -> None:
    forest = random_forest(np.random.default_rng(0), manner=XGBOOST)
    extra = [np.array([-0.0, 1.0])] * forest.n_features
    for axis in build_space(replace(forest, threshold=np.full_like(forest.threshold, -0.0)), extra).axes:
        assert not np.signbit(axis.edges[axis.edges == 0]).any()
