"""Time that ends while the region is being fitted: the original, no claim, and nothing raised."""

import json

import numpy as np
import pytest

from pine_boost import PruneResult, prune_booster, select_alpha, sweep
from pine_boost.budget import Budget, OutOfTime
from pine_boost.certificate.certificate import Certificate
from pine_boost.model.digest import forest_digest
from pine_boost.model.states import build_space
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.region.domain import Domain
from pine_boost.region.fitting import fit_with_states
from pine_boost.region.scores.chow_liu import bins_of, chow_liu_of_states, count_nearest
from tests.support.command_line import run, write_inputs
from tests.support.verifying import fitted

OVER = Budget(deadline=0.0)
NO_TIME = 1e-9  # seconds: over before the first row is read


def _require_nothing_claimed(result, alpha):
    certificate = result.certificate
    assert result.status == "NOT_CERTIFIED"
    assert certificate.claim == ""
    assert "before the search began" in certificate.reason
    assert "no probability" in certificate.reason
    assert (certificate.alpha, certificate.tau, certificate.n_cal) == (alpha, None, 0)
    assert (certificate.lower_bound, certificate.optimal) == (1, False)
    assert certificate.trees_after == certificate.trees_before
    assert certificate.leaves_after == certificate.leaves_before


@pytest.fixture(scope="module")
def parts():
    model, X = fitted("xgboost")
    half = len(X) // 2
    return model, X[:half], X[half:]


def test_prune_returns_the_original(parts, tmp_path):
    model, X_fit, X_cal = parts
    result = prune_booster(model, X_fit, X_cal, alpha=0.2, time_limit=NO_TIME)
    _require_nothing_claimed(result, 0.2)
    assert result.model is model
    assert result.region.contains(np.full_like(X_cal[:3], np.nan)).all()
    assert "indifference" not in result.summary()  # there was no search that it could help
    result.save(tmp_path / "saved")
    loaded = PruneResult.load(tmp_path / "saved", model)
    assert loaded.region == result.region
    assert loaded.evaluate(X_cal).fidelity == 1.0


def test_a_domain_still_narrows(parts):
    model, X_fit, X_cal = parts
    low = Domain(never_missing=True)
    result = prune_booster(model, X_fit, X_cal, domain=low, time_limit=NO_TIME)
    _require_nothing_claimed(result, 0.1)
    assert result.certificate.narrowed
    assert not result.region.contains(np.full_like(X_cal[:1], np.nan))[0]


def test_sweep_and_selection_return_the_original_for_every_alpha(parts):
    model, X_fit, X_cal = parts
    swept = sweep(model, X_fit, X_cal, alphas=[0.1, 0.6], time_limit=NO_TIME)
    assert swept.alphas == (0.1, 0.6)
    for result in swept:
        _require_nothing_claimed(result, result.certificate.alpha)
    half = len(X_cal) // 2
    chosen = select_alpha(model, X_fit, X_cal[:half], X_cal[half:], 0.5, time_limit=NO_TIME)
    assert chosen.alpha is None
    assert chosen.model is model


def test_the_classifier_predicts_with_the_original(parts):
    from pine_boost.classifier import PineClassifier

    _, X_fit, _ = parts
    y = np.arange(len(X_fit)) % 2
    classifier = PineClassifier(time_limit=NO_TIME, random_state=0).fit(X_fit, y)
    _require_nothing_claimed(classifier.result_, 0.1)
    assert np.array_equal(classifier.predict(X_fit), classifier.original_.predict(X_fit))


@pytest.mark.parametrize("command", ["prune", "sweep"])
def test_the_command_line_writes_the_original(parts, command, tmp_path, capsys):
    model, X_fit, X_cal = parts
    write_inputs(tmp_path, model, fit=X_fit, cal=X_cal)
    code, out, _ = run(
        capsys,
        f"{command} {tmp_path}/model.json --fit {tmp_path}/fit.npy --cal {tmp_path}/cal.npy "
        f"--time-limit {NO_TIME} -o {tmp_path}/out --json",
    )
    assert code == 2
    assert "NOT_CERTIFIED" in out
    written = sorted((tmp_path / "out").rglob("certificate.json"))
    assert written
    for path in written:
        certificate = Certificate.load(path)
        assert certificate.claim == ""
        assert forest_digest(read_model(path.parent / "model.json").forest) == certificate.original_digest
    assert json.loads(out)


def test_the_deadline_ends_the_fit_of_a_region(parts):
    model, X_fit, X_cal = parts
    forest = read_model(model).forest
    for score in ("chow-liu", "leaf-support", "isolation-forest"):
        with pytest.raises(OutOfTime):
            fit_with_states(forest, X_fit, X_cal, Options(alpha=0.1, score=score), budget=OVER)
    space = build_space(forest)
    matrix = np.asarray(X_fit, dtype=np.float64)
    bins = bins_of(space, count_nearest(space, matrix), 4)
    with pytest.raises(OutOfTime):  # between two pairs of features, whatever the rows
        chow_liu_of_states(bins, space.states(matrix), budget=OVER)
