"""Certified models against native samples from their regions, and against the verifier."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from pine_boost.prune import prune_booster
from pine_boost.verifying import verify
from tests.adversary.attack import adversarial_rows, count_breaks
from tests.support.native_models import random_rows, small_models
from tests.support.verifying import verify_folder

FILES = {
    "xgboost": lambda model, path: model.get_booster().save_model(path.with_suffix(".json")),
    "lightgbm": lambda model, path: model.booster_.save_model(path.with_suffix(".txt")),
    "catboost": lambda model, path: model.save_model(str(path.with_suffix(".json")), format="json"),
}
FORMS = {
    "trees": {},
    "leaf values": {"reweight": "leaf"},
    "single leaves": {"unit": "leaf"},
    "class trees": {"unit": "tree"},
    "class trees, leaf values": {"unit": "tree", "reweight": "leaf"},
}


def _models(seed, n_classes, form):
    """One of each kind; averages of votes, too, where every tree keeps its leaf values."""
    models = small_models(seed, n_classes)
    if "reweight" not in FORMS[form] and FORMS[form].get("unit") != "leaf":
        models["forest"] = RandomForestClassifier(8, max_depth=3, random_state=seed)
    elif n_classes > 2:
        del models["catboost"]  # one leaf holds the values of all classes
    return models


def _attack(seed, n_rows, form, folder=None):
    """Prune every kind of model on one random table; returns rows tried and models removed from.

    With a folder the libraries that write files are verified from these alone.
    """
    rng = np.random.default_rng(seed)
    n_classes = 2 + seed % 2
    n_tried = n_smaller = 0
    for name, model in _models(seed, n_classes, form).items():
        X, y = random_rows(rng, n_classes, gaps=name != "gradient" and seed % 3 > 0)
        model.fit(X[:200], y[:200])
        options = {"alpha": (0.05, 0.2, 0.5)[seed % 3], **FORMS[form]}
        options["score"] = ("chow-liu", "leaf-support")[seed % 2]
        if seed % 4 == 3:
            options["indifference"] = "auto"
        elif seed % 4 == 2 and options["alpha"] > 0.05:  # below, undecided inputs take more than alpha
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
        if folder is not None and name in FILES:  # which know nothing of this process
            saved = result.save(folder / name, report=False)
            FILES[name](model, saved / "original")
            found = verify_folder(next(saved.glob("original.*")), saved)
        assert found.agrees is True, f"{name}, seed {seed}: {found}"
    return n_tried, n_smaller


@pytest.mark.parametrize("form", list(FORMS))
def test_no_native_sample_breaks_a_certificate(form, tmp_path):
    seeds = (1,) if "class trees" in form else (1, 2)  # of two classes rounds are trees
    tried, smaller = np.sum([_attack(seed, 20_000, form, tmp_path / str(seed)) for seed in seeds], axis=0)
    assert tried > 10_000
    assert smaller >= 2 * len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("form", list(FORMS))
def test_no_million_native_samples_break_a_certificate(form):
    tried, smaller = np.sum([_attack(seed, 100_000, form) for seed in range(4, 24)], axis=0)
    assert tried > 10**6
    assert smaller >= 60
