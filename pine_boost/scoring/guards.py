"""What a guarded model rests on: made from a result, written to a folder, read from one and checked.

Results without a guarantee raise, and so do regions whose membership test needs the original.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
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
from pine_boost.errors import (
    CertificateMismatch,
    InvalidInputError,
    PineBoostError,
    UnsupportedModelError,
    class_with_article,
)
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import largest_leaf
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.native.predict import (
    ask_native,
    load_native,
    model_file,
    original_bytes,
    predict_classes,
    predict_margins,
    predict_probabilities,
)
from pine_boost.options import require_share
from pine_boost.parsers import pickled, read_model
from pine_boost.parsers.traits import traits_of
from pine_boost.proof.exits import faults_of
from pine_boost.region.region import Region
from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.guarded import GuardedParts, MarginGuard, MarginTest, RegionGuard
from pine_boost.scoring.native_sum import native_sum, plain_sum
from pine_boost.scoring.proved_exits import parts_of_model, proved_parts
from pine_boost.scoring.scorer_folder import (
    MANIFEST,
    guarded_folder,
    may_be_labels,
    read_guarded,
    read_manifest,
    require_trust,
)
from pine_boost.scoring.scorer_verification import differing, is_same
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import schema_of

_STEPS_PER_OCTAVE = 16
_OCTAVES = 24


class NativeScorer:
    """A model evaluated by its own library, in the threads that it is set to."""

    n_jobs = 1  # the threads of the library are set on the model

    def __init__(self, model: Model, classes: tuple[Any, ...]) -> None:
        self._model = replace(model, native=load_native(model))
        self.classes_ = np.asarray(classes)
        self.n_features_in_ = model.forest.n_features

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Label (or score band) by the native ``predict``."""
        return self.classes_[predict_classes(self._model, X)]

    def predict_proba(self, X: Any, *, exact: bool = True) -> npt.NDArray[Any]:
        """``predict_proba``, or what a booster's ``predict`` returns, one column per class; ``exact`` has no effect."""
        return predict_probabilities(self._model, X)

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Margins as the library returns them."""
        if hasattr(self._model.native, "decision_function"):
            return ask_native(lambda _, native, table: np.asarray(native.decision_function(table)), self._model, X)
        margins = predict_margins(self._model, X)[0]
        return margins[:, 0] if margins.shape[1] == 1 else margins


def exact_scorer(model: Model, native: NativeScorer) -> FastScorer | NativeScorer:
    """What gives the probabilities of a model bit for bit: its library, or the kernel for a bare booster."""
    asks_library = traits_of(model.forest.library).probabilities is not None
    if asks_library or hasattr(model.native, "predict_proba"):
        return native
    return FastScorer(replace(proved_parts(model), classes=tuple(native.classes_)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a guard rests on; ``margin``, or ``region`` and ``certificate``, are None."""

    original: Model
    pruned: Model
    region: Region | None = None
    certificate: Certificate | None = None
    margin: MarginGuard | None = None

    @property
    def own_distance(self) -> float | None:
        """Least distance of the pruned model from its own decision boundary; None if the region is enough."""
        if self.margin is not None:
            return self.margin.distance
        if self.certificate is None or self.certificate.serving is None:
            return None
        return self.certificate.serving.distance

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

    def parts(self, classes: tuple[Any, ...], **layers: Any) -> GuardedParts:
        """The parts of a guarded model, without what the kernel evaluates in place of the library."""
        region: Any = None if self.region is None else self.region.compiled
        if region is not None and region.trees is not None:
            region = RegionGuard(region.flat, region.sums)
        return GuardedParts(
            status="CERTIFIED" if self.margin is None else VALIDATED,
            claim=self.claim,
            schema=schema_of(self.original.forest),
            classes=classes,
            region=region,
            own=None if self.own_distance is None else margin_test(self.pruned, self.own_distance),
            margin=self.margin,
            evidence=self,
            **layers,
        )


def with_scorers(parts: GuardedParts) -> GuardedParts:
    """The parts with what the kernel evaluates, whose exits are proved.

    Raises
    ------
    UnsupportedModelError
        The kernel does not reproduce the decision of a model.
    """
    assert parts.evidence is not None
    original, pruned = (
        replace(proved_parts(model), classes=parts.classes)
        for model in (parts.evidence.original, parts.evidence.pruned)
    )
    return replace(parts, original=original, pruned=pruned)


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
    classes = original.forest.classes
    if X_val is not None:
        rows = X_val if prepare is None else prepare(X_val)
        _require_fresh(result, rows)
        margin = measure_margin(original, pruned, rows, fidelity, confidence)
        return Evidence(original, pruned, margin=margin).parts(classes, prepare=prepare, finish=finish)
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
    return Evidence(original, pruned, region, certificate).parts(classes, prepare=prepare, finish=finish)


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


