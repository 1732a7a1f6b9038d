"""Save a guarded model as a folder and load it: both models, the guard, the certificate, and a digest of each file.

A file that was replaced or damaged, or that belongs to another pair of models, raises. Pickles are loaded only if they
are trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost._version import __version__
from pine_boost.certificate.certificate import Certificate, Status
from pine_boost.errors import CertificateMismatch, InvalidInputError, PineBoostError
from pine_boost.files import CERTIFICATE_LIMIT, MODEL_LIMIT, path_of, read_limited, write_folder
from pine_boost.json_fields import canonical
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Model
from pine_boost.native.child_process import try_in_child
from pine_boost.native.predict import original_bytes
from pine_boost.parsers import pickled, read_model
from pine_boost.parsers.traits import warn_if_untested
from pine_boost.region.region import Region
from pine_boost.result import model_file
from pine_boost.serving.guarded import GuardedModel
from pine_boost.serving.guards import GuardedParts
from pine_boost.serving.margin_guard import MarginGuard

FORMAT = "pine_boost guarded model"
MANIFEST = "guarded.json"
_REMEDY = "Take the folder that GuardedModel.save wrote"
_WHAT = "manifest of a guarded model"


def save_guarded(parts: GuardedParts, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a folder that `load_guarded` reads; it appears complete or not at all."""
    files: dict[str, bytes] = {}
    for role, model in (("original", parts.original), ("pruned", parts.pruned)):
        suffix, contents = _model_contents(model)
        files[f"{role}.{suffix}"] = contents
    if parts.region is not None:
        files["region.json"] = canonical(parts.region.to_json()).encode()
    if parts.certificate is not None:
        files["certificate.json"] = parts.certificate.to_json().encode()
    if parts.prepare is not None or parts.finish is not None:
        files["layers.pkl"] = pickled((parts.prepare, parts.finish))
    fields = {
        "pine_boost": __version__,
        "files": {name: _sha256(contents) for name, contents in sorted(files.items())},
        "original_digest": forest_digest(parts.original.forest),
        "pruned_digest": forest_digest(parts.pruned.forest),
        "thresholds": list(parts.original.forest.decision.thresholds),
        "classes": [_plain(label) for label in parts.classes],
        "margin": None if parts.margin is None else asdict(parts.margin),
    }
    manifest = f.write_document(fields, FORMAT, ())
    files[MANIFEST] = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    folder = path_of(folder)
    return write_folder(folder, files, last=[MANIFEST], owned=guarded_files(folder), overwrite=overwrite)


def guarded_files(folder: Path) -> list[str]:
    """Return the files of the guarded model in this folder: those that its manifest lists with a digest."""
    try:
        digests = _read_manifest(folder)["files"]
        for name in digests:
            _read_file(folder, name, digests)
    except PineBoostError:
        return []
    return [*digests, MANIFEST]


def load_guarded(
    folder: str | os.PathLike[str], *, backend: str = "native", trust_pickle: bool = False
) -> GuardedModel:
    """Read a folder that `GuardedModel.save` wrote, and check that its files belong together.

    Parameters
    ----------
    folder : path
    backend : {"native", "kernel"}
        Who evaluates both models.
    trust_pickle : bool
        Load pickles (scikit-learn models, the first steps of a Pipeline). Unpickling runs code
        from the file: only for folders you made.

    Returns
    -------
    GuardedModel

    Raises
    ------
    CertificateMismatch
        A file is not the one that the manifest or the certificate names.
    InvalidInputError
        There is no such folder, `GuardedModel.save` did not write it, or it holds a pickle and
        ``trust_pickle`` is False.
    UnsupportedModelError
        A model file is not supported, or its library fails to load it.
    """
    folder = path_of(folder)
    manifest = _read_manifest(folder)
    files = {name: _read_file(folder, name, manifest["files"]) for name in manifest["files"]}
    thresholds = tuple(manifest["thresholds"])
    original, pruned = (_read_model(files, role, thresholds, manifest, trust_pickle) for role in ("original", "pruned"))
    certificate = region = None
    margin = manifest["margin"]
    if "certificate.json" in files:
        certificate = Certificate.from_json(files["certificate.json"])
    if "region.json" in files:
        region = Region.from_json(files["region.json"])
    _check_guard(manifest, certificate, region, margin)
    _check_classes(original, manifest["classes"])
    for model in (original, pruned):  # loaded natively only after all digests matched
        try_in_child(model)
    prepare = finish = None
    if "layers.pkl" in files:
        _require_trust(trust_pickle, "layers.pkl")
        prepare, finish = pickle.loads(files["layers.pkl"])
    parts = GuardedParts(original, pruned, tuple(manifest["classes"]), region, margin, certificate, prepare, finish)
    return GuardedModel.of_parts(parts, backend)


