"""From the search's answer to the result: export, read back, replay natively, write it down.

In come the best certified model on integers and the parsed original; out goes a PruneResult. A
model that its library reads or predicts otherwise than the proof says is never returned.
"""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, OutOfTime, StopReason
from pine_boost.certificate.bounding import write_bound
from pine_boost.certificate.certificate import Certificate, QuestionProof, Status, library_versions
from pine_boost.certificate.claim import choice_of, claim_of, headline_of, reason_of, rests_on, without_twins
from pine_boost.certificate.consistency import region_fields
from pine_boost.certificate.serving import serving_margin
from pine_boost.certificate.sureness import sureness_of
from pine_boost.certificate.tree_matching import require_same_margins
from pine_boost.errors import PineBoostError
from pine_boost.exporters import export, export_trimmed
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import IntArray, Model, count_units
from pine_boost.model.trimming import Trimming, leaf_count
from pine_boost.native.predict import original_bytes, predict_classes
from pine_boost.native.replay import replay_points
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import traits_of
from pine_boost.proof.problem import Problem
from pine_boost.proof.standalone_margin import find_margin
from pine_boost.region.fitting import FittedRegion, every_input
from pine_boost.region.region import Region
from pine_boost.result import PruneResult
from pine_boost.search.choose_indifference import Choice
from pine_boost.search.probabilities import probability_shift
from pine_boost.search.search_result import SearchResult
from pine_boost.tables.native import first_rows
from pine_boost.tables.rows import KnownStates, is_large

_LOGGER = logging.getLogger("pine_boost")
_REPLAYED_ROWS = 20_000


def build_prune_result(
    parsed: Model,
    region: Region,
    problem: Problem | None,
    found: SearchResult,
    *,
    objective: str,
    unit: str,
    same: PruneResult | None = None,
) -> PruneResult:
    """Export the best certified model, read it back, and write down what was proved.

    ``same`` is a result that has exported this very model already; where nothing was found there
    need be no problem.
    """
    native, pruned_model, refusal = parsed.native, parsed, ""
    if same is not None and same.search.pruned is not None:
        native, pruned_model = same.model, same.pruned
    elif found.pruned is not None:
        try:
            native = export(parsed, found.pruned)
            thresholds = parsed.forest.decision.thresholds or None
            pruned_model = read_model(native, threshold=thresholds)
        except PineBoostError as error:  # this library cannot hold these weights exactly
            refusal = f"The pruned model cannot be written exactly: {error}"
            found = _without_model(found, parsed, unit)
            native = parsed.native
    if found.pruned is None:
        if _is_proved(found) and found.remaining is not None:
            native, pruned_model = _lossless(parsed, found.remaining)
        if unit == "leaf":
            found = replace(found, n_kept=pruned_model.forest.n_leaves)
        if native is None:
            native = original_bytes(parsed)
    certificate = _certificate(parsed, pruned_model, region, problem, found, objective, unit)
    if refusal:
        certificate = replace(certificate, reason=refusal)
    return PruneResult(
        model=native,
        certificate=certificate,
        region=region,
        weights=np.ones(parsed.forest.n_trees) if found.pruned is None else found.pruned.weights,
        original=parsed,
        pruned=pruned_model,
        search=replace(found, points=None),
        points=_points(parsed, found),
    )


def _lossless(parsed: Model, remaining: Trimming) -> tuple[Any, Model]:
    """The original without what no input can tell from the rest, or as it is.

    It stays as it is where its library cannot write the very same sums with fewer nodes (dart
    models of XGBoost that predict in place), or cannot write it at all.
    """
    forest = parsed.forest
    if traits_of(forest.library).weighs_trees and forest.slack > 0:
        return parsed.native, parsed
    try:
        native = export_trimmed(parsed, remaining)
        smaller = read_model(native, threshold=forest.decision.thresholds or None)
        require_same_margins(forest, smaller.forest)
    except PineBoostError as error:
        _LOGGER.warning("The original was not written with fewer leaves: %s", error)
        return parsed.native, parsed
    return native, smaller


def _points(parsed: Model, found: SearchResult) -> npt.NDArray[np.int32]:
    none = np.zeros((0, parsed.forest.n_features), np.int32)
    return none if found.points is None else found.points


