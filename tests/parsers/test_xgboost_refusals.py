"""XGBoost reader: thresholds as margins, and models that are refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.read import read_xgboost

xgboost = pytest.importorskip("xgboost")

from tests.support.xgboost_models import (  # noqa: E402  (needs xgboost)
    BOOSTERS,
    booster_margins,
    make_labels,
    make_rows,
    train,
)


def test_probability_thresholds_become_margins():
    booster = train(objective="binary:logistic")
    decision = read_model(booster, threshold=0.3).forest.decision
    assert decision.cuts[0] == pytest.approx(np.log(0.3 / 0.7), rel=1e-14)
    assert decision.thresholds == (0.3,)
    rows = make_rows(seed=8)
    margins = booster_margins(booster, rows)[:, 0].astype(float)
    probabilities = booster.predict(xgboost.DMatrix(rows))
    clear = np.abs(margins - decision.cuts[0]) > decision.guard
    assert clear.mean() > 0.99
    np.testing.assert_array_equal((margins > decision.cuts[0])[clear], (probabilities > 0.3)[clear])
    bands = read_model(booster, threshold=[0.2, 0.5, 0.8]).forest
    assert len(bands.decision.cuts) == 3
    assert bands.classes == (0, 1, 2, 3)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1, 2, float("nan"), [0.5, 0.2], [], "half"])
def test_thresholds_that_make_no_sense_are_refused(threshold):
    with pytest.raises(InvalidInputError, match="threshold"):
        read_model(train(rounds=1, objective="binary:logistic"), threshold=threshold)


def test_thresholds_that_do_not_fit_the_objective_are_refused():
    with pytest.raises(InvalidInputError, match="Per-class"):
        read_model(train(rounds=1, **BOOSTERS["softprob"]), threshold=0.5)
    with pytest.raises(InvalidInputError, match="hinge"):
        read_model(train(rounds=1, **BOOSTERS["hinge"]), threshold=0.5)


def test_refused_by_name():
    rows = make_rows(n_features=3)
    labels = make_labels(rows, 3)
    linear = xgboost.train(
        {"booster": "gblinear", "objective": "binary:logistic", "nthread": 1},
        xgboost.DMatrix(np.nan_to_num(rows), labels > 0), 1,
    )  # fmt: skip
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        read_model(linear)
    vector = train(rounds=2, objective="multi:softprob", n_classes=3, tree_method="hist",
                   multi_strategy="multi_output_tree")  # fmt: skip
    with pytest.raises(UnsupportedModelError, match="vector leaves"):
        read_model(vector)
    several = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(rows, np.c_[labels, labels])
    with pytest.raises(UnsupportedModelError, match="several targets"):
        read_model(several, threshold=0.5)
    with pytest.raises(UnsupportedModelError, match="XGBRegressor"):
        read_model(xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(rows, labels))
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_model(xgboost.XGBClassifier())
    two = xgboost.XGBClassifier(n_estimators=2, n_jobs=1, objective="multi:softprob", num_class=2)
    with pytest.raises(UnsupportedModelError, match="refit"):
        read_model(two.fit(rows, labels > 0))


def test_regressor_with_a_threshold():
    rows = make_rows()
    regressor = xgboost.XGBRegressor(n_estimators=6, n_jobs=1).fit(rows, make_labels(rows, 5))
    model = read_xgboost(regressor, threshold=2.0)
    assert model.kind == "xgboost.XGBRegressor"
    native = regressor.predict(rows)
    np.testing.assert_array_equal(native_margins(model.forest, rows)[:, 0], native)


def test_vector_leaves_of_3_0_are_refused_by_name():
    """There the trees have neither loss_changes nor sum_hessian."""
    document = json.loads(train(**BOOSTERS["logistic"]).save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["tree_param"]["size_leaf_vector"] = "3"
        del tree["loss_changes"], tree["sum_hessian"]
    with pytest.raises(UnsupportedModelError, match="vector leaves"):
        read_model(json.dumps(document).encode())
