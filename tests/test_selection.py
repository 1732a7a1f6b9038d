"""Choosing alpha: the rules of the paper, replayed natively and against the definition."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from pine_boost import InvalidInputError, select_alpha
from pine_boost.selection import upper_risk_bound
from tests.support.native_models import cancer_boosting

GRID = (0.2, 0.6, 0.9)


@pytest.fixture(scope="module")
def parts():
    model, X = cancer_boosting(5, 8)
    return model, X[:250], X[250:400], X[400:]


@pytest.mark.parametrize(("mismatches", "n_rows"), [(0, 20), (1, 20), (3, 50), (20, 20)])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_the_bound_is_where_so_few_mismatches_become_unlikely(mismatches, n_rows, level):
    bound = upper_risk_bound(mismatches, n_rows, level)
    if mismatches == n_rows:
        assert bound == 1.0
        return
    risk = Fraction(bound)
    at_most = sum(comb(n_rows, k) * risk**k * (1 - risk) ** (n_rows - k) for k in range(mismatches + 1))
    assert abs(float(at_most) - level) < 1e-9


@pytest.mark.parametrize("rule", ["empirical", "confidence"])
@pytest.mark.parametrize("target", [0.5, 0.9, 0.97, 0.999])
def test_the_largest_alpha_that_reaches_the_target(parts, rule, target):
    model, X_fit, X_cal, X_sel = parts
    chosen = select_alpha(model, X_fit, X_cal, X_sel, target, rule=rule, alphas=GRID, objective="l1")
    before = model.predict(X_sel)
    reached = []
    for result in chosen.sweep:
        wrong = int(np.sum(result.model.predict(X_sel) != before))
        risk = wrong / len(X_sel)
        if rule == "confidence":
            risk = upper_risk_bound(wrong, len(X_sel), 0.05 / len(GRID))
        if risk <= 1 - target:
            reached.append(result.certificate.alpha)
    assert chosen.alpha == max(reached, default=None)
    if chosen.alpha is None:
        assert chosen.model is model
        assert chosen.result is None
        assert "the original" in str(chosen)
    else:
        assert chosen.model is chosen.result.model


def test_confidence_is_more_careful(parts):
    model, X_fit, X_cal, X_sel = parts
    chosen = [
        select_alpha(model, X_fit, X_cal, X_sel, 0.99, rule=rule, alphas=GRID, objective="l1")
        for rule in ("confidence", "empirical")
    ]
    # 169 rows cannot show a risk below 1 % at level 0.05 / 3, even without a mismatch
    assert chosen[0].alpha is None
    assert chosen[1].alpha is not None


def test_a_model_from_a_file_falls_back_to_its_bytes(parts, tmp_path):
    import xgboost

    _, X_fit, X_cal, X_sel = parts
    y = (X_fit[:, 0] > np.median(X_fit[:, 0])).astype(int)
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 1, "nthread": 1}, xgboost.DMatrix(X_fit, y), num_boost_round=3
    )
    booster.save_model(tmp_path / "model.json")
    chosen = select_alpha(tmp_path / "model.json", X_fit, X_cal, X_sel[:5], 0.999, alphas=[0.5], objective="l1")
    again = xgboost.Booster(model_file=bytearray(chosen.model))
    rows = xgboost.DMatrix(X_sel)
    np.testing.assert_array_equal(again.predict(rows), booster.predict(rows))


def test_selecting_on_seen_rows_is_refused(parts):
    model, X_fit, X_cal, _ = parts
    with pytest.raises(InvalidInputError, match="X_sel also occur in X_cal"):
        select_alpha(model, X_fit, X_cal, X_cal, 0.9, alphas=[0.6], objective="l1")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target_fidelity": 1.0}, "target_fidelity"),
        ({"target_fidelity": 0}, "target_fidelity"),
        ({"delta": 0.0}, "delta"),
        ({"rule": "bayes"}, "rule"),
        ({"X_sel": np.zeros((0, 5))}, "X_sel has no rows"),
    ],
)
def test_refuses_what_means_nothing(parts, wrong, message):
    model, X_fit, X_cal, X_sel = parts
    with pytest.raises(InvalidInputError, match=message):
        select_alpha(model, X_fit, X_cal, **{"X_sel": X_sel, "target_fidelity": 0.9, **wrong})
