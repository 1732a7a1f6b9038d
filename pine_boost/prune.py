"""The conductor: from a model and two tables to a smaller model and its certificate.

In come a native model, X_fit and X_cal; out goes a PruneResult. Reads like the paper: parse,
calibrate the region, search, export, certify. A model that was not proved is never returned.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from pine_boost.certificate import (
    Certificate,
    QuestionProof,
    Status,
    forest_digest,
    library_versions,
)
from pine_boost.errors import HoldoutWarning, InvalidInputError, PineBoostError
from pine_boost.exporters import export
from pine_boost.forest import Model
from pine_boost.inputs import schema_of, to_matrix
from pine_boost.native import predict_classes
from pine_boost.parsers import read_model
from pine_boost.region.domain import Domain
from pine_boost.region.region import Region, fit_region
from pine_boost.result import PruneResult
from pine_boost.search.game import Game, build_game, settled
from pine_boost.search.grid import probability_shift
from pine_boost.search.loop import Effort, SearchResult, Step, search
from pine_boost.search.undecided import find_undecided

_LOGGER = logging.getLogger("pine_boost")
_REPLAYED_ROWS = 20_000


def prune_booster(
    model: Any,
    X_fit: Any,
    X_cal: Any = None,
    *,
    alpha: float = 0.1,
    score: Any = "chow-liu",
    n_bins: int = 4,
    indifference: float = 0.0,
    objective: str = "l0",
    unit: str = "round",
    threshold: float | Sequence[float] | None = None,
    domain: Domain | None = None,
    time_limit: float | None = None,
    n_jobs: int = 1,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
) -> PruneResult:
    """Return a smaller model of the same kind that provably predicts the same classes.

    For every input of the calibrated region the native ``predict`` of the result gives the class
    that the native ``predict`` of ``model`` gives; a future input, exchangeable with X_cal, lies
    in the region with probability at least ``1 - alpha``. Every row of X_fit keeps its class too.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM or scikit-learn tree ensemble; never modified.
    X_fit : table
        Rows the plausibility score is fitted on (the training rows are fine); no labels needed.
    X_cal : table, optional
        Rows that nothing else has seen, to calibrate the region. Without it, X_fit is split
        80/20 (seeded); then X_fit must not contain training rows.
    alpha : float
        Share of future inputs that may fall outside the region. 0: every input (faithful pruning).
    score : {"chow-liu", "leaf-support", "isolation-forest"} or a user's own
    n_bins : int
        Bins per numeric feature of the Chow-Liu score.
    indifference : float
        Share of inputs nearest to the decision that the region may give up (0 is the paper).
    objective : {"l0", "l1"}
        Fewest trees, or the smallest sum of weights (faster).
    unit : {"round", "tree"}
        What is kept or dropped in a multiclass booster.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1; several make score bands.
    domain : Domain, optional
        What you know of every input that can occur.
    time_limit : float, optional
        Seconds. The best certified model so far is returned, at worst the original.
    n_jobs : int
        Threads for the proofs; the result does not depend on it.
    random_state : int
        Seed of everything random.
    callback : callable, optional
        Called with a `Step` after each step of the search.

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
    check_options(alpha, objective, unit, time_limit, n_jobs)
    started = time.monotonic()
    parsed = read_model(model, threshold=threshold)
    X_fit, X_cal = split_tables(parsed, X_fit, X_cal, random_state)
    region = fit_region(
        parsed.forest, X_fit, X_cal, alpha=alpha, score=score, n_bins=n_bins,
        indifference=indifference, domain=domain, random_state=random_state,
    )  # fmt: skip
    game = build_game(
        parsed.forest, region.space, region.tables, unit=unit, delta=region.delta or 0.0
    )
    remaining = None if time_limit is None else time_limit - (time.monotonic() - started)
    found = search(
        game, region.states(X_fit), objective=objective, time_limit=remaining, n_jobs=n_jobs,
        seed=random_state, effort=Effort(), callback=callback,
    )  # fmt: skip
    result = conclude(parsed, region, game, found, objective=objective, unit=unit)
    replay(result, game, X_fit)
    return result


