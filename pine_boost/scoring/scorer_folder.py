"""A scorer as a folder: its files and a manifest with their digests; numpy alone is enough to load it.

A file that was replaced or damaged raises, and so do arrays that are not trees with exits. Pickles are loaded only if
they are trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost._version import __version__
from pine_boost.errors import CertificateMismatch, InvalidInputError, MalformedModelError, PineBoostError
from pine_boost.files import CERTIFICATE_LIMIT, MODEL_LIMIT, path_of, read_limited, refuse_average
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum, TableSums, arrays_of
from pine_boost.kernels.wellformed_arrays import require_wellformed
from pine_boost.scoring.fast_scorer import FastScorer, ProbabilityRule, ScorerParts
from pine_boost.tables.schema import schema_from_json, schema_to_json

if TYPE_CHECKING:
    from pine_boost.model.forest import Model
    from pine_boost.scoring.guarded import GuardedModel, GuardedParts, MarginGuard

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
_FOREST: dict[str, f.Reader] = {**f.table_of(FlatForest), "missing_value": f.nan_as_null}
_SCORER: dict[str, f.Reader] = {
    "forest": f.record(_FOREST),
    "native": f.record(f.table_of(NativeSum)),
    "schema": schema_from_json,
    "probability": f.record_of(ProbabilityRule),
}
_FIELDS: dict[str, f.Reader] = {**_SHARED, **_SCORER, "facts": f.mapping(f.anything)}


def _margin_guard(value: Any, where: str) -> MarginGuard | None:
    from pine_boost.scoring.guarded import MarginGuard

    found: MarginGuard | None = f.optional(f.record_of(MarginGuard))(value, where)
    return found


# "guard" is None if a region is the guard, "arrays" if the kernel cannot take both models and the guard
_GUARDED: dict[str, f.Reader] = {
    **_SHARED,
    "pruned_digest": f.digest,
    "guard": _margin_guard,
    "arrays": f.optional(
        f.record(
            {
                **dict.fromkeys(("original", "pruned"), f.record(_SCORER)),
                "region": f.optional(f.record(_FOREST)),
                "own": f.optional(f.record({"native": f.record(f.table_of(NativeSum)), "distance": f.number(0)})),
            }
        )
    ),
}
_UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)  # what an archive may raise


def load_scorer(
    folder: str | os.PathLike[str], *, n_jobs: int = 1, backend: str = "kernel", trust_pickle: bool = False
) -> FastScorer | GuardedModel:
    """Read a scorer that `AccelerateResult.save` or `GuardedModel.save` wrote; its files must belong together.

    Numpy is enough, also for a guarded model, unless the library is to evaluate it.

    Parameters
    ----------
    folder : path
    n_jobs : int
        Threads for batches of several thousand rows; -1 for all cores.
    backend : {"kernel", "native"}
        What evaluates both models of a guarded model (see `GuardedModel`); an accelerated scorer is the kernel.
    trust_pickle : bool
        Load pickles (the steps of a Pipeline; for ``backend="native"`` also scikit-learn models). Unpickling runs
        code from the file: only for folders you made.

    Returns
    -------
    FastScorer or GuardedModel

    Raises
    ------
    CertificateMismatch
        A file is not the one that the manifest names; with models read, or the certificate.
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
    from pine_boost.scoring.guarded import GuardedModel, require_backend

    require_backend(backend, n_jobs)
    parts = read_guarded(folder, backend, trust_pickle)
    if backend == "native":
        from pine_boost.native.child_process import try_in_child

        assert parts.evidence is not None
        try_in_child(parts.evidence.original, parts.evidence.pruned)
    return GuardedModel(parts, backend=backend, n_jobs=n_jobs)


