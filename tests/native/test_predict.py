"""Certified models against the native predict: every state of small spaces, many points of large.

The proof speaks of the native libraries, so only they are asked here; each kind of model that can
be pruned occurs, with missing values and categories where it takes them.
"""

from functools import lru_cache

import numpy as np
import pytest
from sklearn import ensemble

from pine_boost import prune_booster
from pine_boost.budget import OutOfEffort
from pine_boost.build_result import original_band
from pine_boost.errors import PineBoostError
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.proof.problem import build_problem
from pine_boost.search import algorithm
from tests.support.bruteforce import all_states
from tests.support.grids import edge_rows, integer_margins
from tests.support.native_models import LARGE, MODELS, built
from tests.support.native_tables import native_margins_of
from tests.support.verifying import look_for_no_serving_margin


@lru_cache(maxsize=1)  # a test asks several times about one result
def _game(result):
    region = result.region
    return build_problem(result.original.forest, region.space, region.tables, delta=region.delta or 0.0)


def _same_classes(result, X):
    """Native classes agree on every settled row in the region; returns how many those are."""
    states = result.region.space.states(X)
    inside = result.region.tables.contains(states) & _game(result).settled(states)
    before = predict_classes(result.original, X[inside])
    after = predict_classes(result.pruned, X[inside])
    assert np.array_equal(before, after)
    return int(inside.sum())


def _check_margins(result, X):
    """The native numbers are those of the solver's integers over 2**grid, bit for bit.

    A forest divides its sum by the number of trees and AdaBoost by the sum of the weights; the
    sum is exact, so the one rounding of the division is known too. Only AdaBoost of several
    classes adds fractions -w / (K - 1): there the proven bound holds.
    """
    pruned = result.search.pruned
    expected = np.ldexp(integer_margins(pruned, X).astype(np.float64), -pruned.grid)
    # of an averaged LightGBM model too the raw score is the sum; predict divides
    native, found = result.model, native_margins_of(result.model, X)
    if hasattr(native, "estimator_weights_"):
        total = native.estimator_weights_.sum()
        n_classes = found.shape[1]
        if n_classes > 1:
            votes = (found * total * (n_classes - 1) + total) / n_classes
            bound = (len(native.estimators_) + 10) * 2.0**-53 * total
            assert np.abs(votes - expected).max() <= bound < 2.0**-pruned.grid
            return
        expected = 2 * (expected / total)
    elif hasattr(native, "estimators_") and not hasattr(native, "decision_function"):
        expected = expected / len(native.estimators_)
    assert np.array_equal(found, expected)


def _check_original_margins(result, X):
    """The native margins of the original stay within the band that the proof leaves for them."""
    problem = _game(result)
    states = result.region.space.states(X)
    integers = problem.original_margins_int(problem.trees.leaves(states)).astype(np.float64)
    predicted = predict_margins(result.original, X)
    native, blur = predicted
    distance = np.abs(native - np.ldexp(integers, -problem.scale)).max()
    assert distance <= original_band(problem) + blur
    assert problem.undecided == 0 or original_band(problem) + blur <= problem.undecided


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("name", list(MODELS))
def test_every_state_of_a_small_space(name, alpha):
    model, X = built(name)
    result = prune_booster(model, X[:200], X[200:], alpha=alpha, time_limit=60.0)
    assert result.status == "CERTIFIED"
    space = result.region.space
    states = all_states(space)
    states = states[result.region.tables.contains(states)]
    rows = space.representative(states)
    n_settled = int(_game(result).settled(states).sum())
    assert n_settled >= min(len(states), 10)
    assert _same_classes(result, rows) == n_settled
    edges = edge_rows(result.original.forest, X, infinite=False)
    edges = edges[_accepted(result, edges)]
    assert _same_classes(result, edges) > 10
    _check_original_margins(result, rows)
    _check_original_margins(result, edges)
    assert alpha < 0.5 or result.search.pruned is not None  # every kind is pruned somewhere
    if result.search.pruned is not None:
        _check_margins(result, rows)
        _check_margins(result, edges)
    # rows of X_fit keep their class even outside the region
    fit_states = space.states(X[:200])
    certain = _game(result).settled(fit_states)
    before = predict_classes(result.original, X[:200][certain])
    assert np.array_equal(before, predict_classes(result.pruned, X[:200][certain]))


