"""Compressed models against native samples: what was written is what was tested, and it holds.

A statistic can fail by bad luck with probability 0.05, so what is counted over many models is how
many lose more classes than promised on fresh rows of the same source.
"""

import numpy as np
import pytest
from scipy.stats import binom

import pine_boost
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_classes, predict_margins
from tests.adversary.attack import adversarial_rows
from tests.support.native_models import random_rows, small_models

FIDELITY, CONFIDENCE = 0.97, 0.95
N_FIT, N_VAL = 400, 600
LIBRARIES = ("xgboost", "lightgbm", "catboost", "histogram", "gradient")


def _attack(seed, n_rows, names, few):
    """Compress a model of each name; rows tried, models smaller, promises not kept."""
    rng = np.random.default_rng([seed, 19])
    n_classes = 2 + seed % 2
    n_tried = n_smaller = n_below = 0
    for name, model in small_models(seed, n_classes, depth=3, few=few).items():
        if name not in names:
            continue
        gaps = name != "gradient" and seed % 3 > 0
        X, y = random_rows(rng, n_classes, gaps, N_FIT + N_VAL)
        X_val = X[N_FIT:]
        model.fit(X[:N_FIT], y[:N_FIT])
        result = pine_boost.compress_booster(
            model, X[:N_FIT], X_val, fidelity=FIDELITY, confidence=CONFIDENCE, random_state=seed
        )
        if result.status != "VALIDATED":
            continue
        n_smaller += 1
        edges = adversarial_rows(rng, result.original.forest, X, n_rows // 2)
        fresh = random_rows(rng, n_classes, gaps, n_rows // 2)[0]
        for rows in (edges, fresh):
            native, _ = predict_margins(result.compressed, rows)
            reference = native_margins(result.compressed.forest, rows)
            np.testing.assert_array_equal(native, reference, err_msg=f"{name}, seed {seed}")
        n_tried += len(edges) + len(fresh)
        n_below += _share_kept(result, fresh) < FIDELITY
        assert round((1 - _share_kept(result, X_val)) * N_VAL) == result.record.n_changed
        found = pine_boost.verify_compression(model, result.model, result.record, X_val)
        assert found.agrees, f"{name}, seed {seed}: {found}"
    return n_tried, n_smaller, n_below


def _share_kept(result, rows):
    assert result.original is not None
    before, after = (predict_classes(m, rows) for m in (result.original, result.compressed))
    return float(np.mean(before == after))


def test_no_native_sample_differs_from_what_was_tested():
    tried, smaller, below = _attack(1, 4_000, ("xgboost", "histogram"), 5)
    assert smaller == 2
    assert tried == 8_000
    assert below <= binom.ppf(0.9999, smaller, 1 - CONFIDENCE)


@pytest.mark.slow
def test_a_million_native_samples_and_the_promise_of_many_models():
    counts = [_attack(seed, 30_000, LIBRARIES, 12) for seed in range(4, 24)]
    tried, smaller, below = np.sum(counts, axis=0)
    assert smaller >= 40
    assert tried > 10**6
    assert below <= binom.ppf(0.9999, smaller, 1 - CONFIDENCE)
