"""Certified models against native samples from their regions, and against the verifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.prune import prune_booster
from pine_boost.verifying import verify
from tests.adversary.attack import adversarial_rows, count_breaks

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")


def _data(rng: np.random.Generator, n_classes: int, gaps: bool) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(400, 4)).round(1)
    X[:, 3] = rng.integers(0, 4, 400)
    score = X[:, 0] + 0.5 * X[:, 1] * (X[:, 3] > 1) + 0.3 * rng.normal(size=400)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def _models(seed: int, n_classes: int) -> dict[str, Any]:
    few = 10 if n_classes == 2 else 5
    return {
        "xgboost": xgboost.XGBClassifier(
            n_estimators=few, max_depth=2, learning_rate=0.5, n_jobs=1, random_state=seed
        ),
        "lightgbm": lightgbm.LGBMClassifier(
            n_estimators=few, max_depth=2, n_jobs=1, verbose=-1, random_state=seed
        ),
        "histogram": ensemble.HistGradientBoostingClassifier(
            max_iter=few, max_depth=2, random_state=seed
        ),
        "gradient": ensemble.GradientBoostingClassifier(
            n_estimators=few, max_depth=2, random_state=seed
        ),
    }


def _attack(seed: int, n_rows: int) -> tuple[int, int]:
    """Prune every kind of model on one random table; returns rows tried and models removed from."""
    rng = np.random.default_rng(seed)
    n_classes = 2 + seed % 2
    n_tried = n_smaller = 0
    for name, model in _models(seed, n_classes).items():
        X, y = _data(rng, n_classes, gaps=name != "gradient" and seed % 3 > 0)
        model.fit(X[:200], y[:200])
        options: dict[str, Any] = {"alpha": (0.05, 0.2, 0.5)[seed % 3]}
        options["score"] = ("chow-liu", "leaf-support")[seed % 2]
        if seed % 4 > 1 and options["alpha"] > 0.05:  # below, toss-ups take more than alpha
            options["indifference"] = 0.02
        result = prune_booster(model, X[:200], X[200:], time_limit=20, **options)
        if result.status != "CERTIFIED" or result.certificate.grid < 0:
            continue
        n_smaller += 1
        rows = adversarial_rows(rng, result.original.forest, X, n_rows)
        tried, breaks = count_breaks(result, rows)
        assert breaks == 0, f"{name}, seed {seed}"
        n_tried += tried
        found = verify(model, result.model, result.region, result.certificate)
        assert found.agrees is True, f"{name}, seed {seed}: {found}"
    return n_tried, n_smaller


def test_no_native_sample_breaks_a_certificate() -> None:
    tried, smaller = np.sum([_attack(seed, 20_000) for seed in (1, 2)], axis=0)
    assert tried > 10_000
    assert smaller >= 4


@pytest.mark.slow
def test_no_million_native_samples_break_a_certificate() -> None:
    tried, smaller = np.sum([_attack(seed, 100_000) for seed in range(4, 24)], axis=0)
    assert tried > 10**6
    assert smaller >= 60
