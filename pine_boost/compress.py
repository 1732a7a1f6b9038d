"""compress_booster: a smaller model of the same kind, and an exact statistic about future inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pine_boost.budget import Budget, Step, StopReason
from pine_boost.compression.attack import attack
from pine_boost.compression.cost import LEAVES, TREES
from pine_boost.compression.fixed_sequence import expected_share, require_rows
from pine_boost.compression.goal import Goal
from pine_boost.compression.options import CompressOptions
from pine_boost.compression.path import find_path, set_up
from pine_boost.compression.reading import read_for_compression, read_tables
from pine_boost.compression.result import CompressResult, build_compress_result
from pine_boost.compression.validation import choose_chains, validate
from pine_boost.parsers import open_pickle
from pine_boost.pipelines.unwrapping import unwrap
from pine_boost.progress import shown
from pine_boost.simplification import lossless_part
from pine_boost.tables.overlap import hashes_of
from pine_boost.tables.reused_rows import refuse_spent

# Shares of a limited time: the path's share of what is left, then the test's; the attack gets the rest.
_PATH_SHARE, _TEST_SHARE = 0.6, 0.85


def compress_booster(
    model: Any,
    X_fit: Any,
    X_val: Any,
    *,
    fidelity: float = 0.99,
    confidence: float = 0.95,
    tolerance: float | None = None,
    unit: str = "leaf",
    threshold: float | Sequence[float] | None = None,
    time_limit: float | None = None,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
    verbose: bool | None = None,
    allow_overlap: bool = False,
    segments: Any = None,
    spent: Any = None,
    trust_pickle: bool = False,
) -> CompressResult:
    """Return a much smaller model of the same kind that keeps nearly every answer.

    With the stated confidence over the draw of X_val, a future input from the same source gets
    the class that the original gives it with probability at least ``fidelity``. This is a
    statistic, not a proof; it works for models of any size. `prune_booster` proves.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM or scikit-learn tree ensemble, also a regressor or ranker, or
        a Pipeline, threshold wrapper or calibrated classifier around one; never modified.
    X_fit : table
        Rows that shape the smaller model (the training rows are fine); no labels needed. Of very
        many a seeded sample of up to 240 000 is looked at. Both tables may be larger than memory:
        Parquet files or folders, pyarrow Datasets, Dask DataFrames.
    X_val : table
        Rows that nothing else has seen, neither the model nor you. They decide which size is
        returned and are spent by it: another call needs other rows for its promise.
    fidelity : float
        Share of future inputs that must keep their answer.
    confidence : float
        Of the statement, over the draw of X_val.
    tolerance : float, optional
        Classifiers: no probability may move by more either; refused with a calibrator around the
        ensemble. Regressors and rankers, where it is required: the raw value may not move by more.
    unit : {"leaf", "tree"}
        Collapse subtrees, or drop whole trees only.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1; on the raw margin, before any
        link, for regressors and rankers. Several, ascending, make score bands.
    time_limit : float, optional
        Seconds for the whole call: rows, path, test and attack each have their part. Where they are
        short fewer synthetic rows are drawn, the path takes larger steps, and fewer sizes are
        tested, one at least; the promise is the same.
    random_state : int
        Seed of everything random. The same call gives the same result (without a time limit).
    callback : callable, optional
        Called with a `Step` after each step of the path.
    verbose : bool, optional
        Show progress on stderr; by default on a terminal and in a notebook, unless there is a
        callback.
    allow_overlap : bool
        Go on although X_val evidently repeats rows of X_fit; the result is only MEASURED then.
    segments : column, labels or mapping of them, optional
        Changed rows are counted per segment of X_val too.
    spent : Survey or path, optional
        A survey, or the file that it was saved to: rows that it looked at are refused as X_val.
    trust_pickle : bool
        As for `prune_booster`.

    Returns
    -------
    CompressResult
        ``status`` is ``"VALIDATED"``, ``"MEASURED"`` (overlapping rows) or ``"NOT_VALIDATED"``
        (no smaller model passed; ``model`` is the original).

    Raises
    ------
    UnsupportedModelError
        The model is of a kind whose leaves cannot be changed freely (AdaBoost), or unreadable.
    InvalidInputError
        X_val is too small for the target, repeats X_fit, was looked at by the survey ``spent``,
        or tables and options do not fit.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> import pine_boost
    >>> X, y = make_classification(2000, random_state=0)
    >>> gb = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X[:1000], y[:1000])
    >>> result = pine_boost.compress_booster(gb, X[:1000], X[1000:], fidelity=0.95)
    >>> result.status
    'VALIDATED'
    >>> result.leaves_after < result.leaves_before
    True
    """
    source = open_pickle(model, trust_pickle)
    outer = unwrap(source, threshold)  # a Pipeline, thresholds, calibration; or nothing at all
    outer.require_own_probabilities(tolerance)
    options = CompressOptions(
        fidelity,
        confidence,
        tolerance,
        unit,
        outer.threshold,
        time_limit,
        random_state,
        callback,
        allow_overlap,
        outer.raw_column(segments, X_val),
    )
    budget = Budget.of(time_limit)
    # rows
    parsed = read_for_compression(outer.inner, options)
    tables = read_tables(parsed, outer.rows(X_fit), outer.rows(X_val), options)
    refuse_spent(spent, hashes_of(tables.val), "X_val")
    require_rows(tables.val.n_rows, fidelity, confidence)
    lossless = lossless_part(parsed)  # the same margins from fewer leaves, if there are any
    goal = Goal(lossless.forest, parsed.forest.decides, tolerance)
    task = set_up(goal, TREES if unit == "tree" else LEAVES, tables.fit, random_state, budget)
    # path; it and the choice from it are fixed before a row of X_val is predicted
    share = expected_share(tables.val.n_rows, fidelity, confidence)
    with shown(verbose, time_limit, callback) as report_progress:
        part = replace(budget.until(_PATH_SHARE), callback=report_progress)
        found, stopped = find_path(task, share, part, parsed.forest)
    # test
    chains = choose_chains(found, share)
    validated = validate(parsed, lossless, task, chains, tables, options, budget.until(_TEST_SHARE))
    stopped = validated.stopped if stopped is StopReason.EFFORT else stopped
    # record
    smaller = None if validated.written is None else validated.written.shape
    attacked = attack(task, smaller, tables.fit, random_state, budget)
    result = build_compress_result(parsed, goal, validated, attacked, tables, options, stopped, budget)
    whole: CompressResult = outer.rewrap(result)
    return whole
