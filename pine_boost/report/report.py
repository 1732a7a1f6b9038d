"""The report: one HTML page about one pruned model.

In comes a PruneResult or a folder that it was saved to; out goes a self-contained page. Measures
what it can with what is installed and says what it could not; never changes a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.saved import read_named, read_saved
from pine_boost.model.forest import Model
from pine_boost.native.child_process import try_in_child
from pine_boost.native.predict import load_native, predict_classes
from pine_boost.region.region import Region
from pine_boost.report.measure import Size, Speed, measure_sizes, measure_speeds
from pine_boost.report.outside import OutsideInput, find_outside
from pine_boost.report.page import Facts, render_page
from pine_boost.result import PruneResult
from pine_boost.tables.matrix import to_matrix


def render_report(
    result: PruneResult, X: Any = None, curve: Sequence[Mapping[str, Any]] = ()
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

    Returns
    -------
    str
        One self-contained page.
    """
    facts = _gather(
        result.certificate, result.region, result.original, result.pruned, result.points, X, curve
    )
    return render_page(facts)


def render_folder_report(
    folder: str | os.PathLike[str],
    original: Any = None,
    X: Any = None,
    curve: Sequence[Mapping[str, Any]] = (),
    *,
    trust_pickle: bool = False,
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
        Load pickled models; only for files you made.

    Raises
    ------
    InvalidInputError
        The folder lacks a file.
    CertificateMismatch
        A model or the region is not the one that the certificate names.
    """
    parts = read_saved(folder)
    certificate, region = parts.certificate, parts.region
    pruned = read_named(parts.model, certificate, certificate.pruned_digest, trust_pickle)
    if original is None:
        sizes = (
            Size("Trees", certificate.trees_before, certificate.trees_after, False),
            Size("Leaves", certificate.leaves_before, certificate.leaves_after, False),
        )
        facts = Facts(certificate, pruned.kind, sizes, (), None, None, None, curve)
        return render_page(facts)
    before = read_named(original, certificate, certificate.original_digest, trust_pickle)
    for model in (before, pruned):
        try_in_child(model)  # both are timed natively below
    states = np.zeros((0, region.space.n_features), np.int32) if X is None else region.states(X)
    return render_page(_gather(certificate, region, before, pruned, states, X, curve))


def _gather(
    certificate: Certificate,
    region: Region,
    original: Model,
    pruned: Model,
    states: npt.NDArray[Any],
    X: Any,
    curve: Sequence[Mapping[str, Any]],
) -> Facts:
    is_pruned = certificate.grid >= 0
    given = X is not None and len(region.states(X)) > 0
    matrix = to_matrix(X, region.schema) if given else region.space.representative(states)
    matrix = matrix[np.isfinite(np.nan_to_num(matrix, nan=0.0)).all(axis=1)]
    coverage = region.coverage(X, model=original.forest) if given else None
    speeds: tuple[Speed, ...] = ()
    outside: tuple[OutsideInput, ...] | None = None
    fidelity: float | None = None
    try:
        # loaded once: a file would be loaded anew for every question
        before, after = (replace(model, native=load_native(model)) for model in (original, pruned))
        if given:
            fidelity = float(np.mean(predict_classes(before, X) == predict_classes(after, X)))
        if is_pruned:
            speeds = measure_speeds(before, after, matrix)
            outside = find_outside(before, after, region, states, matrix if given else None)
    except ImportError:  # reading and proving need no native library, predicting does
        pass
    return Facts(
        certificate=certificate,
        model_kind=original.kind,
        sizes=measure_sizes(original, pruned),
        speeds=speeds,
        coverage=coverage,
        fidelity=fidelity,
        outside=outside,
        curve=curve,
    )