def scorer_files(parts: ScorerParts, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a scorer by name; ``facts`` are model_digest, status, claim, thresholds and more."""
    record, arrays = _written(parts)
    facts_of_its_own = {key: value for key, value in facts.items() if key not in _FIELDS}
    files = {ARRAYS: _archive(arrays), **_layer_files(parts)}
    return _with_manifest(files, {**record, "facts": facts_of_its_own}, facts, parts.classes)


def guarded_folder(parts: GuardedParts, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a guarded model by name: those of its models, and arrays that load without them."""
    from pine_boost.scoring.guarded import RegionGuard

    region, own = parts.region, parts.own
    known: dict[str, Any] | None = None
    can_be_kept = parts.original is not None and parts.pruned is not None
    if can_be_kept and (region is None or isinstance(region, RegionGuard)):
        arrays: dict[str, Any] = {}
        known = {"region": None, "own": None}
        for role in ("original", "pruned"):
            known[role], its_arrays = _written(getattr(parts, role), f"{role}.")
            arrays |= its_arrays
        if region is not None:
            known["region"] = f.write_scalars(region.flat)
            arrays |= _named("region.forest", region.flat) | _named("region.sums", region.sums)
        if own is not None:
            known["own"] = {"native": f.write_scalars(own.sum), "distance": own.distance}
            arrays |= _named("own", own.sum)
        files = {**files, ARRAYS: _archive(arrays)}
    facts = {**facts, "status": parts.status, "claim": parts.claim}
    guard = None if parts.margin is None else asdict(parts.margin)
    fields = {"pruned_digest": facts["pruned_digest"], "guard": guard, "arrays": known}
    return _with_manifest({**files, **_layer_files(parts)}, fields, facts, parts.classes)


def _written(parts: ScorerParts, prefix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """What a manifest says of a scorer, and its arrays."""
    record = {
        "forest": f.write_scalars(parts.flat),
        "native": f.write_scalars(parts.native),
        "schema": schema_to_json(parts.schema),
        "probability": f.plain(parts.probability),
    }
    forest, native = _named(f"{prefix}forest", parts.flat), _named(f"{prefix}native", parts.native)
    return record, forest | native | _named(f"{prefix}exits", parts.plan)


def _named(prefix: str, record: Any) -> dict[str, Any]:
    return {f"{prefix}.{name}": array for name, array in arrays_of(record).items()}


def _archive(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _with_manifest(
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
    prepare, finish = _read_layers(place, manifest, trust_pickle)
    contents = _read_named(place, ARRAYS, manifest)
    with _building():
        arrays = _Arrays(contents)
        parts = _scorer_of(manifest, arrays, "", manifest["classes"])
        arrays.require_read()
    return replace(parts, prepare=prepare, finish=finish), manifest


def read_guarded(folder: str | os.PathLike[str], backend: str, trust_pickle: bool) -> GuardedParts:
    """The parts of a guarded model in a folder, whose files must be those that the manifest names.

    The kernel takes arrays, which are checked as those of a scorer are, and no model is read. For the library, or where
    the kernel cannot take them, models, region and certificate are read and must belong together.
    """
    place, manifest = path_of(folder), read_manifest(folder)
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        status = "CERTIFIED" if manifest["guard"] is None else "VALIDATED"
        f.require(manifest["status"] == status, f"'status' is {manifest['status']!r}, but the guard makes it {status}")
    files = {name: _read_named(place, name, manifest) for name in manifest["files"]}
    prepare, finish = _read_layers(place, manifest, trust_pickle)
    if backend == "native" or manifest["arrays"] is None:
        from pine_boost.scoring.guards import read_evidence

        evidence = read_evidence(files, manifest, trust_pickle=trust_pickle, asks_library=backend == "native")
        parts = evidence.parts(tuple(manifest["classes"]), prepare=prepare, finish=finish)
    else:
        parts = replace(_guarded_of(manifest, files), prepare=prepare, finish=finish)
    return replace(parts, files={**files, MANIFEST: (place / MANIFEST).read_bytes()})


def _guarded_of(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> GuardedParts:
    """The parts of a guarded model, from arrays alone."""
    from pine_boost.kernels.wellformed_arrays import require_wellformed_region
    from pine_boost.scoring.guarded import GuardedParts, MarginTest, RegionGuard

    known, margin = manifest["arrays"], manifest["guard"]
    with _building():
        f.require(ARRAYS in files, f"there is no {ARRAYS}")
        arrays = _Arrays(files[ARRAYS])
        original, pruned = (
            _scorer_of(known[role], arrays, f"{role}.", manifest["classes"]) for role in ("original", "pruned")
        )
        region = own = None
        if known["region"] is not None:
            region = RegionGuard(
                FlatForest(**known["region"], **arrays["region.forest"]), TableSums(**arrays["region.sums"])
            )
            require_wellformed_region(region.flat, region.sums)
        if known["own"] is not None:
            own = MarginTest(
                pruned.flat, NativeSum(**known["own"]["native"], **arrays["own"]), known["own"]["distance"]
            )
            require_wellformed(own.flat, own.sum, pruned.plan)
        arrays.require_read()
        f.require((region is None) == (margin is not None), "either the region or a margin is the guard")
        f.require(margin is None or (own is not None and own.distance == margin.distance), "two margins")
        flats = (original.flat, pruned.flat, *(() if region is None else (region.flat,)))
        f.require(len({flat.n_features for flat in flats}) == 1, "two numbers of features")
    return GuardedParts(
        status=manifest["status"],
        claim=manifest["claim"],
        schema=original.schema,
        classes=original.classes,
        region=region,
        own=own,
        margin=margin,
        original=original,
        pruned=pruned,
    )


@contextlib.contextmanager
def _building() -> Iterator[None]:
    """Turn whatever contents of a file raise into an error that says what to do."""
    try:
        with f.reading("scorer", REMEDY):
            yield
    except PineBoostError:
        raise
    except (*_UNREADABLE, LookupError, TypeError, ValueError, AttributeError) as error:
        raise MalformedModelError(f"Invalid scorer: {type(error).__name__} {error}. {REMEDY}.") from error


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


def trusted_around_trees(manifest: Mapping[str, Any], parsed: Model) -> Iterator[str]:
    """What a folder says of the model around its trees, which the file of the model does not hold."""
    if LAYERS in manifest["files"]:
        yield f"that the steps in {LAYERS} are those of the model around its trees"
    if list(manifest["classes"]) != list(parsed.forest.classes):
        labels = ", ".join(map(repr, manifest["classes"]))[:200]
        yield f"that the labels are {labels}, which the model file does not hold"


def _layer_files(parts: Any) -> dict[str, bytes]:
    """The file of what a Pipeline or calibrator around the trees does; none without."""
    if parts.prepare is None and parts.finish is None:
        return {}
    from pine_boost.parsers import pickled

    return {LAYERS: pickled((parts.prepare, parts.finish))}


def _read_layers(place: Path, manifest: Mapping[str, Any], trust_pickle: bool) -> tuple[Any, Any]:
    """What a Pipeline or calibrator around the trees does; (None, None) without."""
    if LAYERS not in manifest["files"]:
        return None, None
    require_trust(trust_pickle, LAYERS)
    from pine_boost.parsers import unpickled

    found = unpickled(_read_named(place, LAYERS, manifest), place / LAYERS, trust_pickle)
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


class _Arrays:
    """The arrays of an archive, by the record that they belong to."""

    def __init__(self, contents: bytes) -> None:
        self._found: dict[str, dict[str, Any]] = {}
        with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
            for name in archive.files:
                prefix, _, field = name.rpartition(".")
                self._found.setdefault(prefix, {})[field] = archive[name]

    def __getitem__(self, prefix: str) -> dict[str, Any]:
        """The arrays of a record, each taken once."""
        return self._found.pop(prefix)

    def require_read(self) -> None:
        """Refuse arrays that belong to no record."""
        f.require(not self._found, f"unknown arrays {sorted(self._found)[:3]!r}")


def _scorer_of(record: Mapping[str, Any], arrays: _Arrays, prefix: str, classes: Sequence[Any]) -> ScorerParts:
    flat = FlatForest(**record["forest"], **arrays[f"{prefix}forest"])
    native = NativeSum(**record["native"], **arrays[f"{prefix}native"])
    plan, schema = ExitPlan(**arrays[f"{prefix}exits"]), record["schema"]
    f.require(schema.n_features == flat.n_features, "two numbers of features")
    expected = len(native.cuts) + 1 if len(native.cuts) else (flat.n_outputs if flat.n_outputs > 1 else 0)
    f.require(len(classes) == expected, f"{len(classes)} classes, expected {expected}")
    rule = record["probability"]
    forms = ("pair",) if flat.n_outputs == 1 else ("columns", "softmax", "catboost")
    f.require(rule.form in ("none", "votes", *forms), f"probabilities of {flat.n_outputs} outputs as {rule.form!r}")
    require_wellformed(flat, native, plan)
    return ScorerParts(flat, native, plan, schema, tuple(classes), rule)


def _read_named(folder: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
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