@pytest.mark.parametrize(
    "name",
    [
        "xgb binary",
        "xgb 3 classes",
        "lgb binary",
        "lgb zero as missing",
        "random forest",
        "gradient boosting",
        "histogram",
    ],
)
def test_edges_of_an_isolation_forest(name):
    """Proofs on larger regions: rows on the thresholds of the model and of the score, and beside.

    NaN, unseen, fractional and negative categories are among the edges of the model.
    """
    model, X = built(name)
    # few rows make short isolation trees, whose proofs take a quarter of the time
    result = prune_booster(model, X[:60], X[200:], alpha=0.6, score="isolation-forest")
    assert result.status == "CERTIFIED"
    rows = np.vstack([edge_rows(result.original.forest, X), _rows_on_edges_of_the_space(result, X)])
    rows = rows[_accepted(result, rows)]
    assert _same_classes(result, rows) > 100
    assert np.array_equal(result.region.contains(rows), result.region.tables.contains(result.region.states(rows)))
    _check_original_margins(result, rows)
    if result.search.pruned is not None:
        _check_margins(result, rows)


@pytest.mark.parametrize("name", list(MODELS))
def test_models_near_the_original(name, monkeypatch):
    """Light trees gone, the others as they were: thresholds, beside them, NaN, unseen categories.

    The problem of all trees is stopped, so that this is the answer wherever there is room for it.
    """

    def no_answer(state):
        raise OutOfEffort

    monkeypatch.setattr(algorithm, "first_answers", no_answer)
    look_for_no_serving_margin(monkeypatch)
    model, X = built(name)
    options = {"alpha": 0.7, "indifference": 0.5, "reweight": "tree"}
    result = prune_booster(model, X[:200], X[200:], **options)
    assert result.status == "CERTIFIED"
    rows = edge_rows(result.original.forest, X, infinite=False)
    rows = rows[_accepted(result, rows)]
    assert _same_classes(result, rows) > 10
    _check_original_margins(result, rows)
    assert result.search.pruned is not None
    assert any("(difference)" in proof.method for proof in result.search.proofs)
    _check_margins(result, rows)


def _rows_on_edges_of_the_space(result, X):
    """Rows of X with one feature on a threshold of model or score, one ulp below or above."""
    rng = np.random.default_rng(3)
    moved = []
    for feature, axis in enumerate(result.region.space.axes):
        edges = np.asarray(axis.edges, dtype=np.float64)
        near = edges.astype(np.float32)
        values = np.concatenate(
            [edges]
            + [np.nextafter(edges, side) for side in (-np.inf, np.inf)]
            + [np.nextafter(near, np.float32(side)).astype(float) for side in (-np.inf, np.inf)]
        )
        values = values[np.abs(values) <= np.finfo(np.float32).max]  # scikit-learn refuses others
        rows = X[rng.integers(len(X), size=len(values))].copy()
        rows[:, feature] = values
        moved.append(rows)
    return np.vstack(moved)


def _accepted(result, X):
    """Rows the native predict takes: scikit-learn refuses NaN here and there, and huge floats."""
    forest = result.original.forest
    accepted = np.ones(len(X), dtype=bool)
    if not forest.accepts_missing:
        accepted &= ~np.isnan(X).any(axis=1)
    if forest.library == "sklearn" and type(result.model).__name__.startswith(("Grad", "Ada")):
        accepted &= ~np.isnan(X).any(axis=1)
    return accepted


def _probabilities(native, rows):
    if hasattr(native, "predict_proba"):
        return np.asarray(native.predict_proba(rows)[:, 1])
    return np.asarray(native.predict(rows, num_threads=1))