def without_search(parsed: Model, options: Options, alpha: float, end: BaseException) -> PruneResult:
    """The original, where the time or Ctrl-C ended the call before there was anything to search.

    Its region is every input that the domain permits: nothing was fitted, no probability is known.
    """
    is_late = isinstance(end, OutOfTime)
    region = every_input(parsed.forest, options.domain, alpha)
    n_units = count_units(parsed.forest, options.unit)
    stopped = StopReason.TIME if is_late else StopReason.INTERRUPTED
    found = SearchResult(None, (), n_units, 1, 0, 0, stopped)
    objective, unit = options.objective, options.unit
    result = build_prune_result(parsed, region, None, found, objective=objective, unit=unit)
    what = "The time limit ran out" if is_late else "The call was interrupted"
    reason = (
        f"{what} while the region was being fitted or the search prepared, so nothing was "
        "searched for and no probability is known."
    )
    return replace(result, certificate=replace(result.certificate, reason=reason))


def _without_model(found: SearchResult, parsed: Model, unit: str) -> SearchResult:
    """What was found, without the model that its library cannot hold."""
    return replace(
        found,
        pruned=None,
        proofs=(),
        n_kept=count_units(parsed.forest, unit),
        stopped=StopReason.REFUSED,
        reweight="tree",
    )


def _certificate(
    parsed: Model,
    pruned_model: Model,
    region: Region,
    problem: Problem | None,
    found: SearchResult,
    objective: str,
    unit: str,
) -> Certificate:
    forest = parsed.forest
    is_pruned = found.pruned is not None
    proved = _is_proved(found)
    status = Status.CERTIFIED if proved else Status.NOT_CERTIFIED
    kept = found.pruned.kept if found.pruned is not None else np.arange(forest.n_trees)
    weights = found.pruned.weights[kept] if found.pruned is not None else np.ones(forest.n_trees)
    undecided = native_band = 0.0
    if problem is not None and is_pruned:
        undecided, native_band = problem.undecided, problem.native_band
    bound = None if problem is None else write_bound(problem, found.bound)
    is_proved = found.lower_bound <= 1 or bound is not None
    if not is_proved:
        _LOGGER.warning("The proof of the lower bound is too large to be written down.")
    certificate = Certificate(
        status=status.value,
        claim="",
        reason=reason_of(found.stopped, found.pruned is not None, proved),
        original_digest=forest_digest(forest),
        pruned_digest=forest_digest(pruned_model.forest),
        **region_fields(region),
        undecided=undecided,
        native_band=native_band,
        undecided_exists=found.undecided if is_pruned else None,
        grid=found.pruned.grid if found.pruned is not None else -1,
        trees_before=forest.n_trees,
        trees_after=len(kept),
        leaves_before=forest.n_leaves,
        leaves_after=_leaves_after(pruned_model, found),
        unit=unit,
        objective=objective,
        units_before=count_units(forest, unit),
        units_kept=found.n_kept,
        lower_bound=found.lower_bound if is_proved else 1,
        optimal=is_proved and found.stopped is StopReason.OPTIMAL,
        bound=bound,
        reweight=found.reweight,
        sureness=sureness_of(forest, region.delta),
        kept=tuple(int(tree) for tree in kept),
        weights=tuple(float(weight) for weight in weights),
        thresholds=forest.decision.thresholds,
        probability_shift=_shift(problem, found),
        proofs=tuple(QuestionProof(p.question.name, p.method, p.answer.name) for p in found.proofs),
        versions=library_versions(forest.library),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        timings=_timings(found),
    )
    if not proved:
        return certificate
    certificate = _with_reason(certificate)
    return replace(certificate, claim=claim_of(certificate), rests_on=rests_on(certificate))


def _leaves_after(pruned_model: Model, found: SearchResult) -> int:
    """Leaves of the kept trees; constants that an exporter adds are not counted."""
    return pruned_model.forest.n_leaves if found.pruned is None else leaf_count(found.pruned)


def _shift(problem: Problem | None, found: SearchResult) -> dict[str, float]:
    if problem is None or found.pruned is None or found.reference is None:
        return {"mean": 0.0, "maximum": 0.0, "brier": 0.0}
    return asdict(probability_shift(problem, found.pruned, found.reference))


