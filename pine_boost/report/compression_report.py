"""The report of a compression: one HTML page with what was tested and what came out.

With the original and the validation rows, both native models predict them again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from pine_boost.certificate.claims import NOT_VALIDATED, attack_claim, bound_in_words, kept_in_short
from pine_boost.compression.compress_result import CompressResult
from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.goal import ERROR, Answers, Goal, native_probabilities
from pine_boost.compression.record import CompressionRecord, Segment, TestedSize
from pine_boost.errors import InvalidInputError
from pine_boost.model.digits import decimals_down, rounded_up
from pine_boost.model.forest import BoolArray, Model
from pine_boost.native.child_process import try_in_child
from pine_boost.native.figures import HOW
from pine_boost.report.charts import Frame, round_ticks
from pine_boost.report.pages import render

_SHOWN_ROWS = 12


def render_compression(result: CompressResult, X_val: Any = None) -> str:
    """The report as HTML text.

    Parameters
    ----------
    result : CompressResult
        As `compress_booster` returned it, or loaded from a folder.
    X_val : table, optional
        The validation rows; they need ``result.original``. Without them the page shows what the
        record holds.

    Raises
    ------
    InvalidInputError
        Rows were given for a result without its original.
    """
    r = result.record
    rows: dict[str, Any] = {"changed": None, "n_more": 0, "counted": "", "classes": []}
    if X_val is not None:
        if result.original is None:
            raise InvalidInputError("The rows of a compression report need the original model; pass it too.")
        try_in_child(result.original, result.compressed)
        before, after = (_ask(model, X_val, r) for model in (result.original, result.compressed))
        changed = Goal(result.compressed.forest, r.tolerance).differ(before, after)
        rows = _changed(result, before, after, changed) | {"classes": _classes(result, before, changed)}
    return render(
        "compression.html",
        "pine_boost: compression report",
        r=r,
        sizes=_sizes(result),
        how=HOW,
        chart=_draw_path(r) if r.path else "",
        path=[_tested(r, size) for size in r.path],
        heads=_heads(r),
        sentences=(attack_claim(r.attack_distance, r.attack_starts) if r.attack_starts else "", r.proved_claim()),
        **rows,
    )


def _ask(model: Model, X_val: Any, record: CompressionRecord) -> Answers:
    """Classes with their probabilities if the model gives any, or raw values."""
    if not record.keeps_class:
        return Goal(model.forest, record.tolerance).native_answers(model, X_val)
    classes = Goal(model.forest).native_answers(model, X_val).classes
    return Answers(classes, native_probabilities(model, X_val))


def _sizes(result: CompressResult) -> list[tuple[str, str, str]]:
    """What changed in size, work and, with labels, loss."""
    r = result.record
    rows = [
        ("Trees", f"{r.trees_before:,}", f"{r.trees_after:,}"),
        ("Leaves", f"{r.leaves_before:,}", f"{r.leaves_after:,}"),
        ("Work per row (X_fit)", f"{r.work_before:,.1f}", f"{r.work_after:,.1f}"),
    ]
    if result.side_by_side is not None and r.status != NOT_VALIDATED:
        rows = result.side_by_side.table()
    if r.loss_before is not None and r.loss_after is not None:
        name = "Accuracy on X_val" if r.loss == ERROR else f"Loss on X_val ({r.loss})"
        pair = (1 - r.loss_before, 1 - r.loss_after) if r.loss == ERROR else (r.loss_before, r.loss_after)
        rows.append((name, f"{pair[0]:.4f}", f"{pair[1]:.4f}"))
    return rows


def _heads(record: CompressionRecord) -> tuple[str, ...]:
    lost = ("only original right", "only smaller right") if record.loss == ERROR else ("e-value",)
    asked = lost if record.labels_digest is not None else ()
    return ("trees", "leaves", record.minimize, "rows changed", "exact bound", *asked, "accepted", "from")


def _tested(record: CompressionRecord, size: TestedSize) -> tuple[Any, ...]:
    """One line of the table of tested sizes."""
    lost: tuple[Any, ...] = (size.n_lost, size.n_gained)
    if record.loss != ERROR:
        lost = ("" if size.e_value is None else f"{size.e_value:.4g}",)
    counts = (f"{size.trees:,}", f"{size.leaves:,}", f"{size.cost:,.0f}", size.n_changed, decimals_down(size.bound))
    asked = lost if record.labels_digest is not None else ()
    return (*counts, *asked, "yes" if size.accepted else "no", size.origin)


def _draw_path(record: CompressionRecord) -> Markup:
    """The tested sizes as a curve, the target as a line, the returned size marked."""
    kept = [100 * (1 - size.n_changed / record.n_val) for size in record.path]
    most, unit = record.minimized[0], record.minimize
    target = None if record.fidelity is None else 100 * record.fidelity
    lowest = min(99.9 if target is None else target, *(100 * size.bound for size in record.path))
    y_range = (lowest - 0.1 * (100 - lowest), 100.0)
    title = f"Share of validation rows kept by {unit}"
    frame = Frame(title, (0.0, most), y_range, unit, "kept on X_val (%)")
    frame.grid(round_ticks(lowest, 100.0))
    frame.ticks(round_ticks(0.0, most), "{:,.0f}")
    if target is not None:
        frame.line(0.0, target, most, target, "mark")
    chosen = record.returned()
    for size, share in zip(record.path, kept, strict=True):
        title = f"{unit} {size.cost:.0f}: {size.n_changed} rows changed, bound {decimals_down(size.bound)}"
        frame.line(size.cost, 100 * size.bound, size.cost, share, "reach")
        frame.dot(size.cost, share, "dot chosen" if size is chosen else "dot", title)
    return frame.text()


def _changed(result: CompressResult, before: Answers, after: Answers, changed: BoolArray) -> dict[str, Any]:
    """Some rows that changed, with the answers of both models."""
    rows = np.flatnonzero(changed)
    shown = [(row, _said(result, before, int(row)), _said(result, after, int(row))) for row in rows[:_SHOWN_ROWS]]
    counted = "" if result.record.status == NOT_VALIDATED else _counted(result.record)
    return {"changed": shown, "n_more": len(rows) - len(shown), "counted": counted}


def _counted(record: CompressionRecord) -> str:
    r = record
    kept = kept_in_short(r.keeps_class, r.tolerance)
    text = bound_in_words(r.status, r.bound, r.n_changed, r.n_val, r.confidence, kept) + "."
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


def _classes(result: CompressResult, before: Answers, changed: BoolArray) -> list[Segment]:
    """Changed rows by the class that the original predicts, with an exact bound each."""
    rows = []
    for index in () if before.classes is None else np.unique(before.classes):
        own = before.classes == index
        n_rows, n_changed = int(own.sum()), int(changed[own].sum())
        bound = lower_bound(n_changed, n_rows, result.record.confidence)
        rows.append(Segment(_class_name(result, int(index)), n_rows, n_changed, bound))
    return rows
