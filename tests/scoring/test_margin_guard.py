"""The margin guard keeps its statistical promise, and is honest about too few rows."""

import numpy as np
import pytest
import xgboost
from scipy.stats import beta

from pine_boost import GuardedModel, InvalidInputError, prune_booster
from pine_boost.scoring.guards import choose_margin, margin_levels

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

LEVELS = np.concatenate([2.0 ** -np.arange(0, 12, 0.25), [0.0]])


def upper_bound(wrong, n, confidence):
    """Clopper-Pearson by the beta distribution: another way than the code's."""
    return 1.0 if wrong == n else float(beta.ppf(confidence, wrong + 1, n - wrong))


def test_the_smallest_passing_level_is_taken():
    rng = np.random.default_rng(0)
    distance = rng.uniform(0, 1, 5000)
    differs = rng.random(5000) < np.maximum(0, 0.3 - distance)
    guard = choose_margin(distance, differs, LEVELS, fidelity=0.999, confidence=0.95)
    passing = [
        level for level in LEVELS if upper_bound(int((differs & (distance >= level)).sum()), 5000, 0.95) <= 0.001
    ]
    assert guard.distance == min(passing) > 0
    assert guard.n_differ == (differs & (distance >= guard.distance)).sum()
    assert guard.share_guarded == (distance >= guard.distance).mean()


def test_without_differences_everything_is_let_through():
    guard = choose_margin(np.linspace(0, 1, 3000), np.zeros(3000, bool), LEVELS, fidelity=0.999, confidence=0.95)
    assert guard.distance == 0.0
    assert guard.share_guarded == 1.0


def test_numbers_of_numpy_are_taken_and_what_is_no_share_is_refused():
    distance, differs = np.linspace(0, 1, 500), np.zeros(500, dtype=bool)
    shares = {"fidelity": np.float32(0.75), "confidence": np.float32(0.5)}
    assert choose_margin(distance, differs, LEVELS, **shares) == choose_margin(
        distance, differs, LEVELS, fidelity=0.75, confidence=0.5
    )
    for name, wrong in (("fidelity", True), ("confidence", 1.0), ("fidelity", "0.9")):
        with pytest.raises(InvalidInputError, match=f"{name} must be .* strictly between 0 and 1"):
            choose_margin(distance, differs, LEVELS, **(shares | {name: wrong}))


def test_if_everything_differs_nothing_is_let_through():
    distance = np.linspace(0, 0.9, 3000)
    guard = choose_margin(distance, np.ones(3000, bool), LEVELS, fidelity=0.999, confidence=0.95)
    assert guard.share_guarded == 0.0


def test_the_promise_is_kept_as_often_as_stated():
    """2000 draws of X_val: the true rate of differences exceeds the target in at most 5 %."""
    rng = np.random.default_rng(1)
    n_val, failures = 400, 0
    for _ in range(2000):
        distance = rng.uniform(0, 1, n_val)
        differs = rng.random(n_val) < 0.2 * (1 - distance) ** 4
        guard = choose_margin(distance, differs, LEVELS, fidelity=0.98, confidence=0.95)
        d = min(guard.distance, 1.0)
        failures += 0.2 * (1 - d) ** 5 / 5 > 0.02
    assert 0 < failures <= 100 + 3 * np.sqrt(2000 * 0.05 * 0.95)


def test_too_few_rows_are_refused_with_the_target_that_fits():
    with pytest.raises(InvalidInputError, match=r"needs at least 2995.*fidelity=0.9704"):
        choose_margin(np.ones(100), np.zeros(100, bool), LEVELS, fidelity=0.999, confidence=0.95)
    with pytest.raises(InvalidInputError, match="fidelity must be a number strictly between 0 and 1, got 1"):
        choose_margin(np.ones(100), np.zeros(100, bool), LEVELS, fidelity=1, confidence=0.95)


def moons(n_rows, seed):
    from sklearn.datasets import make_moons

    return make_moons(n_rows, noise=0.3, random_state=seed)


@pytest.mark.parametrize("backend", ["native", "kernel"])
def test_a_region_with_undecided_inputs_can_be_guarded_by_the_margin(backend):
    X, y = moons(600, 0)
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=3, n_jobs=1).fit(X, y)
    result = prune_booster(model, X, moons(600, 1)[0], alpha=0.3, indifference=0.2, time_limit=15)
    assert result.certificate.trees_after < 40
    X_val, X_new = moons(3500, 2)[0], moons(20_000, 3)[0]
    guarded = GuardedModel(result, X_val, fidelity=0.999, backend=backend)
    assert 0 < guarded.margin.distance < margin_levels(result.pruned.forest)[0]
    agreed = (guarded.predict(X_new) == model.predict(X_new)).mean()
    assert agreed >= 0.9985  # 0.999 with confidence 0.95, and 20 000 rows
    alone = (result.model.predict(X_new) == model.predict(X_new)).mean()
    assert alone < agreed
    assert 0 < guarded.share_guarded < 1
    assert "not a proof" in guarded.claim
    single = np.concatenate([guarded.predict(row[None]) for row in X_new[:30]])
    assert (single == guarded.predict(X_new[:30])).all()


def test_several_classes_are_guarded_by_the_gap_of_the_two_best():
    from sklearn.datasets import make_classification

    X, y = make_classification(6000, 6, n_informative=4, n_classes=3, class_sep=0.7, random_state=0)
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=2, n_jobs=1).fit(X[:400], y[:400])
    result = prune_booster(model, X[:400], X[400:800], alpha=0.7, time_limit=15)
    guarded = GuardedModel(result, X[800:2400], fidelity=0.99)
    rows = X[2400:]
    margins = result.model.predict(rows, output_margin=True)
    best = np.sort(margins, axis=1)
    gap = (best[:, -1].astype(float) - best[:, -2]) >= guarded.margin.distance
    assert (guarded.guarded(rows) == gap).all()
    assert (guarded.predict(rows) == model.predict(rows)).mean() > 0.985


def test_a_compressed_model_is_guarded_by_its_margin(tmp_path):
    from pine_boost import compress_booster, load_scorer

    X, y = moons(1500, 0)
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(X, y)
    X_val, X_guard, X_new = moons(1500, 1)[0], moons(3500, 2)[0], moons(20_000, 3)[0]
    result = compress_booster(model, X, X_val, fidelity=0.97, time_limit=60)
    assert result.status == "VALIDATED"
    with pytest.raises(InvalidInputError, match="chose the size"):
        GuardedModel(result, X_val, fidelity=0.99)
    with pytest.raises(InvalidInputError, match="no certified region; pass X_val"):
        GuardedModel(result)
    guarded = GuardedModel(result, X_guard, fidelity=0.999, backend="kernel")
    agreed = (guarded.predict(X_new) == model.predict(X_new)).mean()
    alone = (result.model.predict(X_new) == model.predict(X_new)).mean()
    assert alone < 0.9985 <= agreed
    assert 0.3 < guarded.share_guarded < 1
    guarded.save(tmp_path / "folder")
    again = load_scorer(tmp_path / "folder")
    assert (again.predict(X_new) == guarded.predict(X_new)).all()


def test_a_value_has_no_guard():
    from pine_boost import compress_booster

    X, _ = moons(1500, 0)
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X, X[:, 0] * X[:, 1])
    result = compress_booster(model, X, moons(1500, 1)[0], tolerance=0.5, fidelity=0.9)
    with pytest.raises(InvalidInputError, match="predicts a value"):
        GuardedModel(result, moons(1500, 2)[0], fidelity=0.9)
