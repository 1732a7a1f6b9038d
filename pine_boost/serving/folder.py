"""Save a guarded model as a scorer folder, and load scorers of every kind.

A guarded model's folder has both models, the guard and the certificate. A file that was replaced or damaged, or that
belongs to another pair of models, raises. Pickles are loaded only if they are trusted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pine_boost import json_fields as f
from pine_boost.errors import CertificateMismatch, PineBoostError
from pine_boost.files import path_of
from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.scorer_folder import (
    LAYERS,
    MANIFEST,
    REMEDY,
    layer_files,
    read_layers,
    read_manifest,
    read_named,
    read_parts,
    require_trust,
    with_manifest,
    write_scorer,
)

if TYPE_CHECKING:
    from pine_boost.certificate.certificate import Certificate
    from pine_boost.model.forest import Model
    from pine_boost.region.region import Region
    from pine_boost.serving.guarded import GuardedModel
    from pine_boost.serving.guards import GuardedParts
    from pine_boost.serving.margin_guard import MarginGuard


def load_scorer(
    folder: str | os.PathLike[str], *, n_jobs: int = 1, backend: str = "kernel", trust_pickle: bool = False
) -> FastScorer | GuardedModel:
    """Read a scorer that `AccelerateResult.save` or `GuardedModel.save` wrote; its files must belong together.

    An accelerated scorer needs numpy and no training library.

    Parameters
    ----------
    folder : path
    n_jobs : int
        Threads for batches of several thousand rows; -1 for all cores.
    backend : {"kernel", "native"}
        What evaluates both models of a guarded model (see `GuardedModel`); an accelerated scorer is the kernel.
    trust_pickle : bool
        Load pickles (scikit-learn models behind a guard, the steps of a Pipeline). Unpickling runs code from the
        file: only for folders you made.

    Returns
    -------
    FastScorer or GuardedModel

    Raises
    ------
    CertificateMismatch
        A file is not the one that the manifest or the certificate names.
    MalformedModelError
        The arrays do not form trees with exits.
    InvalidInputError
        No scorer folder, or a pickle that is not trusted.
    UnsupportedModelError
        A model file is not supported, or its library fails to load it.

    Examples
    --------
    >>> import tempfile, numpy as np, pine_boost
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, X[:, 0] > 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pine_boost.accelerate_booster(model).save(folder + "/scorer")
    ...     scorer = pine_boost.load_scorer(place)
    >>> bool((scorer.predict(X) == model.predict(X)).all())
    True
    """
    if "guard" not in read_manifest(folder):
        return FastScorer(read_parts(folder, trust_pickle=trust_pickle)[0], n_jobs)
    from pine_boost.native.child_process import try_in_child
    from pine_boost.serving.guarded import GuardedModel

    parts = read_guarded(folder, trust_pickle=trust_pickle)
    for model in (parts.original, parts.pruned) if backend == "native" else ():
        try_in_child(model)
    return GuardedModel(parts, backend=backend, n_jobs=n_jobs)


def save_guarded(parts: GuardedParts, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a folder that `load_scorer` reads; it appears complete or not at all."""
    from pine_boost.model.digest import forest_digest

    files: dict[str, bytes] = {}
    for role, model in (("original", parts.original), ("pruned", parts.pruned)):
        suffix, contents = _model_contents(model)
        files[f"{role}.{suffix}"] = contents
    if parts.region is not None:
        files["region.json"] = f.canonical(parts.region.to_json()).encode()
    if parts.certificate is not None:
        files["certificate.json"] = parts.certificate.to_json().encode()
    files |= layer_files(parts)
    facts = {
        "model_digest": forest_digest(parts.original.forest),
        "status": parts.status,
        "claim": parts.claim,
        "thresholds": parts.original.forest.decision.thresholds,
    }
    fields = {
        "pruned_digest": forest_digest(parts.pruned.forest),
        "guard": None if parts.margin is None else asdict(parts.margin),
    }
    return write_scorer(with_manifest(files, fields, facts, parts.classes), folder, overwrite=overwrite)


