"""Certified models against the native predict: every state of small spaces, many points of large.

The proof speaks of the native libraries, so only they are asked here; each kind of model that can
be pruned occurs, with missing values and categories where it takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pine_boost import prune_booster
from pine_boost.errors import PineBoostError
from pine_boost.native import predict_classes
from pine_boost.result import PruneResult
from pine_boost.search.game import Game, build_game, settled
from pine_boost.search.grid import needed_sides
from tests.bruteforce import all_states
from tests.grids import edge_rows, integer_margins
from tests.native_models import MODELS, Table, built

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")


def _game(result: PruneResult) -> Game:
    region = result.region
    return build_game(
        result.original.forest, region.space, region.tables, delta=region.delta or 0.0
    )


def _same_classes(result: PruneResult, X: np.ndarray) -> int:
    """Native classes agree on every settled row in the region; returns how many those are."""
    states = result.region.space.states(X)
    inside = result.region.tables.contains(states) & settled(_game(result), states)
    before = predict_classes(result.original, X[inside])
    after = predict_classes(result.pruned, X[inside])
    assert np.array_equal(before, after)
    return int(inside.sum())


def _check_margins(result: PruneResult, X: np.ndarray) -> None:
    """The native margin is the solver's integer over 2**grid, bit for bit."""
    pruned = result.search.pruned
    assert pruned is not None
    expected = np.ldexp(integer_margins(pruned, X).astype(np.float64), -pruned.grid)
    native, kind = result.model, result.pruned.kind
    if kind.startswith("xgboost"):
        booster = native.get_booster() if hasattr(native, "get_booster") else native
        data = xgboost.DMatrix(
            X, feature_names=booster.feature_names, feature_types=booster.feature_types,
            enable_categorical=True, nthread=1,
        )  # fmt: skip
        found = booster.predict(data, output_margin=True)
    elif kind.startswith("lightgbm"):
        found = native.predict(X, raw_score=True, num_threads=1)
        if "average_output" in native.model_to_string().splitlines():
            # an averaged model: predict divides by the number of trees, raw_score does not
            return
    elif hasattr(native, "learning_rate") and not hasattr(native, "estimator_weights_"):
        found = native.decision_function(X)
    else:
        return  # forests and votes return means, compared as classes
    assert np.array_equal(np.asarray(found, dtype=np.float64).reshape(expected.shape), expected)


@pytest.mark.parametrize("alpha", [0.0, 0.2])
@pytest.mark.parametrize("name", list(MODELS))
def test_every_state_of_a_small_space(name: str, alpha: float) -> None:
    model, X = built(name)
    result = prune_booster(model, X[:200], X[200:], alpha=alpha, time_limit=20.0)
    assert result.status == "CERTIFIED"
    space = result.region.space
    if np.prod(space.n_states, dtype=float) <= 30_000:
        states = all_states(space)
    else:  # a few spaces are larger: as many random states as a small one has
        rng = np.random.default_rng(0)
        states = np.stack([rng.integers(0, n, 30_000) for n in space.n_states], axis=1)
    states = states[result.region.tables.contains(states)]
    rows = space.representative(states)
    assert _same_classes(result, rows) >= min(len(rows), 20)
    edges = edge_rows(result.original.forest, X[:50], infinite=False, limit=80)
    edges = edges[_accepted(result, edges)]
    assert _same_classes(result, edges) > 10
    if result.search.pruned is not None:
        _check_margins(result, rows[:3000])
        _check_margins(result, edges)
    # rows of X_fit keep their class even outside the region
    fit_states = space.states(X[:200])
    certain = settled(_game(result), fit_states)
    before = predict_classes(result.original, X[:200][certain])
    assert np.array_equal(before, predict_classes(result.pruned, X[:200][certain]))


def _accepted(result: PruneResult, X: np.ndarray) -> np.ndarray:
    """Rows the native predict takes: scikit-learn refuses NaN here and there, and huge floats."""
    forest = result.original.forest
    accepted = np.ones(len(X), dtype=bool)
    if not forest.accepts_missing:
        accepted &= ~np.isnan(X).any(axis=1)
    if forest.library == "sklearn" and type(result.model).__name__.startswith(("Grad", "Ada")):
        accepted &= ~np.isnan(X).any(axis=1)
    return accepted


def test_most_kinds_are_really_pruned() -> None:
    """The comparison above would be empty if every model came back as it was."""
    names = ("xgb binary", "lgb binary", "gradient boosting", "histogram", "random forest")
    kept = []
    for name in names:
        model, X = built(name)
        certificate = prune_booster(model, X[:200], X[200:], alpha=0.5).certificate
        kept.append(certificate.units_kept / certificate.units_before)
    assert sum(share < 1 for share in kept) >= 4
    assert min(kept) <= 0.7


@pytest.mark.parametrize("threshold", [0.3, 0.8, (0.2, 0.5, 0.9)])
@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "gradient boosting", "histogram"])
def test_thresholds_natively(name: str, threshold: Any) -> None:
    model, X = built(name)
    result = prune_booster(model, X[:200], X[200:], alpha=0.2, threshold=threshold, time_limit=20.0)
    assert result.status == "CERTIFIED"
    cuts = np.atleast_1d(threshold)
    assert result.certificate.thresholds == tuple(cuts.tolist())
    space = result.region.space
    states = all_states(space) if np.prod(space.n_states) <= 30_000 else space.states(X)
    states = states[result.region.tables.contains(states)]
    states = states[settled(_game(result), states)]
    rows = space.representative(states)
    # not through pine_boost's own thresholding: the plain probabilities of both models
    bands = []
    for native in (model, result.model):
        if hasattr(native, "predict_proba"):
            probability = native.predict_proba(rows)[:, 1]
        else:
            probability = native.predict(rows, num_threads=1)
        bands.append(np.sum([probability > cut for cut in cuts], axis=0))
    assert np.array_equal(bands[0], bands[1])
    everywhere = predict_classes(result.original, X)
    assert len(set(everywhere.tolist())) > 1


