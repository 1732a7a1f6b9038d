"""compression.json: only one format is read, and verify_compression believes no edited number or wrapper."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier

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
    assert "no time to measure probability_shift" not in verdict.summary()
    silent = replace(result.record, probability_shift={})
    verdict = pine_boost.verify_compression(model, result.model, silent, X_val)
    assert verdict.agrees
    assert "no time to measure probability_shift" in verdict.summary()


def test_a_tolerance_that_no_classifier_can_be_asked_for_disagrees(compressed):
    model, X_val, result = compressed
    forged = replace(result.record, tolerance=1e308)
    forged = replace(forged, claim=forged.statement.claim())
    verdict = pine_boost.verify_compression(model, result.model, forged, X_val)
    assert not verdict.agrees
    assert "more than its tolerance" in verdict.summary()


def _compressed(model, labels=None):
    X, y = make_table(2, n_rows=900)
    X = np.nan_to_num(X)
    y = y if labels is None else labels[y]
    model.fit(X[:500], y[:500])
    return model, X[500:], pine_boost.compress_booster(model, X[:500], X[500:], fidelity=0.9)


def test_reversed_labels_are_noticed_scikit_learn():
    model, X_val, result = _compressed(GradientBoostingClassifier(n_estimators=6, max_depth=2))
    assert pine_boost.verify_compression(model, result.model, result.record, X_val).agrees
    bad = copy.deepcopy(result.model)
    bad.classes_ = bad.classes_[::-1].copy()
    with pytest.raises(CertificateMismatch, match="classes"):
        pine_boost.verify_compression(model, bad, result.record, X_val)


def test_reversed_labels_are_noticed_lightgbm():
    import lightgbm

    model, X_val, result = _compressed(
        lightgbm.LGBMClassifier(n_estimators=6, num_leaves=5, n_jobs=1, verbose=-1), np.array(["no", "yes"])
    )
    bad = copy.deepcopy(result.model)
    bad._le.classes_ = bad._le.classes_[::-1].copy()
    bad._classes = bad._le.classes_
    with pytest.raises(CertificateMismatch, match="classes"):
        pine_boost.verify_compression(model, bad, result.record, X_val)
    # a file holds no labels, and none are asked of it
    texts = [native.booster_.model_to_string().encode() for native in (model, result.model)]
    for pair in ((model, texts[1]), (texts[0], result.model), tuple(texts)):
        assert pine_boost.verify_compression(*pair, result.record, X_val).agrees


def test_another_missing_value_is_noticed():
    import xgboost

    model, X_val, result = _compressed(xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1))
    booster = result.model.get_booster()
    for other in (booster, bytes(booster.save_raw("json")), bytes(booster.save_raw("ubj"))):
        assert pine_boost.verify_compression(model, other, result.record, X_val).agrees
    bad = copy.deepcopy(result.model).set_params(missing=0.0)
    with pytest.raises(CertificateMismatch, match="missing"):
        pine_boost.verify_compression(model, bad, result.record, X_val)
