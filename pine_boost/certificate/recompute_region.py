"""Compute region, tau and overlap again from X_fit and X_cal, and compare with the files.

A user's own score is taken from the region as it is, and a remark says so.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import speaks_of_everything
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.model.exact import off_rounding
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.routing import route
from pine_boost.options import SCORE_NAMES
from pine_boost.region.conformal import calibrate, indifference_delta
from pine_boost.region.margins import float_margins
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import build_ladder, cal_evidence, fit_evidence
from pine_boost.region.scores.fit_score import fit_score
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.overlap import count_overlap, row_hashes
from pine_boost.tables.rows import MemoryRows


def recompute_region(
    original: Forest, region: Region, certificate: Certificate, X_fit: Any, X_cal: Any
) -> tuple[bool, tuple[str, ...]]:
    """Check that region and certificate follow from these tables.

    Parameters
    ----------
    original : Forest
    region, certificate
        As read from the files that are to be checked.
    X_fit, X_cal : tables
        Those that the region is said to be fitted and calibrated on.

    Returns
    -------
    refitted : bool
        Whether the score was fitted again.
    remarks : tuple of str

    Raises
    ------
    CertificateMismatch
        Something of the region does not follow from the tables.
    """
    if X_fit is None or X_cal is None:
        raise InvalidInputError("Pass both X_fit and X_cal, or neither.", option=("X_fit", "X_cal"))
    if speaks_of_everything(certificate):
        return True, ("The claim is about every input: it needs no tables.",)
    fit, cal = (to_matrix(X, region.schema, n) for X, n in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    _require_equal("n_fit", region.n_fit, len(fit))
    _require_equal("n_cal", region.n_cal, len(cal))
    remarks: tuple[str, ...] = ()
    refitted = region.score_name in SCORE_NAMES and bool(certificate.fitted_with)
    if refitted:
        _require_score(original, region, certificate, fit)
    else:
        remarks += (
            f"The score {region.score_name!r} is taken from the region: how it was fitted is not "
            "recorded, and that X_cal was not used is taken on trust.",
        )
    if region.nesting is None:
        _require_calibration(original, region, fit, cal)
    else:
        _require_nesting(original, region, certificate, fit, cal)
    _require_overlap(region, fit, cal)
    return refitted, (*remarks, _measured(region, len(cal)))


def _require_score(original: Forest, region: Region, certificate: Certificate, fit: FloatArray) -> None:
    how = certificate.fitted_with
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = fit_score(
            region.score_name, original, fit, n_bins=how.get("n_bins", 4), random_state=how.get("random_state", 0)
        )
    stated = region.to_json()
    found = replace(region, space=fitted.space, score_tables=fitted.tables).to_json()
    if found["space"] != stated["space"] or found["score"] != stated["score"]:
        raise CertificateMismatch(
            "The score of the region is not the one that X_fit gives: the region was fitted on other rows, or changed.",
            option="X_fit",
        )


def _require_calibration(original: Forest, region: Region, fit: FloatArray, cal: FloatArray) -> None:
    """The scores of X_cal, with those that lie outside whatever tau is; tau follows from them."""
    states = region.space.states(cal)
    inside = region.tables.permits(states)
    if region.indifference > 0:
        trees = route(original, region.space)
        distances = [
            original.decision.distance(float_margins(original, trees, rows))
            for rows in (region.space.states(fit), states)
        ]
        delta = indifference_delta(off_rounding(distances[0], original), region.indifference)
        _require_equal("delta", region.delta, delta)
        if delta is not None:
            inside = inside & (distances[1] >= delta)
    assert region.score_tables is not None
    scores = np.sort(region.score_tables.score(states[inside]))
    if not np.array_equal(scores, region.calibration):
        raise CertificateMismatch(
            f"The calibration scores of the region are not those of X_cal: tau={region.tau} for "
            f"alpha={region.alpha:g} does not follow from these rows.",
            option="X_cal",
        )


def _require_nesting(
    original: Forest, region: Region, certificate: Certificate, fit: FloatArray, cal: FloatArray
) -> None:
    """The ladder from X_fit, the steps of X_cal on it; tau and delta follow from them."""
    assert region.nesting is not None
    assert region.score_tables is not None
    parts = (original, region.space, region.score_tables)
    seed = certificate.fitted_with.get("random_state", 0)
    ladder = build_ladder(fit_evidence(*parts, MemoryRows(fit), seed), region.nesting.share)
    stated = region.to_json()["nesting"]
    if replace(region, nesting=ladder).to_json()["nesting"] != stated:
        raise CertificateMismatch(
            "The ladder of regions, from which tau and delta were taken, is not the one that X_fit gives.",
            option="X_fit",
        )
    found = cal_evidence(*parts, region.tables, MemoryRows(cal))
    if not np.array_equal(np.sort(ladder.levels(found.scores, found.distances)), region.calibration):
        raise CertificateMismatch(
            f"The calibration steps of the region are not those of X_cal: tau={region.tau} and "
            f"delta={region.delta} for alpha={region.alpha:g} do not follow from these rows.",
            option="X_cal",
        )


def _require_overlap(region: Region, fit: FloatArray, cal: FloatArray) -> None:
    """How many calibration rows were seen: the claim promises less where they were."""
    found = count_overlap(row_hashes(fit), row_hashes(cal))
    stated = region.overlap
    _require_equal("overlap", 0 if stated is None else stated.n_seen, found.n_seen)
    evident = stated is not None and stated.is_evident
    _require_equal("whether calibration rows were seen", evident, found.is_evident)


def _measured(region: Region, n_rows: int) -> str:
    n_outside = region.n_cal - len(region.calibration)
    level = calibrate(region.calibration, region.alpha, n_outside=n_outside)
    inside = int(np.searchsorted(region.calibration, level or 0, side="right"))
    return (
        f"Region and tau were computed again from X_fit and X_cal: {inside} of {n_rows} calibration "
        f"rows ({inside / n_rows:.2%}) lie in the region."
    )


def _require_equal(name: str, stated: Any, found: Any) -> None:
    if stated != found:
        raise CertificateMismatch(f"{name} is {stated!r} in the region; the tables given say {found!r}.")
