"""Float torture: leaves of every size, thresholds one ulp apart, thousands of trees.

The answer is a certificate that native samples cannot break, or a refusal with its reason.
"""

import json

import numpy as np
import pytest
import xgboost

from pine_boost.errors import PineBoostError
from pine_boost.prune import prune_booster
from pine_boost.verifying import verify
from tests.adversary.attack import adversarial_rows, count_breaks
from tests.support.xgboost_models import edit_trees, leaves_of


def _booster(rng, n_trees, depth):
    X = rng.normal(size=(300, 3)).round(2)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    data = xgboost.DMatrix(X[:150], label=y[:150])
    options = {"objective": "binary:logistic", "max_depth": depth, "nthread": 1, "eta": 0.3}
    return xgboost.train(options, data, num_boost_round=n_trees), X


def _leaf_sizes(rng, low, high):
    """Leaves of random sign and of sizes from 10**low to 10**high."""

    def edit(trees):
        for tree in trees:
            for node in leaves_of(tree):
                size = 10.0 ** rng.uniform(low, high) * rng.choice([-1.0, 1.0])
                tree["split_conditions"][node] = tree["base_weights"][node] = float(np.float32(size))

    return edit


def _adjacent(rng, around):
    """Thresholds that are neighbours in float32."""
    ladder = [np.float32(around)]
    for _ in range(5):
        ladder.append(np.nextafter(ladder[-1], np.float32(np.inf)))

    def edit(trees):
        for tree in trees:
            for node, child in enumerate(tree["left_children"]):
                if child >= 0:
                    tree["split_conditions"][node] = float(rng.choice(np.array(ladder)))

    return edit


def _survives(contents, X, rng, n_rows=4000, **options):
    """Prune; what is certified must hold natively on rows around every threshold."""
    try:
        result = prune_booster(contents, X[:150], X[150:], time_limit=6, **options)
    except PineBoostError:
        return "refused"
    if result.status != "CERTIFIED" or result.certificate.grid < 0:
        return "kept"
    rows = adversarial_rows(rng, result.original.forest, X, n_rows)
    assert count_breaks(result, rows)[1] == 0
    found = verify(contents, result.model, result.region, result.certificate, time_limit=10)
    assert found.agrees is not False, str(found)
    return "pruned"


@pytest.mark.parametrize(("low", "high"), [(-30, 6), (-30, -20), (-3, 0), (4, 6), (-45, -38), (-8, -6)])
def test_leaves_of_wildly_different_size(low, high):
    """All of these fit some grid, so most are pruned; below 1e-38 the leaves are denormal."""
    outcomes = []
    for seed in range(3):
        rng = np.random.default_rng([seed, int(low) + 100])
        booster, X = _booster(rng, 8, 2)
        contents = edit_trees(booster, _leaf_sizes(rng, low, high))
        outcomes.append(_survives(contents, X, rng, alpha=0.3))
    assert outcomes.count("pruned") >= 2


@pytest.mark.parametrize("around", [0.0, 1.0, -0.37, 1e-45, -1e-44, 1e-38, 1e30])
def test_thresholds_one_ulp_apart(around):
    """Zero and denormals included: every float between them is a state of its own."""
    rng = np.random.default_rng(5)
    booster, X = _booster(rng, 6, 3)
    contents = edit_trees(booster, _adjacent(rng, around))
    X = X.copy()
    near = np.float32(around) + np.arange(-3, 8).astype(np.float32) * np.spacing(np.float32(around))
    X[rng.random(X.shape) < 0.7] = 0.0
    where = rng.random(X.shape) < 0.7
    X[where] = rng.choice(near.astype(np.float64), int(where.sum()))
    assert _survives(contents, X, rng, alpha=0.2) != "refused"


@pytest.mark.parametrize("base_score", ["9.999999E-1", "1E-7", "5E-1"])
def test_huge_intercepts(base_score):
    rng = np.random.default_rng(6)
    booster, X = _booster(rng, 8, 2)
    document = json.loads(booster.save_raw("json"))
    document["learner"]["learner_model_param"]["base_score"] = base_score
    contents = json.dumps(document).encode()
    assert _survives(contents, X, rng, alpha=0.3) == "pruned"


@pytest.mark.slow
def test_two_thousand_trees():
    rng = np.random.default_rng(7)
    booster, X = _booster(rng, 2000, 2)
    contents = edit_trees(booster, _leaf_sizes(rng, -6, 1))
    assert _survives(contents, X, rng, alpha=0.5, indifference=0.2) != "refused"


def _random_torture(seed):
    rng = np.random.default_rng([seed, 8])
    booster, X = _booster(rng, int(rng.integers(1, 25)), int(rng.integers(1, 5)))
    low = rng.uniform(-35, 5)
    contents = edit_trees(booster, _leaf_sizes(rng, low, low + rng.uniform(0, 12)))
    return _survives(contents, X, rng, n_rows=5000, alpha=float(rng.choice([0.05, 0.3, 0.6])))


def test_random_torture():
    outcomes = [_random_torture(seed) for seed in range(12)]
    assert outcomes.count("pruned") >= 4


@pytest.mark.slow
def test_more_random_torture():
    outcomes = [_random_torture(seed) for seed in range(12, 400)]
    assert outcomes.count("pruned") >= 100
