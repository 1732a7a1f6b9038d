"""Probabilities after pruning: what the result says of them is what the native models show.

Also single class trees as units and the L1 objective, natively on every state.
"""

from dataclasses import replace

import numpy as np
import pytest

from pine_boost import prune_booster
from pine_boost.budget import Budget
from pine_boost.native.predict import predict_classes
from pine_boost.proof.problem import build_problem
from pine_boost.search.grid_rounding import probability_shift
from pine_boost.search.pruner import Pruner
from tests.adversary.attack import count_breaks
from tests.support.bruteforce import all_states, small_problem
from tests.support.forests import MANNERS
from tests.support.native_models import MODELS, built, ensemble, lightgbm, make_table


def _lightgbm(n_classes, **options):
    X, y = make_table(n_classes)
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=6, max_bin=8, n_jobs=1, verbose=-1, **options)
    return model.fit(X, y).booster_, X


def _exponential():
    X, y = make_table(2, missing=False)
    model = ensemble.GradientBoostingClassifier(n_estimators=12, max_depth=3, loss="exponential", random_state=0)
    return model.fit(X, y), X


OTHERS = {
    "lgb sigmoid 2": lambda: _lightgbm(2, objective="binary", sigmoid=2.0),
    "lgb one against all": lambda: _lightgbm(3, objective="multiclassova"),
    "lgb rf 3 classes": lambda: _lightgbm(3, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7),
    "gradient boosting exponential": _exponential,
}
# the others return classes, not probabilities
SHOWN = [name for name in MODELS if name not in ("xgb hinge", "xgb softmax")] + list(OTHERS)


def _probabilities(native, X):
    if hasattr(native, "predict_proba"):
        return np.asarray(native.predict_proba(X), dtype=np.float64)
    found = np.asarray(native.predict(X, num_threads=1))
    return found if found.ndim == 2 else np.column_stack([1 - found, found])


@pytest.mark.parametrize("name", SHOWN)
def test_the_shift_is_the_native_one(name):
    model, X = OTHERS[name]() if name in OTHERS else built(name)
    X_fit = np.concatenate([X[:150], X[:50]])  # rows that occur twice count twice
    result = prune_booster(model, X_fit, X[200:], alpha=0.6)
    assert result.search.pruned is not None
    said = result.certificate.probability_shift
    moved = np.abs(_probabilities(result.model, X_fit) - _probabilities(model, X_fit))
    if result.original.forest.n_outputs == 1:
        moved = moved[:, 1:]
    # float32 probabilities of XGBoost on one side, float64 on the other
    assert said["mean"] == pytest.approx(moved.max(axis=1).mean(), abs=1e-6)
    assert said["maximum"] == pytest.approx(moved.max(), abs=1e-6)
    assert said["brier"] == pytest.approx((moved**2).sum(axis=1).mean(), abs=1e-6)


@pytest.mark.parametrize("threshold", [0.35, 0.6])
def test_the_shift_of_a_forest_with_a_threshold(threshold):
    model, X = built("random forest")
    result = prune_booster(model, X[:200], X[200:], alpha=0.6, threshold=threshold)
    assert result.search.pruned is not None
    moved = np.abs(_probabilities(result.model, X[:200]) - _probabilities(model, X[:200]))[:, 1]
    assert result.certificate.probability_shift["mean"] == pytest.approx(moved.mean(), abs=1e-6)


@pytest.mark.parametrize("name", ["xgb binary", "xgb 3 classes", "lgb rf", "lgb 3 classes", "lgb one against all"])
def test_no_other_scale_is_closer(name):
    """Any positive multiple decides the same; the one written is the closest (Brier) on X_fit."""
    model, X = OTHERS[name]() if name in OTHERS else built(name)
    result = prune_booster(model, X[:200], X[200:], alpha=0.6)
    pruned, region = result.search.pruned, result.region
    assert pruned is not None
    problem = build_problem(result.original.forest, region.space, region.tables)
    fit = result.search.fit
    assert fit is not None
    written = probability_shift(problem, pruned, fit).brier
    for factor in (0.6, 0.8, 0.95, 1.05, 1.25, 1.7):
        value_int = np.rint(pruned.value_int * factor).astype(np.int64)
        intercept_int = np.rint(pruned.intercept_int * factor).astype(np.int64)
        scaled = replace(pruned, value_int=value_int, intercept_int=intercept_int)
        assert probability_shift(problem, scaled, fit).brier >= written, factor


@pytest.mark.parametrize(
    "name", ["xgb 3 classes", "lgb 3 classes", "gradient boosting 3 classes", "histogram 3 classes"]
)
def test_single_class_trees_natively(name):
    model, X = built(name)
    rounds = prune_booster(model, X[:200], X[200:], alpha=0.2)
    result = prune_booster(model, X[:200], X[200:], alpha=0.2, unit="tree")
    assert result.status == "CERTIFIED"
    assert result.certificate.units_before == result.original.forest.n_trees
    assert result.certificate.trees_after <= rounds.certificate.trees_after
    rows = result.region.space.representative(all_states(result.region.space))
    tried, breaks = count_breaks(result, rows)
    assert tried > 100
    assert breaks == 0
    assert len(set(predict_classes(result.original, rows[result.region.contains(rows)]).tolist())) == 3


@pytest.mark.parametrize("seed", range(6))
def test_l1_is_the_linear_program(seed):
    """``min sum w : A w + B f >= 1`` by another solver, on the same rows."""
    from scipy.optimize import linprog

    n_outputs = 3 if seed % 3 == 2 else 1
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=6 * n_outputs, leaf_grid=None)
    pool = small.rows()
    pool.add(small.everything[small.inside])
    weights = Pruner(pool, Budget()).lightest()
    rows, free = pool.program.rows, pool.program.free_rows
    n_columns, n_free = rows.shape[1], free.shape[1]
    expected = linprog(
        np.concatenate([np.ones(n_columns), np.zeros(n_free)]),
        A_ub=-np.hstack([rows, free]),
        b_ub=-np.ones(len(rows)),
        bounds=[(0, None)] * n_columns + [(None, None)] * n_free,
        method="highs",
    )
    assert expected.success
    assert weights.weights.sum() / weights.value == pytest.approx(expected.fun, rel=1e-5)