def read_guarded(folder: str | os.PathLike[str], *, trust_pickle: bool = False) -> GuardedParts:
    """The parts of a guarded model in a folder, each checked against the manifest and the certificate."""
    from pine_boost.certificate.certificate import Certificate
    from pine_boost.region.region import Region
    from pine_boost.scoring.scorer_verification import may_be_labels
    from pine_boost.serving.guards import GuardedParts
    from pine_boost.serving.margin_guard import MarginGuard

    folder = path_of(folder)
    manifest = read_manifest(folder)
    files = {name: read_named(folder, name, manifest) for name in manifest["files"] if name != LAYERS}
    thresholds = tuple(manifest["thresholds"])
    original, pruned = (_read_model(files, role, thresholds, manifest, trust_pickle) for role in ("original", "pruned"))
    certificate = region = None
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        margin = f.optional(f.record_of(MarginGuard))(manifest["guard"], "guard")
    if "certificate.json" in files:
        certificate = Certificate.from_json(files["certificate.json"])
    if "region.json" in files:
        region = Region.from_json(files["region.json"])
    _check_guard(manifest, certificate, region, margin)
    if not may_be_labels(manifest["classes"], original):
        raise CertificateMismatch(f"The classes of {MANIFEST} are not those of the original model.")
    prepare, finish = read_layers(folder, manifest, trust_pickle)
    parts = GuardedParts(original, pruned, tuple(manifest["classes"]), region, margin, certificate, prepare, finish)
    if (parts.status, parts.claim) != (manifest["status"], manifest["claim"]):
        raise CertificateMismatch(f"The promise in {MANIFEST} is not that of the guard.")
    return parts


def _model_contents(model: Model) -> tuple[str, bytes]:
    """Return the native file if it holds the whole model, else a pickle of the live object."""
    from pine_boost.native.predict import model_file, original_bytes
    from pine_boost.parsers import pickled, read_model

    native, thresholds = model.native, model.forest.decision.thresholds or None
    name, contents = model_file(original_bytes(model) if native is None else native, model.forest.library)
    try:
        is_whole = native is None or name.endswith(".pkl")
        is_whole = is_whole or _identity(read_model(contents, threshold=thresholds)) == _identity(model)
    except PineBoostError:  # a file of this library cannot hold everything the object contains
        is_whole = False
    return (name.rpartition(".")[2], contents) if is_whole else ("pkl", pickled(native))


def _identity(model: Model) -> tuple[Any, ...]:
    from pine_boost.model.digest import forest_digest

    forest = model.forest
    return (forest_digest(forest), forest.decision, repr(forest.missing_value), forest.feature_names)


def _read_model(
    files: Mapping[str, bytes],
    role: str,
    thresholds: tuple[float, ...],
    manifest: Mapping[str, Any],
    trust_pickle: bool,
) -> Model:
    from pine_boost.model.digest import forest_digest
    from pine_boost.parsers import read_model
    from pine_boost.parsers.traits import warn_if_untested

    names = [name for name in files if name.partition(".")[0] == role]
    if len(names) != 1:
        raise CertificateMismatch(f"The folder has {len(names)} files of the {role} model, not 1.")
    if names[0].endswith(".pkl"):
        require_trust(trust_pickle, names[0])
    digest = manifest["model_digest" if role == "original" else "pruned_digest"]
    model: Model = read_model(files[names[0]], threshold=thresholds or None, trust_pickle=trust_pickle, digest=digest)
    if forest_digest(model.forest) != digest:
        raise CertificateMismatch(f"{names[0]} holds another model than the manifest says.")
    warn_if_untested(model.forest.library, {})
    return model


def _check_guard(
    manifest: Mapping[str, Any], certificate: Certificate | None, region: Region | None, margin: MarginGuard | None
) -> None:
    """Raise unless every part is the one that the certificate was issued for."""
    from pine_boost.certificate.certificate import Status

    if margin is not None:
        if margin.n_differ > margin.n_val:
            raise CertificateMismatch(f"'n_differ' of {MANIFEST} is larger than 'n_val'.")
        return
    if certificate is None or region is None:
        raise CertificateMismatch("The folder has no guard: neither region nor margin.")
    pairs = {
        "original model": (manifest["model_digest"], certificate.original_digest),
        "pruned model": (manifest["pruned_digest"], certificate.pruned_digest),
        "region": (region.fingerprint(), certificate.region_fingerprint),
        "threshold": (tuple(manifest["thresholds"]), certificate.thresholds),
        "status": (certificate.status, Status.CERTIFIED.value),
        "indifference": (region.delta, None) if certificate.serving is None else (None, None),
    }
    if (serving := certificate.serving) is not None:
        own = (certificate.pruned_digest, region.tables_digest, region.tau)
        stated = (serving.pruned_digest, serving.region_digest, serving.tau)
        pairs["serving margin"] = (stated, own)
    for what, (found, expected) in pairs.items():
        if found != expected:
            raise CertificateMismatch(f"The {what} is not the one that the certificate speaks of.")
