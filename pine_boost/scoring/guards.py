"""Build the parts of a guarded model from a result, with the region or the margin as its guard; write and read them.

Results without a guarantee raise, and so do regions whose membership test needs the original.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost import kernels
from pine_boost.certificate import saved
from pine_boost.certificate.certificate import Certificate, Status, require
from pine_boost.certificate.claims import (
    VALIDATED,
    kept_answer,
    margin_guard_claim,
    region_guard_claim,
    serving_guard_claim,
    share_promise,
    short_statistic,
)
from pine_boost.errors import CertificateMismatch, InvalidInputError, PineBoostError, class_with_article
from pine_boost.files import path_of
from pine_boost.folders import write_folder
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import largest_leaf
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.native.predict import model_file, original_bytes, predict_classes
from pine_boost.options import require_share
from pine_boost.parsers import pickled, read_model
from pine_boost.region.region import Region
from pine_boost.scoring.native_sum import plain_sum
from pine_boost.scoring.scorer_folder import (
    LAYERS,
    MANIFEST,
    REMEDY,
    layer_files,
    may_be_labels,
    read_layers,
    read_manifest,
    read_named,
    require_trust,
    with_manifest,
)
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import InputSchema, schema_of

_STEPS_PER_OCTAVE = 16
_OCTAVES = 24


@dataclass(frozen=True)
class MarginGuard:
    """Inputs closer than ``distance`` to the pruned model's own decision boundary go to the original.

    Attributes
    ----------
    distance : float
        In units of the margin; for several classes, the gap between the two largest margins.
    fidelity, confidence : float
        The targets.
    n_val : int
    n_differ : int
        Rows of X_val that the pruned model answers with a different class.
    share_guarded : float
        Share of X_val that the pruned model answers.
    """

    distance: f.Size
    fidelity: f.Share
    confidence: f.Share
    n_val: f.Positive
    n_differ: f.Count
    share_guarded: f.Part


@dataclass(frozen=True, eq=False)
class GuardedParts:
    """The parts of a guarded model; exactly one of ``region`` and ``margin`` is the guard.

    Attributes
    ----------
    original, pruned : Model
    classes : tuple
        Labels that ``predict`` returns.
    region : Region or None
    margin : MarginGuard or None
    certificate : Certificate or None
    prepare : callable or None
        Maps the user's rows to the model's columns (the first steps of a Pipeline).
    finish : callable or None
        Maps the model's probabilities to the user's (a calibrator).
    """

    original: Model
    pruned: Model
    classes: tuple[Any, ...]
    region: Region | None = None
    margin: MarginGuard | None = None
    certificate: Certificate | None = None
    prepare: Callable[[Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None

    @property
    def schema(self) -> InputSchema:
        """What a table of inputs looks like."""
        return schema_of(self.original.forest)

    @property
    def own_distance(self) -> float | None:
        """Least distance of the pruned model from its own decision boundary; None if the region is enough."""
        if self.margin is not None:
            return self.margin.distance
        if self.certificate is None or self.certificate.serving is None:
            return None
        return self.certificate.serving.distance

    @property
    def status(self) -> str:
        """CERTIFIED if the region is the guard, VALIDATED if the margin is."""
        return "CERTIFIED" if self.margin is None else VALIDATED

    @property
    def claim(self) -> str:
        """The exact guarantee, as one sentence."""
        if (guard := self.margin) is not None:
            thresholds = self.original.forest.decision.thresholds
            return margin_guard_claim(guard.fidelity, guard.confidence, guard.n_val, thresholds)
        assert self.certificate is not None
        return (
            region_guard_claim(self.certificate) if self.own_distance is None else serving_guard_claim(self.certificate)
        )

    def promise(self) -> str:
        """The claim in short sentences with at most one number."""
        if (guard := self.margin) is None:
            return self.claim
        kept = kept_answer(True, None, self.original.forest.decision.thresholds, exact=False)
        return short_statistic(share_promise(kept, guard.fidelity))


def parts_of(result: Any, X_val: Any, fidelity: float, confidence: float) -> GuardedParts:
    """Return the parts of a guarded model: with X_val the margin is the guard, otherwise the region."""
    prepare = finish = None
    if hasattr(result, "wrapper"):
        prepare, finish = result.wrapper.prepare, result.wrapper.finish
        result = result.inner
    original = getattr(result, "original", None)
    pruned = getattr(result, "pruned", None) or getattr(result, "compressed", None)
    if not isinstance(original, Model) or not isinstance(pruned, Model):
        raise InvalidInputError(
            f"GuardedModel takes what prune_booster or compress_booster returned, with both "
            f"models in it, not {class_with_article(result)} without them."
        )
    if not original.forest.decision.cuts and original.forest.n_outputs == 1:
        raise InvalidInputError(
            f"A guard needs a decision, and {original.kind} predicts a value; make the result with threshold=.",
            option="threshold",
        )
    parts = GuardedParts(original, pruned, original.forest.classes, prepare=prepare, finish=finish)
    if X_val is not None:
        rows = X_val if prepare is None else prepare(X_val)
        _require_fresh(result, rows)
        return replace(parts, margin=measure_margin(original, pruned, rows, fidelity, confidence))
    certificate, region = getattr(result, "certificate", None), getattr(result, "region", None)
    if certificate is None or region is None:
        raise InvalidInputError(
            "This result has no certified region; pass X_val, rows that nothing else has seen, so "
            "that the pruned model's own margin can be the guard.",
            option="X_val",
        )
    if result.status != "CERTIFIED":
        raise InvalidInputError(
            f"This result is {result.status}: {certificate.reason} There is nothing to guard; "
            "serve the original, or prune with a larger time_limit.",
            option="time_limit",
        )
    if region.delta is not None and certificate.serving is None:
        raise InvalidInputError(
            f"The region leaves out inputs on which the original is undecided (indifference="
            f"{region.indifference:g}), no margin of the pruned model was proved that tells which "
            "these are, and only the original can: a guard would evaluate it for every row and "
            "save nothing. Prune with more time or with indifference=0, or pass X_val to guard by "
            "the pruned model's own margin.",
            option=("indifference", "X_val"),
        )
    if certificate.serving is not None:
        certificate.serving.require_region(region.tables_digest, region.tau)
    return replace(parts, region=region, certificate=certificate)


def _require_fresh(result: Any, rows: Any) -> None:
    """Raise on rows that chose the size of a compressed model: they cannot choose its guard as well."""
    from pine_boost.compression.record import rows_digest

    record = getattr(result, "record", None)
    if record is None:
        return
    forest = result.original.forest
    seen = open_rows(rows, schema_of(forest), "X_val")
    if rows_digest(seen, forest.n_features) == record.validation_digest:
        raise InvalidInputError(
            "These are the rows of X_val on which compress_booster chose the size: the model was "
            "made to do well on them. Pass other rows that nothing else has seen.",
            option="X_val",
        )


def own_margins(pruned: Model) -> kernels.Trees:
    """The kernel for the margins of a pruned model that its guard compares with a distance."""
    return kernels.bind(flatten(pruned.forest), plain_sum(pruned.forest))


def measure_margin(original: Model, pruned: Model, X_val: Any, fidelity: float, confidence: float) -> MarginGuard:
    """Choose the margin guard of two models on rows that were used for nothing else."""
    from pine_boost.native.child_process import try_in_child

    try_in_child(original)
    matrix = to_matrix(X_val, schema_of(original.forest), "X_val")
    if len(matrix) == 0:
        raise InvalidInputError("X_val has no rows.", option="X_val")
    margins = own_margins(pruned).margins(matrix)[0]
    decision = pruned.forest.decision
    differs = decision.classes(margins) != predict_classes(original, X_val)
    return choose_margin(
        decision.distance(margins), differs, margin_levels(pruned.forest), fidelity=fidelity, confidence=confidence
    )


def choose_margin(
    distance: FloatArray, differs: npt.NDArray[np.bool_], levels: FloatArray, *, fidelity: float, confidence: float
) -> MarginGuard:
    """Test descending distances, each at the full level, and take the last one that passes.

    Fixed-sequence testing: the order is fixed before X_val is seen (``levels`` come from the model
    alone), so no correction is needed. The test is the exact binomial test on the rows that
    the pruned model answers with a different class.

    Raises
    ------
    InvalidInputError
        With so few rows, not even a model without any difference could pass.
    """
    from pine_boost.compression.fixed_sequence import Target, allowed

    require_share(fidelity, "fidelity")
    require_share(confidence, "confidence")
    fidelity, confidence = float(fidelity), float(confidence)
    n_val = len(distance)
    Target(n_val, confidence, fidelity).require_rows()
    # ascending, so the rows at or beyond a level are a suffix
    wrong = np.sort(distance[differs])
    n_wrong = len(wrong) - np.searchsorted(wrong, levels, side="left")
    passed = n_wrong <= allowed(n_val, fidelity, confidence)
    # no input reaches the first level, so the first test passes
    last = len(levels) - 1 if passed.all() else int(np.argmin(passed)) - 1
    chosen = float(levels[last])
    return MarginGuard(chosen, fidelity, confidence, n_val, int(n_wrong[last]), float(np.mean(distance >= chosen)))


def margin_levels(forest: Forest) -> FloatArray:
    """Return descending distances from one that no input reaches down to 0, computed from the leaves alone."""
    reach = np.abs(forest.intercept) + largest_leaf(forest).sum(axis=0)
    cuts = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    top = 4 * (float(reach.max()) + cuts) + 1
    steps = np.arange(_STEPS_PER_OCTAVE * _OCTAVES)
    return np.concatenate([top * 2.0 ** (-steps / _STEPS_PER_OCTAVE), [0.0]])


def save_guarded(parts: GuardedParts, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a folder that `load_scorer` reads; it appears complete or not at all."""
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
    return write_folder(folder, with_manifest(files, fields, facts, parts.classes), overwrite=overwrite)


