"""A survey: what can be had for a model, with which kind of promise, by which call.

In come a model, X_fit and rows to look at; out goes a table. All figures are estimates, as the rows
were looked at to choose: `Survey.check` refuses them as calibration or validation rows later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pine_boost.budget import SHARES, Budget, Step
from pine_boost.certificate.claims import lossless_offer, proved_offer, statistic_offer
from pine_boost.compression.cost import LEAVES
from pine_boost.compression.fixed_sequence import allowed, expected_share, fewest_rows
from pine_boost.compression.goal import Goal
from pine_boost.compression.path import find_path, set_up
from pine_boost.compression.reading import Tables, read_for_compression, read_tables, require_tolerance
from pine_boost.compression.shape import LosslessPart
from pine_boost.compression.validation import choose_chains, validate
from pine_boost.errors import PineBoostError
from pine_boost.model.forest import Model
from pine_boost.options import AUTO, CompressOptions, as_call, as_command, require_seconds
from pine_boost.parsers import open_pickle, read_model
from pine_boost.pipelines.unwrapping import unwrap
from pine_boost.progress import shown
from pine_boost.report.measure import file_contents, measure_speeds
from pine_boost.survey_result import Offer, Survey
from pine_boost.tables.overlap import hashes_of

ALPHAS = (0.0, 0.05, 0.1, 0.2)
FIDELITIES = (0.999, 0.995, 0.99, 0.98)
_CONFIDENCE = 0.95
_NOTHING = "nothing smaller was found"


class Asked(NamedTuple):
    """A call of the library: what `as_call` and `as_command` write."""

    function: str
    tables: tuple[str, ...] = ()
    options: Mapping[str, Any] | None = None


def survey(
    model: Any,
    X_fit: Any,
    X_look: Any,
    *,
    tolerance: float | None = None,
    threshold: float | Sequence[float] | None = None,
    time_limit: float = 60.0,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
    verbose: bool | None = None,
    trust_pickle: bool = False,
) -> Survey:
    """Try everything for a while and say what could be had: lossless, proved, compressed.

    Figures are estimates. X_look is spent by it: `Survey.check` refuses its rows for a promise.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM or scikit-learn tree ensemble, or a Pipeline, threshold wrapper
        or calibrated classifier around one. It is never modified.
    X_fit : table
        Rows to fit on; the training rows are fine.
    X_look : table
        Held-out rows that you can do without later; no promise can be made on them afterwards.
    tolerance : float, optional
        How far a value may move: for classifiers no probability, for regressors and rankers (where
        it is required) no raw value moves by more. It is refused with a calibrator around the
        ensemble.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1 (for regressors and rankers, on
        the raw margin before any link function); several ascending values define score bands.
    time_limit : float
        Seconds, half of them for proofs.
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
    callback : callable, optional
        Called with a `Step` after each step of a search.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    Survey

    Raises
    ------
    UnsupportedModelError, InvalidInputError
        The model cannot be read, or the tables do not fit it or one another.

    Examples
    --------
    >>> import pine_boost
    >>> from sklearn import datasets, ensemble
    >>> X, y = datasets.load_breast_cancer(return_X_y=True)
    >>> forest = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0)
    >>> forest = forest.fit(X[:250], y[:250])
    >>> found = pine_boost.survey(forest, X[:250], X[250:], time_limit=10)
    >>> found.offers[0].promise
    'the original'
    >>> found.offers[1].promise
    'lossless: the same margin on every input'
    """
    require_seconds(time_limit)
    budget = Budget.of(time_limit)
    source = open_pickle(model, trust_pickle)
    outer = unwrap(source, threshold)  # figures are those of the ensemble inside
    outer.require_own_probabilities(tolerance)
    model, threshold = outer.inner, outer.threshold
    X_fit, X_look = outer.rows(X_fit), outer.rows(X_look)
    parsed = read_model(model, threshold=threshold, decision="value")
    require_tolerance(parsed, tolerance)
    has_classes = parsed.forest.decides
    options = CompressOptions(tolerance=tolerance, threshold=threshold, random_state=random_state)
    tables = read_tables(parsed, X_fit, X_look, options)
    offers = [_offer(parsed, parsed, tables, "the original", None, budget)]
    offers.append(_lossless(model, parsed, tables, budget))
    with shown(verbose, time_limit, callback) as report_progress:
        budget = replace(budget, callback=report_progress)
        if has_classes:
            proofs = budget.share(SHARES["survey proofs"])
            offers += _proved(model, parsed, X_fit, X_look, tables, options, proofs)
        offers += _compressed(model, parsed, tables, options, budget)
    return Survey(tuple(offers), tables.val.n_rows, budget.elapsed, hashes_of(tables.val), parsed)


def _offer(
    parsed: Model, found: Model, tables: Tables, promise: str, call: Asked | None, budget: Budget, note: str = ""
) -> Offer:
    speed = None
    if found is not parsed and not budget.is_over:
        some = tables.val.take(np.arange(min(tables.val.n_rows, 1000)))
        speeds = measure_speeds(parsed, found, some, budget.share(SHARES["survey speeds"]))
        speed = speeds[0].ratio if speeds else None
    elif found is parsed and not note and call:
        note = _NOTHING
    forest = found.forest
    size = len(file_contents(found))
    texts = ("", "") if call is None else (as_call(*call), as_command(*call))
    return Offer(promise, forest.n_trees, forest.n_leaves, size, speed, note, *texts)


def _lossless(model: Any, parsed: Model, tables: Tables, budget: Budget) -> Offer:
    from pine_boost.simplification import simplify

    promise, call = lossless_offer(), Asked("simplify")
    try:
        result = simplify(model)
    except PineBoostError as error:
        return _offer(parsed, parsed, tables, promise, call, budget, f"refused: {error}"[:200])
    found = result.simplified if result.leaves_after < result.leaves_before else parsed
    return _offer(parsed, found, tables, promise, call, budget)


def _proved(
    model: Any, parsed: Model, X_fit: Any, X_look: Any, tables: Tables, options: CompressOptions, budget: Budget
) -> Iterator[Offer]:
    """Proved at a few alphas, and once with the toss-ups given up; each gets its share of time."""
    from pine_boost.prune import prune_booster

    asked: list[tuple[float, float | str]] = [(a, 0.0) for a in sorted(ALPHAS, reverse=True)]
    asked.append((0.1, AUTO))
    given = {} if options.threshold is None else {"threshold": options.threshold}
    for position, (alpha, indifference) in enumerate(asked):
        extra = {"indifference": indifference} if indifference else {}
        call = Asked("prune_booster", ("X_fit", "X_cal"), {"alpha": alpha, **extra, **given, "spent": "survey"})
        promise = proved_offer(alpha, indifference)
        part = budget.share(1 / (len(asked) - position))
        try:
            result = prune_booster(
                model,
                X_fit,
                X_look,
                alpha=alpha,
                indifference=indifference,
                threshold=options.threshold,
                time_limit=max(part.remaining, 0.1),
                random_state=options.random_state,
                callback=budget.callback,
                verbose=False,
            )
        except PineBoostError as error:
            yield _offer(parsed, parsed, tables, promise, call, budget, f"refused: {error}"[:200])
            continue
        smaller = result.certificate.trees_after < result.certificate.trees_before
        note = "" if result.status == "CERTIFIED" else "not proved in this time"
        found = result.pruned if smaller else parsed
        yield _offer(parsed, found, tables, promise, call, budget, note)


def _compressed(model: Any, parsed: Model, tables: Tables, options: CompressOptions, budget: Budget) -> Iterator[Offer]:
    """One path, tested on the rows that are looked at for each target."""
    extra = {name: getattr(options, name) for name in ("tolerance", "threshold")}
    extra = {name: value for name, value in extra.items() if value is not None}
    kept = "value" if parsed.forest.n_outputs == 1 and not parsed.forest.decision.cuts else "class"
    calls = {
        fidelity: Asked("compress_booster", ("X_fit", "X_val"), {"fidelity": fidelity, **extra, "spent": "survey"})
        for fidelity in FIDELITIES
    }
    promises = {fidelity: statistic_offer(fidelity, _CONFIDENCE, kept) for fidelity in FIDELITIES}
    try:
        parsed = read_for_compression(model, options)
    except PineBoostError as error:
        for fidelity in FIDELITIES:
            note = f"refused: {error}"[:200]
            yield _offer(parsed, parsed, tables, promises[fidelity], calls[fidelity], budget, note)
        return
    goal = Goal(parsed.forest, parsed.forest.decides, options.tolerance)
    task = set_up(goal, LEAVES, tables.fit, options.random_state, budget)
    whole = LosslessPart(parsed.forest, parsed.forest)
    n_look = tables.val.n_rows
    part = budget.until(SHARES["compression path"])
    path, _ = find_path(task, 1 - min(FIDELITIES), part, parsed.forest)
    for n_before, fidelity in enumerate(FIDELITIES):
        promise, call = promises[fidelity], calls[fidelity]
        n_allowed = allowed(n_look, fidelity, _CONFIDENCE)
        if n_allowed < 0:
            note = f"needs {fewest_rows(fidelity, _CONFIDENCE)} rows, X_look has {n_look}"
            yield _offer(parsed, parsed, tables, promise, call, budget, note)
            continue
        share = expected_share(n_look, fidelity, _CONFIDENCE)
        target = CompressOptions(fidelity=fidelity, tolerance=options.tolerance)
        chains = choose_chains(path, share)
        own = budget.until(1 / (len(FIDELITIES) - n_before))
        found = validate(parsed, whole, task, chains, tables, target, own, own).written
        best = parsed if found is None else found.model
        yield _offer(parsed, best, tables, promise, call, budget)
