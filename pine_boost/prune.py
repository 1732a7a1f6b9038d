"""`prune_booster`: parse, calibrate the region, search, export, certify.

A model that was not proved is never returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from pine_boost.budget import SHARES, Budget, OutOfTime, Step, finishing
from pine_boost.build_result import build_prune_result, made_with, native_rows, without_search
from pine_boost.certificate.claims import expectation_of
from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import Model, count_units
from pine_boost.model.routing import require_size
from pine_boost.native.child_process import read_and_try
from pine_boost.options import Options, given
from pine_boost.parsers import open_pickle
from pine_boost.parsers.traits import traits_of
from pine_boost.pipelines.unwrapping import Wrapper, unwrap
from pine_boost.progress import note, say, shown
from pine_boost.proof.enumeration import is_listable
from pine_boost.proof.problem import Problem
from pine_boost.region.domain import Domain
from pine_boost.region.fitting import FittedRegion, fit_with_states
from pine_boost.result import PruneResult
from pine_boost.search.choose_indifference import choose_indifference
from pine_boost.search.driver import search_booster
from pine_boost.search.search_state import SearchTask
from pine_boost.tables.native import split_tables


def prune_booster(
    model: Any,
    X_fit: Any = None,
    X_cal: Any = None,
    *,
    alpha: float = 0.1,
    score: Any = "chow-liu",
    n_bins: int = 4,
    indifference: float | str = 0.0,
    objective: str = "l0",
    unit: str = "round",
    reweight: str | None = None,
    threshold: float | Sequence[float] | None = None,
    domain: Domain | None = None,
    time_limit: float | None = None,
    n_jobs: int = 1,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
    verbose: bool | None = None,
    allow_overlap: bool = False,
    spent: Any = None,
    trust_pickle: bool = False,
) -> PruneResult:
    """Return a smaller model of the same kind that provably predicts the same classes.

    For every input of the calibrated region the native ``predict`` of the result gives the class
    that the native ``predict`` of ``model`` gives; a future input, exchangeable with X_cal, lies
    in the region with probability at least ``1 - alpha``, over the draw of X_cal and of the input.
    Rows of X_fit keep their class too, except those on which the original is undecided: nearer to
    its decision than indifference or the rounding band leaves open.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, or a Pipeline,
        threshold wrapper or calibrated classifier around one. It is never modified.
    X_fit : table, optional
        Rows on which the plausibility score is fitted; the training rows are fine. No labels are
        needed. With ``alpha=0`` the table may be left out.
    X_cal : table, optional
        Unseen rows on which the region is calibrated; without them, 20 % of X_fit are split off
        (seeded). Then X_fit must not contain training rows.
    alpha : float
        Share of future inputs that may fall outside the region; 0 covers every input (faithful
        pruning).
    score : {"chow-liu", "leaf-support", "isolation-forest"} or object
        What makes an input plausible: pairs of values that occur together (chow-liu), leaves that
        rows reach (leaf-support), or few cuts needed to isolate it (isolation-forest). A score of
        your own is accepted too.
    n_bins : int
        Number of bins per numeric feature of the Chow-Liu score.
    indifference : float or "auto"
        Share of inputs nearest to the decision boundary that the region may leave out, or auto to
        choose it. ``"auto"`` splits alpha between rare inputs and inputs near the decision boundary
        so that the model becomes small, using X_fit alone; it is 0 if splitting does not give a
        smaller model.
    objective : {"l0", "l1"}
        Minimise the number of trees (l0) or the sum of their weights (l1, faster).
    unit : {"round", "tree", "leaf"}
        What is counted and dropped: boosting rounds (one tree per class), single trees, or leaves.
        With leaves, subtrees may be collapsed into leaves and all leaf values are refitted.
    reweight : {"tree", "leaf"}, optional
        What is refitted in the trees that are kept: one weight per tree, or every leaf value, which
        needs fewer trees. The default is "leaf", and "tree" where leaves are votes or class shares
        (forests) or with ``objective="l1"``.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1 (for regressors and rankers, on
        the raw margin before any link function); several ascending values define score bands.
    domain : Domain, optional
        What is known about every input that can occur.
    time_limit : float, optional
        Seconds after which the best model certified so far is returned, at worst the original;
        without a limit the search ends when everything has been tried, which may take many minutes.
        If the time is over before the region is fitted, the status is NOT_CERTIFIED.
    n_jobs : int
        Number of threads for the proofs, -1 for all cores; the result does not depend on it.
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
    callback : callable, optional
        Called with a `Step` after each step of the search.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.
    allow_overlap : bool
        Continue although rows of X_cal also occur in X_fit; then no probability is promised.
    spent : Survey or path, optional
        Survey or survey file; its rows are refused here.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    PruneResult

    Raises
    ------
    UnsupportedModelError
        The model is of a kind that cannot be proved exactly.
    InvalidInputError, RegionError
        The tables or options do not fit the model or one another.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> import pine_boost
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> gb = GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0)
    >>> gb = gb.fit(X[:300], y[:300])
    >>> result = pine_boost.prune_booster(gb, X[:300], X[300:450], alpha=0.2)
    >>> result.status
    'CERTIFIED'
    >>> result.model.n_estimators_ < 20
    True
    """
    options = given(Options, locals())
    budget = Budget.of(time_limit, callback=callback)
    outer, parsed, options = open_model(model, options, trust_pickle)
    X_fit, X_cal = split_tables(
        parsed.forest, outer.rows(X_fit), outer.rows(X_cal), random_state, options.asks_for_everything
    )
    with shown(options.verbose, time_limit, callback) as report_progress:
        try:
            say(report_progress, "fitting the region")
            fitted = fit_with_states(parsed.forest, X_fit, X_cal, options, budget=budget, spent=spent)
            if options.verbose is not False and (expected := _expectation(parsed, fitted, options)):
                note(report_progress, expected)
            budget = replace(budget, callback=report_progress)
            chosen = choose_indifference(parsed.forest, fitted, alpha, budget, options)
            part = budget.share(1.0 if chosen.region.delta is None else SHARES["search"])
            task = search_task(chosen.problem, fitted, options, parsed)
            found = search_booster(task, part, chosen.points)
            chosen, found = chosen.weigh(found, fitted.region, unit)
        except (OutOfTime, KeyboardInterrupt) as end:  # before the search began
            original = without_search(parsed, options, alpha, end, made_with(outer.inner, options))
            return cast(PruneResult, outer.rewrap(original, X_fit))
    with finishing():  # Ctrl-C ends the search, not what makes its result
        result = build_prune_result(
            parsed,
            chosen.region,
            chosen.problem,
            found,
            options,
            rows=lambda: native_rows(parsed, fitted, X_fit),
            cal=fitted.cal_rows,
            budget=budget,
            made=made_with(outer.inner, options, chosen.choice),
        )
    return cast(PruneResult, outer.rewrap(result, X_fit))


def _expectation(parsed: Model, fitted: FittedRegion, options: Options) -> str:
    """What a user should know before the search begins; empty where the model is likely to shrink."""
    forest = parsed.forest
    if is_listable(fitted.region.tables):
        return ""
    size = (count_units(forest, "round"), forest.n_leaves, forest.n_trees)
    return expectation_of(*size, options.alpha, options.indifference)


def open_model(model: Any, options: Options, trust_pickle: bool = False) -> tuple[Wrapper, Model, Options]:
    """The wrapper around the ensemble, if any, and the ensemble, parsed and tried natively; and what is refitted in it.

    Raises before any table is read if the model cannot be searched.
    """
    source = open_pickle(model, trust_pickle)
    outer = unwrap(source, options.threshold)  # a Pipeline, thresholds, calibration
    parsed = read_and_try(outer.inner, threshold=outer.threshold)
    require_size(parsed.forest)
    if options.asks_for_leaves:
        require_free_leaves(parsed)
    return outer, parsed, replace(options, reweight=options.reweight_of(has_free_leaves(parsed)))


def search_task(problem: Problem, fitted: FittedRegion, options: Options, model: Model) -> SearchTask:
    """What to search; the monotone constraints of the model hold for leaf values of its own."""
    monotone = traits_of(model.forest.library).monotone(model) if options.reweight == "leaf" else ()
    return SearchTask(problem, fitted.fit_states, options, monotone)


def has_free_leaves(model: Model) -> bool:
    """Whether leaves are terms of a sum that may take any value, and not votes or class shares."""
    return model.forest.value.shape[1] == 1 and model.forest.free_intercept


def require_free_leaves(model: Model) -> None:
    """Raise unless the leaf values of the model may be changed one by one."""
    if not has_free_leaves(model):
        raise UnsupportedModelError(
            f"reweight='leaf' and unit='leaf' need a sum of leaf values that may take any value; "
            f"the leaves of this {model.kind} are votes, shares, or hold a value per class. Use reweight='tree' "
            "with unit='round' or 'tree'.",
            option=("reweight", "unit"),
        )
