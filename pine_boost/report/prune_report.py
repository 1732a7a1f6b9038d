"""The report of a pruned model: one HTML page with what was proved and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pine_boost.budget import Budget
from pine_boost.certificate import claims
from pine_boost.certificate.certificate import Certificate
from pine_boost.model import digits
from pine_boost.native.figures import HOW
from pine_boost.options import plural
from pine_boost.report.charts import draw_calibration, draw_history, draw_margins, draw_tradeoff
from pine_boost.report.facts import Facts, gather
from pine_boost.report.pages import render
from pine_boost.result import Absent, PruneResult


def render_report(
    result: PruneResult, X: Any = None, curve: Sequence[Mapping[str, Any]] = (), budget: Budget | None = None
) -> str:
    """The report of a result as HTML text.

    Parameters
    ----------
    result : PruneResult
        Also one that `PruneResult.load` read. Without the original, the sizes before pruning are
        those of the certificate, and neither speed nor inputs outside the region are shown.
    X : table, optional
        Rows for coverage and speed, best such that nothing was fitted on. Without them speed is
        measured on the points of the search.
    curve : sequence of mapping
        ``SweepResult.table()`` for the trade-off plot.
    budget : Budget, optional
        How long it may take, and a callback for its parts. The page states which parts were left
        out because the time was over.

    Returns
    -------
    str
        One self-contained page.
    """
    return render_page(result, gather(result, X, budget or Budget()), curve)


def render_page(result: PruneResult, facts: Facts, curve: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page of a result and what was measured for it."""
    c, region, margins = result.certificate, result.region, facts.margins
    history = () if isinstance(result.search, Absent) else result.search.history
    once, twice = ([(at.seconds, at.units) for at in history if at.proofs == proofs] for proofs in (1, 2))
    scale = 1 if region.score_tables is None else region.score_tables.scale
    tau = None if region.tau is None else region.tau / scale
    unit = "nats" if region.score_name == "chow-liu" else "points"
    calibration = ""
    # tau and delta were calibrated together, or the steps of a ladder are not scores: no histogram to mark tau in
    if c.boundary_share == 0 and region.nesting is None:
        n_outside = c.n_cal - len(region.calibration)
        calibration = draw_calibration(region.calibration / scale, tau, n_outside, unit)
    return render(
        "prune.html",
        "pine_boost: pruning report",
        facts=facts,
        kind=(result.pruned if isinstance(result.original, Absent) else result.original).kind,
        c=c,
        claims=claims,
        digits=digits,
        unit=unit,
        units=plural(c.unit),
        how=HOW,
        history=draw_history(twice, c.units_before, c.lower_bound, c.unit, once),
        margins="" if margins is None else draw_margins(margins.before, margins.after, margins.inside),
        tradeoff=draw_tradeoff(curve, c.alpha, c.unit),
        calibration=calibration,
        proofs=[_proof(c, proof) for proof in c.proofs],
        details=_details(c, "infinite" if tau is None else f"{tau:.4f} {unit}", facts.spent),
    )


def _proof(c: Certificate, proof: Any) -> tuple[str, ...]:
    seconds = c.timings.get(f"{proof.question} by {proof.method}")
    return proof.question, proof.method, "" if seconds is None else f"{seconds:.2f} s"


def _details(c: Certificate, tau: str, spent: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        ("alpha", f"{c.alpha:g}"),
        ("tau", tau),
        ("indifference", f"{c.indifference:g}"),
        *((("choice of indifference", claims.share_of(c)),) if claims.share_of(c) else ()),
        ("kept trees", ", ".join(str(tree) for tree in c.kept)),
        *((f"seconds of this report: {part}", f"{seconds:.2f}") for part, seconds in spent.items()),
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
