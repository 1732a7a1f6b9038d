"""`sweep`: one model pruned for many alphas, with a certified answer for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pine_boost import build_result
from pine_boost.budget import CHOOSING, Budget, OutOfTime, Step, finishing
from pine_boost.errors import InvalidInputError, MissingDependencyError, RegionError, install_with
from pine_boost.model.forest import Model
from pine_boost.notebooks import table_html
from pine_boost.options import Options, given, plural, require_level
from pine_boost.plots import given_or_new
from pine_boost.progress import say, shown
from pine_boost.prune import open_model, search_task
from pine_boost.region.domain import Domain
from pine_boost.region.fitting import FittedRegion, fit_with_states
from pine_boost.region.region import Region
from pine_boost.result import PruneResult
from pine_boost.search.choose_indifference import Chosen, choose_indifference
from pine_boost.search.driver import SweepPlan, search_alphas
from pine_boost.tables.native import split_tables

ALPHAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """One certified result per alpha, ascending.

    Attributes
    ----------
    results : tuple of PruneResult
    seconds : float
        Duration of the whole sweep.
    """

    results: tuple[PruneResult, ...]
    seconds: float

    @property
    def alphas(self) -> tuple[float, ...]:
        """The grid, ascending."""
        return tuple(result.certificate.alpha for result in self.results)

    def __getitem__(self, alpha: float) -> PruneResult:
        """Return the result of one alpha of the grid."""
        for result in self.results:
            if result.certificate.alpha == alpha:
                return result
        listed = ", ".join(f"{known:g}" for known in self.alphas)
        raise KeyError(f"alpha={alpha!r} was not swept; there are {listed}.")

    def __iter__(self) -> Iterator[PruneResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per alpha: status, trees, leaves, share removed, bound, seconds."""
        rows = []
        for result in self.results:
            c = result.certificate
            row = {
                "alpha": c.alpha,
                "status": c.status,
                "trees": c.trees_after,
                "leaves": c.leaves_after,
                "removed": result.pruning_rate,
                "lower_bound": c.lower_bound,
                "optimal": c.optimal,
                "seconds": result.search.seconds,
            }
            rows.append(row)
        return rows

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingDependencyError(f"to_pandas needs pandas; use table(), or {install_with('tables')}") from error
        return pandas.DataFrame(self.table())

    def plot(self, ax: Any = None) -> Any:
        """Plot the share of trees removed over alpha with matplotlib; returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure without it.
        """
        ax = given_or_new(ax)
        rows = self.table()
        units = plural(self.results[0].certificate.unit)
        ax.plot([r["alpha"] for r in rows], [100 * r["removed"] for r in rows], marker="o")
        open_ = [r for r in rows if r["status"] != "CERTIFIED"]
        if open_:
            ax.plot(
                [r["alpha"] for r in open_],
                [100 * r["removed"] for r in open_],
                "x",
                color="C3",
                label="not certified in time",
            )
            ax.legend()
        ax.set_xlabel("alpha (share of inputs that may lie outside the region)")
        ax.set_ylabel(f"{units} removed (%)")
        ax.set_ylim(bottom=0)
        return ax

    def __repr__(self) -> str:
        listed = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return f"<SweepResult of alpha {listed}>"

    def __str__(self) -> str:
        unit = plural(self.results[0].certificate.unit)
        removed, least = f"{unit} removed", f"{unit} needed"
        lines = [f"alpha  trees  leaves  {removed}  {least}  status"]
        for row in self.table():
            mark = " (fewest)" if row["optimal"] else ""
            lines.append(
                f"{row['alpha']:<5g}  {row['trees']:>5}  {row['leaves']:>6}  "
                f"{row['removed']:>{len(removed)}.0%}  {row['lower_bound']:>{len(least)}}  "
                f"{row['status']}{mark}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.table()
        return table_html(list(rows[0]), [[_words(value) for value in row.values()] for row in rows])


def sweep(
    model: Any,
    X_fit: Any,
    X_cal: Any = None,
    *,
    alphas: Iterable[float] | None = None,
    indifference: float | str = 0.0,
    time_limit: float | None = None,
    callback: Callable[[float, Step], None] | None = None,
    score: Any = "chow-liu",
    n_bins: int = 4,
    objective: str = "l0",
    unit: str = "round",
    reweight: str | None = None,
    threshold: float | Sequence[float] | None = None,
    domain: Domain | None = None,
    n_jobs: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    allow_overlap: bool = False,
    spent: Any = None,
    trust_pickle: bool = False,
) -> SweepResult:
    """Prune one model for many alphas, each result with its own certificate.

    Rows and cuts found for a large alpha are reused for smaller ones, and a model proved for a small
    alpha is reused for larger ones that need as many trees. A sweep therefore costs less than separate
    calls, especially if one alpha is hard. Each result has the guarantee of `prune_booster` for its
    alpha, proved by CP-SAT in two configurations; `verify` adds the proof by boxes. The guarantee
    holds for an alpha fixed beforehand; to choose one by looking at data, use `select_alpha`.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, or a Pipeline,
        threshold wrapper or calibrated classifier around one. It is never modified.
    X_fit : table
        Rows on which the plausibility score is fitted; the training rows are fine. No labels are
        needed.
    X_cal : table, optional
        Unseen rows on which the region is calibrated; without them, 20 % of X_fit are split off
        (seeded). Then X_fit must not contain training rows.
    alphas : iterable of float, optional
        The values of alpha to prune for, by default 0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8. The default
        leaves out values for which ``indifference`` or a domain leave no room.
    indifference : float or "auto"
        Share of inputs nearest to the decision boundary that the region may leave out, or auto to
        choose it. ``"auto"`` chooses one share of alpha for the whole grid, at its middle, using
        X_fit alone.
    time_limit : float, optional
        Seconds for the whole sweep; every alpha gets an equal share of the time that is left.
    callback : callable, optional
        Called with alpha and a `Step` after each step of a search.
    score : {"chow-liu", "leaf-support", "isolation-forest"} or object
        What makes an input plausible: pairs of values that occur together (chow-liu), leaves that
        rows reach (leaf-support), or few cuts needed to isolate it (isolation-forest). A score of
        your own is accepted too.
    n_bins : int
        Number of bins per numeric feature of the Chow-Liu score.
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
    n_jobs : int
        Number of threads for the proofs, -1 for all cores; the result does not depend on it.
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
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
    SweepResult

    Raises
    ------
    UnsupportedModelError, InvalidInputError, RegionError
        As in `prune_booster`.

    Examples
    --------
    >>> import pine_boost, xgboost
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> booster = xgboost.XGBClassifier(n_estimators=10, max_depth=2).fit(X[:300], y[:300])
    >>> swept = pine_boost.sweep(booster, X[:300], X[300:450], alphas=[0.1, 0.4])
    >>> swept.alphas
    (0.1, 0.4)
    >>> swept[0.4].pruning_rate >= swept[0.1].pruning_rate
    True
    """
    grid = read_alphas(ALPHAS if alphas is None else alphas)
    options = given(Options, {**locals(), "alpha": max(grid)})
    budget = Budget.of(time_limit)
    outer, parsed, options = open_model(model, options, trust_pickle)
    is_whole = options.asks_for_everything
    X_fit, X_cal = split_tables(parsed.forest, outer.rows(X_fit), outer.rows(X_cal), random_state, is_whole)
    middle = grid[len(grid) // 2]  # fixed before X_cal is read, which must not influence the choice
    with shown(options.verbose, time_limit, callback) as report_progress:
        try:
            say(report_progress, "fitting the region")
            fitted = fit_with_states(parsed.forest, X_fit, X_cal, options, budget=budget, spent=spent)
            if options.indifference == "auto":
                say(report_progress, CHOOSING)
            chosen = choose_indifference(parsed.forest, fitted, middle, budget, options)
        except (OutOfTime, KeyboardInterrupt) as end:
            made = build_result.made_with(outer.inner, options)
            late = [build_result.without_search(parsed, options, alpha, end, made) for alpha in grid]
            return SweepResult(tuple(outer.rewrap(r, X_fit) for r in late), budget.elapsed)
        if alphas is None:
            grid = tuple(alpha for alpha in grid if _has_room(fitted.region, alpha))
        made = build_result.made_with(outer.inner, options, chosen.choice)
        task = search_task(chosen.problem, fitted, options, parsed)
        plan = SweepPlan(task, chosen.region, grid, budget.share(1.0), report_progress)
        results = list(_build_results(parsed, plan, chosen, fitted, X_fit, made))
    whole = tuple(outer.rewrap(result, X_fit) for result in results)
    return SweepResult(whole, budget.elapsed)


def _build_results(
    parsed: Model, plan: SweepPlan, chosen: Chosen, fitted: FittedRegion, X_fit: Any, made: Mapping[str, Any]
) -> Iterator[PruneResult]:
    """Build one result per alpha, replayed natively; a model that answers several alphas is exported once."""
    options = plan.whole.options
    result: PruneResult | None = None

    @cache
    def rows() -> build_result.NativeRows:
        return build_result.native_rows(parsed, fitted, X_fit)

    for region, problem, found in search_alphas(plan):
        with finishing():  # Ctrl-C ends the search, not the construction of its result
            own = replace(chosen, region=region, problem=problem)
            own, found = own.weigh(found, fitted.region.with_alpha(region.alpha), options.unit)
            result = build_result.build_prune_result(
                parsed,
                own.region,
                own.problem,
                found,
                options,
                same=result if result is not None and found.pruned is result.search.pruned else None,
                rows=rows,
                cal=fitted.cal_rows,
                budget=plan.budget.part("serving margin"),
                made=made,
            )
        yield result


def read_alphas(alphas: Iterable[float]) -> tuple[float, ...]:
    """Return the grid in ascending order without repetition; raise unless all are numbers in [0, 1)."""
    try:
        grid = [float(alpha) for alpha in alphas]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"alphas must be a list of numbers, got {alphas!r}.", option="alphas") from error
    for alpha in grid:
        require_level(alpha, "alpha")
    if not grid:
        raise InvalidInputError("alphas is empty; give at least one number in [0, 1).")
    return tuple(sorted(set(grid)))


def _has_room(region: Region, alpha: float) -> bool:
    """Return whether an alpha is feasible in spite of rows that are always outside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            region.with_alpha(alpha)
        except (InvalidInputError, RegionError):
            return False
    return True


def _words(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
