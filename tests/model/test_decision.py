"""Which side of a cut margins lie on, who wins a tie, how far off they are; probabilities; numbers in sentences."""

from decimal import Decimal

import lightgbm
import numpy as np
import pytest
from sklearn import ensemble

from pine_boost.model.digits import decimals_down, exactly, percent_down, percent_up, rest_of, rounded_down, rounded_up
from pine_boost.model.forest import Decision
from pine_boost.model.links import probabilities_of
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import Tie
from pine_boost.parsers import read_model
from tests.support.native_models import make_table


@pytest.mark.parametrize(("tie", "on_cuts"), [(Tie.LOWEST, [0, 1]), (Tie.HIGHEST, [1, 2])])
def test_a_margin_on_a_cut_falls_to_the_side_that_wins_ties(tie, on_cuts):
    decision = Decision((0.0, 1.0), tie)
    assert decision.classes(np.array([[0.0], [1.0]])).tolist() == on_cuts
    assert decision.classes(np.array([[-0.5], [0.5], [1.5]])).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("tie", "winner"), [(Tie.LOWEST, 0), (Tie.HIGHEST, 1)])
def test_level_classes_fall_to_the_one_that_wins_ties(tie, winner):
    classes = Decision((), tie).classes(np.array([[2.0, 2.0, 1.0], [0.0, 1.0, 3.0]]))
    assert classes.tolist() == [winner, 2]


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
def test_distances_are_double_whatever_the_margins_are(float_type):
    cut = Decision((0.1, 2.0)).distance(np.array([[0.5], [1.75]], dtype=float_type))
    assert cut.dtype == np.float64
    assert cut.tolist() == [0.5 - 0.1, 0.25]
    between = Decision(()).distance(np.array([[1.0, -2.0, 4.0]], dtype=float_type))
    assert between.dtype == np.float64
    assert between.tolist() == [3.0]


MODELS = {
    "sigmoid": lambda: ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
    "slope of 2": lambda: ensemble.GradientBoostingClassifier(n_estimators=4, loss="exponential", random_state=0),
    "softmax": lambda: lightgbm.LGBMClassifier(n_estimators=4, n_jobs=1, verbose=-1),
    "mean": lambda: ensemble.RandomForestClassifier(5, max_depth=4, random_state=0),
    "votes": lambda: ensemble.AdaBoostClassifier(n_estimators=4, random_state=0),
}
BINARY = ("sigmoid", "slope of 2")


@pytest.mark.parametrize("name", list(MODELS))
def test_probabilities_are_those_of_the_library(name):
    X, y = make_table(3, missing=False)
    native = MODELS[name]().fit(X, y > 0 if name in BINARY else y)
    forest = read_model(native).forest
    weight = native.estimator_weights_.sum() if name == "votes" else None
    found = probabilities_of(forest, native_margins(forest, X).astype(np.float64), weight)
    expected = native.predict_proba(X)[:, -found.shape[1] :]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_threshold_on_a_mean_is_added_back():
    X, y = make_table(3, missing=False)
    native = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y > 0)
    forest = read_model(native, threshold=0.3).forest
    found = probabilities_of(forest, native_margins(forest, X))
    np.testing.assert_allclose(found[:, 0], native.predict_proba(X)[:, 1], rtol=0, atol=1e-12)


def test_separate_sigmoids_saturate_without_a_warning():
    X, y = make_table(3, missing=False)
    native = lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1, objective="multiclassova").fit(X, y)
    margins = np.array([[0.0, 1e4, -1e4]])
    assert probabilities_of(read_model(native).forest, margins).tolist() == [[0.5, 1.0, 0.0]]


def drawn():
    rng = np.random.default_rng(0)
    return [float(x) for x in 10 ** rng.uniform(-12, 12, size=500)] + [0.1, 0.3, 1 / 3, 1e-300]


@pytest.mark.parametrize("digits", [2, 3, 4, 6])
def test_significant_digits_lie_on_the_weaker_side(digits):
    for number in drawn():
        low, high = rounded_down(number, digits), rounded_up(number, digits)
        assert Decimal(low) <= Decimal(repr(number)) <= Decimal(high)
        assert float(high) <= float(low) * (1 + 10.0 ** (2 - digits))


def test_percentages_and_decimals_lie_on_the_weaker_side():
    for share in np.random.default_rng(1).random(500):
        exact = Decimal(repr(float(share)))
        assert Decimal(decimals_down(share)) <= exact < Decimal(decimals_down(share)) + Decimal("1e-4")
        assert Decimal(percent_down(share)[:-1]) <= 100 * exact <= Decimal(percent_up(share)[:-1])
    assert percent_down(rest_of(4e-5)) == "99.99%"
    assert percent_up(1.0) == percent_down(1.0) == "100.00%"


def test_numbers_of_few_digits_stay_as_they_are():
    for words in ("0", "0.1", "0.95", "0.99", "0.007", "12", "1e-05"):
        number = float(words)
        assert rounded_down(number) == rounded_up(number) == exactly(number) == words


def test_the_very_number_reads_back():
    for number in drawn():
        assert float(exactly(number)) == number
    assert exactly(np.float64(1234567.0)) == "1234567"


def test_the_rest_of_a_share_is_decimal():
    assert str(rest_of(0.8)) == "0.2"
    assert rounded_down(rest_of(0.1000004)) == "0.899999"
