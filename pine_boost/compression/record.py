"""compression.json: what was compared on how many rows, and what came out; read as untrusted input."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.budget import StopReason
from pine_boost.certificate.claims import (
    MEASURED,
    NON_INFERIOR,
    NOT_VALIDATED,
    VALIDATED,
    compression_claim,
    distance_claim,
    kept_answer,
    loss_claim,
    statistic_in_short,
)
from pine_boost.compression.loss import COSTS, ERROR, LOSSES, SQUARED, Target
from pine_boost.errors import CertificateMismatch
from pine_boost.files import CERTIFICATE_LIMIT, path_of, read_limited
from pine_boost.tables.rows import Rows

RECORD = "compression.json"
FORMAT = "pine_boost compression"
WORK, LEAVES, TREES = MINIMIZE = ("work", "leaves", "trees")
ORIGINS = ("path", "slice")
UNDIGESTED = ("date", "seconds")


@dataclass(frozen=True)
class TestedSize:
    """One candidate of the path that was put to the test.

    Attributes
    ----------
    trees, leaves : int
        What is left.
    cost : float
        What was to be made small: work, leaves or trees.
    origin : str
        ``"path"``, or ``"slice"`` for the first rounds of the original.
    estimate : float
        Share of rows expected to change, from X_fit and synthetic rows only.
    n_changed : int
        Validation rows that changed natively.
    bound : float
        Exact lower bound on the share that is kept, for this candidate alone.
    n_lost, n_gained : int or None
        Validation rows that only the original, or only this candidate, has right; None if this
        was not asked.
    e_value : float or None
        Against a loss of ``max_loss`` or more, where the loss is not the share of wrong classes.
    accepted : bool
    """

    trees: int
    leaves: int
    cost: float
    origin: str
    estimate: float
    n_changed: int
    bound: float
    n_lost: int | None
    n_gained: int | None
    e_value: float | None
    accepted: bool


@dataclass(frozen=True)
class Segment:
    """Changed rows of one segment of X_val, with a bound of its own."""

    name: str
    n_rows: int
    n_changed: int
    bound: float


@dataclass(frozen=True)
class CompressionRecord:
    """What an auditor reads; numbers of the test are computed again by `verify_compression`.

    Attributes
    ----------
    status, claim : str
    original_digest, compressed_digest : str
        `forest_digest` of both models.
    validation_digest : str
        Of the validation rows as the trees see them.
    fidelity : float or None
        None where only ``max_loss`` was asked for.
    confidence : float
    tolerance : float or None
    max_loss : float or None
    loss : str
        ``"error"``, ``"brier"``, ``"squared"`` or ``"costs"``.
    loss_range : float or None
        The error that counts as 1, for ``"squared"``.
    loss_costs : tuple of tuple of float
        By label and predicted class, for ``"costs"``.
    labels_digest : str or None
        Of the labels of the validation rows as class indices or numbers; None without labels.
    loss_before, loss_after : float or None
        Mean loss of both models on X_val; None without labels.
    keeps_class : bool
    thresholds : tuple of float
    minimize : str
        ``"work"``, ``"leaves"`` or ``"trees"``.
    work_before, work_after : float
        Sum over the trees of 2 plus the mean number of splits that a row of X_fit passes.
    n_fit, n_val, n_changed : int
    bound : float
        Exact lower bound on the share that is kept, at ``confidence``.
    overlap : float
        Share of the validation rows that X_fit holds too, beyond what is expected by chance.
    trees_before, trees_after, leaves_before, leaves_after : int
    leaves_lossless : int
        Leaves left after what no input can tell was left out; the path began there.
    path : tuple of TestedSize
    segments : tuple of Segment
    probability_shift : mapping
        Mean and largest change of a probability of the ensemble (before any calibrator around it)
        on X_val; empty for models without classes.
    attack_starts : int
        Rows of X_fit that an attack began with; 0: none was made.
    attack_distance : float or None
        The farthest from the decision at which it found a changed class; None: it found none.
    attack_row : tuple
        That input, categories as codes, None for missing; empty without one.
    proved_distance : float or None
        Farther from the original's decision no input changes its class; None: nothing is proved.
    proved_largest : float or None
        Farther from its decision the original is nowhere.
    proved_rows : int
        Validation rows whose native margin is farther than ``proved_distance``.
    proved_trees : tuple of int
        The original's tree with which each tree that splits was compared; taken for a hint only.
    seed : int
    seconds : float
    stopped : str
        Why the path ended; ``"refused"``: its library could not hold or predict a smaller size.
    versions : mapping
    date : str
    files : mapping
        SHA-256 of the files that were saved with it.
    """

    status: str
    claim: str
    original_digest: str
    compressed_digest: str
    validation_digest: str
    fidelity: float | None
    confidence: float
    tolerance: float | None
    max_loss: float | None
    loss: str
    loss_range: float | None
    loss_costs: tuple[tuple[float, ...], ...]
    labels_digest: str | None
    loss_before: float | None
    loss_after: float | None
    keeps_class: bool
    thresholds: tuple[float, ...]
    minimize: str
    work_before: float
    work_after: float
    n_fit: int
    n_val: int
    n_changed: int
    bound: float
    overlap: float
    trees_before: int
    trees_after: int
    leaves_before: int
    leaves_after: int
    leaves_lossless: int
    path: tuple[TestedSize, ...]
    segments: tuple[Segment, ...]
    probability_shift: Mapping[str, float]
    attack_starts: int
    attack_distance: float | None
    attack_row: tuple[float | None, ...]
    proved_distance: float | None
    proved_largest: float | None
    proved_rows: int
    proved_trees: tuple[int, ...]
    seed: int
    seconds: float
    stopped: str
    versions: Mapping[str, str]
    date: str
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """JSON with a digest of everything but date and seconds."""
        return json.dumps(f.write_document(asdict(self), FORMAT, UNDIGESTED), indent=1, allow_nan=False)

    @property
    def minimized(self) -> tuple[float, float]:
        """What was to be made small, before and after."""
        before, after = (getattr(self, f"{self.minimize}_{when}") for when in ("before", "after"))
        return float(before), float(after)

    def proved_claim(self) -> str:
        """The sentence of the proved distance, empty without one."""
        if self.proved_distance is None or self.proved_largest is None:
            return ""
        return distance_claim(self.proved_distance, self.proved_largest, self.proved_rows, self.n_val)

    def returned(self) -> TestedSize | None:
        """The accepted size that costs least; None if none was accepted."""
        return min((size for size in self.path if size.accepted), key=lambda size: size.cost, default=None)

    def promise(self) -> str:
        """The claim in two short sentences."""
        if self.status != VALIDATED or self.fidelity is None:
            return self.claim
        kept = kept_answer(self.keeps_class, self.tolerance, self.thresholds)
        return statistic_in_short(kept, self.fidelity, self.confidence)

    def expected_claim(self) -> str:
        """The sentence that belongs to these numbers."""
        parts = []
        if self.max_loss is not None:
            numbers = (self.n_val, self.max_loss, self.confidence)
            parts.append(
                loss_claim(
                    self.status, self.loss, *numbers, self.loss_before, self.loss_after, self.loss_range, self.overlap
                )
            )
        if self.fidelity is not None and not (parts and self.status == NOT_VALIDATED):
            kept = kept_answer(self.keeps_class, self.tolerance, self.thresholds)
            status = VALIDATED if self.status == NON_INFERIOR else self.status
            counts = (self.n_val, self.n_changed)
            parts.append(compression_claim(status, kept, *counts, self.fidelity, self.confidence, self.overlap))
        return " ".join(parts)

    def target(self) -> Target:
        """What every tested size had to reach."""
        return Target(self.n_val, self.confidence, self.fidelity, self.max_loss, self.loss == ERROR)


def read_record(source: str | os.PathLike[str] | bytes) -> CompressionRecord:
    """Read a record from a file, a folder that holds one, or its bytes.

    Raises
    ------
    CertificateMismatch
        The file is no record, or it was changed after it was written.
    """
    if not isinstance(source, (bytes, bytearray)):
        path = path_of(source)
        path = path / RECORD if path.is_dir() else path
        source = read_limited(path, CERTIFICATE_LIMIT, "compression record", CertificateMismatch)
    with f.reading("compression record", "Use the file that compress_booster wrote", CertificateMismatch):
        fields = f.read_sealed(bytes(source), FORMAT, _FIELDS, UNDIGESTED)
        known = fields["keeps_class"] or fields["tolerance"] is not None
        f.require(known, "'keeps_class' is false and there is no 'tolerance'")
        f.require(fields["n_changed"] <= fields["n_val"], "'n_changed' is larger than 'n_val'")
        is_asked = fields["fidelity"] is not None or fields["max_loss"] is not None
        f.require(is_asked, "there is neither 'fidelity' nor 'max_loss'")
        has_labels = [fields[name] is not None for name in ("labels_digest", "loss_before", "loss_after")]
        f.require(len(set(has_labels)) == 1, "some of 'labels_digest', 'loss_before' and 'loss_after' are missing")
        f.require(has_labels[0] or fields["max_loss"] is None, "'max_loss' stands without 'labels_digest'")
        f.require((fields["loss"] == SQUARED) == (fields["loss_range"] is not None), "'loss_range' does not fit 'loss'")
        f.require((fields["loss"] == COSTS) == bool(fields["loss_costs"]), "'loss_costs' does not fit 'loss'")
        is_stated = fields["status"] == NON_INFERIOR
        f.require(not is_stated or fields["max_loss"] is not None, "'status' is NON_INFERIOR without 'max_loss'")
        f.require(fields["status"] != VALIDATED or fields["max_loss"] is None, "'status' is VALIDATED with 'max_loss'")
        return CompressionRecord(**fields)


_COUNT = f.integer(0, 2**53)
_BOUND = f.number(0, 1)
_FIELDS: dict[str, f.Reader] = {
    "status": f.text((VALIDATED, NON_INFERIOR, MEASURED, NOT_VALIDATED)),
    **dict.fromkeys(("claim", "date"), f.text()),
    "minimize": f.text(MINIMIZE),
    **dict.fromkeys(("work_before", "work_after"), f.number(0)),
    "stopped": f.text([reason.value for reason in StopReason]),
    **dict.fromkeys(("original_digest", "compressed_digest", "validation_digest"), f.digest),
    "confidence": f.SHARE,
    **dict.fromkeys(("fidelity", "max_loss"), f.optional(f.SHARE)),
    "tolerance": f.optional(f.number(0)),
    "loss": f.text(LOSSES),
    "loss_range": f.optional(f.number(0, exclude=(0,))),
    "loss_costs": f.sequence(f.sequence(_BOUND)),
    "labels_digest": f.optional(f.digest),
    **dict.fromkeys(("loss_before", "loss_after"), f.optional(_BOUND)),
    "keeps_class": f.flag,
    "thresholds": f.sequence(f.number()),
    "n_val": f.integer(1, 2**53),
    **dict.fromkeys(("n_fit", "n_changed", "attack_starts", "proved_rows", "trees_after"), _COUNT),
    **dict.fromkeys(("trees_before", "leaves_before"), f.integer(1, 2**53)),
    **dict.fromkeys(("leaves_after", "leaves_lossless"), _COUNT),
    **dict.fromkeys(("bound", "overlap"), _BOUND),
    "path": f.sequence(
        f.record(
            {
                "trees": _COUNT,
                "leaves": _COUNT,
                "cost": f.number(0),
                "origin": f.text(ORIGINS),
                "estimate": f.number(),
                "n_changed": _COUNT,
                "bound": _BOUND,
                **dict.fromkeys(("n_lost", "n_gained"), f.optional(_COUNT)),
                "e_value": f.optional(f.number(0)),
                "accepted": f.flag,
            },
            TestedSize,
        )
    ),
    "segments": f.sequence(
        f.record({"name": f.text(), "n_rows": f.integer(1, 2**53), "n_changed": _COUNT, "bound": _BOUND}, Segment)
    ),
    "probability_shift": lambda value, where: f.read(
        value, {}, where, optional=dict.fromkeys(("mean", "maximum"), _BOUND)
    ),
    **dict.fromkeys(("attack_distance", "proved_distance", "proved_largest"), f.optional(f.number(0))),
    "attack_row": f.sequence(f.optional(f.number())),
    "proved_trees": f.sequence(f.integer(0, 2**31 - 1)),
    "seed": f.integer(0, 2**32 - 1),
    "seconds": f.number(0),
    "versions": f.mapping(f.text()),
    "files": f.mapping(f.digest),
}


def rows_digest(rows: Rows, n_features: int) -> str:
    """SHA-256 of rows as the trees see them, in their order; all gaps are one."""
    digest = hashlib.sha256(f"{(rows.n_rows, n_features)}".encode())
    for matrix in rows.chunks():
        matrix = np.ascontiguousarray(matrix, dtype=np.float64) + 0.0
        matrix[np.isnan(matrix)] = np.nan
        digest.update(matrix.tobytes())
    return digest.hexdigest()


def labels_digest(labels: npt.NDArray[Any]) -> str:
    """SHA-256 of labels in their order."""
    digest = hashlib.sha256(f"{(labels.dtype.kind, len(labels))}".encode())
    digest.update(np.ascontiguousarray(labels).tobytes())
    return digest.hexdigest()