def _check_bands(name, quantiles, alpha):
    """Thresholds where the model has probabilities on all sides, so that every band occurs."""
    model, X = built(name)
    distinct = np.unique(_probabilities(model, X).round(3))
    cuts = np.quantile(distinct, quantiles).round(4)
    threshold = float(cuts[0]) if len(cuts) == 1 else tuple(cuts.tolist())
    result = prune_booster(model, X[:200], X[200:], alpha=alpha, threshold=threshold)
    assert result.status == "CERTIFIED"
    assert result.certificate.thresholds == tuple(cuts.tolist())
    space = result.region.space
    states = all_states(space)
    states = states[result.region.tables.contains(states)]
    states = states[_game(result).settled(states)]
    rows = space.representative(states)
    # not through pine_boost's own thresholding: the plain probabilities of both models
    before, after = (
        np.sum([_probabilities(native, rows) > cut for cut in cuts], axis=0) for native in (model, result.model)
    )
    assert np.array_equal(before, after)
    assert set(before.tolist()) == set(range(len(cuts) + 1))


@pytest.mark.parametrize("quantiles", [(0.3,), (0.8,), (0.2, 0.5, 0.9)])
@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "gradient boosting", "histogram"])
def test_thresholds_natively(name, quantiles):
    _check_bands(name, quantiles, 0.2)


@pytest.mark.parametrize("quantile", [0.3, 0.7])
@pytest.mark.parametrize("name", ["random forest", "extra trees", "lgb rf"])
def test_threshold_of_a_forest(name, quantile):
    _check_bands(name, (quantile,), 0.3)


def test_thresholds_per_class_are_refused():
    for name in ("xgb 3 classes", "lgb 3 classes", "random forest 3 classes"):
        model, X = built(name)
        for threshold in (0.3, (0.2, 0.3, 0.5)):
            with pytest.raises(PineBoostError, match="threshold"):
                prune_booster(model, X[:200], X[200:], threshold=threshold)


def test_pure_leaves_tie_natively():
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


def test_needed_distance_is_kept_natively():
    """No pruned margin of a proved input is nearer to the cut than the proof says."""
    model, X = built("xgb binary")
    result = prune_booster(model, X[:200], X[200:], alpha=0.2, threshold=0.3)
    pruned = result.search.pruned
    problem = _game(result)
    states = result.region.space.states(X)
    states = states[result.region.tables.contains(states) & problem.settled(states)]
    integers = integer_margins(pruned, result.region.space.representative(states))
    needed = problem.needed_sides(pruned.grid)
    sides = np.stack([question.side(integers) for question in problem.questions], axis=1)
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    assert np.all(sides[decided] >= np.broadcast_to(needed, sides.shape)[decided])


def _many_points(result, X, n_points):
    """Points of the region: rows of X with up to three values moved onto or beside thresholds."""
    rng = np.random.default_rng(7)
    forest = result.original.forest
    edges = edge_rows(forest, X[:1], limit=200)  # row 0 with one value of a feature changed
    pools = [np.unique(edges[:, j]) for j in range(X.shape[1])]
    found = []
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


def _pruned_large(name, alpha):
    large = LARGE[name]
    X, y = large.table()
    model = large.make().set_params(random_state=0).fit(X[: large.n_fit], y[: large.n_fit])
    native = model.booster_ if name == "lightgbm" else model
    return prune_booster(native, X[: large.n_fit], X[large.n_fit :], alpha=alpha), X


@pytest.mark.parametrize("name", list(LARGE))
def test_a_hundred_thousand_points(name):
    result, X = _pruned_large(name, LARGE[name].alpha)
    assert result.status == "CERTIFIED"
    assert result.search.pruned is not None
    points = _many_points(result, X, 100_000)
    assert _same_classes(result, points) > 99_000
    _check_margins(result, points)
    _check_original_margins(result, points)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("name", list(LARGE))
def test_millions_of_points(name, alpha):
    result, X = _pruned_large(name, alpha)
    assert result.status == "CERTIFIED"
    assert _same_classes(result, _many_points(result, X, 1_000_000)) > 900_000
