"""The alarm: looking after every batch costs no validity, and a drift is seen soon."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from pine_boost.monitoring.region_monitor import drift_evidence, log_evidence, most_outside, threshold_of

LEVEL, ALPHA, N_CAL, N_BATCHES, BATCH = 0.05, 0.1, 300, 60, 25


@pytest.mark.parametrize(("n_rows", "n_outside"), [(10, 0), (10, 4), (40, 40), (200, 31)])
def test_the_mixture_is_the_integral_of_likelihood_ratios(n_rows: int, n_outside: int) -> None:
    limit = 0.12

    def ratio(q: float) -> float:
        inside = n_rows - n_outside
        return (q / limit) ** n_outside * ((1 - q) / (1 - limit)) ** inside / (1 - limit)

    expected, _ = quad(ratio, limit, 1, limit=200)
    found = float(np.exp(log_evidence(n_rows, n_outside, limit)))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("share", [0.02, 0.08, 0.12])
def test_the_evidence_is_a_supermartingale_up_to_the_limit(share: float) -> None:
    """From every history the expected evidence after one more batch is not larger."""
    limit, size = 0.12, 7
    rng = np.random.default_rng(0)
    for n_batches in (0, 1, 5, 20):
        before = rng.binomial(size, share, n_batches).tolist()
        now = drift_evidence([size] * n_batches, before, limit) if n_batches else 1.0
        outcomes = [drift_evidence([size] * (n_batches + 1), [*before, s], limit) for s in range(size + 1)]
        mean = float(np.dot(binom.pmf(np.arange(size + 1), size, share), outcomes))
        assert mean <= now * (1 + 1e-9)


def _outside(rng: np.random.Generator, n_streams: int) -> np.ndarray:
    """Recalibrate for every stream, then count live rows outside: (n_streams, n_batches)."""
    rank = int(np.ceil((N_CAL + 1) * (1 - ALPHA)))
    tau = np.sort(rng.random((n_streams, N_CAL)), axis=1)[:, rank - 1]
    return rng.binomial(BATCH, (1 - tau)[:, None], (n_streams, N_BATCHES))


def _alarms(outside: np.ndarray) -> np.ndarray:
    """The batch of the first alarm of each stream, N_BATCHES where there is none."""
    limit, threshold = most_outside(N_CAL, ALPHA, LEVEL), threshold_of(LEVEL)
    first = np.full(len(outside), N_BATCHES)
    for stream, counts in enumerate(outside):
        for batch in range(N_BATCHES):
            if drift_evidence([BATCH] * (batch + 1), counts[: batch + 1], limit) >= threshold:
                first[stream] = batch
                break
    return first


def test_looking_every_day_costs_no_validity_over_2000_streams() -> None:
    outside = _outside(np.random.default_rng(1), 2000)
    false_alarms = int((_alarms(outside) < N_BATCHES).sum())
    assert false_alarms <= binom.ppf(0.999, 2000, LEVEL)
    # what a daily test of the same level would have done
    total = np.cumsum(outside, axis=1)
    rows = BATCH * np.arange(1, N_BATCHES + 1)
    naive = int((binom.sf(total - 1, rows, ALPHA) < LEVEL).any(axis=1).sum())
    assert naive > 3 * LEVEL * 2000


def test_a_drift_that_begins_late_is_seen_soon() -> None:
    rng = np.random.default_rng(2)
    outside = _outside(rng, 200)
    begin = 30
    outside[:, begin:] = rng.binomial(BATCH, 0.35, (200, N_BATCHES - begin))
    first = _alarms(outside)
    assert np.mean(first < N_BATCHES) > 0.99
    assert np.median(first[first >= begin]) - begin <= 8
