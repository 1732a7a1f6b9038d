"""compress_booster: a smaller model of the same kind, and an exact statistic about future inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pine_boost.budget import SHARES, Budget, Outcome, Step, StopReason, to_report
from pine_boost.committee import committee_of, compress_committee
from pine_boost.compression.compress_result import CompressResult, build_compress_result
from pine_boost.compression.distance import attack
from pine_boost.compression.fixed_sequence import Target
from pine_boost.compression.goal import ERROR, default_tolerance, read_loss
from pine_boost.compression.path import find_path, set_up
from pine_boost.compression.reading import read_for_compression, read_tables
from pine_boost.compression.validation import choose, validate
from pine_boost.errors import InvalidInputError
from pine_boost.options import CompressOptions, given
from pine_boost.parsers import open_pickle
from pine_boost.pipelines.unwrapping import unwrap
from pine_boost.progress import say, shown
from pine_boost.simplification import lossless_part

_LARGE_LOSS = 0.1  # more is usually a percentage that was meant


def compress_booster(
    model: Any,
    X_fit: Any,
    X_val: Any,
    *,
    y_val: Any = None,
    max_loss: float | None = None,
    loss: Any = "error",
    loss_range: float | None = None,
    fidelity: float | None = None,
    confidence: float = 0.95,
    tolerance: float | None = None,
    minimize: str = "work",
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
    the class that the original gives it with probability at least ``fidelity``. With ``max_loss``
    and labels the promise is another one: accuracy on future inputs (or any other ``loss``) is
    worse than the original's by at most ``max_loss``. Both are statistics, not proofs; they work
    for models of any size. `prune_booster` proves.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, also a regressor or
        ranker, or a Pipeline, threshold wrapper or calibrated classifier around one; also a
        CalibratedClassifierCV or soft VotingClassifier that averages several. It is never modified.
    X_fit : table
        Rows that shape the smaller model; the training rows are fine. No labels are needed. Of very
        many rows a seeded sample of up to 240 000 is used. Both tables may be larger than memory:
        Parquet files or folders, pyarrow Datasets, Dask DataFrames.
    X_val : table
        Rows that neither the model nor you have seen, for the test. They decide which size is
        returned and are used up by it: another call needs other rows for its promise.
    y_val : labels, optional
        Labels of X_val, as the model predicts them; needed for ``max_loss``. Without it they only
        give the accuracy of both models on X_val.
    max_loss : float, optional
        How much larger the expected loss may become: 0.005 allows an accuracy that is lower by
        0.005. Then this is what is tested and promised (NON_INFERIOR), and not that answers are
        kept.
    loss : {"error", "brier", "squared"} or matrix
        Loss of a row, between 0 and 1: wrong class, half the squared error of the probabilities, or
        squared error of a regressor's raw value. A matrix holds costs from 0 to 1, rows by label,
        columns by predicted class.
    loss_range : float, optional
        With the loss "squared": the error that counts as 1. Squared errors are divided by its
        square and cut off at 1.
    fidelity : float, optional
        Share of future inputs that must keep their answer. It is 0.99 unless ``max_loss`` is given;
        with both, both are promised.
    confidence : float
        Confidence of the statement over the draw of X_val.
    tolerance : float, optional
        How far a value may move: for classifiers no probability, for regressors and rankers (where
        it is required) no raw value moves by more. It is refused with a calibrator around the
        ensemble. With the loss "brier" or "squared" it is derived from ``max_loss`` if it is left
        out.
    minimize : {"work", "leaves", "trees"}
        What is made small. Work, the trees and splits that a typical input meets: scoring time.
        Leaves: files, microcontrollers, SQL. Trees: whole trees are dropped, the others keep all
        their splits.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1 (for regressors and rankers, on
        the raw margin before any link function); several ascending values define score bands.
    time_limit : float, optional
        Seconds for the whole call, shared by reading, path, test and attack; without a limit the
        path goes to its end. If time is short, fewer synthetic rows are drawn, the path takes
        larger steps and fewer sizes are tested, at least one; the promise is the same.
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
    callback : callable, optional
        Called with a `Step` after each step of the path.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.
    allow_overlap : bool
        Continue although rows of X_val also occur in X_fit; then the result is only MEASURED.
    segments : column, labels or mapping of them, optional
        Also count the changed rows per segment, for example per value of a column of X_val.
    spent : Survey or path, optional
        Survey or survey file; its rows are refused here.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    CompressResult
        ``status`` is ``"VALIDATED"`` (answers are kept), ``"NON_INFERIOR"`` (``max_loss``),
        ``"MEASURED"`` (overlapping rows) or ``"NOT_VALIDATED"`` (no smaller model passed; ``model``
        is the original). A `CommitteeResult` for a model that averages several ensembles.

    Raises
    ------
    UnsupportedModelError
        The model is of a kind whose leaves cannot be changed freely (AdaBoost), or unreadable.
    InvalidInputError
        X_val is too small for the target, repeats X_fit, was used by the survey ``spent``,
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
    >>> result = pine_boost.compress_booster(
    ...     gb, X[:1000], X[1000:], y_val=y[1000:], max_loss=0.02
    ... )
    >>> result.status
    'NON_INFERIOR'
    """
    options = given(CompressOptions, locals())
    if max_loss is not None and max_loss > _LARGE_LOSS:
        _warn_of(max_loss, is_error=isinstance(loss, str) and loss == ERROR)
    source = open_pickle(model, trust_pickle)
    committee = committee_of(source)
    if committee is not None:  # several calibrators, or a soft vote
        if y_val is not None:
            raise InvalidInputError(
                "y_val was given for a model that averages several ensembles, which is tested by its classes only; "
                "leave it and max_loss out.",
                option=("y_val", "max_loss"),
            )
        average: Any = compress_committee(committee, X_fit, X_val, options, spent)
        return average  # type: ignore[no-any-return]
    outer = unwrap(source, threshold)  # a Pipeline, thresholds, calibration; or nothing at all
    options = replace(options, tolerance=default_tolerance(options))
    outer.require_own_probabilities(options.tolerance)
    options = replace(options, threshold=outer.threshold, segments=outer.raw_column(segments, X_val))
    budget = Budget.of(time_limit)
    with shown(verbose, time_limit, callback) as report_progress:
        say(report_progress, "reading the rows")
        parsed = read_for_compression(outer.inner, options)
        tables = read_tables(parsed, outer.rows(X_fit), outer.rows(X_val), options, spent)
        losses = read_loss(parsed, options, y_val, tables.val.n_rows)
        is_error = losses is None or losses.kind == ERROR
        target = Target(tables.val.n_rows, confidence, options.fidelity, max_loss, is_error)
        target.require_rows()
        lossless = lossless_part(parsed)  # the same margins from fewer leaves, if there are any
        rows, seed, moved = tables.fit, random_state, options.tolerance
        task = budget.run(set_up, parsed, minimize, rows, seed, budget, tolerance=moved, lossless=lossless)
        # path; it and the choice from it are fixed before a row of X_val is predicted
        part = replace(budget.until(SHARES["compression path"]), callback=report_progress)
        path = find_path(task, target.aim(), part)
        # test
        say(report_progress, "testing the candidates on X_val")
        chain, share = choose(path.best, target.aim()), SHARES["compression test"]
        test = budget.run(validate, task, chain, tables, target, losses, share, budget)
        why = StopReason.INTERRUPTED if budget.is_interrupted else to_report({path.why, test.why})
        # record
        smaller = None if test.best.written is None else test.best.written.shape
        say(report_progress, "looking for inputs that change class")
        attacked = budget.run(attack, task, smaller, rows, seed, budget)
        tested = Outcome(test.best, why)
        result = budget.run(build_compress_result, task, tested, attacked, tables, options, losses, budget)
    whole: CompressResult = outer.rewrap(result)
    return whole


def _warn_of(max_loss: float, *, is_error: bool) -> None:
    lower = f"an accuracy that is lower by {100 * max_loss:g} points; write 0.005 for half a point"
    larger = f"a mean loss that is larger by {max_loss:g}, where 1 is the largest loss of a row"
    warnings.warn(f"max_loss={max_loss:g} allows {lower if is_error else larger}.", stacklevel=3)
