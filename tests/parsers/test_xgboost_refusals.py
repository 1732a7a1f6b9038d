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

from tests.support.xgboost_models import BOOSTERS, booster_margins, make_labels, make_rows, train  # noqa: E402  (needs xgboost)


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
        xgboost.DMatrix(np.nan_to_num(rows), labels > 0),
        1,
    )
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        read_model(linear)
    vector = train(
        rounds=2, objective="multi:softprob", n_classes=3, tree_method="hist", multi_strategy="multi_output_tree"
    )
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


def _stumps(leaves, weights=None, base_score="5E-1"):
    """A Booster whose trees split on feature 0 at 0.5 into the two given leaves each."""
    learner = train(rounds=1, objective="binary:logistic", max_depth=1).save_raw("json")
    document = json.loads(learner)
    learner = document["learner"]
    learner["learner_model_param"]["base_score"] = base_score
    model = learner["gradient_booster"]["model"]
    (given,) = model["trees"]
    trees = []
    for number, (left, right) in enumerate(leaves):
        tree = {**given, "id": number, "split_indices": [0, 0, 0]}
        tree["split_conditions"], tree["base_weights"] = [0.5, left, right], [0.0, left, right]
        trees.append(tree)
    model["trees"], model["tree_info"] = trees, [0] * len(trees)
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    model["iteration_indptr"] = list(range(len(trees) + 1))
    if weights is not None:
        learner["gradient_booster"] = {
            "name": "dart",
            "gbtree": {"name": "gbtree", "model": model},
            "weight_drop": weights,
        }
    return xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))


def _both_sides(booster):
    rows = np.full((2, booster.num_features()), np.nan, dtype=np.float32)
    rows[:, 0] = 0, 1
    return rows, booster.predict(xgboost.DMatrix(rows), output_margin=True)


@pytest.mark.parametrize("leaves", [[(1.0, 3e38)] * 2 + [(1.0, -3e38)] * 3, [(1.0, 1e38), (1.0, -1e38)]])
def test_sums_beyond_float32_are_refused(leaves):
    """The first is infinite where the exact sum is finite; the second is in some other order."""
    booster = _stumps(leaves)
    if len(leaves) == 5:
        assert np.isinf(_both_sides(booster)[1][1])
    for given in (booster, bytes(booster.save_raw("json"))):
        with pytest.raises(UnsupportedModelError, match="overflow; accepted are sums below"):
            read_model(given)


def test_dart_leaves_that_overflow_before_their_weight_are_refused():
    with pytest.raises(UnsupportedModelError, match="overflow"):
        read_model(_stumps([(1.0, 3e38)] * 2, weights=[1e-38, 1e-38]))
    with pytest.raises(UnsupportedModelError, match="overflow"):
        read_model(_stumps([(1.0, 1e38)] * 2, weights=[1.0, 1.0]))


def test_large_sums_within_float32_are_read_exactly():
    booster = _stumps([(1.0, 8e37), (-3.0, 8e37)])
    rows, margins = _both_sides(booster)
    assert np.all(np.isfinite(margins))
    np.testing.assert_array_equal(native_margins(read_model(booster).forest, rows)[:, 0], margins)
