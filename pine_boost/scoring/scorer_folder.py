"""A scorer as a folder: its files and a manifest with their digests; loading an accelerated one needs numpy alone.

A file that was replaced or damaged, or that belongs to another pair of models, raises. Pickles are loaded only if they
are trusted.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost._version import __version__
from pine_boost.errors import CertificateMismatch, InvalidInputError, MalformedModelError, PineBoostError
from pine_boost.files import CERTIFICATE_LIMIT, MODEL_LIMIT, path_of, read_limited, refuse_average
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum, arrays_of
from pine_boost.kernels.wellformed_arrays import require_wellformed
from pine_boost.scoring.fast_scorer import FastScorer, ProbabilityRule, ScorerParts
from pine_boost.tables.schema import schema_from_json, schema_to_json

if TYPE_CHECKING:
    from pine_boost.model.forest import Model
    from pine_boost.scoring.guarded import GuardedModel

FORMAT = "pine_boost scorer"
MANIFEST, ARRAYS, LAYERS = "scorer.json", "scorer.npz", "layers.pkl"
REMEDY = "Save the scorer again (AccelerateResult.save, GuardedModel.save)"
_SHARED: dict[str, f.Reader] = {
    **dict.fromkeys(("pine_boost", "status", "claim"), f.text()),
    "files": f.mapping(f.digest),
    "model_digest": f.digest,
    "thresholds": f.sequence(f.number()),
    "classes": f.sequence(f.scalar),
}
# the models are files beside the manifest; "guard" is a `MarginGuard`, read with the models, None if a region is it
_GUARDED: dict[str, f.Reader] = {**_SHARED, "pruned_digest": f.digest, "guard": f.anything}
_FIELDS: dict[str, f.Reader] = {
    **_SHARED,
    "forest": f.record({**f.table_of(FlatForest), "missing_value": f.nan_as_null}),
    "native": f.record(f.table_of(NativeSum)),
    "schema": schema_from_json,
    "probability": f.record_of(ProbabilityRule),
    "facts": f.mapping(f.anything),
}
_ARRAYS_OF = ("forest", "native", "exits")
_UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)  # what an archive may raise


def load_scorer(
    folder: str | os.PathLike[str], *, n_jobs: int = 1, backend: str = "kernel", trust_pickle: bool = False
) -> FastScorer | GuardedModel:
    """Read a scorer that `AccelerateResult.save` or `GuardedModel.save` wrote; its files must belong together.

    An accelerated scorer needs numpy and no training library, and so does a guarded model that the kernel evaluates,
    unless its models are pickles.

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
    from pine_boost.scoring.guarded import GuardedModel
    from pine_boost.scoring.guards import read_guarded

    is_native = backend == "native"
    parts = read_guarded(folder, trust_pickle=trust_pickle, asks_library=is_native)
    if is_native:
        from pine_boost.native.child_process import try_in_child

        try_in_child(parts.original, parts.pruned)
    return GuardedModel(parts, backend=backend, n_jobs=n_jobs)


