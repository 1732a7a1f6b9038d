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
from pine_boost.options import AccelerateOptions
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
        A trained XGBoost, LightGBM or scikit-learn tree ensemble, also a regressor or ranker, or
        a Pipeline, threshold wrapper or calibrated classifier around one; never modified.
    X_fit : table, optional
        Rows that the order of the trees is chosen for, and on which `work` is measured. No labels
        needed; without, the trees that can add most come first, and work is that of synthetic rows.
    X_val : table, optional
        For ``fidelity`` below 1: rows that nothing else has seen.
    fidelity : float
        1: the class of every input, proved. Below: the share of future inputs that keep theirs.
    confidence : float
        Of the statement with ``fidelity`` below 1, over the draw of X_val.
    tolerance : float, optional
        Regressors and rankers: the raw value may move by this much; then trees are left out whose
        sum cannot move it by more.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1; on the raw margin for regressors
        and rankers. Several, ascending, make score bands.
    time_limit : float, optional
        Seconds for the whole call.
    random_state : int
        Seed of the synthetic rows.
    callback, verbose, allow_overlap, segments, spent
        As for `compress_booster`; only with ``fidelity`` below 1.
    trust_pickle : bool
        As for `prune_booster`.

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
    started = time.perf_counter()
    outer = unwrap(open_pickle(model, trust_pickle), threshold)
    AccelerateOptions(
        fidelity=fidelity,
        confidence=confidence,
        tolerance=tolerance,
        threshold=outer.threshold,
        time_limit=time_limit,
        random_state=random_state,
        callback=callback,
        verbose=verbose,
        allow_overlap=allow_overlap,
        segments=segments,
    )
    if fidelity < 1:
        raise InvalidInputError(
            f"fidelity={fidelity!r}: only fidelity=1, the proved scorer, is available in this version."
        )
    if X_val is not None:
        raise InvalidInputError("X_val was given, but fidelity=1 is proved and needs no rows; leave it out.")
    if tolerance is not None:
        raise InvalidInputError(
            "tolerance was given, but with fidelity=1 every value is the model's own; leave it out."
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
