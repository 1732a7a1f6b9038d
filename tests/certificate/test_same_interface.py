"""Two models that stand in for one another: what both hold is compared, whatever their kinds."""

import copy

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from pine_boost.certificate.consistency import require_interchangeable
from pine_boost.errors import CertificateMismatch
from pine_boost.parsers import read_model
from tests.support.native_models import make_table


def _require(original, pruned):
    require_interchangeable(read_model(original), read_model(pruned))


def test_labels_of_two_kinds_of_wrapper_are_compared():
    X, y = make_table(2, n_rows=200)
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    other = ExtraTreesClassifier(3, max_depth=2)
    vars(other).update(copy.deepcopy(vars(model)))
    with pytest.raises(CertificateMismatch, match="wrapper"):
        _require(model, other)
    other.classes_ = model.classes_[::-1].copy()
    with pytest.raises(CertificateMismatch, match="classes"):
        _require(model, other)


def test_two_kinds_of_xgboost_wrapper():
    import xgboost

    X, y = make_table(2, n_rows=200)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y)
    other = xgboost.XGBRFClassifier(n_jobs=1)
    other.load_model(model.get_booster().save_raw("json"))
    _require(model, other)
    other.set_params(missing=-999.0)
    with pytest.raises(CertificateMismatch, match="missing"):
        _require(model, other)
    # neither a file nor a Booster holds what counts as missing
    for bare in (other.get_booster(), bytes(other.get_booster().save_raw("json"))):
        _require(other, bare)
        _require(bare, other)


def test_labels_are_not_asked_of_what_has_none():
    import lightgbm

    X, y = make_table(2, n_rows=200)
    labels = np.array(["no", "yes"])[y]
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, labels)
    text = model.booster_.model_to_string().encode()
    for bare in (model.booster_, text):
        _require(model, bare)
        _require(bare, model)
    _require(model.booster_, text)
