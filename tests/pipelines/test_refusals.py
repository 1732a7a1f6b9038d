"""Layers and steps that leave a row without a class of one threshold are refused; where a calibrator switches."""

import numpy as np
import pytest
from sklearn import ensemble
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import pine_boost
from pine_boost import InvalidInputError, UnsupportedModelError, prune_booster
from pine_boost.pipelines.threshold import switch_point
from pine_boost.pipelines.unwrapping import unwrap

X, Y = load_breast_cancer(return_X_y=True)
FOREST = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X[:300], Y[:300])


def refused(model, match, error=UnsupportedModelError, **options):
    with pytest.raises(error, match=match):
        prune_booster(model, X[:300], X[300:], alpha=0.3, **options)


def test_several_calibrators():
    model = CalibratedClassifierCV(RandomForestClassifier(5, random_state=0), cv=3).fit(X, Y)
    refused(model, "holds 3 models whose probabilities are averaged.*FrozenEstimator")


def test_a_calibrator_around_a_calibrator():
    once = CalibratedClassifierCV(FrozenEstimator(FOREST), ensemble=False).fit(X, Y)
    model = CalibratedClassifierCV(FrozenEstimator(once), ensemble=False).fit(X, Y)
    refused(model, "2 calibrators are nested")


def test_several_classes():
    iris, species = load_iris(return_X_y=True)
    forest = RandomForestClassifier(5, random_state=0).fit(iris, species)
    model = CalibratedClassifierCV(FrozenEstimator(forest), ensemble=False).fit(iris, species)
    refused(model, "with 3 classes: its class depends on several scores")


def test_a_calibrator_that_turns_the_model_around():
    model = CalibratedClassifierCV(FrozenEstimator(FOREST), ensemble=False).fit(X, 1 - Y)
    refused(model, "falls where the model's score rises")


def test_a_threshold_on_the_first_class():
    model = FixedThresholdClassifier(FOREST, threshold=0.3, pos_label=0).fit(X, Y)
    refused(model, "pos_label=0: its threshold is on the probability of the first class")


def test_a_threshold_that_no_score_reaches():
    model = FixedThresholdClassifier(FrozenEstimator(FOREST), threshold=1.5).fit(X, Y)
    refused(model, "gives every input the same class")


def test_a_threshold_besides_that_of_a_layer():
    model = FixedThresholdClassifier(FOREST, threshold=0.3).fit(X, Y)
    refused(model, "decides by a rule of its own", InvalidInputError, threshold=0.4)


def test_not_fitted():
    refused(CalibratedClassifierCV(FOREST), "not fitted", InvalidInputError)
    refused(TunedThresholdClassifierCV(FOREST), "not fitted", InvalidInputError)


def test_votes_behind_a_calibrator():
    votes = AdaBoostClassifier(n_estimators=5, random_state=0).fit(X[:300], Y[:300])
    model = CalibratedClassifierCV(FrozenEstimator(votes), ensemble=False).fit(X, Y)
    refused(model, "read its decision_function")


def test_a_pipeline_without_trees():
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    refused(linear, "LogisticRegression")
    refused(make_pipeline(StandardScaler(), "passthrough").fit(X, Y), "passthrough")


def test_a_user_threshold_passes_through_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), FOREST)
    assert unwrap(pipeline, (0.2, 0.6)).threshold == (0.2, 0.6)
    assert unwrap(FOREST, 0.3).threshold == 0.3
    assert unwrap(FOREST).layers == ()


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
def test_the_switch_point_is_found_to_the_last_bit(float_type):
    rng = np.random.default_rng(0)
    for cut in [*rng.random(20), 1e-40, 0.5, 1 - 2**-20]:
        cut = float_type(cut)
        found = switch_point(lambda s, c=cut: s >= c, float_type, 0.0, 1.0)
        assert float_type(found) == np.nextafter(cut, float_type(0))
        found = switch_point(lambda s, c=cut: s > -c, float_type, -9.0, 9.0)
        assert found == -cut


