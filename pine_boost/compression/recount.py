"""Check a compression again from both native models, X_val and the record."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.certificate.claims import NON_INFERIOR, NOT_VALIDATED, VALIDATED, bound_in_words, saved_remarks
from pine_boost.certificate.consistency import require_interchangeable
from pine_boost.compression.distance import prove_distance
from pine_boost.compression.fixed_sequence import judge, lower_bound
from pine_boost.compression.goal import ERROR, Answers, Goal, Loss, count_beyond, native_probabilities, read_loss
from pine_boost.compression.record import CompressionRecord, labels_digest, read_record, rows_digest
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import LINK_ERROR, SAME_BOUND
from pine_boost.model.forest import Model
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.native.child_process import try_in_child
from pine_boost.notebooks import displayed
from pine_boost.options import CompressOptions
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import warn_if_untested
from pine_boost.region.margins import float_margins
from pine_boost.tables.native import as_table
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import schema_of

# fields of a record that nobody could find again from the models and X_val
ON_TRUST = (
    *(
        "n_fit",
        "overlap",
        "minimize",
        "work_before",
        "work_after",
        "leaves_lossless",
        "attack_starts",
        "seed",
        "stopped",
    ),
    *("files", "versions", "date", "seconds"),
)


_FIXED = "fidelity, max_loss, loss, confidence, tolerance"
_SAME_BET = 1e-6  # relative: e-values of native probabilities that differ in their last digits


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
    losses: tuple[float, ...]
    remarks: tuple[str, ...]
    seconds: float

    def summary(self) -> str:
        """A few readable lines."""
        head = "DISAGREES: the record is wrong"
        if self.agrees:
            head = "AGREES: every number that is not listed as taken on trust was found again"
        counted = bound_in_words(self.status, self.bound, self.n_changed, self.n_rows, self.confidence)
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
        _read(model, record, digest, name, trust_pickle)
        for model, digest, name in (
            (original, record.original_digest, "original"),
            (compressed, record.compressed_digest, "compressed"),
        )
    )
    require_interchangeable(before, after)  # the digests cover trees, not labels
    rows = open_rows(X_val, schema_of(before.forest), "X_val")
    if rows_digest(rows, before.forest.n_features) != record.validation_digest:
        raise CertificateMismatch(
            f"X_val ({rows.n_rows} rows) is not the table of the record ({record.n_val} rows), or "
            "its rows are in another order. Pass the rows that compress_booster was given.",
            option="X_val",
        )
    if record.n_val != rows.n_rows or record.keeps_class != before.forest.decides:
        raise CertificateMismatch(
            f"The record speaks of {record.n_val} rows (keeps_class: {record.keeps_class}), X_val has {rows.n_rows} "
            f"(keeps_class: {before.forest.decides}).",
            option="X_val",
        )
    goal = Goal(before.forest, record.tolerance)
    loss = _read_labels(record, before, y_val, rows.n_rows)
    answers = (goal.native_answers(before, X_val), goal.native_answers(after, X_val))
    n_changed = int(goal.differ(*answers).sum())
    bound = lower_bound(n_changed, rows.n_rows, record.confidence)
    found = tuple(
        f"The record is wrong: {objection}."
        for objections in (
            _in_counts(record, before, after, n_changed, bound),
            _in_path(record, after),
            () if loss is None else _in_losses(record, loss, answers),
            _in_measurements(record, before, after, X_val),
        )
        for objection in objections
    )
    return CompressionVerification(
        agrees=not found,
        n_rows=rows.n_rows,
        n_changed=n_changed,
        bound=bound,
        confidence=record.confidence,
        status=record.status,
        losses=() if loss is None else tuple(float(loss.of(answer).mean()) for answer in answers),
        remarks=(*found, *saved_remarks(before), _trusted(record, loss)),
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


def _in_losses(record: CompressionRecord, loss: Loss, answers: tuple[Answers, Answers]) -> Iterator[str]:
    """Objections to what was counted with the labels."""
    before, after = (loss.of(answer) for answer in answers)
    stated = (record.loss_before, record.loss_after)
    if any(
        abs(float(found.mean()) - (value or 0.0)) > LINK_ERROR
        for found, value in zip((before, after), stated, strict=True)
    ):
        yield f"it states the mean losses {stated}, which are {float(before.mean())} and {float(after.mean())}"
    returned = record.returned()
    counted = loss.count(before, after, record.max_loss)
    if returned is None:
        return
    found, stated_bet = (1.0 if value is None else value for value in (counted["e_value"], returned.e_value))
    same = (counted["n_lost"], counted["n_gained"]) == (returned.n_lost, returned.n_gained)
    if not same or not math.isclose(found, stated_bet, rel_tol=_SAME_BET):
        yield "the lost and gained rows, or the e-value, of the returned model are others"


def _trusted(record: CompressionRecord, loss: Loss | None) -> str:
    listed = []
    if record.status in (VALIDATED, NON_INFERIOR):
        listed += [
            "that X_val had not been seen before and shares no more rows with X_fit than the record says",
            f"that {_FIXED}, the sizes and their order were fixed before X_val was seen",
            "that future inputs come from the same source",
        ]
    if record.path:
        listed.append("sizes, estimates and changed rows of the sizes that were tested and not returned (path)")
    if record.labels_digest is not None and loss is None:
        listed.append("loss_before and loss_after, as no labels were given")
    if record.segments:
        listed.append("names and numbers of rows of the segments")
    if record.attack_starts and record.attack_distance is None:
        listed.append("that the local search found no input that changes class")
    listed.append(f"how the result was made: {', '.join(ON_TRUST)}")
    return f"Taken on trust: {'; '.join(listed)}."


def _read(model: Any, record: CompressionRecord, digest: str, name: str, trust_pickle: bool) -> Model:
    parsed: Model = model
    if not isinstance(model, Model):
        thresholds = record.thresholds or None
        parsed = read_model(model, threshold=thresholds, decision="value", trust_pickle=trust_pickle, digest=digest)
        try_in_child(parsed)
    if forest_digest(parsed.forest) != digest:
        raise CertificateMismatch(f"The {name} model is not the one that the record names.")
    warn_if_untested(parsed.forest.library, record.versions)
    return parsed


def _in_counts(record: CompressionRecord, before: Model, after: Model, n_changed: int, bound: float) -> Iterator[str]:
    """Objections to the numbers that the claim rests on."""
    if record.n_changed != n_changed:
        yield f"it states {record.n_changed} changed rows, {n_changed} were found"
    if abs(record.bound - bound) > SAME_BOUND:
        yield f"it states the bound {record.bound:.6f}, which is {bound:.6f}"
    sizes = (before.forest.n_trees, after.forest.n_trees, before.forest.n_leaves, after.forest.n_leaves)
    if sizes != (record.trees_before, record.trees_after, record.leaves_before, record.leaves_after):
        yield "its numbers of trees and leaves are not those of the models"
    if record.status == VALIDATED and record.fidelity is not None and bound < record.fidelity:
        yield "it claims what the bound does not reach"
    if record.status == NOT_VALIDATED and record.original_digest != record.compressed_digest:
        yield "nothing was validated, but the models differ"
    if record.claim != record.expected_claim():
        yield "its claim is not the sentence of its numbers"


def _in_path(record: CompressionRecord, after: Model) -> Iterator[str]:
    """Objections to the sizes that were tested, and to the segments."""
    expected = [accepted for _, accepted in judge(record.path, record.target().tests())]
    if expected != [size.accepted for size in record.path]:
        yield "sizes were accepted or refused against what their counts allow, or tested after the end of the sequence"
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
        stated = (returned.trees, returned.leaves, returned.n_changed)
        if stated != (after.forest.n_trees, after.forest.n_leaves, record.n_changed):
            yield "the returned model is not the smallest accepted size"
    bounds = [(size.n_changed, record.n_val, size.bound) for size in record.path]
    bounds += [(segment.n_changed, segment.n_rows, segment.bound) for segment in record.segments]
    for n_changed, n_rows, bound in bounds:
        if not n_changed <= n_rows <= record.n_val:
            yield "a size or segment has more changed rows than rows"
        elif abs(lower_bound(n_changed, n_rows, record.confidence) - bound) > SAME_BOUND:
            yield "the bound of a size or segment does not follow from its counts"


def _in_measurements(record: CompressionRecord, before: Model, after: Model, X_val: Any) -> Iterator[str]:
    """Objections to what was measured or proved beside the claim."""
    if record.probability_shift and not _shift_holds(record, before, after, X_val):
        yield "its probability shift was not found again"
    if not _attack_holds(record, before, after):
        yield "the input of its local search does not change class at the stated distance"
    proved = prove_distance(before.forest, after.forest, record.proved_trees) if record.proved_trees else None
    stated = (record.proved_distance, record.proved_largest, record.proved_rows)
    expected: tuple[Any, ...] = (None, None, 0)
    if proved is not None and record.keeps_class:
        expected = (proved.distance, proved.largest, count_beyond(before, X_val, proved.distance))
    if stated != expected:
        yield "its proved distance does not follow from the models"


def _shift_holds(record: CompressionRecord, before: Model, after: Model, X_val: Any) -> bool:
    """Whether the change of native probabilities on X_val is as stated, up to rounding of the link."""
    old, new = (native_probabilities(model, X_val) for model in (before, after))
    if old is None or new is None or set(record.probability_shift) != {"mean", "maximum"}:
        return False
    moved = np.abs(new - old).max(axis=1)
    found = {"mean": moved.mean(), "maximum": moved.max()}
    return all(abs(found[name] - value) <= LINK_ERROR for name, value in record.probability_shift.items())


def _attack_holds(record: CompressionRecord, before: Model, after: Model) -> bool:
    """Whether the input that an attack found, if any, really changes class so far from the decision."""
    distance, forest = record.attack_distance, before.forest
    if distance is None:
        return not record.attack_row
    if not record.keeps_class or not record.attack_starts or len(record.attack_row) != forest.n_features:
        return False
    schema, space, goal = schema_of(forest), build_space(forest), Goal(forest)
    row = np.array([[np.nan if value is None else value for value in record.attack_row]])
    states = space.states(row)
    found = forest.decision.distance(float_margins(forest, route(forest, space), states))
    table = as_table(space.representative(states), schema)
    changed = goal.differ(goal.native_answers(before, table), goal.native_answers(after, table))
    return bool(changed[0] and np.isclose(found[0], distance, rtol=SAME_BOUND, atol=SAME_BOUND))
