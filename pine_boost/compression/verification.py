"""Checking a compression anew: both native models, X_val and the record, nothing else.

In come two models, the validation rows and compression.json; out goes a verdict on every number of
the test. That the sizes were fixed before X_val was seen is the one thing taken on trust.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pine_boost.certificate.compression_claim import VALIDATED, bound_in_words
from pine_boost.certificate.same_interface import require_interchangeable
from pine_boost.compression.fixed_sequence import allowed, allowed_by_the_rest, lower_bound
from pine_boost.compression.goal import Goal, count_beyond
from pine_boost.compression.proved_distance import distance_anew
from pine_boost.compression.record import FIRST_CHAIN, SLICE_CHAIN, CompressionRecord, read_record, rows_digest
from pine_boost.errors import CertificateMismatch
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import SAME_BOUND
from pine_boost.model.forest import Model
from pine_boost.native.child_process import try_in_child
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import warn_if_untested
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import schema_of


@dataclass(frozen=True)
class CompressionVerification:
    """What came of counting again.

    Attributes
    ----------
    agrees : bool
        Every number of the record was found again.
    n_rows, n_changed : int
        Validation rows, and those on which the two native models differ.
    bound, confidence : float
    status : str
        That of the record: only VALIDATED makes a statement of the bound.
    remarks : tuple of str
        What differs, and what was taken on trust.
    seconds : float
    """

    agrees: bool
    n_rows: int
    n_changed: int
    bound: float
    confidence: float
    status: str
    remarks: tuple[str, ...]
    seconds: float

    def summary(self) -> str:
        """A few readable lines."""
        head = (
            "AGREES: every number of the record was found again" if self.agrees else ("DISAGREES: the record is wrong")
        )
        counted = bound_in_words(self.status, self.bound, self.n_changed, self.n_rows, self.confidence)
        return "\n".join([f"{head} ({self.seconds:.1f} s).", f"{counted}.", *self.remarks])

    def __str__(self) -> str:
        return self.summary()


def verify_compression(
    original: Any,
    compressed: Any,
    record: CompressionRecord | str | os.PathLike[str],
    X_val: Any,
    *,
    trust_pickle: bool = False,
) -> CompressionVerification:
    """Ask both native models about X_val again and compare with the record.

    Parameters
    ----------
    original, compressed : model, path or bytes
        What was compressed and what was written.
    record : CompressionRecord, or path of compression.json
    X_val : table
        The validation rows, in the same order.
    trust_pickle : bool
        Load pickle files. Unpickling runs code from the file: only for files you made.

    Returns
    -------
    CompressionVerification

    Raises
    ------
    CertificateMismatch
        A model or X_val is not the one that the record names, or the models call their classes
        or read their tables differently.
    """
    started = time.monotonic()
    if not isinstance(record, CompressionRecord):
        record = read_record(Path(record))
    before, after = (
        _read(model, record, digest, name, trust_pickle)
        for model, digest, name in (
            (original, record.original_digest, "original"),
            (compressed, record.compressed_digest, "compressed"),
        )
    )
    require_interchangeable(before, after)  # the digests are about trees, not labels
    rows = open_rows(X_val, schema_of(before.forest), "X_val")
    if rows_digest(rows, before.forest.n_features) != record.validation_digest:
        raise CertificateMismatch(
            f"X_val ({rows.n_rows} rows) is not the table of the record ({record.n_val} rows), or "
            "its rows are in another order. Pass the very rows that compress_booster was given.",
            option="X_val",
        )
    goal = Goal(before.forest, record.keeps_class, record.tolerance)
    changed = goal.differ(goal.native_answers(before, X_val), goal.native_answers(after, X_val))
    n_changed = int(changed.sum())
    bound = lower_bound(n_changed, rows.n_rows, record.confidence)
    found = _objections(record, before, after, n_changed, bound)
    if not _is_proved(record, before, after, X_val):
        found += ("The record is wrong: its proved distance does not follow from the models.",)
    trusted = (
        "Taken on trust: that X_val had not been seen before and shares no more rows with X_fit "
        "than "
        "it says, that the sizes and their order were "
        "fixed before it was, and that future inputs come from the same source.",
    )
    return CompressionVerification(
        agrees=not found,
        n_rows=rows.n_rows,
        n_changed=n_changed,
        bound=bound,
        confidence=record.confidence,
        status=record.status,
        remarks=(*found, *(trusted if record.status == VALIDATED else ())),
        seconds=time.monotonic() - started,
    )


def _read(model: Any, record: CompressionRecord, digest: str, name: str, trust_pickle: bool) -> Model:
    parsed: Model = model
    if not isinstance(model, Model):
        parsed = read_model(model, threshold=record.thresholds or None, decision="value", trust_pickle=trust_pickle)
        try_in_child(parsed)
    if forest_digest(parsed.forest) != digest:
        raise CertificateMismatch(f"The {name} model is not the one that the record names.")
    warn_if_untested(parsed.forest.library, record.versions)
    return parsed


def _objections(
    record: CompressionRecord, before: Model, after: Model, n_changed: int, bound: float
) -> tuple[str, ...]:
    """Every number of the record that was not found again, in words."""
    sizes = (before.forest.n_trees, after.forest.n_trees, before.forest.n_leaves, after.forest.n_leaves)
    stated = (record.trees_before, record.trees_after, record.leaves_before, record.leaves_after)
    accepted = [size for size in record.path if size.accepted]
    target = (record.n_val, record.fidelity, record.confidence)
    most = {FIRST_CHAIN: allowed(*target), SLICE_CHAIN: allowed_by_the_rest(*target)}
    chains = [[size for size in record.path if size.chain == chain] for chain in most]
    in_order = all(size.accepted for chain in chains for size in chain[:-1])
    rightly = all(size.n_changed <= most.get(size.chain, -1) for size in accepted)
    returned = min(accepted, key=lambda size: size.leaves, default=None)
    checks = {
        f"it states {record.n_changed} changed rows, {n_changed} were found": (record.n_changed == n_changed),
        f"it states the bound {record.bound:.6f}, which is {bound:.6f}": (abs(record.bound - bound) <= SAME_BOUND),
        "its numbers of trees and leaves are not those of the models": sizes == stated,
        "it claims what the bound does not reach": (record.status != VALIDATED or bound >= record.fidelity),
        "its claim is not the sentence of its numbers": record.claim == record.expected_claim(),
        "a size was accepted after one that failed": in_order,
        "a size was accepted with more changed rows than its chain allows": rightly,
        "the returned model is not the smallest accepted size": (
            returned is None or returned.n_changed == record.n_changed
        ),
    }
    return tuple(f"The record is wrong: {text}." for text, is_met in checks.items() if not is_met)


def _is_proved(record: CompressionRecord, before: Model, after: Model, X_val: Any) -> bool:
    """Whether the proved distance, if one is stated, follows again, with the rows beyond it."""
    distance, largest = record.proved_distance, record.proved_largest
    if distance is None or largest is None:
        return distance is None and largest is None
    found = distance_anew(before.forest, after.forest, record.proved_trees)
    return (
        record.keeps_class
        and found is not None
        and found.distance <= distance
        and found.largest <= largest
        and count_beyond(before, X_val, distance) == record.proved_rows
    )
