"""The report: one HTML page about one pruned model.

In comes a PruneResult or a folder that it was saved to; out goes a self-contained page. Measures
what it can with what is installed and says what it could not; never changes a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.certificate.saved import read_named, read_saved
from pine_boost.native.child_process import try_in_child
from pine_boost.report.facts import Subject, gather
from pine_boost.report.page import render_page
from pine_boost.result import Absent, PruneResult


def render_report(
    result: PruneResult, X: Any = None, curve: Sequence[Mapping[str, Any]] = (), budget: Budget | None = None
) -> str:
    """The report of a result as HTML text.

    Parameters
    ----------
    result : PruneResult
    X : table, optional
        Rows for coverage and speed; rows that nothing was fitted on tell most. Without it speed is
        measured on the points of the search.
    curve : sequence of mapping
        ``SweepResult.table()`` for the trade-off plot.
    budget : Budget, optional
        How long it may take, and who is told what is being done; parts that find no time left are
        not done, and the page says so.

    Returns
    -------
    str
        One self-contained page.
    """
    history = () if isinstance(result.search, Absent) else result.search.history
    once, twice = ([(at.seconds, at.units) for at in history if at.proofs == proofs] for proofs in (1, 2))
    subject = Subject(
        result.certificate,
        result.region,
        result.pruned,
        None if isinstance(result.original, Absent) else result.original,
        result.points,
        twice,
        once,
    )
    return render_page(gather(subject, X, curve, budget or Budget()))


def render_folder_report(
    folder: str | os.PathLike[str],
    original: Any = None,
    X: Any = None,
    curve: Sequence[Mapping[str, Any]] = (),
    *,
    trust_pickle: bool = False,
    budget: Budget | None = None,
) -> str:
    """The report of a folder that `PruneResult.save` wrote.

    Parameters
    ----------
    folder : path
        With certificate.json, region.json and the model file.
    original : model, path or bytes, optional
        The model before pruning; without it sizes before are those of the certificate, and
        neither speed nor inputs outside the region are shown.
    X : table, optional
        Rows for coverage and speed, and to look for inputs outside the region from.
    curve : sequence of mapping
    trust_pickle : bool
        As in `PruneResult.load`.
    budget : Budget, optional
        As in `render_report`.

    Raises
    ------
    InvalidInputError, CertificateMismatch
        As in `PruneResult.load`.
    """
    parts = read_saved(folder)
    certificate, region = parts.certificate, parts.region
    pruned = read_named(parts.model, certificate, certificate.pruned_digest, trust_pickle)
    before = None
    if original is not None:
        before = read_named(original, certificate, certificate.original_digest, trust_pickle)
        for model in (before, pruned):
            try_in_child(model)  # both are timed natively
    n_features = region.space.n_features
    states = np.zeros((0, n_features), np.int32) if X is None else region.states(X)
    subject = Subject(certificate, region, pruned, before, states)
    return render_page(gather(subject, X, curve, budget or Budget()))
