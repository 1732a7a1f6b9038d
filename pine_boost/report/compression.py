"""The report of a compression: one HTML page about what was tested and what came out.

In come a CompressResult and its X_val; out goes a self-contained page. Both native models are asked
again; nothing is shown that was not counted, and only the sentence of the status is a promise.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from pine_boost.certificate.compression_claim import NOT_VALIDATED, VALIDATED, attack_claim, bound_in_words
from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.goal import Answers, Goal, native_probabilities
from pine_boost.compression.record import CompressionRecord
from pine_boost.compression.result import CompressResult
from pine_boost.errors import InvalidInputError
from pine_boost.model.digits import decimals_down, rounded_up
from pine_boost.model.forest import Model
from pine_boost.report.page import section, table
from pine_boost.report.style import STYLE
from pine_boost.report.svg import Frame, round_ticks

_SHOWN_ROWS = 12


def render_compression(result: CompressResult, X_val: Any) -> str:
    """The report as HTML text.

    Parameters
    ----------
    result : CompressResult
        As `compress_booster` returned it, with its original.
    X_val : table
        The validation rows.
    """
    if result.original is None:
        raise InvalidInputError("The report of a compression needs the original model.")
    record = result.record
    before, after = (_ask(model, X_val, record) for model in (result.original, result.compressed))
    sections = (
        _promise(record),
        _sizes(record),
        _path(record),
        _changed(result, before, after),
        _classes(result, before, after),
        _segments(record),
        _evidence(record),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>pine_boost: compression report</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _ask(model: Model, X_val: Any, record: CompressionRecord) -> Answers:
    """Classes with their probabilities where the model gives any, or raw values."""
    if not record.keeps_class:
        return Goal(model.forest, False, record.tolerance).native_answers(model, X_val)
    classes = Goal(model.forest, True, None).native_answers(model, X_val).classes
    return Answers(classes, native_probabilities(model, X_val))


def _goal(result: CompressResult) -> Goal:
    return Goal(result.compressed.forest, result.record.keeps_class, result.record.tolerance)


def _promise(record: CompressionRecord) -> str:
    kind = "good" if record.status == VALIDATED else "warn"
    badge = f'<span class="badge {kind}">{escape(record.status)}</span>'
    return f"<section><h1>Compression report {badge}</h1><p>{escape(record.claim)}</p></section>"


def _sizes(record: CompressionRecord) -> str:
    rows = [
        ("Trees", f"{record.trees_before:,}", f"{record.trees_after:,}"),
        ("Leaves", f"{record.leaves_before:,}", f"{record.leaves_after:,}"),
    ]
    return section("Size", table(("", "before", "after"), rows))


def _path(record: CompressionRecord) -> str:
    """The tested sizes as a curve, the target as a line, the returned one marked."""
    if not record.path:
        return section("The path", "<p>No smaller size was found to be tested.</p>")
    kept = [100 * (1 - size.n_changed / record.n_val) for size in record.path]
    target, most = 100 * record.fidelity, float(record.leaves_before)
    lowest = min(target, *(100 * size.bound for size in record.path))
    frame = Frame(
        "Share of validation rows kept by number of leaves",
        (0.0, most),
        (lowest - 0.1 * (100 - lowest), 100.0),
        "leaves",
        "kept on X_val (%)",
    )
    frame.grid(round_ticks(lowest, 100.0))
    frame.ticks(round_ticks(0.0, most), "{:,.0f}")
    frame.line(0.0, target, most, target, "mark")
    accepted = [size for size in record.path if size.accepted]
    chosen = min(accepted, key=lambda size: size.leaves, default=None)
    for size, share in zip(record.path, kept, strict=True):
        bound = decimals_down(size.bound)
        title = f"{size.leaves} leaves: {size.n_changed} rows changed, bound {bound}"
        frame.line(size.leaves, 100 * size.bound, size.leaves, share, "reach")
        frame.dot(size.leaves, share, "dot chosen" if size is chosen else "dot", title)
    rows = [
        (
            f"{size.trees:,}",
            f"{size.leaves:,}",
            str(size.n_changed),
            f"{decimals_down(size.bound)}",
            "yes" if size.accepted else "no",
            size.origin,
            size.chain,
        )
        for size in record.path
    ]
    head = ("trees", "leaves", "rows changed", "exact bound", "accepted", "from", "sequence")
    words = (
        "<p>Sizes in the order of the test, which was fixed before X_val was seen; a sequence "
        "stops at the first that fails. Where slices get further, they are tested in a sequence "
        "of their own too, at the level that the first one leaves over. A dot is the share of "
        "validation rows kept, the line below it reaches down to the exact bound, the horizontal "
        "line is the target.</p>"
    )
    return section("The path", words + frame.text() + table(head, rows))


def _changed(result: CompressResult, before: Answers, after: Answers) -> str:
    """Some rows that changed, with what both models say."""
    record = result.record
    rows = np.flatnonzero(_goal(result).differ(before, after))
    if len(rows) == 0:
        return section("Rows that change", "<p>None of the validation rows changed.</p>")
    shown = [(str(row), _said(result, before, int(row)), _said(result, after, int(row))) for row in rows[:_SHOWN_ROWS]]
    words = f"<p>{escape(_counted(record))}</p>" if record.status != NOT_VALIDATED else ""
    more = f"<p>{len(rows) - len(shown)} more.</p>" if len(rows) > len(shown) else ""
    head = ("row of X_val", "original", "compressed")
    return section("Rows that change", words + table(head, shown) + more)


def _counted(record: CompressionRecord) -> str:
    r = record
    text = bound_in_words(r.status, r.bound, r.n_changed, r.n_val, r.confidence) + "."
    if record.probability_shift:
        text += (
            f" The ensemble's probabilities moved by {record.probability_shift['mean']:.4f} on "
            f"average and by {rounded_up(record.probability_shift['maximum'], 3)} at most."
        )
    return text


def _said(result: CompressResult, answers: Answers, row: int) -> str:
    """The class with its probability, or the raw value."""
    numbers = None if answers.numbers is None else answers.numbers[row]
    if answers.classes is None:
        return "" if numbers is None else f"{float(numbers[0]):.6g}"
    index = int(answers.classes[row])
    name = _class_name(result, index)
    if numbers is None:
        return name
    return f"{name} ({', '.join(f'{value:.3f}' for value in np.atleast_1d(numbers)[:6])})"


def _class_name(result: CompressResult, index: int) -> str:
    classes = result.compressed.forest.classes
    return str(classes[index]) if index < len(classes) else f"band {index}"


def _classes(result: CompressResult, before: Answers, after: Answers) -> str:
    """Changed rows by the class that the original gives, with an exact bound each."""
    if before.classes is None or after.classes is None:
        return ""
    record = result.record
    changed = _goal(result).differ(before, after)
    rows = []
    for index in np.unique(before.classes):
        own = before.classes == index
        n_rows, n_changed = int(own.sum()), int(changed[own].sum())
        bound = lower_bound(n_changed, n_rows, record.confidence)
        rows.append((_class_name(result, int(index)), str(n_rows), str(n_changed), decimals_down(bound)))
    words = "<p>By the class that the original gives. The bounds hold one at a time.</p>"
    return section("Per class", words + table(("class", "rows", "changed", "exact bound"), rows))


def _segments(record: CompressionRecord) -> str:
    if not record.segments:
        return ""
    rows = [
        (entry.name, str(entry.n_rows), str(entry.n_changed), decimals_down(entry.bound)) for entry in record.segments
    ]
    words = "<p>The bounds hold one at a time, not all at once.</p>"
    head = ("segment", "rows", "changed", "exact bound")
    return section("Per segment", words + table(head, rows))


def _evidence(record: CompressionRecord) -> str:
    rows = [
        ("original", record.original_digest),
        ("compressed", record.compressed_digest),
        ("validation rows", record.validation_digest),
        ("seed", str(record.seed)),
        ("versions", ", ".join(f"{name} {value}" for name, value in record.versions.items())),
        ("date", record.date),
    ]
    attack = ""
    if record.attack_starts:
        attack = f"<p>{escape(attack_claim(record.attack_distance, record.attack_starts))}</p>"
    proved = record.proved_claim()
    proved = f"<p>{escape(proved)}</p>" if proved else ""
    return section("Evidence", attack + proved + table(("", ""), rows))