def check_options(
    alpha: float, objective: str, unit: str, time_limit: float | None, n_jobs: int
) -> None:
    """Refuse options that mean nothing, before any work."""
    if not isinstance(alpha, (int, float)) or isinstance(alpha, bool) or not 0 <= alpha < 1:
        raise InvalidInputError(f"alpha={alpha!r}: a number in [0, 1) is accepted.")
    if objective not in ("l0", "l1"):
        raise InvalidInputError(f"objective={objective!r}: 'l0' and 'l1' are accepted.")
    if unit not in ("round", "tree"):
        raise InvalidInputError(f"unit={unit!r}: 'round' and 'tree' are accepted.")
    if time_limit is not None and not time_limit > 0:
        raise InvalidInputError(f"time_limit={time_limit!r}: seconds above 0, or None.")
    if not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise InvalidInputError(f"n_jobs={n_jobs!r}: a whole number from 1 is accepted.")


def split_tables(model: Model, X_fit: Any, X_cal: Any, seed: int) -> tuple[Any, Any]:
    """One table becomes two, 80/20 and seeded; says so, because its rows must be unseen."""
    if X_cal is not None:
        return X_fit, X_cal
    n_rows = len(to_matrix(X_fit, schema_of(model.forest), "X_fit"))
    if n_rows < 10:
        raise InvalidInputError(
            f"X_fit has {n_rows} rows; at least 10 are needed to split off a calibration set. "
            "Pass X_cal."
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    n_fit = int(0.8 * n_rows)
    _LOGGER.info("no X_cal: %d rows to fit, %d to calibrate", n_fit, n_rows - n_fit)
    warnings.warn(
        f"No X_cal was given: X_fit was split into {n_fit} rows to fit the score and "
        f"{n_rows - n_fit} to calibrate. The guarantee holds only if the model was not trained "
        "on these rows.",
        HoldoutWarning,
        stacklevel=3,
    )
    return take_rows(X_fit, np.sort(order[:n_fit])), take_rows(X_fit, np.sort(order[n_fit:]))


def take_rows(X: Any, rows: Any) -> Any:
    """Rows of any table."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "take") and type(X).__module__.partition(".")[0] == "pyarrow":
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def conclude(
    parsed: Model, region: Region, game: Game, found: SearchResult, *, objective: str, unit: str
) -> PruneResult:
    """Export the best certified model, read it back, and write down what was proved."""
    native, pruned_model = parsed.native, parsed
    if found.pruned is not None:
        native = export(parsed, found.pruned)
        thresholds = parsed.forest.decision.thresholds or None
        pruned_model = read_model(native, threshold=thresholds)
    elif native is None:
        from pine_boost.native import original_bytes

        native = original_bytes(parsed)
    certificate = _certificate(parsed, pruned_model, region, game, found, objective, unit)
    weights = np.ones(parsed.forest.n_trees) if found.pruned is None else found.pruned.weights
    return PruneResult(
        model=native,
        certificate=certificate,
        region=region,
        weights=weights,
        original=parsed,
        pruned=pruned_model,
        search=replace(found, memory=None),
        points=np.zeros((0, 0), np.int32) if found.memory is None else found.memory.pool.states,
    )


def _certificate(
    parsed: Model,
    pruned_model: Model,
    region: Region,
    game: Game,
    found: SearchResult,
    objective: str,
    unit: str,
) -> Certificate:
    forest = parsed.forest
    is_pruned = found.pruned is not None
    proved = is_pruned or found.stopped in ("optimal", "effort")
    status = Status.CERTIFIED if proved else Status.NOT_CERTIFIED
    exists = find_undecided(game) if is_pruned else None
    kept = found.pruned.kept if found.pruned is not None else np.arange(forest.n_trees)
    weights = found.pruned.weights[kept] if found.pruned is not None else np.ones(forest.n_trees)
    shift = {"mean": 0.0, "maximum": 0.0, "brier": 0.0}
    if found.pruned is not None and found.reference is not None:
        shift = asdict(probability_shift(game, found.pruned, found.reference))
    undecided = game.undecided if is_pruned else 0.0
    leaves_after = int(np.diff(game.trees.leaf_offset)[kept].sum())
    return Certificate(
        status=status.value,
        claim=_claim(region, undecided, exists, forest.decision.thresholds) if proved else "",
        reason=_reason(found, proved),
        original_digest=forest_digest(forest),
        pruned_digest=forest_digest(pruned_model.forest),
        region_fingerprint=region.fingerprint(),
        alpha=region.alpha,
        tau=region.tau,
        n_cal=region.n_cal,
        n_fit=region.n_fit,
        score=region.score_name,
        indifference=region.indifference,
        delta=region.delta,
        undecided=undecided,
        undecided_exists=exists,
        grid=found.pruned.grid if found.pruned is not None else -1,
        trees_before=forest.n_trees,
        trees_after=len(kept),
        leaves_before=forest.n_leaves,
        leaves_after=leaves_after,
        unit=unit,
        objective=objective,
        units_before=game.n_units,
        units_kept=found.n_kept,
        lower_bound=found.lower_bound,
        optimal=found.stopped == "optimal",
        kept=tuple(int(tree) for tree in kept),
        weights=tuple(float(weight) for weight in weights),
        thresholds=forest.decision.thresholds,
        probability_shift=shift,
        proofs=tuple(QuestionProof(p.question.name, p.method, p.answer.name) for p in found.proofs),
        versions=library_versions(forest.library),
        timings={
            "search": found.seconds,
            **{f"{p.question.name} by {p.method}": p.seconds for p in found.proofs},
        },
    )


def _claim(
    region: Region, undecided: float, exists: bool | None, thresholds: tuple[float, ...]
) -> str:
    same = "predicts the same class as the original"
    if thresholds:
        listed = ", ".join(f"{threshold:g}" for threshold in thresholds)
        same = f"falls on the same side of the threshold(s) {listed} as the original"
    if region.alpha == 0 or region.tau is None:
        where = "every possible input"
    else:
        where = (
            f"every input of the calibrated region (alpha = {region.alpha:g}: a future input that "
            f"is exchangeable with the {region.n_cal} calibration rows lies in it with "
            f"probability at least {1 - region.alpha:g})"
        )
    claim = f"On {where}, the pruned model {same}"
    if region.delta is not None:
        claim += f"; inputs closer than {region.delta:.6g} to the decision are not in the region"
    if undecided > 0 and exists is not False:
        claim += (
            f"; left out are inputs whose margin is within {undecided:.3g} of the decision "
            "boundary, where rounding decides the original's class"
        )
    return claim + "."


def _reason(found: SearchResult, proved: bool) -> str:
    if found.pruned is not None:
        return ""
    if not proved:
        why = {"time": "The time limit ran out", "interrupted": "The search was interrupted"}
        return f"{why.get(found.stopped, found.stopped)} before a smaller model was proved."
    return "No smaller model that keeps every decision was found; the original is returned."


def replay(result: PruneResult, game: Game, X_fit: Any) -> None:
    """Compare the two native models on rows of X_fit; a difference is a bug, never shipped."""
    if result.search.pruned is None:
        return
    n_rows = len(result.region.states(X_fit))
    rows = np.arange(min(n_rows, _REPLAYED_ROWS))
    table = take_rows(X_fit, rows)
    certain = settled(game, result.region.states(table))
    try:
        before = predict_classes(result.original, table)
        after = predict_classes(result.pruned, table)
    except ImportError:  # no native library here: reading and proving need none
        return
    wrong = (before != after) & certain
    if wrong.any():
        raise PineBoostError(
            f"Internal error: the native models differ on row {int(np.argmax(wrong))} of X_fit "
            "although the proof says they cannot. Nothing was certified; please report this."
        )