def scorer_files(parts: ScorerParts, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a scorer by name; ``facts`` are model_digest, status, claim, thresholds and more."""
    buffer = io.BytesIO()
    sources = {"forest": parts.flat, "native": parts.native, "exits": parts.plan}
    arrays: dict[str, Any] = {
        f"{prefix}.{name}": array for prefix, source in sources.items() for name, array in arrays_of(source).items()
    }
    np.savez(buffer, **arrays)
    files = {ARRAYS: buffer.getvalue()}
    files |= layer_files(parts)
    fields = {
        "forest": f.write_scalars(parts.flat),
        "native": f.write_scalars(parts.native),
        "schema": schema_to_json(parts.schema),
        "probability": f.plain(parts.probability),
        "facts": {key: value for key, value in facts.items() if key not in _FIELDS},
    }
    return with_manifest(files, fields, facts, parts.classes)


def with_manifest(
    files: Mapping[str, bytes], fields: Mapping[str, Any], facts: Mapping[str, Any], classes: Sequence[Any]
) -> dict[str, bytes]:
    """The files and a manifest that names each by its digest; ``fields`` are those of one kind of scorer."""
    shared = {
        "pine_boost": __version__,
        "files": {name: _sha256(contents) for name, contents in sorted(files.items())},
        "model_digest": facts["model_digest"],
        "status": facts["status"],
        "claim": facts["claim"],
        "thresholds": list(facts["thresholds"]),
        "classes": [_plain(label) for label in classes],
    }
    manifest = f.write_document({**shared, **fields}, FORMAT, sealed=True)
    return {**files, MANIFEST: (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()}


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a scorer folder, its own digest checked."""
    path = path_of(folder) / MANIFEST
    if not path.is_file():
        refuse_average(path.parent)
        raise InvalidInputError(
            f"{folder} is not a scorer folder: it has no {MANIFEST}. Save one with `pine-boost accelerate` or "
            "`pine-boost guard`."
        )
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        contents = read_limited(path, CERTIFICATE_LIMIT, "manifest")
        is_guarded = "guard" in f.open_document(contents, FORMAT)
        return f.read_sealed(contents, FORMAT, _GUARDED if is_guarded else _FIELDS)


def read_parts(folder: str | os.PathLike[str], *, trust_pickle: bool = False) -> tuple[ScorerParts, dict[str, Any]]:
    """The checked parts of a scorer folder, and its manifest."""
    place, manifest = path_of(folder), read_manifest(folder)
    if "guard" in manifest:
        raise InvalidInputError(f"{folder} holds a guarded model; pass a folder that `pine-boost accelerate` wrote.")
    if odd := sorted(manifest["files"].keys() - {ARRAYS, LAYERS}):
        raise CertificateMismatch(f"{MANIFEST} names {odd!r}, which are not files of a scorer. {REMEDY}.")
    contents = read_named(place, ARRAYS, manifest)
    prepare, finish = read_layers(place, manifest, trust_pickle)
    try:
        with f.reading("scorer", REMEDY):
            parts = _build(manifest, _load_arrays(contents), prepare, finish)
            require_wellformed(parts.flat, parts.native, parts.plan)
    except PineBoostError:
        raise
    except (*_UNREADABLE, LookupError, TypeError, ValueError, AttributeError) as error:
        raise MalformedModelError(f"Invalid scorer: {type(error).__name__} {error}. {REMEDY}.") from error
    return parts, manifest


def may_be_labels(found: Sequence[Any], parsed: Model) -> bool:
    """Whether these are the model's labels or, where a file knows only 0, 1, ..., ascending ones of a wrapper."""
    labels = list(parsed.forest.classes)
    if list(found) == labels:
        return True
    if labels != list(range(len(found))) or hasattr(parsed.native, "classes_"):
        return False
    try:
        return all(a < b for a, b in pairwise(found))
    except TypeError:  # texts among numbers
        return False


def layer_files(parts: Any) -> dict[str, bytes]:
    """The file of what a Pipeline or calibrator around the trees does; none without."""
    if parts.prepare is None and parts.finish is None:
        return {}
    from pine_boost.parsers import pickled

    return {LAYERS: pickled((parts.prepare, parts.finish))}


def read_layers(place: Path, manifest: Mapping[str, Any], trust_pickle: bool) -> tuple[Any, Any]:
    """What a Pipeline or calibrator around the trees does; (None, None) without."""
    if LAYERS not in manifest["files"]:
        return None, None
    require_trust(trust_pickle, LAYERS)
    from pine_boost.parsers import unpickled

    found = unpickled(read_named(place, LAYERS, manifest), place / LAYERS, trust_pickle)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise MalformedModelError(f"{place / LAYERS} does not hold the steps around a model. {REMEDY}.")
    return found


def require_trust(trust_pickle: bool, name: str) -> None:
    """Raise unless pickles are trusted."""
    if not trust_pickle:
        raise InvalidInputError(
            f"{name} is a pickle, and loading it would run code from the file. Pass trust_pickle=True if you "
            "made the folder.",
            option="trust_pickle",
        )


def _build(manifest: Mapping[str, Any], arrays: dict[str, dict[str, Any]], prepare: Any, finish: Any) -> ScorerParts:
    schema = manifest["schema"]
    flat = FlatForest(**manifest["forest"], **arrays["forest"])
    f.require(schema.n_features == flat.n_features, "two numbers of features")
    cuts = arrays["native"]["cuts"]
    expected = len(cuts) + 1 if len(cuts) else (flat.n_outputs if flat.n_outputs > 1 else 0)
    f.require(len(manifest["classes"]) == expected, f"{len(manifest['classes'])} classes, expected {expected}")
    return ScorerParts(
        flat=flat,
        native=NativeSum(**arrays["native"], **manifest["native"]),
        plan=ExitPlan(**arrays["exits"]),
        schema=schema,
        classes=tuple(manifest["classes"]),
        probability=manifest["probability"],
        prepare=prepare,
        finish=finish,
    )


def _load_arrays(contents: bytes) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {prefix: {} for prefix in _ARRAYS_OF}
    with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
        for name in archive.files:
            prefix, _, field = name.partition(".")
            f.require(prefix in found, f"an unknown array {name[:60]!r}")
            found[prefix][field] = archive[name]
    return found


def read_named(folder: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
    """A file of the folder, which must be the one that the manifest names."""
    path = folder / name
    if Path(name).name != name:
        raise CertificateMismatch(f"{MANIFEST} names {name!r}, which is not a file of the folder. {REMEDY}.")
    if name not in manifest["files"] or not path.is_file():
        raise CertificateMismatch(f"{folder} lacks {name}. {REMEDY}.")
    contents = read_limited(path, MODEL_LIMIT, "scorer")
    if _sha256(contents) != manifest["files"][name]:
        raise CertificateMismatch(f"{path} is not the file that {MANIFEST} names: their digests differ. {REMEDY}.")
    return contents


def _sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _plain(label: Any) -> Any:
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, (str, int, float, bool)):
        raise InvalidInputError(f"The label {value!r} cannot be written to a manifest.")
    return value
