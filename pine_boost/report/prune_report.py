"""The report of a pruned model: one HTML page with what was proved and what was measured.

What cannot be measured, for lack of time or of a library, is noted with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import SHARES, Budget, Step
from pine_boost.certificate import claims
from pine_boost.certificate.certificate import Certificate
from pine_boost.model import digits
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.native.child_process import try_in_child
from pine_boost.native.figures import HOW, REPORT_SECONDS
from pine_boost.native.predict import load_native, predict_classes
from pine_boost.options import plural
from pine_boost.region.conformal import Coverage
from pine_boost.region.margins import float_margins
from pine_boost.report.charts import draw_calibration, draw_history, draw_margins, draw_tradeoff
from pine_boost.report.outside import OutsideInput, find_outside
from pine_boost.report.pages import render
from pine_boost.result import Absent, PruneResult
from pine_boost.tables.matrix import to_matrix

_MOST_MARGINS = 2000
# signed distances from the decision boundary before and after, and whether a row is in the region
Margins = tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Facts:
    """What was measured for the page.

    Attributes
    ----------
    figures : tuple of (str, str, str)
        Sizes, work and speeds: what, before, after.
    speed_note : str
        Why speed was not measured; empty if it was.
    coverage : Coverage or None
    fidelity : float or None
        Share of the same rows that keep their class.
    outside : tuple of OutsideInput or None
        None if they were not searched for; ``outside_note`` states why.
    margins : Margins or None
    spent : mapping
        Seconds of the parts of this report.
    """

    figures: tuple[tuple[str, str, str], ...]
    speed_note: str = ""
    coverage: Coverage | None = None
    fidelity: float | None = None
    outside: tuple[OutsideInput, ...] | None = None
    outside_note: str = ""
    margins: Margins | None = None
    spent: Mapping[str, float] = field(default_factory=dict)


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
    facts = gather(result, X, budget or Budget())
    c, region = result.certificate, result.region
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
        margins="" if facts.margins is None else draw_margins(*facts.margins),
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


def gather(result: PruneResult, X: Any, budget: Budget) -> Facts:
    """Measure what can be measured in the available time; a result that was read from a folder may lack parts."""
    original, region, c = result.original, result.region, result.certificate
    leaves = ("Leaves", f"{c.leaves_before:,}", f"{c.leaves_after:,}")
    facts = Facts((("Trees", f"{c.trees_before:,}", f"{c.trees_after:,}"), leaves))
    if isinstance(original, Absent):
        return _unmeasured(facts, "the original is not available.")
    given = X is not None and len(region.states(X)) > 0
    matrix = to_matrix(X, region.schema) if given else region.space.representative(result.points)
    matrix = matrix[np.isfinite(np.nan_to_num(matrix, nan=0.0)).all(axis=1)]
    spent: dict[str, float] = {}
    part = partial(_part, budget, c.trees_after, spent)
    with part("coverage and margins"):
        coverage = region.coverage(X, model=original.forest) if given else None
        facts = replace(facts, coverage=coverage, margins=_margins(result, matrix))
    try:
        facts = _native(result, X if given else None, matrix, facts, budget, part)
    except ImportError:  # only predicting needs the native library
        facts = _unmeasured(facts, f"{original.forest.library} is not installed.")
    return replace(facts, spent=spent)


def _unmeasured(facts: Facts, why: str) -> Facts:
    return replace(facts, speed_note=f"Not measured: {why}", outside_note=f"Not searched for: {why}")


@contextmanager
def _part(budget: Budget, trees: int, spent: dict[str, float], name: str) -> Iterator[None]:
    """Report a part of the work and record its seconds."""
    budget.report_progress(Step(len(spent) + 1, f"report: {name}", trees, 0, budget.clock))
    started = time.monotonic()
    try:
        yield
    finally:
        spent[name] = time.monotonic() - started


def _native(
    result: PruneResult,
    X: Any,
    matrix: FloatArray,
    facts: Facts,
    budget: Budget,
    part: Callable[[str], AbstractContextManager[None]],
) -> Facts:
    """Everything that needs the native libraries."""
    is_original = result.certificate.grid < 0
    is_unchanged = is_original and not claims.without_twins(result.certificate)
    if is_unchanged:
        facts = replace(facts, speed_note="Not measured: the model is the original, unchanged.")
        if X is None:
            return facts
    try_in_child(result.original, result.pruned)
    # loaded once, instead of for every prediction
    before, after = (replace(model, native=load_native(model)) for model in (result.original, result.pruned))
    if X is not None:
        with part("fidelity"):
            facts = replace(facts, fidelity=float(np.mean(predict_classes(before, X) == predict_classes(after, X))))
    if is_unchanged:
        return facts
    if budget.is_over:
        facts = _unmeasured(facts, "the time for the report was over.")
    else:
        with part("sizes, work and speed"):
            seconds = min(REPORT_SECONDS, SHARES["report speeds"] * budget.remaining)
            facts = replace(facts, figures=tuple(result.side_by_side.table(seconds)))
    if is_original or budget.is_over:
        return replace(facts, outside_note="Not searched for: the time for the report was over.")
    with part("inputs outside the region"):
        states = result.points if len(result.points) else result.region.space.states(matrix)
        rows = None if X is None else matrix
        return replace(facts, outside=find_outside(before, after, result.region, states, rows, budget=budget))


def _margins(result: PruneResult, matrix: FloatArray) -> Margins | None:
    """Signed distances of rows from the decision boundary in both models."""
    if len(matrix) == 0 or result.certificate.grid < 0:
        return None
    matrix = matrix[np.linspace(0, len(matrix) - 1, min(len(matrix), _MOST_MARGINS)).astype(int)]
    forests = result.original.forest, result.pruned.forest
    before, after = (_float_margins(forest, matrix) for forest in forests)
    if before.shape[1] == 1:
        cuts, own = (np.asarray(forest.decision.cuts) for forest in forests)
        nearest = np.abs(before - cuts).argmin(axis=1)
        signed = before[:, 0] - cuts[nearest], after[:, 0] - own[nearest]
    else:
        best = before.argmax(axis=1)
        signed = _lead(before, best), _lead(after, best)
    inside = result.region.tables.contains(result.region.space.states(matrix))
    if result.region.delta is not None:
        inside = inside & (np.abs(signed[0]) >= result.region.delta)
    return *signed, inside


def _float_margins(forest: Forest, matrix: FloatArray) -> FloatArray:
    space = build_space(forest)
    return float_margins(forest, route(forest, space), space.states(matrix))


def _lead(margins: FloatArray, best: npt.NDArray[np.int64]) -> FloatArray:
    """How far a class is ahead of its best rival; negative if it is behind."""
    rivals, rows = margins.copy(), np.arange(len(margins))
    rivals[rows, best] = -np.inf
    return np.asarray(margins[rows, best] - rivals.max(axis=1))
