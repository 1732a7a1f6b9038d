"""Steps in front of a model that leave a row without a class of its own are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import ensemble
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline

from pine_boost import UnsupportedModelError, prune_booster


class _Step(TransformerMixin, BaseEstimator):
    def fit(self, X: Any, y: Any = None) -> _Step:
        self.fitted_ = True
        return self


class _Noise(_Step):
    def transform(self, X: Any) -> Any:
        return np.asarray(X) + np.random.default_rng().normal(size=np.shape(X))


class _Centred(_Step):
    def transform(self, X: Any) -> Any:
        return np.asarray(X) - np.mean(np.asarray(X), axis=0)


class _Fewer(_Step):
    def transform(self, X: Any) -> Any:
        return np.asarray(X)[::2] if len(X) == 300 else np.asarray(X)


def _pipeline(step: Any) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(700, 3)) + 1
    trees = ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0)
    return Pipeline([("step", step), ("trees", trees)]).fit(X[:350], X[:350, 0] > 1), X


@pytest.mark.parametrize(
    ("step", "message"),
    [(_Noise(), "they are random"), (_Centred(), "whole table"), (_Fewer(), "make 150 rows of 300")],
)
def test_steps_that_give_no_row_a_class_are_refused(step: Any, message: str) -> None:
    pipeline, X = _pipeline(step)
    with pytest.raises(UnsupportedModelError, match=message):
        prune_booster(pipeline, X[:300], X[300:])


def test_steps_that_only_round_otherwise_are_accepted() -> None:
    """A product of matrices differs in its last bits with the number of rows."""
    pipeline, X = _pipeline(PCA(2))
    assert prune_booster(pipeline, X[:300], X[300:], alpha=0.3).status == "CERTIFIED"
