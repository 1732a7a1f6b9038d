"""Check a compression again from both native models, X_val and the record."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.certificate.claims import (
    NON_INFERIOR,
    NOT_VALIDATED,
    VALIDATED,
    bound_in_words,
    kept_in_short,
    saved_remarks,
)
from pine_boost.certificate.consistency import require_interchangeable
from pine_boost.certificate.saved import read_named
from pine_boost.compression.distance import measure
from pine_boost.compression.fixed_sequence import FixedSequence, lower_bound
from pine_boost.compression.goal import ERROR, Goal, Loss, read_loss
from pine_boost.compression.record import CompressionRecord, differences, labels_digest, open_tested_rows, read_record
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.model.exact import SAME_BOUND
from pine_boost.model.forest import Model
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.native.child_process import try_in_child
from pine_boost.notebooks import displayed
from pine_boost.options import CompressOptions
from pine_boost.region.margins import float_margins
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

# fields of a record that nobody could find again from the models and X_val
_MADE_FROM = ("n_fit", "overlap", "minimize", "work_before", "work_after", "leaves_lossless", "attack_starts", "seed")
ON_TRUST = (*_MADE_FROM, "proved_trees", "stopped", "files", "versions", "date", "seconds")

_RETURNED = {"n_changed": "n_changed", "trees": "trees_after", "leaves": "leaves_after"}  # of the returned size
_FIXED = "fidelity, max_loss, loss, confidence, tolerance"


@displayed
@dataclass(frozen=True)
class CompressionVerification:
    """What came of counting again.

    Attributes
    ----------
    agrees : bool
        Every number of the record that is not listed as taken on trust was found again.
    n_rows, n_changed : int
        Validation rows, and those on which the two native models differ.
    bound, confidence : float
    status : str
        That of the record: only VALIDATED makes a statement of the bound.
    kept : str
        What a row that does not count as changed keeps, in words.
    losses : tuple of float
        Mean loss of both models on these rows; empty without labels.
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
    kept: str
    losses: tuple[float, ...]
    remarks: tuple[str, ...]
    seconds: float

    def summary(self) -> str:
        """A few readable lines."""
        head = "DISAGREES: the record is wrong"
        if self.agrees:
            head = "AGREES: every number that is not listed as taken on trust was found again"
        counted = bound_in_words(self.status, self.bound, self.n_changed, self.n_rows, self.confidence, self.kept)
        return "\n".join([f"{head} ({self.seconds:.1f} s).", f"{counted}.", *self.remarks])


