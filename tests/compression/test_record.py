"""compression.json: only the one format is read, and no edited number is believed."""

import json

import pytest
import xgboost

import pine_boost
from pine_boost import CertificateMismatch
from pine_boost.compression.record import read_record
from pine_boost.compression.recount import ON_TRUST
from pine_boost.json_fields import digest_of
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def compressed():
    X, y = make_table(2, n_rows=900)
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    return model, X[500:], pine_boost.compress_booster(model, X[:500], X[500:], fidelity=0.9)


def _sealed(document):
    """An edited record with a digest that fits, as a forger would write it."""
    return json.dumps({**document, "digest": digest_of(document)}).encode()


@pytest.mark.parametrize("version", [0, 2, 3, True, 1.0, "1", None])
def test_another_version_is_refused(compressed, version):
    *_, result = compressed
    document = json.loads(result.record.to_json())
    assert read_record(_sealed(document)) == result.record
    with pytest.raises(CertificateMismatch, match=r"'format_version' is .*, this release reads only 1"):
        read_record(_sealed({**document, "format_version": version}))


def test_an_edited_record_is_refused(compressed):
    *_, result = compressed
    document = json.loads(result.record.to_json())
    with pytest.raises(CertificateMismatch, match="digest does not fit"):
        read_record(json.dumps({**document, "n_changed": document["n_changed"] + 1}).encode())


FORGED = {
    "proved_distance": 0.001,
    "proved_largest": 100.0,
    "proved_rows": 400,
    "attack_distance": 0.0001,
    "probability_shift": {"mean": 0.0, "maximum": 0.0},
    "leaves_after": 1,
    "n_changed": 0,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_number_is_found(compressed, name):
    model, X_val, result = compressed
    document = json.loads(result.record.to_json())
    assert document[name] != FORGED[name]
    record = read_record(_sealed({**document, name: FORGED[name]}))
    verdict = pine_boost.verify_compression(model, result.model, record, X_val)
    assert not verdict.agrees
    assert "DISAGREES" in verdict.summary()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("fidelity", value) for value in (0, 1, -0.95, 1.5, True, "0.9")),
        *(("confidence", value) for value in (0, 1, -0.95, True)),
        ("keeps_class", False),
        ("n_val", 2**63),
        ("n_changed", 10**30),
        ("seed", -1),
    ],
)
def test_numbers_out_of_range_are_refused_when_they_are_read(compressed, name, value):
    """fidelity=0 made `verify` run for ever, keeps_class=false ended in an AssertionError."""
    *_, result = compressed
    document = json.loads(result.record.to_json())
    with pytest.raises(CertificateMismatch, match=f"'{name}' is"):
        read_record(_sealed({**document, name: value}))


def test_a_record_promises_something(compressed):
    *_, result = compressed
    document = json.loads(result.record.to_json())
    with pytest.raises(CertificateMismatch, match="neither 'fidelity' nor 'max_loss'"):
        read_record(_sealed({**document, "fidelity": None}))


def test_what_is_taken_on_trust_is_listed(compressed):
    model, X_val, result = compressed
    verdict = pine_boost.verify_compression(model, result.model, result.record, X_val)
    assert verdict.agrees
    assert verdict.summary().startswith("AGREES: every number that is not listed as taken on trust was found again")
    assert all(name in verdict.summary() for name in ON_TRUST)
    assert "(path)" in verdict.summary()
