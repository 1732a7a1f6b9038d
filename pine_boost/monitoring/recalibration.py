"""Recalibrate tau on fresh inputs and state what the certificate still covers.

Nothing is proved here; if the new tau exceeds the certified one, the text says what to run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.certificate.claims import beyond_claim, covered_claim
from pine_boost.errors import InvalidInputError
from pine_boost.monitoring.region_monitor import require_region
from pine_boost.notebooks import displayed
from pine_boost.options import require_level
from pine_boost.region.conformal import calibrate
from pine_boost.region.region import Region


@displayed
@dataclass(frozen=True, eq=False)
class Recalibrated:
    """A recalibrated region.

    Attributes
    ----------
    region : Region
        Never beyond the certified tau, so that the proof of the certificate covers it; its
        ``alpha`` is what the fresh rows support.
    tau_needed : int or None
        The tau that the requested alpha needs on the fresh rows; None is infinity.
    is_covered : bool
        Whether the certificate still covers the requested alpha.
    alpha : float
        The alpha of ``region``: a new input lies in it with probability at least ``1 - alpha``.
    text : str
        What this means and what to do.
    """

    region: Region
    tau_needed: int | None
    is_covered: bool
    alpha: float
    text: str

    def __str__(self) -> str:
        return self.text


def recalibrate(
    region: Region, X_new: Any, *, alpha: float | None = None, model: Any = None, margins: Any = None
) -> Recalibrated:
    """Compute tau on fresh inputs and state what the certificate still covers.

    Parameters
    ----------
    region : Region
        The region that a certificate names.
    X_new : table
        Unseen rows like today's inputs; nothing may have been chosen by looking at them.
    alpha : float, optional
        The region's own by default.
    model, margins
        As in `Region.contains`, for a region with indifference.

    Returns
    -------
    Recalibrated

    Raises
    ------
    InvalidInputError
        The region has no score, alpha is not in [0, 1), or X_new has fewer than two rows.
    RegionError
        Undecided or impossible rows alone are more than a share alpha of X_new.
    """
    require_region(region, "recalibrate")
    if region.score_tables is None or region.tau is None:
        raise InvalidInputError("This region covers every input; it has no tau to recalibrate.")
    if alpha is not None:
        require_level(alpha, "alpha")
    alpha = region.alpha if alpha is None else float(alpha)
    matrix = region.matrix(X_new, "X_new")
    if len(matrix) < 2:
        raise InvalidInputError(f"X_new has {len(matrix)} row(s); at least two are needed.")
    states = region.space.states(matrix)
    largest = replace(region, tables=replace(region.tables, score=None, tau=None))
    can_be_inside = largest.contains(X_new, model=model, margins=margins)
    scores = np.sort(region.score_tables.score(states[can_be_inside]))
    needed = calibrate(scores, alpha, n_outside=len(matrix) - len(scores))
    # delta is kept, so no ladder is calibrated here
    fresh = replace(region, calibration=scores, n_cal=len(matrix), overlap=None, nesting=None)
    if needed is not None and needed <= region.tau:
        fresh = replace(fresh, alpha=alpha, tables=replace(region.tables, tau=needed))
        text = covered_claim(needed, region.tau, len(matrix), alpha)
        return Recalibrated(fresh, needed, True, alpha, text)
    # at the certified tau: the k rows inside are the k smallest of n, so P >= k / (n + 1)
    n_inside = int(np.searchsorted(scores, region.tau, side="right"))
    supported = 1 - n_inside / (len(matrix) + 1)
    fresh = replace(fresh, alpha=supported, tables=region.tables)
    text = beyond_claim(needed, region.tau, len(matrix), alpha, supported)
    return Recalibrated(fresh, needed, False, supported, text)
