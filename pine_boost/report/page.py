"""The page of the report: facts in, one self-contained HTML text out.

In come the facts that `report` gathered; out goes HTML with its style inside, for light and dark
screens, without scripts and without any address to load from. Every text of a user is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pine_boost.certificate.claim import (
    bound_of,
    coverage_of,
    exception_of,
    headline_of,
    proof_of,
    serving_of,
    speaks_of_everything,
    without_twins,
)
from pine_boost.certificate.next_steps import next_steps
from pine_boost.model.digits import percent_down, percent_up
from pine_boost.options import plural
from pine_boost.report.facts import Facts
from pine_boost.report.measure import REPEATS, Size
from pine_boost.report.outside import OutsideInput
from pine_boost.report.pictures import draw_calibration, draw_history, draw_margins, draw_tradeoff
from pine_boost.report.style import STYLE


def render_page(facts: Facts) -> str:
    """The whole page."""
    sections = (
        _promise(facts),
        _sizes(facts),
        _speeds(facts),
        _margins(facts),
        _tradeoff(facts),
        _coverage(facts),
        _outside(facts),
        _evidence(facts),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>pine_boost: pruning report</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _promise(facts: Facts) -> str:
    c = facts.certificate
    certified = c.status == "CERTIFIED"
    badge = f'<span class="badge {"good" if certified else "warn"}">{escape(c.status)}</span>'
    why = escape(proof_of(c))
    reason = f"<p>{escape(c.reason)}</p>" if c.claim and c.reason else ""
    if serving_of(c):
        reason += f"<p>{escape(serving_of(c))}</p>"
    return (
        f'<header><p class="kind">Pruning report · {escape(facts.model_kind)}</p>'
        f"<h1>{escape(headline_of(c))}</h1><p>{badge}{why}</p>"
        f"<details open><summary>The exact claim</summary><p>{escape(c.claim or c.reason)}</p>"
        f"{reason}</details></header>"
    )


def _sizes(facts: Facts) -> str:
    cards = "".join(
        f'<div class="card"><div class="label">{escape(size.name)}</div>'
        f'<div class="number">{_change(size)}</div>'
        f'<div class="bar"><i style="width:{100 * size.after / max(size.before, 1):.1f}%"></i>'
        "</div></div>"
        for size in facts.sizes
    )
    bound = escape(bound_of(facts.certificate))
    c = facts.certificate
    first, *steps = next_steps(c) or ("",)
    listed = "".join(f"<li>{escape(step)}</li>" for step in steps)
    advice = f"<p>{escape(first)}</p><ul>{listed}</ul>" if steps else ""
    picture = draw_history(facts.history, c.units_before, c.lower_bound, c.unit, facts.once)
    if picture:
        picture += (
            f'<p class="note">{plural(c.unit).capitalize()} of the best model over the time of '
            "the search: open points are proved once, full ones twice; the line is what is proved "
            "to be needed.</p>"
        )
    return section("Size", f'<div class="cards">{cards}</div><p class="note">{bound}</p>{picture}{advice}')


def _speeds(facts: Facts) -> str:
    if not facts.speeds:
        return section("Speed", f'<p class="note">{escape(facts.speed_note)}</p>')
    rows = [(s.engine, f"{s.before:,.0f}", f"{s.after:,.0f}", f"{s.ratio:.2f} ×") for s in facts.speeds]
    batch = max(speed.n_rows for speed in facts.speeds)
    note = f"Rows per second on one thread, batches of up to {batch:,} rows, best of {REPEATS}."
    head = ("Engine", "Before", "After", "Ratio")
    return section("Speed", table(head, rows) + f'<p class="note">{note}</p>')


def _margins(facts: Facts) -> str:
    found = facts.margins
    picture = "" if found is None else draw_margins(found.before, found.after, found.inside)
    if not picture:
        return ""
    note = (
        "Every point is a row: how far the two models are from their decision, in units of their "
        "own margin (the raw score before sigmoid or softmax). Filled: in the region. In the upper "
        "left and lower right the class would have changed."
    )
    return section("Margins", picture + f'<p class="note">{note}</p>')


def _tradeoff(facts: Facts) -> str:
    if len(facts.curve) < 2:
        return ""
    unit = facts.certificate.unit
    plot = draw_tradeoff(facts.curve, facts.certificate.alpha, unit)
    note = (
        f"Share of {plural(unit)} removed for every alpha tried; the numbers are trees left. "
        "Filled: certified. The ringed point is this report's model."
    )
    return section("Trade-off", plot + f'<p class="note">{note}</p>')


def _coverage(facts: Facts) -> str:
    c = facts.certificate
    if speaks_of_everything(c):
        permitted = " that the domain permits" if c.narrowed else " there is"
        text = f"<p>The certificate speaks of every input{permitted}.</p>"
        return section("Coverage", text)
    text = f"<p>{escape(coverage_of(c))} The score ({escape(c.score)}) was fitted on {c.n_fit:,} rows.</p>"
    n_outside = c.n_cal - len(facts.scores)
    picture = ""
    if c.toss_ups == 0:  # else tau and delta were calibrated together: no score alone decides
        picture = draw_calibration(facts.scores, facts.tau, n_outside, facts.score_unit)
    if facts.coverage is None:
        return section("Coverage", text + picture)
    v = facts.coverage
    text += (
        f"<p><strong>{v.share:.1%}</strong> of {v.n_rows:,} rows given for this report lie in the "
        f"region (true share between {percent_down(v.low, 1)} and {percent_up(v.high, 1)} with "
        f"{v.confidence:.0%} "
        "confidence)."
    )
    if facts.fidelity is not None:
        text += (
            f" <strong>{facts.fidelity:.2%}</strong> of all these rows, inside the region or not, "
            "get the same class from both models."
        )
    return section("Coverage", text + "</p>" + picture)


def _outside(facts: Facts) -> str:
    title = "Where the models may differ"
    c = facts.certificate
    if c.grid < 0:
        return ""
    if speaks_of_everything(c):
        permitted = "that the domain permits" if c.narrowed else "there is"
        text = f"Nowhere: the certificate speaks of every input {permitted}{exception_of(c)}."
        return section(title, f"<p>{escape(text)}</p>")
    if facts.outside is None:
        return section(title, f'<p class="note">{escape(facts.outside_note)}</p>')
    if not facts.outside:
        text = "None found near the rows of the search. That is no proof that there is none."
        return section(title, f"<p>{text}</p>")
    intro = (
        "<p>The closest inputs found <em>outside</em> the region on which the two models differ, "
        "most plausible first.</p>"
    )
    shown = "".join(_outside_input(entry, facts.score_unit) for entry in facts.outside)
    return section(title, intro + shown)


def _outside_input(entry: OutsideInput, unit: str) -> str:
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in entry.reasons)
    score = ""
    if entry.score is not None and entry.tau is not None:
        shown, end = entry.score / entry.scale, entry.tau / entry.scale
        score = f" · score {shown:.2f} {unit}, the region ends at {end:.2f}"
    values = table(("Feature", "Value"), entry.values)
    return (
        f'<div class="outside"><p><strong>{escape(entry.before)}</strong> before, '
        f"<strong>{escape(entry.after)}</strong> after{score}</p><ul>{reasons}</ul>"
        f"<details><summary>All values</summary>{values}</details></div>"
    )


def _evidence(facts: Facts) -> str:
    c = facts.certificate
    rows = []
    for proof in c.proofs:
        seconds = c.timings.get(f"{proof.question} by {proof.method}")
        shown = "" if seconds is None else f"{seconds:.2f} s"
        rows.append((proof.question, proof.method, proof.answer.lower(), shown))
    nothing = f"Nothing had to be proved: the model is the original{without_twins(c)}."
    proofs = table(("Question", "Method", "Answer", "Time"), rows) if rows else (f'<p class="note">{nothing}</p>')
    details = [
        ("alpha", f"{c.alpha:g}"),
        ("tau", "infinite" if facts.tau is None else f"{facts.tau:.4f} {facts.score_unit}"),
        ("indifference", f"{c.indifference:g}"),
        *((("toss-ups", c.choice),) if c.choice else ()),
        ("kept trees", ", ".join(str(tree) for tree in c.kept)),
        *((f"seconds of this report: {part}", f"{spent:.2f}") for part, spent in facts.spent.items()),
        ("date", c.date or "not recorded"),
        ("model file", c.model_name or "a live object"),
        *((f"rests on, {number}", text) for number, text in enumerate(c.rests_on, 1)),
        ("probability shift, mean", f"{c.probability_shift.get('mean', 0.0):.4f}"),
        ("probability shift, largest", f"{c.probability_shift.get('maximum', 0.0):.4f}"),
        ("original", c.original_digest),
        ("pruned", c.pruned_digest),
        ("region", c.region_fingerprint),
        *((f"{name} version", str(version)) for name, version in sorted(c.versions.items())),
    ]
    listed = table(("What", "Value"), details)
    return section("Evidence", proofs + f"<details><summary>Everything else</summary>{listed}</details>")


def section(title: str, body: str) -> str:
    """A part of a page; ``body`` is HTML."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as an HTML table, escaped."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _change(size: Size) -> str:
    """Before and after, bytes in the unit that suits the larger one."""
    unit, divisor = "", 1
    if size.is_bytes:
        unit, divisor = " B", 1
        for name, value in ((" kB", 1000), (" MB", 1_000_000)):
            if max(size.before, size.after) >= value:
                unit, divisor = name, value
    before, after = (f"{n:,}" if divisor == 1 else f"{n / divisor:,.1f}" for n in (size.before, size.after))
    return f'{before}<span class="arrow"> → </span><strong>{after}{unit}</strong>'
