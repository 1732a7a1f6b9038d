"""Certified models against native samples from their regions, and against the verifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.prune import prune_booster
from pine_boost.verifying import verify
from tests.adversary.attack import adversarial_rows, count_breaks
from tests.adversary.library_models import random_rows, small_models

FORMS: dict[str, dict[str, Any]] = {
    "trees": {},
    "leaf values": {"reweight": "leaf"},
    "single leaves": {"unit": "leaf"},
}


def _attack(seed: int, n_rows: int, form: str) -> tuple[int, int]:
    """Prune every kind of model on one random table; returns rows tried and models removed from."""
    rng = np.random.default_rng(seed)
    n_classes = 2 + seed % 2
    n_tried = n_smaller = 0
    for name, model in small_models(seed, n_classes).items():
        X, y = random_rows(rng, n_classes, gaps=name != "gradient" and seed % 3 > 0)
        model.fit(X[:200], y[:200])
        options: dict[str, Any] = {"alpha": (0.05, 0.2, 0.5)[seed % 3], **FORMS[form]}
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


@pytest.mark.parametrize("form", list(FORMS))
def test_no_native_sample_breaks_a_certificate(form: str) -> None:
    tried, smaller = np.sum([_attack(seed, 20_000, form) for seed in (1, 2)], axis=0)
    assert tried > 10_000
    assert smaller >= 4


@pytest.mark.slow
@pytest.mark.parametrize("form", list(FORMS))
def test_no_million_native_samples_break_a_certificate(form: str) -> None:
    tried, smaller = np.sum([_attack(seed, 100_000, form) for seed in range(4, 24)], axis=0)
    assert tried > 10**6
    assert smaller >= 60