def read_guarded(
    folder: str | os.PathLike[str], *, trust_pickle: bool = False, asks_library: bool = True
) -> GuardedParts:
    """The parts of a guarded model in a folder, each checked against the manifest and the certificate.

    ``trust_pickle`` and ``asks_library`` are those of `read_model`.
    """
    folder = path_of(folder)
    manifest = read_manifest(folder)
    files = {name: read_named(folder, name, manifest) for name in manifest["files"] if name != LAYERS}
    certificate = region = None
    if "certificate.json" in files:
        certificate = Certificate.from_json(files["certificate.json"])
    if "region.json" in files:
        region = Region.from_json(files["region.json"])
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        margin = f.optional(f.record_of(MarginGuard))(manifest["guard"], "guard")
    stated = SimpleNamespace(
        original_digest=manifest["model_digest"],
        pruned_digest=manifest["pruned_digest"],
        thresholds=manifest["thresholds"],
        versions={} if certificate is None else certificate.versions,
    )
    how: dict[str, Any] = {"trust_pickle": trust_pickle, "asks_library": asks_library}
    original, pruned = (_model_of(files, role, stated, **how) for role in ("original", "pruned"))
    _check_guard(manifest, certificate, region, margin)
    known = may_be_labels(manifest["classes"], original)
    require(known, f"The classes of {MANIFEST} are not those of the original model.")
    prepare, finish = read_layers(folder, manifest, trust_pickle)
    parts = GuardedParts(original, pruned, tuple(manifest["classes"]), region, margin, certificate, prepare, finish)
    same = (parts.status, parts.claim) == (manifest["status"], manifest["claim"])
    require(same, f"The promise in {MANIFEST} is not that of the guard.")
    return parts