def _timings(found: SearchResult) -> dict[str, float]:
    proofs = {f"{p.question.name} by {p.method}": p.seconds for p in found.proofs}
    return {"search": found.seconds, **proofs}


def with_metadata(result: PruneResult, model: Any, options: Options, choice: Choice | None = None) -> PruneResult:
    """Write down what the model was called, how the score was fitted and toss-ups chosen."""
    name = Path(model).name if isinstance(model, (str, os.PathLike)) else ""
    how = {"n_bins": int(options.n_bins), "random_state": int(options.random_state)}
    certificate = replace(result.certificate, model_name=name, fitted_with=how)
    if choice is not None:
        words = choice_of(choice.share, choice.kept, choice.interrupted)
        certificate = replace(certificate, choice=words)
        if certificate.claim:
            certificate = replace(certificate, rests_on=rests_on(certificate))
    return replace(result, certificate=certificate)


def with_serving_margin(
    result: PruneResult, problem: Problem, cal: KnownStates | None, budget: Budget, n_jobs: int = 1
) -> PruneResult:
    """Find the margin from which on the pruned model alone tells the class, where one is needed."""
    pruned, certificate = result.search.pruned, result.certificate
    if pruned is None or certificate.delta is None or cal is None:
        return result
    margin = find_margin(problem, pruned, result.points, budget, n_jobs)
    if margin is None:
        return result
    record = serving_margin(margin, certificate, result.region, result.pruned.forest, cal)
    certificate = replace(certificate, serving=record)
    return replace(result, certificate=replace(certificate, rests_on=rests_on(certificate)))


def _is_proved(found: SearchResult) -> bool:
    return found.pruned is not None or found.stopped in (StopReason.OPTIMAL, StopReason.EFFORT)


def _with_reason(certificate: Certificate) -> Certificate:
    """Also said where leaves went that no input can tell from the rest."""
    if not certificate.reason or not without_twins(certificate):
        return certificate
    return replace(certificate, reason=headline_of(certificate))


@dataclass(frozen=True, eq=False)
class NativeRows:
    """Rows and what the native original says on them; ``classes`` is None without its library."""

    table: Any
    classes: IntArray | None
    states: npt.NDArray[np.int32]


def native_rows(parsed: Model, fitted: FittedRegion, X_fit: Any) -> NativeRows:
    """The rows of X_fit for `replay`; one for all regions of a sweep."""
    if X_fit is None:  # every input was asked about, without a table
        return NativeRows(None, None, fitted.fit_states[:0])
    table = first_rows(X_fit, _REPLAYED_ROWS, fitted.region.schema.feature_names)
    known = fitted.fit_states[:_REPLAYED_ROWS]  # of a table that is read in chunks other rows
    states = fitted.region.states(table) if is_large(X_fit) else known
    return NativeRows(table, _classes(parsed, table), states)


def replay(result: PruneResult, problem: Problem, rows: NativeRows) -> None:
    """Compare the two native models on rows of X_fit and on the hardest points of the search.

    On the points margins are compared with the integers of the proof too. A difference would be
    a bug in the proof, the exporter or the library; nothing is returned then.
    """
    pruned = result.search.pruned
    if pruned is None:
        return
    _compare(result, problem, rows, "a row of X_fit")
    models = (result.original, result.pruned)
    schema = result.region.schema
    replay_points(problem, schema, models, pruned, result.points[:_REPLAYED_ROWS])


def _classes(model: Model, table: Any) -> IntArray | None:
    try:
        return predict_classes(model, table)
    except ImportError:  # no native library here: reading and proving need none
        return None


def _compare(result: PruneResult, problem: Problem, rows: NativeRows, what: str) -> None:
    before = rows.classes
    after = None if before is None else _classes(result.pruned, rows.table)
    if before is None or after is None or np.array_equal(before, after):
        return
    # classes may differ where the original is undecided, nowhere else
    certain = problem.settled(rows.states)
    wrong = (before != after) & certain
    if wrong.any():
        raise PineBoostError(
            f"Internal error: the native models differ on {what} (number {int(np.argmax(wrong))}) "
            "although the proof says they cannot. Nothing was certified; please report this."
        )