def verify_compression(
    original: Any,
    compressed: Any,
    record: CompressionRecord | str | os.PathLike[str],
    X_val: Any,
    y_val: Any = None,
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
    y_val : labels, optional
        Their labels; required where the record is about a loss.
    trust_pickle : bool
        Load pickle files. Unpickling runs code from the file: only for files you made.

    Returns
    -------
    CompressionVerification

    Raises
    ------
    CertificateMismatch
        A model, X_val or y_val is not the one that the record names, or the models call their
        classes or read their tables differently.
    InvalidInputError
        The record is about a loss and y_val is missing.
    """
    started = time.monotonic()
    if not isinstance(record, CompressionRecord):
        record = read_record(Path(record))
    before, after = (
        _read(model, record, role, trust_pickle) for model, role in ((original, "original"), (compressed, "compressed"))
    )
    require_interchangeable(before, after)  # the digests cover trees, not labels
    rows = open_tested_rows(X_val, before.forest, record.validation_digest, record.n_val, "compress_booster")
    if record.n_val != rows.n_rows or record.keeps_class != before.forest.decides:
        raise CertificateMismatch(
            f"The record speaks of {record.n_val} rows (keeps_class: {record.keeps_class}), X_val has {rows.n_rows} "
            f"(keeps_class: {before.forest.decides}).",
            option="X_val",
        )
    goal = Goal(before.forest, record.tolerance)
    loss = _read_labels(record, before, y_val, rows.n_rows)
    answers = [goal.native_answers(model, X_val) for model in (before, after)]
    losses = [] if loss is None else [loss.of(answer) for answer in answers]
    means = [float(lost.mean()) for lost in losses]
    changed = goal.differ(*answers)
    expected = measure(before, after, X_val, changed, means, record.confidence, record.proved_trees)
    del expected["proved_trees"]  # a hint
    is_unstated = expected["probability_shift"] and not record.probability_shift
    if is_unstated:
        del expected["probability_shift"]
    counted = {name: expected[field] for name, field in _RETURNED.items()}
    if loss is None:
        del expected["loss_before"], expected["loss_after"]
    else:
        counted |= loss.count(losses[0], losses[1], record.max_loss)
    found = tuple(
        f"The record is wrong: {objection}."
        for objection in (
            *differences("it", record, expected),
            *_in_path(record, counted),
            *_in_words(record),
            *_in_attack(record, before, after),
        )
    )
    return CompressionVerification(
        agrees=not found,
        n_rows=rows.n_rows,
        n_changed=expected["n_changed"],
        bound=expected["bound"],
        confidence=record.confidence,
        status=record.status,
        kept=kept_in_short(record.keeps_class, record.tolerance),
        losses=tuple(means),
        remarks=(*found, *saved_remarks(before), _trusted(record, loss, bool(is_unstated))),
        seconds=time.monotonic() - started,
    )


def _read_labels(record: CompressionRecord, before: Model, y_val: Any, n_rows: int) -> Loss | None:
    """The loss of the record with these labels, or None if neither is there."""
    if record.labels_digest is None or (y_val is None and record.max_loss is None):
        return None
    if y_val is None:
        raise InvalidInputError(
            "The record is about a loss on labelled rows; pass y_val, the labels of X_val.", option=("y_val", "X_val")
        )
    kind: Any = record.loss_costs or record.loss
    options = CompressOptions(max_loss=record.max_loss, loss=kind, loss_range=record.loss_range)
    loss = read_loss(before, options, y_val, n_rows)
    if loss is None or labels_digest(loss.labels) != record.labels_digest:
        raise CertificateMismatch(
            "y_val is not the labels of the record. Pass the labels that compress_booster was given, in their order.",
            option="y_val",
        )
    return loss


def _trusted(record: CompressionRecord, loss: Loss | None, is_unstated: bool) -> str:
    listed = []
    if record.status in (VALIDATED, NON_INFERIOR):
        listed += [
            "that X_val had not been seen before and shares no more rows with X_fit than the record says",
            f"that {_FIXED} are what was asked for, fixed before X_val was seen as the sizes and their order were",
            "that future inputs come from the same source",
        ]
    if record.path:
        listed.append("sizes, estimates and changed rows of the sizes that were tested and not returned (path)")
    if record.labels_digest is not None and loss is None:
        listed.append("loss_before and loss_after, as no labels were given")
    listed.append("which segments were counted, their rows and changed rows")
    if is_unstated:
        listed.append("that there was no time to measure probability_shift")
    if record.attack_row:
        listed.append("which of the inputs that every split treats as attack_row the local search found")
    if record.attack_starts and record.attack_distance is None:
        listed.append("that the local search found no input that changes class")
    listed.append(f"how the result was made: {', '.join(ON_TRUST)}")
    return f"Taken on trust: {'; '.join(listed)}."


def _read(model: Any, record: CompressionRecord, role: str, trust_pickle: bool) -> Model:
    parsed = read_named(model, record, role, "record", decision="value", trust_pickle=trust_pickle)
    if not isinstance(model, Model):
        try_in_child(parsed)
    return parsed


def _in_words(record: CompressionRecord) -> Iterator[str]:
    """Objections to what is claimed, given the numbers of the record itself."""
    if record.status == VALIDATED and record.fidelity is not None and record.bound < record.fidelity:
        yield "it claims more than its bound shows"
    if record.keeps_class and record.tolerance is not None and record.tolerance >= 1:
        yield f"a probability cannot move by more than its tolerance of {record.tolerance}"
    if record.status == NOT_VALIDATED and record.original_digest != record.compressed_digest:
        yield "nothing was validated, but the models differ"
    if record.claim != record.statement.claim():
        yield "its claim is not the sentence of its numbers"


def _in_path(record: CompressionRecord, counted: Mapping[str, Any]) -> Iterator[str]:
    """Objections to the sizes that were tested, and to the segments; ``counted`` is known of the returned size."""
    sequence = FixedSequence(record.target().tests())
    if any(sequence.is_over or sequence.judge(size) != size for size in record.path):
        yield "sizes were accepted or rejected against their counts, or tested after the end of the sequence"
    asked = (
        record.labels_digest is not None and record.loss == ERROR,
        record.max_loss is not None and record.loss != ERROR,
    )
    given = {(size.n_lost is not None and size.n_gained is not None, size.e_value is not None) for size in record.path}
    if not given <= {asked}:
        yield "lost and gained rows or e-values of sizes are missing, or stand where none were asked for"
    returned = record.returned()
    if (returned is None) != (record.status == NOT_VALIDATED):
        yield "a smaller model was accepted, or returned, without the other"
    elif returned is not None:
        yield from differences("its returned size", returned, counted)
    bounds = [(size.n_changed, record.n_val, size.bound) for size in record.path]
    bounds += [(segment.n_changed, segment.n_rows, segment.bound) for segment in record.segments]
    for n_changed, n_rows, bound in bounds:
        if not n_changed <= n_rows <= record.n_val:
            yield "a size or segment has more changed rows than rows"
        elif abs(lower_bound(n_changed, n_rows, record.confidence) - bound) > SAME_BOUND:
            yield "the bound of a size or segment does not follow from its counts"


def _in_attack(record: CompressionRecord, before: Model, after: Model) -> Iterator[str]:
    """Whether the input that an attack found, if any, really changes class so far from the decision."""
    distance, forest = record.attack_distance, before.forest
    if distance is None and not record.attack_row:
        return
    holds = False
    if (
        distance is not None
        and record.keeps_class
        and record.attack_starts
        and len(record.attack_row) == forest.n_features
    ):
        schema, space, goal = schema_of(forest), build_space(forest), Goal(forest)
        row = np.array([[np.nan if value is None else value for value in record.attack_row]])
        states = space.states(row)
        found = forest.decision.distance(float_margins(forest, route(forest, space), states))
        table = as_table(space.representative(states), schema)
        changed = goal.differ(goal.native_answers(before, table), goal.native_answers(after, table))
        holds = bool(changed[0] and np.isclose(found[0], distance, rtol=SAME_BOUND, atol=SAME_BOUND))
    if not holds:
        yield "the input of its local search does not change class at the stated distance"
