"""The conductor of acceleration: a scorer with the original's classes that exits early, proved or validated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np

from pine_boost import kernels
from pine_boost.budget import Step
from pine_boost.certificate.certificate import library_versions
from pine_boost.certificate.claims import scorer_claim
from pine_boost.errors import InvalidInputError, PineBoostError
from pine_boost.model.digest import forest_digest
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Model
from pine_boost.native.predict import load_native, predict_classes, predict_margins
from pine_boost.options import AccelerateOptions, given
from pine_boost.parsers import open_pickle, read_model
from pine_boost.pipelines.unwrapping import unwrap
from pine_boost.proof.exits import faults_of
from pine_boost.scoring.accelerate_result import AccelerateResult
from pine_boost.scoring.fast_scorer import FastScorer, ScorerParts
from pine_boost.scoring.native_sum import native_sum, probability_rule
from pine_boost.scoring.proved_exits import build_exits
from pine_boost.scoring.synthetic_rows import synthetic_rows
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table, first_rows
from pine_boost.tables.schema import schema_of

_SAMPLE_ROWS = 2000


def accelerate_booster(
    model: Any,
    X_fit: Any = None,
    X_val: Any = None,
    *,
    fidelity: float = 1.0,
    confidence: float = 0.95,
    tolerance: float | None = None,
    threshold: float | Sequence[float] | None = None,
    time_limit: float | None = None,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
    verbose: bool | None = None,
    allow_overlap: bool = False,
    segments: Any = None,
    spent: Any = None,
    trust_pickle: bool = False,
) -> AccelerateResult:
    """Return a scorer that gives the model's own classes in microseconds.

    With ``fidelity=1`` the scorer's ``predict`` is proved to equal the native ``predict`` on every
    input that the library accepts, and no data are needed. Trees are visited in an order of the
    scorer's own, and an input exits as soon as the remaining trees cannot change its class.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM or scikit-learn tree ensemble, also a regressor or ranker, or a
        Pipeline, threshold wrapper or calibrated classifier around one. It is never modified.
    X_fit : table, optional
        Rows for which the order of the trees is chosen and on which the work is measured; the
        training rows are fine. No labels are needed. Without them the trees that can add most come
        first, and the work is measured on synthetic rows.
    X_val : table, optional
        Rows that neither the model nor you have seen, for the test where ``fidelity`` is below 1.
        They are used up by it.
    fidelity : float
        Share of future inputs that must keep their answer; 1 proves every input and needs no data.
        Below 1 the scorer is tested on X_val.
    confidence : float
        Confidence of the statement over the draw of X_val.
    tolerance : float, optional
        How far a value may move: for classifiers no probability, for regressors and rankers (where
        it is required) no raw value moves by more. It is refused with a calibrator around the
        ensemble.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1 (for regressors and rankers, on
        the raw margin before any link function); several ascending values define score bands.
    time_limit : float, optional
        Seconds for the whole call. If time is short, fewer bounds are tightened; the promise is the
        same.
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
    callback : callable, optional
        Called with a `Step` after each step.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.
    allow_overlap : bool
        Continue although rows of X_val also occur in X_fit; then the result is only MEASURED.
    segments : column, labels or mapping of them, optional
        Also count the changed rows per segment, for example per value of a column of X_val.
    spent : Survey or path, optional
        Survey, or the file it was saved to, whose rows are refused here.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    AccelerateResult
        ``scorer`` is a `FastScorer`; ``status`` is ``"CERTIFIED"`` or ``"VALIDATED"``.

    Raises
    ------
    UnsupportedModelError
        A model that cannot be read, or whose values are no function of its leaves.
    InvalidInputError
        Options or tables that do not fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> import pine_boost
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> gb = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, y)
    >>> result = pine_boost.accelerate_booster(gb)
    >>> result.status
    'CERTIFIED'
    >>> bool((result.scorer.predict(X) == gb.predict(X)).all())
    True
    """
    given(AccelerateOptions, locals())
    started = time.perf_counter()
    outer = unwrap(open_pickle(model, trust_pickle), threshold)
    if fidelity < 1:
        raise InvalidInputError(
            f"fidelity must be 1 (the proved scorer) in this version, got {fidelity!r}.", option="fidelity"
        )
    if X_val is not None:
        raise InvalidInputError(
            "X_val was given, but fidelity=1 is proved and needs no rows; leave it out.", option="X_val"
        )
    if tolerance is not None:
        raise InvalidInputError(
            "tolerance was given, but with fidelity=1 every value is the model's own; leave it out.", option="tolerance"
        )
    parsed = read_model(outer.inner, threshold=outer.threshold, decision="value")
    forest = parsed.forest
    rows = None if X_fit is None else to_matrix(first_rows(outer.rows(X_fit), 20 * _SAMPLE_ROWS), schema_of(forest))
    sample = synthetic_rows(forest, _SAMPLE_ROWS, random_state) if rows is None else rows
    flat = flatten(forest)
    plan = build_exits(forest, flat, None if rows is None else rows[:_SAMPLE_ROWS])
    faults = faults_of(forest, plan)
    if faults:  # the builder is not believed
        raise PineBoostError(f"Internal error: the exits could not be proved ({faults[0]}); please report this.")
    parts = ScorerParts(
        flat=flat,
        native=native_sum(parsed),
        plan=plan,
        schema=schema_of(forest),
        classes=forest.classes,
        probability=probability_rule(parsed),
        prepare=outer.prepare,
        finish=outer.finish,
    )
    scorer = FastScorer(parts)
    claim = scorer_claim(forest, is_unordered=_is_unordered(parsed))
    met = np.zeros(len(sample), dtype=np.int32)
    kernels.bind(parts.flat, parts.native, plan).classes(sample, met=met)
    facts = {
        "model_digest": forest_digest(forest),
        "status": "CERTIFIED",
        "claim": claim,
        "thresholds": forest.decision.thresholds,
        "work": float(met.mean()) / forest.n_trees,
        "work_rows": "synthetic rows" if X_fit is None else "X_fit",
        "kernel": kernels.name(),
        "versions": library_versions(forest.library),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return AccelerateResult(
        scorer=scorer,
        status="CERTIFIED",
        claim=claim,
        work=float(facts["work"]),
        work_rows=str(facts["work_rows"]),
        seconds=time.perf_counter() - started,
        facts=facts,
        original=parsed,
        native=_native_predict(parsed, outer.outer),
        sample=_as_given(sample, parsed, X_fit),
    )


def _is_unordered(parsed: Model) -> bool:
    """Whether the library adds trees in no fixed order (scikit-learn's forests in several threads)."""
    return getattr(parsed.document, "family", "") == "average" and parsed.forest.n_trees > 1


def _native_predict(parsed: Model, outer: Any) -> Callable[[Any], Any]:
    """The native ``predict`` of what was given: the object's own, or that of the loaded file."""
    if hasattr(outer, "predict") and not type(outer).__module__.startswith("xgboost.core"):
        return outer.predict  # type: ignore[no-any-return]
    from dataclasses import replace

    def predict(X: Any) -> Any:
        loaded = replace(parsed, native=load_native(parsed))
        return predict_classes(loaded, X) if parsed.forest.decides else predict_margins(loaded, X)[0]

    return predict


def _as_given(sample: FloatArray, parsed: Model, X_fit: Any) -> Any:
    """Rows as the native ``predict`` takes them."""
    return as_table(sample, schema_of(parsed.forest)) if X_fit is None else first_rows(X_fit, 20 * _SAMPLE_ROWS)
