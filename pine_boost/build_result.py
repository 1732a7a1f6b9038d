"""Build the result of a search: export the model, read it back, replay it natively, and issue the certificate.

A model is never returned if its library reads or predicts it differently from the proof.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, OutOfTime, StopReason, finishing
from pine_boost.certificate.certificate import Certificate, QuestionProof, Status, library_versions
from pine_boost.certificate.claims import (
    choice_of,
    claim_of,
    kept_reason,
    reason_of,
    rests_on,
    sureness_of,
    unsearched_reason,
)
from pine_boost.certificate.consistency import region_fields, write_bound
from pine_boost.certificate.tree_matching import require_same_margins
from pine_boost.errors import PineBoostError
from pine_boost.exporters import export, export_trimmed
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import original_scale, summation_band
from pine_boost.model.forest import IntArray, Model, PrunedForest, count_units
from pine_boost.model.trimming import Trimming, leaf_count
from pine_boost.native.predict import load_native, original_bytes, predict_classes, predict_margins
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import traits_of
from pine_boost.proof.problem import Problem
from pine_boost.proof.standalone_margin import find_margin, serving_margin
from pine_boost.region.fitting import FittedRegion, every_input
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.result import PruneResult
from pine_boost.search.choose_indifference import Choice
from pine_boost.search.grid_rounding import probability_shift
from pine_boost.search.search_result import SearchResult
from pine_boost.tables.native import as_table, first_rows
from pine_boost.tables.rows import KnownStates, is_large
from pine_boost.tables.schema import InputSchema

_LOGGER = logging.getLogger("pine_boost")
_REPLAYED_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class NativeRows:
    """Rows and the classes that the native original predicts; ``classes`` is None without its library."""

    table: Any
    classes: IntArray | None
    states: npt.NDArray[np.int32]


def build_prune_result(
    parsed: Model,
    region: Region,
    problem: Problem | None,
    found: SearchResult,
    options: Options,
    *,
    same: PruneResult | None = None,
    rows: Callable[[], NativeRows] | None = None,
    cal: KnownStates | None = None,
    budget: Budget | None = None,
    made: Mapping[str, Any] = MappingProxyType({}),
    reason: str = "",
) -> PruneResult:
    """Export the best certified model, read it back, replay it natively, and issue the certificate.

    Parameters
    ----------
    parsed, region, found
    problem : Problem or None
        None if there was no search.
    options : Options
    same : PruneResult, optional
        A result for which this same model was already exported and replayed.
    rows : callable, optional
        Returns the rows on which both native models are compared; called only if there are two.
    cal, budget
        Calibration rows; with them a serving margin is searched for if one is needed.
    made : mapping
        The output of `made_with`.
    reason : str
        Why there was no search.
    """
    native, pruned_model = parsed.native, parsed
    if same is not None and same.search.pruned is not None:
        native, pruned_model = same.model, same.pruned
    elif found.pruned is not None:
        try:
            native = export(parsed, found.pruned)
            pruned_model = read_model(native, threshold=parsed.forest.decision.thresholds or None)
        except PineBoostError as error:  # this library cannot store these weights exactly
            reason = f"The pruned model cannot be written exactly: {error}"
            found = found.without_model(count_units(parsed.forest, options.unit), StopReason.REFUSED)
            native = parsed.native
    if found.pruned is None:
        if _is_proved(found) and found.remaining is not None:
            native, pruned_model = _lossless(parsed, found.remaining)
        if options.unit == "leaf":
            found = replace(found, n_kept=pruned_model.forest.n_leaves)
        if native is None:
            native = original_bytes(parsed)
    points = np.zeros((0, parsed.forest.n_features), np.int32) if found.points is None else found.points
    serving = None
    if found.pruned is not None and problem is not None:
        if rows is not None and same is None:
            replay(parsed, pruned_model, region, problem, found.pruned, points, rows())
        if region.delta is not None and cal is not None and budget is not None:
            with finishing(ignored=int(budget.is_interrupted)):  # this may take long; after Ctrl-C it does not
                margin = budget.run(find_margin, problem, found.pruned, points, budget, options.n_workers)
            if margin is not None:
                serving = serving_margin(margin, found.pruned.grid, region, pruned_model.forest, cal)
    certificate = _certificate(parsed, pruned_model, region, problem, found, options, serving, made, reason)
    return PruneResult(
        model=native,
        certificate=certificate,
        region=region,
        weights=np.ones(parsed.forest.n_trees) if found.pruned is None else found.pruned.weights,
        original=parsed,
        pruned=pruned_model,
        search=replace(found, points=None),
        points=points,
    )


def _lossless(parsed: Model, remaining: Trimming) -> tuple[Any, Model]:
    """Return the original without its redundant nodes, whose removal no input can detect, or unchanged.

    It stays unchanged if its library cannot write exactly the same sums with fewer nodes (dart
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


def without_search(
    parsed: Model, options: Options, alpha: float, end: BaseException, made: Mapping[str, Any]
) -> PruneResult:
    """Return the original if the time limit or Ctrl-C ended the call before a search was possible.

    Its region is every input that the domain permits: nothing was fitted, so no probability is stated.
    """
    is_late = isinstance(end, OutOfTime)
    found = SearchResult(
        pruned=None,
        proofs=(),
        n_kept=count_units(parsed.forest, options.unit),
        ended=frozenset({StopReason.TIME if is_late else StopReason.INTERRUPTED}),
    )
    return build_prune_result(
        parsed,
        every_input(parsed.forest, options.domain, alpha),
        None,
        found,
        options,
        made=made,
        reason=unsearched_reason(is_late),
    )


def _certificate(
    parsed: Model,
    pruned_model: Model,
    region: Region,
    problem: Problem | None,
    found: SearchResult,
    options: Options,
    serving: ServingMargin | None,
    made: Mapping[str, Any],
    reason: str,
) -> Certificate:
    """Build the certificate; what it guarantees follows from its other fields."""
    forest, pruned = parsed.forest, found.pruned
    kept = np.arange(forest.n_trees) if pruned is None else pruned.kept
    is_proved = _is_proved(found)
    undecided = native_band = 0.0
    if problem is not None and pruned is not None:
        undecided, native_band = problem.undecided, problem.native_band
    bound = None if problem is None else write_bound(problem, found.bound)
    has_bound = found.lower_bound <= 1 or bound is not None
    if not has_bound:
        _LOGGER.warning("The proof of the lower bound is too large to be written down.")
    shift = {"mean": 0.0, "maximum": 0.0, "brier": 0.0}
    if problem is not None and pruned is not None and found.fit is not None:
        shift = asdict(probability_shift(problem, pruned, found.fit))
    certificate = Certificate(
        status=(Status.CERTIFIED if is_proved else Status.NOT_CERTIFIED).value,
        claim="",
        reason=reason or reason_of(found.stopped),
        original_digest=forest_digest(forest),
        pruned_digest=forest_digest(pruned_model.forest),
        **region_fields(region),
        undecided=undecided,
        native_band=native_band,
        undecided_exists=None if pruned is None else found.undecided,
        grid=-1 if pruned is None else pruned.grid,
        trees_before=forest.n_trees,
        trees_after=len(kept),
        leaves_before=forest.n_leaves,
        # constants added by an exporter are not counted
        leaves_after=pruned_model.forest.n_leaves if pruned is None else leaf_count(pruned),
        unit=options.unit,
        objective=options.objective,
        units_before=count_units(forest, options.unit),
        units_kept=found.n_kept,
        lower_bound=found.lower_bound if has_bound else 1,
        optimal=has_bound and found.stopped is StopReason.OPTIMAL,
        bound=bound,
        reweight=found.reweight,
        sureness=sureness_of(forest, region.delta),
        serving=serving,
        kept=tuple(int(tree) for tree in kept),
        weights=tuple(1.0 if pruned is None else float(pruned.weights[tree]) for tree in kept),
        thresholds=forest.decision.thresholds,
        probability_shift=shift,
        proofs=tuple(QuestionProof(p.question.name, p.method) for p in found.proofs),
        versions=library_versions(forest.library),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        timings={"search": found.seconds} | {f"{p.question.name} by {p.method}": p.seconds for p in found.proofs},
        **made,
    )
    if not is_proved:
        return certificate
    return replace(
        certificate, claim=claim_of(certificate), reason=kept_reason(certificate), rests_on=rests_on(certificate)
    )


def made_with(model: Any, options: Options, choice: Choice | None = None) -> dict[str, Any]:
    """Return the name of the model, how the score was fitted and how the indifference was chosen."""
    return {
        "model_name": Path(model).name if isinstance(model, (str, os.PathLike)) else "",
        "fitted_with": {"n_bins": int(options.n_bins), "random_state": int(options.random_state)},
        "choice": ""
        if choice is None
        else choice_of(  # in the unit that the short searches counted
            choice.share, choice.kept, choice.why, "tree" if options.unit == "leaf" else options.unit
        ),
    }


def _is_proved(found: SearchResult) -> bool:
    return found.pruned is not None or found.stopped in (StopReason.OPTIMAL, StopReason.EFFORT, StopReason.NOT_WORTH_IT)


def native_rows(parsed: Model, fitted: FittedRegion, X_fit: Any) -> NativeRows:
    """Return the rows of X_fit for `replay`, shared by all regions of a sweep."""
    if X_fit is None:  # alpha=0 without a table
        return NativeRows(None, None, fitted.fit_states[:0])
    table = first_rows(X_fit, _REPLAYED_ROWS, fitted.region.schema.feature_names)
    known = fitted.fit_states[:_REPLAYED_ROWS]  # not these rows if the table is read in chunks
    states = fitted.region.states(table) if is_large(X_fit) else known
    return NativeRows(table, _classes(parsed, table), states)


def replay(
    original: Model,
    smaller: Model,
    region: Region,
    problem: Problem,
    pruned: PrunedForest,
    points: npt.NDArray[np.int32],
    rows: NativeRows,
) -> None:
    """Compare the two native models on rows of X_fit and on the hardest points of the search.

    On the points, margins are also compared with the integers of the proof. A difference would be
    a bug in the proof, the exporter or the library; then no result is built.
    """
    after = None if rows.classes is None else _classes(smaller, rows.table)
    if rows.classes is not None and after is not None:
        # classes may differ where the original is undecided, nowhere else
        wrong = (rows.classes != after) & problem.settled(rows.states)
        if wrong.any():
            raise PineBoostError(
                f"Internal error: the native models differ on a row of X_fit (number {int(np.argmax(wrong))}) "
                "although the proof says they cannot. Nothing was certified; please report this."
            )
    replay_points(problem, region.schema, (original, smaller), pruned, points[:_REPLAYED_ROWS])


def _classes(model: Model, table: Any) -> IntArray | None:
    try:
        return predict_classes(model, table)
    except ImportError:  # no native library here; reading and proving do not need it
        return None


def replay_points(
    problem: Problem, schema: InputSchema, models: tuple[Model, Model], pruned: PrunedForest, states: npt.NDArray[Any]
) -> None:
    """Raise unless margins and classes of both native models match the integers.

    Inside a rounding band either class is right and only the margins are compared. Nothing is
    compared if the native library is not installed.

    Parameters
    ----------
    problem : Problem
    schema : InputSchema
        The columns of a table of real inputs.
    models : the original and the exported pruned model
    pruned : PrunedForest
        The forest that was exported as the pruned model.
    states : (n_points, n_features)
    """
    matrix = problem.space.representative(states)
    usable = ~np.isinf(matrix).any(axis=1)  # not every library accepts infinities
    if not usable.any():
        return
    table = as_table(matrix[usable], schema)
    leaves = problem.trees.leaves(states[usable])
    try:
        original, smaller = (replace(model, native=load_native(model)) for model in models)
    except ImportError:  # reading and proving need no native library
        return
    before = problem.original_margins_int(leaves)
    band = original_band(problem)
    _compare(problem, original, table, (before, problem.least, problem.scale), band)
    after = problem.pruned_margins_int(pruned, leaves)
    needed = problem.needed_sides(pruned.grid)
    _compare(problem, smaller, table, (after, needed, pruned.grid), None)


def _compare(
    problem: Problem, model: Model, table: Any, expected: tuple[IntArray, IntArray, int], band: float | None
) -> None:
    """Compare classes and margins of one native model; ``band`` is None for the pruned one."""
    which = "pruned" if band is None else "original"
    margins, least, scale = expected
    lowest, highest = certain_classes(problem, margins, least)
    classes = predict_classes(model, table)
    wrong = (classes < lowest) | (classes > highest)
    if wrong.any():
        row = int(np.argmax(wrong))
        _object(
            f"the native {which} model predicts class {classes[row]} where the integers say "
            f"{lowest[row]} to {highest[row]}"
        )
    predicted = predict_margins(model, table)
    if predicted is None:
        return
    native, blur = predicted
    distance = np.abs(native - np.ldexp(margins.astype(np.float64), -scale)).max()
    # on the grid every sum is exact; after a division it is off by at most one unit (see exporters)
    proved = band + blur if band is not None else np.ldexp(float(blur > 0), -scale)
    if not distance <= proved:
        _object(f"the native {which} margin is {distance:g} off the integers, proved is {proved:g}")


def certain_classes(problem: Problem, margins: IntArray, least: IntArray) -> tuple[IntArray, IntArray]:
    """Return the lowest and highest class (or band) that integer margins leave open for each point.

    ``least`` is the value of `Problem.sides` per question from which a class is certain.
    """
    is_decided = problem.sides(margins) >= least
    if problem.forest.n_outputs == 1:
        above = np.array([question.sign > 0 for question in problem.questions])
        lowest = is_decided[:, above].sum(axis=1)
        return lowest, len(problem.forest.decision.cuts) - is_decided[:, ~above].sum(axis=1)
    lowest = np.zeros(len(margins), dtype=np.int64)
    highest = np.full(len(margins), problem.forest.n_outputs - 1, dtype=np.int64)
    for index, own in enumerate(problem.class_questions):
        wins = is_decided[:, own].all(axis=1)
        lowest[wins] = highest[wins] = index
    return lowest, highest


def original_band(problem: Problem) -> float:
    """Bound |native margin of the original - integer margin / 2**scale| for every input."""
    if not problem.strict.all():  # exact arithmetic, exact integers
        return 0.0
    band = summation_band(problem.forest)
    if not original_scale(problem.forest)[1]:  # leaves that are not integer multiples of the unit
        band += float(np.ldexp(problem.forest.n_trees + 1, -problem.scale - 1))
    return band


def _object(what: str) -> None:
    raise PineBoostError(
        f"Internal error: {what} (points of the search were replayed). Nothing was certified; please report this."
    )