def test_a_rule_that_switches_twice_is_refused():
    bumpy = lambda s: (s > 0.5) & (np.round(s * 2**53) != np.round((0.5 + 2**-45) * 2**53))  # noqa: E731
    with pytest.raises(UnsupportedModelError, match="more than once"):
        switch_point(bumpy, np.float64, 0.0, 1.0, value=lambda s: s)
    with pytest.raises(UnsupportedModelError, match="flat where it changes"):
        switch_point(lambda s: s > 0.5, np.float64, 0.0, 1.0, value=lambda s: 0.5 + 1e-15 * s)
    with pytest.raises(UnsupportedModelError, match="more than once"):
        switch_point(lambda s: (s > 0.5) & (s != 0.75), np.float64, 0.0, 1.0, knots=np.array([0.1, 0.75]))


def test_a_tolerance_with_a_calibrator_around_the_ensemble():
    """Only the probabilities before the calibrator would be tested."""
    whole = CalibratedClassifierCV(FrozenEstimator(FOREST), ensemble=False).fit(X, Y)
    for model in (whole, FixedThresholdClassifier(FrozenEstimator(whole), threshold=0.4).fit(X, Y)):
        with pytest.raises(InvalidInputError, match=r"tolerance=0\.05 .* calibrate the smaller"):
            pine_boost.compress_booster(model, X[:300], X[300:], tolerance=0.05)
        with pytest.raises(InvalidInputError, match=r"tolerance=0\.05 .* calibrate the smaller"):
            pine_boost.survey(model, X[:300], X[300:], tolerance=0.05)
    unwrap(whole).require_own_probabilities(None)
    unwrap(make_pipeline(StandardScaler(), FOREST)).require_own_probabilities(0.05)


def _calibrated(score):
    """Temperature scaling as scikit-learn computes it: in the type of the scores."""
    logits = score.dtype.type(0.8382467) * np.stack([np.log(1 - score), np.log(score)], axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds[:, 1] / odds.sum(axis=1)


def _floats_from(start, float_type, count):
    bits = np.int32 if float_type is np.float32 else np.int64
    first = np.array(start, dtype=float_type).view(bits)
    return (first + np.arange(count, dtype=bits)).view(float_type)


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
def test_a_calibrator_that_rounding_turns_around_is_refused(float_type):
    scores = _floats_from(0.26, float_type, 100_000)
    values = _calibrated(scores)
    turned = np.flatnonzero(np.diff(values) < 0)
    assert len(turned) > 3
    for threshold in values[turned[:3]]:
        with pytest.raises(UnsupportedModelError, match="more than once"):
            switch_point(lambda s, at=threshold: _calibrated(s) >= at, float_type, 0.01, 0.99, value=_calibrated)


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [0.001, 0.3, 0.77])
def test_elsewhere_the_last_float_below_is_found(float_type, threshold):
    found = switch_point(lambda s: s >= float_type(threshold), float_type, 1e-4, 0.9999, value=_calibrated)
    assert found == np.nextafter(float_type(threshold), float_type(0))


class _Step(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self


class _Noise(_Step):
    def transform(self, X):
        return np.asarray(X) + np.random.default_rng().normal(size=np.shape(X))


class _Centred(_Step):
    def transform(self, X):
        return np.asarray(X) - np.mean(np.asarray(X), axis=0)


class _Fewer(_Step):
    def transform(self, X):
        return np.asarray(X)[::2] if len(X) == 300 else np.asarray(X)


def _pipeline(step):
    X = np.random.default_rng(0).normal(size=(700, 3)) + 1
    trees = ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0)
    return Pipeline([("step", step), ("trees", trees)]).fit(X[:350], X[:350, 0] > 1), X


@pytest.mark.parametrize(
    ("step", "message"),
    [(_Noise(), "they are random"), (_Centred(), "whole table"), (_Fewer(), "make 150 rows of 300")],
)
def test_steps_that_give_no_row_a_class_are_refused(step, message):
    pipeline, X = _pipeline(step)
    with pytest.raises(UnsupportedModelError, match=message):
        prune_booster(pipeline, X[:300], X[300:])


def test_steps_that_only_round_otherwise_are_accepted():
    """A product of matrices differs in its last bits with the number of rows."""
    pipeline, X = _pipeline(PCA(2))
    assert prune_booster(pipeline, X[:300], X[300:], alpha=0.3).status == "CERTIFIED"
