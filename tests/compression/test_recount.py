"""verify_compression: what is not in the trees is compared too, where both models hold it."""

import copy

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import pine_boost
from pine_boost import CertificateMismatch
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


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
