"""compression.json: what was compared on how many rows, and what came out; read as untrusted input."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.budget import StopReason
from pine_boost.certificate.claims import MEASURED, NON_INFERIOR, NOT_VALIDATED, VALIDATED, Statement, distance_claim
from pine_boost.compression.fixed_sequence import Target
from pine_boost.compression.goal import COSTS, ERROR, LOSSES, SQUARED
from pine_boost.errors import CertificateMismatch
from pine_boost.files import CERTIFICATE_LIMIT, path_of, read_limited
from pine_boost.model.exact import LINK_ERROR, SAME_BOUND, SAME_E_VALUE
from pine_boost.model.forest import Forest
from pine_boost.tables.rows import Rows, open_rows
from pine_boost.tables.schema import schema_of

RECORD = "compression.json"
FORMAT = "pine_boost compression"
WORK, LEAVES, TREES = MINIMIZE = ("work", "leaves", "trees")
ORIGINS = ("path", "slice")


def headline(status: str, minimize: str, sizes: Mapping[str, Any]) -> str:
    """The status and what is gone; ``sizes`` has trees, leaves and what was to be made small, before and after."""
    saved = 1 - sizes[f"{minimize}_after"] / sizes[f"{minimize}_before"]
    gone = f"{saved:.0%} of the {minimize} removed"
    if minimize == WORK:
        gone = f"{abs(saved):.0%} {'less' if saved >= 0 else 'more'} work"
    trees, leaves = (f"{sizes[f'{unit}_before']} -> {sizes[f'{unit}_after']} {unit}" for unit in (TREES, LEAVES))
    return f"{status}: {trees}, {leaves} ({gone})"


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

    trees: f.Count
    leaves: f.Count
    cost: f.Size
    origin: Annotated[str, f.text(ORIGINS)]
    estimate: float
    n_changed: f.Count
    bound: f.Part
    n_lost: f.Count | None
    n_gained: f.Count | None
    e_value: f.Size | None
    accepted: bool


@dataclass(frozen=True)
class Segment:
    """Changed rows of one segment of X_val, with a bound of its own."""

    name: str
    n_rows: f.Positive
    n_changed: f.Count
    bound: f.Part


def _probability_shift(value: Any, where: str) -> dict[str, float]:
    return f.read(value, {}, where, optional=dict.fromkeys(("mean", "maximum"), f.number(0, 1)))


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
        The farthest from the decision boundary at which it found a changed class; None: it found none.
    attack_row : tuple
        That input, categories as codes, None for missing; empty without one.
    proved_distance : float or None
        Farther from the original's decision boundary no input changes its class; None: nothing is proved.
    proved_largest : float or None
        Farther from its decision boundary the original is nowhere.
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

    status: Annotated[str, f.text((VALIDATED, NON_INFERIOR, MEASURED, NOT_VALIDATED))]
    claim: str
    original_digest: f.Digest
    compressed_digest: f.Digest
    validation_digest: f.Digest
    fidelity: f.Share | None
    confidence: f.Share
    tolerance: f.Size | None
    max_loss: f.Share | None
    loss: Annotated[str, f.text(LOSSES)]
    loss_range: Annotated[float | None, f.optional(f.number(0, exclude=(0,)))]
    loss_costs: tuple[tuple[f.Part, ...], ...]
    labels_digest: f.Digest | None
    loss_before: f.Part | None
    loss_after: f.Part | None
    keeps_class: bool
    thresholds: tuple[float, ...]
    minimize: Annotated[str, f.text(MINIMIZE)]
    work_before: f.Size
    work_after: f.Size
    n_fit: f.Count
    n_val: f.Positive
    n_changed: f.Count
    bound: f.Part
    overlap: f.Part
    trees_before: f.Positive
    trees_after: f.Count
    leaves_before: f.Positive
    leaves_after: f.Count
    leaves_lossless: f.Count
    path: tuple[TestedSize, ...]
    segments: tuple[Segment, ...]
    probability_shift: Annotated[Mapping[str, float], _probability_shift]
    attack_starts: f.Count
    attack_distance: f.Size | None
    attack_row: tuple[float | None, ...]
    proved_distance: f.Size | None
    proved_largest: f.Size | None
    proved_rows: f.Count
    proved_trees: tuple[f.Index, ...]
    seed: f.Seed
    seconds: f.Size
    stopped: Annotated[str, f.text([reason.value for reason in StopReason])]
    versions: Mapping[str, str]
    date: str
    files: Mapping[str, f.Digest] = field(default_factory=dict)

    def to_json(self) -> str:
        """JSON with a digest of everything but date and seconds."""
        return json.dumps(f.write_document(asdict(self), FORMAT, sealed=True), indent=1, allow_nan=False)

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

    @property
    def statement(self) -> Statement:
        """The numbers of the test."""
        return Statement(**{entry.name: getattr(self, entry.name) for entry in fields(Statement)})

    def promise(self) -> str:
        """The claim in short sentences with one number each."""
        return self.statement.promise(self.claim)

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
        fields = f.read_sealed(bytes(source), FORMAT, f.table_of(CompressionRecord))
        found = CompressionRecord(**fields)
        known = found.keeps_class or found.tolerance is not None
        f.require(known, "'keeps_class' is false and there is no 'tolerance'")
        f.require(found.n_changed <= found.n_val, "'n_changed' is larger than 'n_val'")
        is_asked = found.fidelity is not None or found.max_loss is not None
        f.require(is_asked, "there is neither 'fidelity' nor 'max_loss'")
        has_labels = [value is not None for value in (found.labels_digest, found.loss_before, found.loss_after)]
        f.require(len(set(has_labels)) == 1, "some of 'labels_digest', 'loss_before' and 'loss_after' are missing")
        is_counted = has_labels[0] or found.max_loss is None or found.status == NOT_VALIDATED  # there was no time
        f.require(is_counted, "'max_loss' stands without 'labels_digest'")
        f.require((found.loss == SQUARED) == (found.loss_range is not None), "'loss_range' does not fit 'loss'")
        f.require((found.loss == COSTS) == bool(found.loss_costs), "'loss_costs' does not fit 'loss'")
        is_stated = found.status == NON_INFERIOR
        f.require(not is_stated or found.max_loss is not None, "'status' is NON_INFERIOR without 'max_loss'")
        f.require(found.status != VALIDATED or found.max_loss is None, "'status' is VALIDATED with 'max_loss'")
        return found


def rows_digest(rows: Rows, n_features: int) -> str:
    """SHA-256 of rows as the trees see them, in their order; all gaps are one."""
    digest = hashlib.sha256(f"{(rows.n_rows, n_features)}".encode())
    for matrix in rows.chunks():
        matrix = np.ascontiguousarray(matrix, dtype=np.float64) + 0.0
        matrix[np.isnan(matrix)] = np.nan
        digest.update(matrix.tobytes())
    return digest.hexdigest()


def open_tested_rows(X: Any, forest: Forest, digest: str, n_rows: int, call: str, name: str = "X_val") -> Rows:
    """Open X_val or X_fit; raise CertificateMismatch unless it is the table that a record was made with."""
    rows = open_rows(X, schema_of(forest), name)
    if rows_digest(rows, forest.n_features) != digest:
        raise CertificateMismatch(
            f"{name} ({rows.n_rows} rows) is not the table of the record ({n_rows} rows), or its rows are in another "
            f"order. Pass the rows that {call} was given.",
            option=name,
        )
    return rows


def labels_digest(labels: npt.NDArray[Any]) -> str:
    """SHA-256 of labels in their order."""
    digest = hashlib.sha256(f"{(labels.dtype.kind, len(labels))}".encode())
    digest.update(np.ascontiguousarray(labels).tobytes())
    return digest.hexdigest()


# How far a number that was found again may be from the stated one, relative to it above 1; all others are the same.
_ERRORS = {
    "bound": SAME_BOUND,
    **dict.fromkeys(("loss_before", "loss_after", "probability_shift"), LINK_ERROR),
    "e_value": SAME_E_VALUE,
}


def differences(name: str, stated: Any, expected: Mapping[str, Any]) -> Iterator[str]:
    """Objections to fields of a record that were found again; ``name`` is the subject of the sentence."""
    for key, value in expected.items():
        own = getattr(stated, key)
        if not _agrees(own, value, _ERRORS.get(key, 0.0)):
            yield f"{name} states {key}={own}, found was {value}"


def _agrees(stated: Any, found: Any, error: float) -> bool:
    if isinstance(found, dict):
        return set(stated) == set(found) and all(_agrees(stated[key], found[key], error) for key in found)
    if isinstance(found, float) and stated is not None:
        return bool(abs(stated - found) <= error * max(1.0, found))
    return bool(stated == found)
