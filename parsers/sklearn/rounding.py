"""Bounds on the effect of rounding on a scikit-learn decision, each with its inequality (u = 2**-53).

They hold for any order of summation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pine_boost.errors import MalformedModelError
from pine_boost.model.exact import AVERAGED_BITS, UNIT_ROUNDOFF, dyadic_exponent, probability_guard
from pine_boost.model.forest import FloatArray

UNIT = UNIT_ROUNDOFF[np.float64]
_LARGEST_SUM = 1e280  # far from overflow in every bound below


@dataclass(frozen=True)
class Rounding:
    """``slack`` of the Forest and ``guard`` of its Decision."""

    slack: float
    guard: float


def largest_leaves(values: Sequence[FloatArray]) -> FloatArray:
    """Return max |leaf| of each tree and output, (n_trees, n_outputs); ``values`` hold leaves only."""
    return np.array([np.abs(value).max(axis=0) for value in values])


def average_rounding(values: Sequence[FloatArray], native: Sequence[FloatArray], threshold: float | None) -> Rounding:
    """Bound the rounding of ``mean over trees`` against the sum of ``values``.

    ``native`` are the leaves that scikit-learn adds; ``values`` are those of the Forest, the same
    ones or ``fl(native - threshold)``. With ``n_jobs > 1`` the trees are added in any order.
    `exact.summation_band` assumes file order and so is not enough: the partial sums are
    largest when the largest trees come first, hence the sorted sum here. If every sum is exact,
    no order matters and the slack is 0, so ties stay ties (pure leaves vote 0 or 1).
    """
    if len(values) == 1:
        # one tree: nothing is added, and fl(p - t) has the sign of p - t
        return Rounding(0.0, 0.0)
    numbers = np.concatenate([leaves.ravel() for leaves in native])
    if threshold is not None:
        numbers = np.append(numbers, threshold)
    offset = abs(threshold or 0.0)
    with np.errstate(over="ignore"):
        total = float((largest_leaves(native) + offset).sum(axis=0).max())
    if not total < _LARGEST_SUM:
        raise MalformedModelError(
            f"The leaves of the model add up to {total:g}; sums beyond {_LARGEST_SUM:g} are no "
            "probabilities or predictions. Fit it again."
        )
    grid = dyadic_exponent(numbers)
    if grid is not None and math.ldexp(total, grid) < 2.0**AVERAGED_BITS:
        return Rounding(0.0, 0.0)
    # |native sum in any order - float sum of `values` in file order| <= the error of the first
    # + the error of the second + u * total for forming fl(native - threshold)
    slack = _worst_order(native) + _worst_order(values) + 2 * UNIT * total
    # fl(S / n) is within u * |S| / n of S / n: in units of S that is u * total, for each of two
    # classes (or for the one compared with fl(n * t) / n); doubled for the bound's own rounding
    return Rounding(slack, 4 * UNIT * total)


def vote_rounding(weights: FloatArray, n_classes: int) -> Rounding:
    """Bound the rounding of AdaBoost's multiclass decision against the plain sum of the votes.

    Native: class k gets w or fl(c * w), c = fl(-1 / (K - 1)), summed, divided by W. In real
    numbers that is (v_k * K / (K - 1) - W / (K - 1)) / W, increasing in the votes v_k. Each term
    errs by 2u * w, n additions by u * |partial| <= u * W each, so a sum errs by (n + 2) u W, and
    as K / (K - 1) > 1 by no more in units of v. Division by W blurs two classes by 2 * u * W.
    """
    total = float(np.abs(weights).sum())
    shift = (n_classes - 1).bit_length() - 1
    grid = dyadic_exponent(weights)
    if (
        n_classes - 1 == 1 << shift
        and grid is not None
        and math.ldexp(total, grid + shift) < 2.0 ** (AVERAGED_BITS - 1)
    ):
        return Rounding(0.0, 0.0)
    count = len(weights)
    # + the error of the Forest's own float sum, n * u * W, because slack is measured against it
    return Rounding((2 * count + 4) * UNIT * total, 4 * UNIT * total)


def probability_cut(probability: float, slope: float) -> tuple[float, float]:
    """Return the margin at which ``sigmoid(slope * margin)`` is ``probability``, and its guard.

    log(p / (1 - p)) in float64: argument within 2u relative, so the logarithm within
    2u + u * |log|; the guard adds twice that to `exact.probability_guard`.
    """
    logit = math.log(probability / (1 - probability))
    guard = probability_guard(probability, np.float64) + 4 * UNIT * (1 + abs(logit))
    return logit / slope, guard / min(slope, 1.0)


def isolation_cut(offset: float, denominator: float) -> tuple[float, float]:
    """Return the summed path length at which ``2 ** (-depth / denominator)`` is ``-offset``, and its guard.

    Inlier iff fl(2**-fl(d / D)) <= -offset. A relative error of 4u in the power moves d / D by
    4u / ln 2, the quotient errs by u * d / D, the cut itself by a few u: 16u (D + |cut|) covers it.
    """
    cut = -denominator * math.log2(-offset)
    return cut, 16 * UNIT * (denominator + abs(cut))


def _worst_order(values: Sequence[FloatArray]) -> float:
    """Bound |float sum - exact sum| over every order of the trees.

    A sequential sum errs by at most u * sum_k |partial_k|, and |partial_k| is at most the sum of
    the k largest trees; 1 + 2**-10 covers the rounding inside the partial sums (n < 2**14).
    """
    descending = -np.sort(-largest_leaves(values), axis=0)
    partials = np.cumsum(descending, axis=0).sum(axis=0)
    return UNIT * float(partials.max()) * (1 + 2.0**-10)
