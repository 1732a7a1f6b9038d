"""`verify`: prove a certificate again, with native libraries only to replay a counterexample."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import saved_remarks
from pine_boost.certificate.verification import TO_THE_END, Verification, prove_again
from pine_boost.model.forest import Model
from pine_boost.native.child_process import try_and_predict
from pine_boost.options import require_seconds, worker_count
from pine_boost.parsers.traits import warn_if_untested
from pine_boost.pipelines.unwrapping import read_named_model
from pine_boost.region.region import Region
from pine_boost.tables.rows import is_large, open_rows


def verify(
    original: Any,
    pruned: Any,
    region: Region | str | os.PathLike[str],
    certificate: Certificate | str | os.PathLike[str],
    *,
    time_limit: float | None = None,
    n_jobs: int = 1,
    trust_pickle: bool = False,
    X_fit: Any = None,
    X_cal: Any = None,
) -> Verification:
    """Prove again that two models predict the same class on every input of a region.

    Parameters
    ----------
    original, pruned : model, path or bytes
        What was pruned and what was written. Of a Pipeline, threshold wrapper or calibrated
        classifier the ensemble inside is verified, at the threshold that follows from it.
    region : Region or path of region.json
    certificate : Certificate or path of certificate.json
    time_limit : float, optional
        Seconds; without it CP-SAT runs to the end and boxes up to 20 million boxes a question.
    n_jobs : int
        Threads for CP-SAT; with joblib installed, processes for parts of the boxes. -1: all cores.
    trust_pickle : bool
        Load pickled models; only for files you made.
    X_fit, X_cal : tables, optional
        Those that the region is said to be fitted and calibrated on: score, tau and coverage are
        computed again. Without them they are taken on trust (``certificate.rests_on``).
        Raw rows where ``original`` is a Pipeline; what is larger than memory elsewhere is read
        into memory here.

    Returns
    -------
    Verification

    Raises
    ------
    CertificateMismatch
        A file was changed or belongs to something else; or the certificate carries no claim.
    """
    require_seconds(time_limit, "time_limit")
    n_workers = worker_count(n_jobs)
    budget = Budget.of(time_limit, TO_THE_END)
    if not isinstance(region, Region):
        region = Region.load(region)
    if not isinstance(certificate, Certificate):
        certificate = Certificate.load(certificate)
    models, remark = [], ""
    for model, digest in ((original, certificate.original_digest), (pruned, certificate.pruned_digest)):
        if isinstance(model, Model):
            models.append(model)
            continue
        given = read_named_model(model, certificate.thresholds, digest, trust_pickle=trust_pickle)
        models.append(given.parsed)
        if model is original:
            remark = given.remark
            X_fit, X_cal = given.wrapper.rows(X_fit), given.wrapper.rows(X_cal)
    warn_if_untested(models[0].forest.library, certificate.versions)
    X_fit, X_cal = (_in_memory(X, region) for X in (X_fit, X_cal))
    verdict = prove_again(
        (models[0], models[1]),
        region,
        certificate,
        budget,
        n_workers=n_workers,
        tables=(X_fit, X_cal),
        replay=try_and_predict,
    )
    remarks = (remark,) * bool(remark) + saved_remarks(models[0])
    return replace(verdict, remarks=(*verdict.remarks, *remarks)) if remarks else verdict


def _in_memory(X: Any, region: Region) -> Any:
    """A table that is otherwise read in chunks, as a matrix."""
    if not is_large(X):
        return X
    return np.concatenate(list(open_rows(X, region.schema).chunks()))