@pytest.mark.parametrize("name", ["random forest", "extra trees"])
def test_threshold_of_a_forest(name: str) -> None:
    model, X = built(name)
    result = prune_booster(model, X[:200], X[200:], alpha=0.3, threshold=0.3, time_limit=20.0)
    space = result.region.space
    rng = np.random.default_rng(1)
    states = np.stack([rng.integers(0, n, 20_000) for n in space.n_states], axis=1)
    states = np.concatenate([states, space.states(X)])
    states = states[result.region.tables.contains(states)]
    states = states[settled(_game(result), states)]
    rows = space.representative(states)
    before, after = (m.predict_proba(rows)[:, 1] > 0.3 for m in (model, result.model))
    assert np.array_equal(before, after)
    assert 0 < before.sum() < len(before)


def test_thresholds_per_class_are_refused() -> None:
    for name in ("xgb 3 classes", "lgb 3 classes", "random forest 3 classes"):
        model, X = built(name)
        for threshold in (0.3, (0.2, 0.3, 0.5)):
            with pytest.raises(PineBoostError, match="threshold"):
                prune_booster(model, X[:200], X[200:], threshold=threshold)


def test_pure_leaves_tie_natively() -> None:
    """Fully grown trees vote 0 or 1, so an even forest ties on many inputs."""
    X = np.random.default_rng(0).integers(0, 5, size=(160, 3)).astype(np.float64)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 5).astype(int)  # a function of X: no leaf is mixed
    model = ensemble.RandomForestClassifier(n_estimators=8, random_state=0).fit(X[:80], y[:80])
    result = prune_booster(model, X[:80], X[80:], alpha=0.1, time_limit=20.0)
    assert result.status == "CERTIFIED"
    states = all_states(result.region.space)
    states = states[result.region.tables.contains(states)]
    rows = result.region.space.representative(states)
    assert result.certificate.undecided == 0.0  # ties are part of the claim
    tied = model.predict_proba(rows)[:, 0] == 0.5
    assert tied.sum() > 5
    assert np.array_equal(model.predict(rows), result.model.predict(rows))


def test_needed_distance_is_kept_natively() -> None:
    """No pruned margin of a proved input is nearer to the cut than the proof says."""
    model, X = built("xgb binary")
    result = prune_booster(model, X[:200], X[200:], alpha=0.2, threshold=0.3)
    pruned = result.search.pruned
    assert pruned is not None
    game = _game(result)
    states = result.region.space.states(X)
    states = states[result.region.tables.contains(states) & settled(game, states)]
    integers = integer_margins(pruned, result.region.space.representative(states))
    needed = needed_sides(game, pruned.grid)
    sides = np.stack([game.side_int(integers, question) for question in game.questions], axis=1)
    decided = game.decided(game.original_margins_int(game.trees.leaves(states)))
    assert np.all(sides[decided] >= np.broadcast_to(needed, sides.shape)[decided])


def _many_points(result: PruneResult, X: np.ndarray, n_points: int) -> np.ndarray:
    """Points of the region: rows of X with up to three values moved onto or beside thresholds."""
    rng = np.random.default_rng(7)
    forest = result.original.forest
    edges = edge_rows(forest, X[:1], limit=200)  # row 0 with one value of a feature changed
    pools = [np.unique(edges[:, j]) for j in range(X.shape[1])]
    found: list[np.ndarray] = []
    n_found = 0
    while n_found < n_points:
        rows = X[rng.integers(len(X), size=50_000)].copy()
        for _ in range(3):
            for feature, pool in enumerate(pools):
                moved = rng.random(len(rows)) < 1 / len(pools)
                rows[moved, feature] = rng.choice(pool, int(moved.sum()))
        rows = rows[_accepted(result, rows)]
        states = result.region.space.states(rows)
        rows = rows[result.region.tables.contains(states)]
        assert len(rows), "no point of the region among 50 000"
        found.append(rows)
        n_found += len(rows)
    return np.concatenate(found)[:n_points]


def _cancer() -> Table:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order, :12], y[order]


LARGE: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "xgboost": lambda X, y: xgboost.XGBClassifier(
        n_estimators=20, max_depth=2, learning_rate=0.05, n_jobs=1
    ).fit(X, y),
    "lightgbm": lambda X, y: lightgbm.train(
        {"objective": "binary", "num_leaves": 6, "num_threads": 1, "verbose": -1},
        lightgbm.Dataset(X, y),
        num_boost_round=20,
    ),
    "gradient boosting": lambda X, y: ensemble.GradientBoostingClassifier(
        n_estimators=20, max_depth=2, random_state=0
    ).fit(X, y),
}


@pytest.mark.parametrize("name", list(LARGE))
def test_a_hundred_thousand_points(name: str) -> None:
    X, y = _cancer()
    model = LARGE[name](X[:300], y[:300])
    result = prune_booster(model, X[:300], X[300:], alpha=0.1, time_limit=30.0)
    assert result.status == "CERTIFIED"
    assert result.search.pruned is not None
    points = _many_points(result, X, 100_000)
    assert _same_classes(result, points) > 99_000
    _check_margins(result, points[:5000])


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("name", list(LARGE))
def test_millions_of_points(name: str, alpha: float) -> None:
    X, y = _cancer()
    model = LARGE[name](X[:300], y[:300])
    result = prune_booster(model, X[:300], X[300:], alpha=alpha, time_limit=120.0)
    assert _same_classes(result, _many_points(result, X, 1_000_000)) > 900_000
