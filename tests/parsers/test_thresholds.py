"""The user's thresholds mean the same in every library, and bad ones are refused by all."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.parsers import read_model

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")

CLASSIFIERS = ("xgboost", "lightgbm", "gradient", "histogram")


@cache
def _fitted(name: str) -> Any:
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = {
        "xgboost": xgboost.XGBClassifier(n_estimators=3, n_jobs=1),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1),
        "gradient": ensemble.GradientBoostingClassifier(n_estimators=3),
        "histogram": ensemble.HistGradientBoostingClassifier(max_iter=3),
    }[name]
    return model.fit(X, (X[:, 0] > 0).astype(int))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ([0.7, 0.3], "ascend"),
        ([0.3, 0.3], "strictly ascending"),
        (0.0, "strictly between 0 and 1"),
        ([0.2, 1.0], "strictly between 0 and 1"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        ([], "finite number or a list"),
        ([[0.3]], "finite number or a list"),
        (True, "finite number or a list"),
        ([0.3, True], "finite number or a list"),
        ("0.5", "finite number or a list"),
        ("half", "finite number or a list"),
        ({"a": 1}, "finite number or a list"),
        (0.5 + 0j, "finite number or a list"),
    ],
)
def test_bad_thresholds_are_refused_by_all(name: str, threshold: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_model(_fitted(name), threshold=threshold)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("threshold", [0.25, np.float32(0.25), np.array(0.25), [0.25], (0.25,), np.array([0.25])])
def test_one_threshold_in_any_form(name: str, threshold: Any) -> None:
    assert read_model(_fitted(name), threshold=threshold).forest.decision.thresholds == (0.25,)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_several_thresholds_make_bands(name: str) -> None:
    forest = read_model(_fitted(name), threshold=[0.25, 0.5, 0.75]).forest
    assert forest.decision.thresholds == (0.25, 0.5, 0.75)
    assert forest.classes == (0, 1, 2, 3)
