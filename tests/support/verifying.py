"""Shared test helpers: small fitted models of every kind, and the same pruned.

In comes the name of a kind; out go the live model and its rows, or its PruneResult. Refuses
nothing: an unknown name is a KeyError of the test.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import datasets, ensemble

from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import claim_of, kept_reason, rests_on
from pine_boost.certificate.verification import Verification
from pine_boost.prune import prune_booster
from pine_boost.result import PruneResult
from pine_boost.verifying import verify


def breast_or_iris(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    loader = datasets.load_breast_cancer if n_classes == 2 else datasets.load_iris
    X, y = loader(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order][:, :6], y[order]


MAKERS: dict[str, tuple[int, Any]] = {
    "xgboost": (2, lambda: xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1)),
    "xgboost-3": (3, lambda: xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)),
    "dart": (2, lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=2, booster="dart", rate_drop=0.3, n_jobs=1)),
    "lightgbm": (2, lambda: lightgbm.LGBMClassifier(n_estimators=12, max_depth=2, n_jobs=1, verbose=-1)),
    "lightgbm-3": (3, lambda: lightgbm.LGBMClassifier(n_estimators=5, max_depth=2, n_jobs=1, verbose=-1)),
    "lightgbm-rf": (
        2,
        lambda: lightgbm.LGBMClassifier(
            n_estimators=8, max_depth=3, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, n_jobs=1, verbose=-1
        ),
    ),
    "gradient": (2, lambda: ensemble.GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0)),
    "gradient-3": (3, lambda: ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)),
    "histogram": (2, lambda: ensemble.HistGradientBoostingClassifier(max_iter=8, max_depth=2, random_state=0)),
    "forest": (2, lambda: ensemble.RandomForestClassifier(8, max_depth=3, random_state=0)),
    "forest-3": (3, lambda: ensemble.RandomForestClassifier(8, max_depth=3, random_state=0)),
    "extra-trees": (2, lambda: ensemble.ExtraTreesClassifier(8, max_depth=3, random_state=0)),
    "adaboost": (2, lambda: ensemble.AdaBoostClassifier(n_estimators=10, random_state=0)),
    "adaboost-3": (3, lambda: ensemble.AdaBoostClassifier(n_estimators=8, random_state=0)),
}


def boosted_products(n_trees: int, **options: Any) -> tuple[Any, np.ndarray]:
    """Gradient boosting of small trees on a product and a sum of two columns each, and its rows."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    model = ensemble.GradientBoostingClassifier(n_estimators=n_trees, max_depth=2, **options)
    return model.fit(X, y), X


def fitted(kind: str) -> tuple[Any, np.ndarray]:
    n_classes, make = MAKERS[kind]
    X, y = breast_or_iris(n_classes)
    n = len(X) // 2
    return make().fit(X[:n], y[:n]), X


def pruned_model(kind: str, **options: Any) -> tuple[Any, PruneResult]:
    model, X = fitted(kind)
    n = len(X) // 2
    options = {"alpha": 0.2, "indifference": 0.05, **options}
    return model, prune_booster(model, X[:n], X[n:], **options)


def reworded(certificate: Certificate, **changed: Any) -> Certificate:
    """The certificate with other fields, and the sentences that belong to them: a careful forger's."""
    made = replace(certificate, **changed)
    made = replace(made, reason=kept_reason(made))
    return replace(made, claim=claim_of(made), rests_on=rests_on(made))


def verify_folder(original: Any, folder: Path, **given: Any) -> Verification:
    """`verify` on the files of a saved result; what is given stands in for a file."""
    (smaller,) = folder.glob("model.*")
    parts = {"pruned": smaller, "region": folder / "region.json", "certificate": folder / "certificate.json"}
    return verify(original, **{**parts, **given})


def look_for_no_serving_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proving it takes most of the time of a small search; test_serving and test_verify ask it."""
    monkeypatch.setattr("pine_boost.build_result.find_margin", lambda *_: None)
