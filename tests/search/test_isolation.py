"""Pruning with the isolation forest of default size, from model to verified certificate."""

import numpy as np

from pine_boost import prune_booster, sweep, verify


def _problem():
    from sklearn.ensemble import GradientBoostingClassifier

    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=700) > 0
    model = GradientBoostingClassifier(n_estimators=9, max_depth=2, learning_rate=0.3, random_state=0)
    return model.fit(X[:400], y[:400]), X[:400], X[400:]


def test_certified_where_the_scores_own_trees_make_proofs_hard():
    model, X_fit, X_cal = _problem()
    result = prune_booster(model, X_fit, X_cal, alpha=0.8, score="isolation-forest")
    assert result.status == "CERTIFIED"
    assert result.certificate.trees_after < 9
    assert result.certificate.optimal
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 3)) * rng.uniform(0.2, 3, size=(20_000, 1))
    inside = result.region.contains(X)
    assert 0.05 < inside.mean() < 0.95
    same = model.predict(X) == result.model.predict(X)
    assert same[inside].all()
    verdict = verify(model, result.model, result.region, result.certificate)
    assert verdict.agrees
    assert verdict.proved_twice


def test_a_sweep_is_monotone_and_certified():
    model, X_fit, X_cal = _problem()
    swept = sweep(model, X_fit, X_cal, alphas=[0.0, 0.8], score="isolation-forest")
    kept = [result.certificate.units_kept for result in swept]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] < kept[0]
    for result in swept:
        assert result.status == "CERTIFIED"
        X = X_cal[result.region.contains(X_cal)]
        assert np.array_equal(model.predict(X), result.model.predict(X))
