"""Split conformal calibration on integer scores, and the coverage of a table.

A threshold that would be infinite while some rows lie outside anyway is refused: such a region covers an unknown
share of the inputs, so it must not carry a guarantee.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, RegionError
from pine_boost.model.forest import FloatArray
from pine_boost.options import require_level


def calibrate(scores_int: npt.ArrayLike, alpha: float, *, n_outside: int = 0) -> int | None:
    """The conformal threshold of integer scores.

    With ``n`` the number of calibration rows and ``k = ceil((n + 1) * (1 - alpha))``, tau is the
    k-th smallest score. A new row that is exchangeable with these has ``score <= tau`` with
    probability at least ``1 - alpha``, over the draw of the calibration rows and the new row together,
    for any score that was fixed without looking at the calibration rows.

    Parameters
    ----------
    scores_int : array of int
        Scores of the calibration rows that can lie inside.
    alpha : float
        In [0, 1). 0 asks for the whole space.
    n_outside : int
        Further calibration rows whose score counts as infinite (impossible by the domain, or
        undecided by the original model).

    Returns
    -------
    int or None
        None stands for infinity: ``alpha=0``, or fewer rows than alpha needs (with a warning).

    Raises
    ------
    InvalidInputError
        alpha is outside [0, 1), there are no rows, or the scores are not integers.
    RegionError
        More than alpha of the rows lie outside, so that no tau can reach ``1 - alpha``.

    Examples
    --------
    >>> from pine_boost.region.conformal import calibrate
    >>> calibrate([5, 1, 4, 2, 3, 9, 8, 7, 6], 0.2)
    8
    """
    scores = np.sort(np.asarray(scores_int))
    exact_alpha = read_level(alpha, "alpha")
    n_rows = len(scores) + n_outside
    if exact_alpha == 0:
        return None
    if n_rows == 0:
        raise InvalidInputError("There are no calibration rows; pass X_cal with at least two rows.", option="X_cal")
    if len(scores) and scores.dtype.kind not in "iu":
        raise InvalidInputError(f"Calibration scores must be integers, got dtype {scores.dtype}.")
    rank = conformal_rank(n_rows, alpha)
    if rank > n_rows and n_outside == 0:
        warnings.warn(
            f"{n_rows} calibration rows cannot support alpha={alpha}: tau is infinite and the "
            f"region is the whole input space. The smallest alpha that {n_rows} rows support is "
            f"{smallest_alpha(n_rows):.6g}; alpha={alpha} needs "
            f"{math.ceil(1 / exact_alpha) - 1} rows.",
            stacklevel=2,
        )
        return None
    if rank > len(scores):
        raise RegionError(
            f"{n_outside} of {n_rows} calibration rows lie outside the region whatever tau is; "
            f"alpha={alpha} leaves room for {max(n_rows - rank, 0)}. Such a region would carry no "
            "guarantee. Use a larger alpha, a smaller indifference or a domain that fits the data.",
            option="alpha",
        )
    return int(scores[rank - 1])


def conformal_rank(n_rows: int, alpha: float) -> int:
    """``ceil((n + 1)(1 - alpha))``, exactly for the decimal that the user wrote.

    In floats the product often lands just above a whole number, and the ceiling is then one too many.
    """
    return math.ceil((n_rows + 1) * (1 - read_level(alpha, "alpha")))


def coverage_floor(n_rows: int, alpha: float, confidence: float) -> float:
    """A lower confidence bound on the share of inputs in a calibrated region.

    ``1 - alpha`` is the mean over all draws of the calibration rows. For one draw of independent rows the
    coverage of ``score <= tau`` follows Beta(k, n + 1 - k) with k the rank of tau (ties only increase it),
    so the bound is the ``1 - confidence`` quantile of that distribution.
    """
    rank = conformal_rank(n_rows, alpha)
    return 1.0 if rank > n_rows else lowest_share(rank, n_rows, 1 - confidence)


def lowest_share(n_inside: int, n_rows: int, error: float) -> float:
    """Exact (Clopper-Pearson) lower bound on a probability; it is too high with probability ``error`` at most."""
    from scipy.special import betaincinv

    return float(betaincinv(n_inside, n_rows - n_inside + 1, error)) if n_inside > 0 else 0.0


def smallest_alpha(n_rows: int) -> float:
    """The smallest alpha with a finite tau: ``(n + 1)(1 - alpha) <= n``."""
    return 1 / (n_rows + 1)


def read_level(level: Any, name: str) -> Fraction:
    """A probability in [0, 1) as the exact decimal that the user wrote."""
    require_level(level, name)
    return level if isinstance(level, Fraction) else Fraction(repr(float(level)))


def indifference_delta(distance_fit: FloatArray, indifference: float) -> float | None:
    """The distance from the cut below which the original counts as undecided; None for indifference 0.

    It is the ``indifference`` quantile of the distances on X_fit as an order statistic: at most that share
    of X_fit lies strictly below it. X_cal plays no part.
    """
    share = read_level(indifference, "indifference")
    if share == 0:
        return None
    delta = float(np.sort(distance_fit)[math.floor(share * len(distance_fit))])
    return delta if delta > 0 else None


def require_room(
    distance_fit: FloatArray, distance_cal: FloatArray, *, alpha: float, indifference: float, delta: float
) -> None:
    """Raise RegionError if the undecided rows alone are more than alpha of X_cal.

    Otherwise tau would be infinite, the undecided rows would still lie outside, and the share of inputs in
    the region would be unknown. The message names the largest indifference that fits. A value picked by
    looking at X_cal weakens the guarantee; a smaller one chosen from X_fit does not.
    """
    n_rows = len(distance_cal)
    room = n_rows - conformal_rank(n_rows, alpha)
    undecided = int(np.count_nonzero(distance_cal < delta))
    if room >= 0 and undecided <= room and read_level(alpha, "alpha") > 0:
        return
    largest = largest_indifference(distance_fit, distance_cal, room)
    share_fit = float(np.mean(distance_fit < delta))
    found = (
        f"indifference={indifference} leaves {undecided} of {n_rows} calibration rows undecided "
        f"(closer than {delta:.6g} to the decision boundary; {share_fit:.1%} of X_fit are), and "
        f"alpha={alpha} has room for {max(room, 0)}: the region would carry no guarantee."
    )
    cause = ""
    if undecided / n_rows > 1.5 * share_fit:
        cause = (
            " A model is more certain about the rows it was trained on than about unseen ones: if X_fit holds "
            "training rows, pass unseen rows as X_fit, or use indifference='auto'."
        )
    advice = (
        f"The largest indifference that fits is {largest:.4f}; a larger alpha fits more."
        if largest > 0
        else "None above 0 fits: use indifference=0, a larger alpha or more calibration rows."
    )
    raise RegionError(f"{found}{cause} {advice}")


def largest_indifference(distance_fit: FloatArray, distance_cal: FloatArray, room: int) -> float:
    """The largest indifference, rounded down to 4 digits, that leaves at most ``room`` rows undecided."""
    if room < 0:
        return 0.0
    largest_delta = np.sort(distance_cal)[room]  # at most `room` rows are strictly below it
    position = int(np.searchsorted(np.sort(distance_fit), largest_delta, side="right")) - 1
    return max(0, position) * 10_000 // len(distance_fit) / 10_000


@dataclass(frozen=True)
class Coverage:
    """Share of rows in a region, with the exact (Clopper-Pearson) interval of the underlying probability."""

    n_rows: int
    n_inside: int
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, n_rows: int, n_inside: int, confidence: float = 0.95) -> Coverage:
        """The coverage if ``n_inside`` of ``n_rows`` rows lie inside."""
        from scipy.special import betaincinv

        tail = (1 - confidence) / 2
        low = lowest_share(n_inside, n_rows, tail)
        high = 1.0 if n_inside == n_rows else float(betaincinv(n_inside + 1, n_rows - n_inside, 1 - tail))
        return cls(n_rows, n_inside, low, high, confidence)

    @property
    def share(self) -> float:
        """The observed share."""
        return self.n_inside / self.n_rows
