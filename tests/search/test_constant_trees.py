"""Models whose trees are all constants: every unit prunes, every call answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from xgboost import XGBClassifier

from pine_boost import compress_booster, prune_booster, simplify, survey, sweep, verify

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(1400, 4))
MODELS = {
    "xgboost": XGBClassifier(n_estimators=4, gamma=1e6),
    "lightgbm": LGBMClassifier(n_estimators=4, min_child_samples=10**4, verbose=-1),
    "histogram": HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=10**4),
    "gradient": GradientBoostingClassifier(n_estimators=4, min_impurity_decrease=1e9),
}


def _fitted(name: str, n_classes: int) -> Any:
    y = (X[:, 0] > 0.3).astype(int) if n_classes == 2 else np.digitize(X[:, 0], [-0.5, 0.8])
    return clone(MODELS[name]).fit(X[:200], y[:200])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("unit", ["round", "tree", "leaf"])
def test_every_unit_prunes_a_model_of_constants(unit: str, name: str, n_classes: int) -> None:
    model = _fitted(name, n_classes)
    result = prune_booster(model, X[200:500], X[500:800], alpha=0.1, unit=unit, time_limit=20)
    assert result.status == "CERTIFIED"
    assert result.certificate.trees_after <= result.certificate.trees_before
    assert np.array_equal(result.model.predict(X), model.predict(X))
    assert verify(model, result.model, result.region, result.certificate).agrees


@pytest.mark.parametrize("name", MODELS)
def test_the_other_calls_answer_for_a_model_of_constants(name: str) -> None:
    model = _fitted(name, 2)
    assert np.array_equal(simplify(model).model.predict(X), model.predict(X))
    assert len(sweep(model, X[200:500], X[500:800], alphas=[0.1, 0.2], unit="leaf", time_limit=10)) == 2
    survey(model, X[200:500], X[500:], time_limit=10)
    compressed = compress_booster(model, X[200:500], X[500:], time_limit=10)
    assert np.array_equal(compressed.model.predict(X), model.predict(X))
