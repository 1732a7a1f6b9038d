"""A size that its library refuses ends the sequence; sizes that passed before it are kept."""

import logging

import pytest
from sklearn import ensemble

import pine_boost
from pine_boost import UnsupportedModelError
from pine_boost.compression import validation
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def given():
    X, y = make_table(2, missing=False, n_rows=1400)
    model = ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0)
    return model.fit(X[:600], y[:600]), X[:600], X[600:]


def _refuse_from(number, monkeypatch):
    """Every export from this one on, counted from 1, is refused."""
    calls = []

    def refuse(*arguments):
        calls.append(arguments)
        if len(calls) >= number:
            raise UnsupportedModelError("These leaves cannot be held.")
        return export(*arguments)

    export = validation.export
    monkeypatch.setattr(validation, "export", refuse)


def test_what_was_accepted_before_a_refusal_is_returned(given, monkeypatch, caplog):
    model, X_fit, X_val = given
    whole = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9)
    assert sum(size.accepted for size in whole.path) > 2
    assert whole.record.stopped == "effort"
    _refuse_from(3, monkeypatch)
    with caplog.at_level(logging.WARNING, "pine_boost"):
        result = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9)
    assert result.status == "VALIDATED"
    assert result.path == whole.path[:2]
    assert result.leaves_after == min(size.leaves for size in result.path)
    assert result.record.stopped == "refused"
    assert "ended early (refused)" in result.summary()
    assert "not tested: These leaves cannot be held." in caplog.text
    again = pine_boost.verify_compression(model, result.model, result.record, X_val)
    assert again.agrees


def test_a_refusal_of_the_very_first_size_is_raised(given, monkeypatch):
    model, X_fit, X_val = given
    _refuse_from(1, monkeypatch)
    with pytest.raises(UnsupportedModelError, match="cannot be held"):
        pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9)