def margin_test(pruned: Model, distance: float) -> MarginTest:
    """The test of a pruned model's own margin."""
    return MarginTest(flatten(pruned.forest), plain_sum(pruned.forest), distance)


def measure_margin(original: Model, pruned: Model, X_val: Any, fidelity: float, confidence: float) -> MarginGuard:
    """Choose the margin guard of two models on rows that were used for nothing else."""
    from pine_boost.native.child_process import try_in_child

    try_in_child(original)
    matrix = to_matrix(X_val, schema_of(original.forest), "X_val")
    if len(matrix) == 0:
        raise InvalidInputError("X_val has no rows.", option="X_val")
    margins = margin_test(pruned, 0.0).margins(matrix)
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


def guarded_files(parts: GuardedParts) -> dict[str, bytes]:
    """The files of a guarded model by name: models, region and certificate, and arrays that load without them."""
    evidence = parts.evidence
    assert evidence is not None
    files: dict[str, bytes] = {}
    for role, model in (("original", evidence.original), ("pruned", evidence.pruned)):
        suffix, contents = _model_contents(model)
        files[f"{role}.{suffix}"] = contents
    if evidence.region is not None:
        files["region.json"] = f.canonical(evidence.region.to_json()).encode()
    if evidence.certificate is not None:
        files["certificate.json"] = evidence.certificate.to_json().encode()
    with contextlib.suppress(UnsupportedModelError):
        parts = parts if parts.original is not None else with_scorers(parts)
    facts = {
        "model_digest": forest_digest(evidence.original.forest),
        "pruned_digest": forest_digest(evidence.pruned.forest),
        "thresholds": evidence.original.forest.decision.thresholds,
    }
    return guarded_folder(parts, files, facts)


def read_evidence(
    files: Mapping[str, bytes], manifest: Mapping[str, Any], *, trust_pickle: bool, asks_library: bool
) -> Evidence:
    """Models, region and certificate of a folder, each checked against the manifest and the certificate.

    ``trust_pickle`` and ``asks_library`` are those of `read_model`.
    """
    certificate = region = None
    if "certificate.json" in files:
        certificate = Certificate.from_json(files["certificate.json"])
    if "region.json" in files:
        region = Region.from_json(files["region.json"])
    stated = SimpleNamespace(
        original_digest=manifest["model_digest"],
        pruned_digest=manifest["pruned_digest"],
        thresholds=manifest["thresholds"],
        versions={} if certificate is None else certificate.versions,
    )
    how: dict[str, Any] = {"trust_pickle": trust_pickle, "asks_library": asks_library}
    original, pruned = (_model_of(files, role, stated, **how) for role in ("original", "pruned"))
    margin = manifest["guard"]
    _check_guard(manifest, certificate, region, margin)
    known = may_be_labels(manifest["classes"], original)
    require(known, f"The classes of {MANIFEST} are not those of the original model.")
    return Evidence(original, pruned, region, certificate, margin)


def verify_guarded(folder: str | os.PathLike[str], *, trust_pickle: bool = False) -> Evidence:
    """What a folder rests on; everything that it loads is derived from it again, and the exits are proved.

    The certificate is not proved here, and the margin not measured.

    Raises
    ------
    CertificateMismatch
        Something in the folder does not follow from its models, its region and its certificate.
    """
    found, manifest = read_guarded(folder, "native", trust_pickle), read_manifest(folder)
    evidence = found.evidence
    assert evidence is not None
    same = (found.status, found.claim) == (manifest["status"], manifest["claim"])
    require(same, f"The promise in {MANIFEST} is not that of the guard.")
    if manifest["arrays"] is None:
        return evidence
    stated, odd = read_guarded(folder, "kernel", trust_pickle), []
    for role in ("original", "pruned"):
        model, kept = getattr(evidence, role), getattr(stated, role)
        derived = parts_of_model(model, flatten(model.forest), native_sum(model), kept.plan)
        odd += [f"{role}: {name}" for name in differing(kept, replace(derived, classes=found.classes))]
        odd += [f"{role}: {fault}" for fault in ([] if odd else faults_of(model.forest, kept.plan))]
    odd += [name for name in ("region", "own") if not is_same(getattr(stated, name), getattr(found, name))]
    listed = ", ".join(odd[:5])
    require(not odd, f"What the folder loads does not follow from its models and its guard ({listed}).")
    return evidence


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
        require(found == expected, f"The {what} is not the one that the certificate names.")
