"""PineClassifier behaves like any scikit-learn classifier, and predicts what was proved."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from pine_boost import InvalidInputError, PineClassifier


def small_boosting():
    return GradientBoostingClassifier(n_estimators=3, max_depth=1, random_state=0)


def applicable_checks():
    """All of scikit-learn's checks but two.

    One runs only with an environment variable. The other says that a row of weight 0 is a row that
    is not there; here it still takes a place in the split into training and calibration rows.
    """
    estimator = PineClassifier(small_boosting(), alpha=0.4, objective="l1")
    return [
        pytest.param(candidate, check, id=check.func.__name__)
        for candidate, check in estimator_checks_generator(estimator)
        if "array_api" not in check.func.__name__ and "sample_weight_equivalence" not in check.func.__name__
    ]


@pytest.mark.parametrize(("estimator", "check"), applicable_checks())
@pytest.mark.filterwarnings("ignore")  # the checks fit tables that no calibration can support
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_predicts_what_was_proved_with_labels_of_text():
    X, y = load_breast_cancer(return_X_y=True)
    labels = np.where(y == 1, "benign", "malignant")
    classifier = PineClassifier(alpha=0.4, random_state=0).fit(X[:400, :6], labels[:400])
    rest = X[400:, :6]
    inside = classifier.covers(rest)
    assert inside.any()
    assert classifier.result_.status == "CERTIFIED"
    assert classifier.result_.pruning_rate > 0
    same = classifier.predict(rest) == classifier.original_.predict(rest)
    assert same[inside].all()
    assert set(classifier.predict(rest)) == {"benign", "malignant"}
    assert list(classifier.classes_) == ["benign", "malignant"]
    assert classifier.predict_proba(rest).shape == (len(rest), 2)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict(rest), classifier.predict(rest))


@pytest.mark.parametrize("unit", ["round", "leaf"])
def test_xgboost_inside_keeps_labels_of_text(unit):
    import xgboost

    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    inner = xgboost.XGBClassifier(n_estimators=4, max_depth=2, nthread=1)
    classifier = PineClassifier(inner, alpha=0.4, unit=unit, random_state=1).fit(X, labels)
    inside = classifier.covers(X)
    original = classifier.classes_[classifier.original_.predict(X)]
    np.testing.assert_array_equal(classifier.predict(X)[inside], original[inside])
    assert classifier.result_.certificate.unit == unit


def test_score_bands_are_no_labels():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(InvalidInputError, match="threshold must be a number strictly between 0 and 1"):
        PineClassifier(small_boosting(), threshold=[0.3, 0.6]).fit(X[:, :5], y)


def test_own_threshold_moves_the_decision():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    classifier = PineClassifier(small_boosting(), alpha=0.4, threshold=0.7, random_state=0)
    classifier.fit(X, y)
    expected = classifier.predict_proba(X)[:, 1] > 0.7
    np.testing.assert_array_equal(classifier.predict(X), expected.astype(int))
    inside = classifier.covers(X)
    original = classifier.original_.predict_proba(X)[:, 1] > 0.7
    np.testing.assert_array_equal(expected[inside], original[inside])


def test_in_a_pipeline_and_a_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    pine = PineClassifier(small_boosting(), random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), pine),
        {"pineclassifier__alpha": [0.2, 0.6], "pineclassifier__estimator__n_estimators": [2, 4]},
        cv=2,
    ).fit(X[:, :5], y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_[-1].result_.status == "CERTIFIED"


def test_a_class_of_one_row_is_trained_on():
    X, y = load_iris(return_X_y=True)
    rare = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:1]])
    classifier = PineClassifier(RandomForestClassifier(n_estimators=3, max_depth=2, random_state=0), alpha=0.4)
    for seed in range(5):
        classifier.set_params(random_state=seed).fit(X[rare], y[rare])
        assert list(classifier.original_.classes_) == [0, 1, 2]


@pytest.mark.parametrize("size", [0, 1, -0.2, True, "half"])
def test_refuses_a_calibration_size_that_is_no_share(size):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInputError, match="calibration_size"):
        PineClassifier(calibration_size=size).fit(X, y)


def test_weights_of_the_rows_reach_the_estimator():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :6]
    weight = np.where(y == 1, 5.0, 0.1)
    options = {"alpha": 0.5, "random_state": 0, "objective": "l1"}
    plain = PineClassifier(**options).fit(X, y)
    weighted = PineClassifier(**options).fit(X, y, sample_weight=weight)
    train, _ = plain._split(y, int(np.random.RandomState(0).randint(2**31 - 1)))
    expected = GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0)
    expected.fit(X[train], y[train], sample_weight=weight[train])
    assert np.array_equal(weighted.original_.predict_proba(X), expected.predict_proba(X))
    assert not np.array_equal(weighted.original_.predict_proba(X), plain.original_.predict_proba(X))
    with pytest.raises(ValueError, match="sample_weight"):
        PineClassifier(**options).fit(X, y, sample_weight=weight[:10])