def _model_contents(model: Model) -> tuple[str, bytes]:
    """Return the native file if it holds the whole model, else a pickle of the live object."""
    native, thresholds = model.native, model.forest.decision.thresholds or None
    name, contents = model_file(original_bytes(model) if native is None else native, model.forest.library)
    try:
        is_whole = native is None or name.endswith(".pkl")
        is_whole = is_whole or _identity(read_model(contents, threshold=thresholds)) == _identity(model)
    except PineBoostError:  # a file of this library cannot hold everything the object contains
        is_whole = False
    return (name.rpartition(".")[2], contents) if is_whole else ("pkl", pickled(native))


def _identity(model: Model) -> tuple[Any, ...]:
    forest = model.forest
    return (forest_digest(forest), forest.decision, repr(forest.missing_value), forest.feature_names)


def _model_of(files: Mapping[str, bytes], role: str, stated: Any, *, trust_pickle: bool, **how: Any) -> Model:
    names = [name for name in files if name.partition(".")[0] == role]
    require(len(names) == 1, f"The folder has {len(names)} files of the {role} model, not 1.")
    if names[0].endswith(".pkl"):
        require_trust(trust_pickle, names[0])
    return saved.read_named(files[names[0]], stated, role, "manifest", trust_pickle=trust_pickle, **how)


def _check_guard(
    manifest: Mapping[str, Any], certificate: Certificate | None, region: Region | None, margin: MarginGuard | None
) -> None:
    """Raise unless every part is the one that the certificate was issued for."""
    if margin is not None:
        require(margin.n_differ <= margin.n_val, f"'n_differ' of {MANIFEST} is larger than 'n_val'.")
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
        require(found == expected, f"The {what} is not the one that the certificate speaks of.")
