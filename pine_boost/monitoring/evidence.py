"""Measure the evidence that live inputs leave a region more often than they should, as an e-process.

Without drift, the probability that the evidence ever exceeds ``1 / level`` is at most ``level``, however often it is
checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray
from pine_boost.region.conformal import coverage_floor

# The part of the level that covers the uncertainty about the coverage of this region.
CALIBRATION_PART = 0.2


def most_outside(n_cal: int, alpha: float, level: float) -> float:
    """Return the share of inputs outside that chance in the calibration rows can explain.

    ``alpha`` is the mean over all calibrations; a single region may leave out more. With
    probability ``1 - CALIBRATION_PART * level`` it leaves out at most this share.
    """
    return 1.0 - coverage_floor(n_cal, alpha, 1 - CALIBRATION_PART * level)


def threshold_of(level: float) -> float:
    """Return the evidence at which the alarm is raised; the total error is at most ``level``."""
    return 1.0 / ((1 - CALIBRATION_PART) * level)


def log_evidence(n_rows: npt.ArrayLike, n_outside: npt.ArrayLike, limit: float) -> FloatArray:
    """Return the log of the mixture of likelihood ratios against "a share of at most ``limit`` is outside".

    For a share q > limit the ratio ``(q / limit)^s ((1 - q) / (1 - limit))^(t - s)`` of s rows
    outside among t is a supermartingale for every true share up to ``limit``; so is the
    uniform mixture over q in (limit, 1), which has a closed form. By Ville's inequality, the
    probability that it ever reaches ``1 / level`` is at most ``level``.
    """
    from scipy.special import betainc, betaln

    outside = np.asarray(n_outside, dtype=np.float64)
    inside = np.asarray(n_rows, dtype=np.float64) - outside
    # the integral of q^s (1 - q)^(t - s) over (limit, 1); 0 where it underflows
    with np.errstate(divide="ignore"):
        above = np.log(betainc(inside + 1, outside + 1, 1 - limit))
    integral = betaln(outside + 1, inside + 1) + above
    null = outside * np.log(limit) + inside * np.log1p(-limit)
    return np.asarray(integral - np.log1p(-limit) - null)


def drift_evidence(n_rows: Sequence[int], n_outside: Sequence[int], limit: float, first: int = 0) -> float:
    """Return the evidence over batches for a drift that may begin with any of them.

    ``sum over j of E_j / ((j + 1)(j + 2))``, E_j from batch j on and 1 before: the weights add up
    to 1, so this is a supermartingale too, and a drift after a long quiet time is detected almost
    as soon as one at the beginning. ``first`` is the number of batches that are no longer stored;
    leaving out their terms only lowers the evidence.
    """
    rows_left, outside_left = (
        np.cumsum(np.asarray(counts, dtype=np.int64)[::-1])[::-1] for counts in (n_rows, n_outside)
    )
    start = first + np.arange(len(rows_left))
    # capped, so that the number can be written as JSON
    evidence = np.exp(np.minimum(log_evidence(rows_left, outside_left, limit), 600.0))
    # future batches have evidence 1 each: the rest of the weights
    return float((evidence / ((start + 1.0) * (start + 2.0))).sum() + 1.0 / (first + len(start) + 1))