def _model_contents(model: Model) -> tuple[str, bytes]:
    """Return the native file if it holds the whole model, else a pickle of the live object."""
    thresholds = model.forest.decision.thresholds or None
    native = model.native
    contents = original_bytes(model) if native is None else None
    name, contents = model_file(contents if native is None else native, model.forest.library)
    suffix = name.rpartition(".")[2]
    if suffix == "pkl" or native is None:
        return suffix, contents
    try:
        again = read_model(contents, threshold=thresholds)
    except PineBoostError:  # a file of this library cannot hold everything the object contains
        return "pkl", pickled(native)
    if _identity(again) == _identity(model):
        return suffix, contents
    return "pkl", pickled(native)


def _identity(model: Model) -> tuple[Any, ...]:
    forest = model.forest
    return (forest_digest(forest), forest.decision, repr(forest.missing_value), forest.feature_names)


def _read_manifest(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is no folder; pass one that GuardedModel.save wrote.")
    contents = read_limited(folder / MANIFEST, CERTIFICATE_LIMIT, _WHAT, CertificateMismatch)
    with f.reading(_WHAT, _REMEDY, CertificateMismatch):
        return f.read_sealed(contents, FORMAT, _FIELDS)


def _margin(**fields: Any) -> MarginGuard:
    f.require(fields["n_differ"] <= fields["n_val"], "'margin.n_differ' is larger than 'margin.n_val'")
    return MarginGuard(**fields)


_FIELDS: dict[str, f.Reader] = {
    "pine_boost": f.text(),
    "files": f.mapping(f.digest),
    "original_digest": f.digest,
    "pruned_digest": f.digest,
    "thresholds": f.sequence(f.number()),
    "classes": f.sequence(f.scalar),
    "margin": f.optional(
        f.record(
            {
                "distance": f.number(0),
                "fidelity": f.SHARE,
                "confidence": f.SHARE,
                "n_val": f.integer(1, 2**53),
                "n_differ": f.integer(0, 2**53),
                "share_guarded": f.number(0, 1),
            },
            _margin,
        )
    ),
}


def _read_file(folder: Path, name: str, digests: Mapping[str, str]) -> bytes:
    if Path(name).name != name:
        raise CertificateMismatch(f"{MANIFEST} names {name!r}, which is not a file of the folder.")
    contents = read_limited(folder / name, MODEL_LIMIT, "file of a guarded model")
    if _sha256(contents) != digests[name]:
        raise CertificateMismatch(
            f"{folder / name} is not the file that was saved: its digest differs. Take the whole "
            "folder that GuardedModel.save wrote."
        )
    return contents


def _read_model(
    files: Mapping[str, bytes],
    role: str,
    thresholds: tuple[float, ...],
    manifest: Mapping[str, Any],
    trust_pickle: bool,
) -> Model:
    names = [name for name in files if name.partition(".")[0] == role]
    if len(names) != 1:
        raise CertificateMismatch(f"The folder has {len(names)} files of the {role} model, not 1.")
    if names[0].endswith(".pkl"):
        _require_trust(trust_pickle, names[0])
    model: Model = read_model(files[names[0]], threshold=thresholds or None, trust_pickle=trust_pickle)
    if forest_digest(model.forest) != manifest[f"{role}_digest"]:
        raise CertificateMismatch(f"{names[0]} holds another model than the manifest says.")
    warn_if_untested(model.forest.library, {})
    return model


def _check_guard(
    manifest: Mapping[str, Any], certificate: Certificate | None, region: Region | None, margin: MarginGuard | None
) -> None:
    """Raise unless every part is the one that the certificate was issued for."""
    if margin is not None:
        return
    if certificate is None or region is None:
        raise CertificateMismatch("The folder has no guard: neither region nor margin.")
    pairs = {
        "original model": (manifest["original_digest"], certificate.original_digest),
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


def _check_classes(original: Model, stated: Sequence[Any]) -> None:
    """Raise unless the labels are the model's own; a file that stores only 0, 1, ... accepts any labels."""
    own = [_plain(label) for label in original.forest.classes]
    if len(own) != len(stated) or own not in (list(stated), list(range(len(own)))):
        raise CertificateMismatch(f"The classes of {MANIFEST} are not those of the original model.")


def _require_trust(trust_pickle: bool, name: str) -> None:
    if not trust_pickle:
        raise InvalidInputError(
            f"{name} is a pickle, and loading it would run code from the file; pass "
            "trust_pickle=True for a folder you made.",
            option="trust_pickle",
        )


def _sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _plain(label: Any) -> Any:
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, (str, int, float, bool)):
        raise InvalidInputError(f"The label {value!r} cannot be written to a manifest.")
    return value
