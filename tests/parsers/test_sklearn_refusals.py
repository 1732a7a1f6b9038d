"""What the scikit-learn reader refuses, and that the message says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.parsers.sklearn.read import read_isolation_forest, read_sklearn

pytest.importorskip("sklearn")

from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from tests.support.sklearn_models import fitted, table

X, Y = table(3, "")
BINARY = (Y > 0).astype(int)


@pytest.mark.parametrize(
    ("native", "message"),
    [
        (
            make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(X, Y),
            r"named_steps\['randomforestclassifier'\].*pipeline\[:-1\]",
        ),
        (LogisticRegression().fit(X, Y), "LogisticRegression is not supported; accepted"),
        (BaggingClassifier(n_estimators=2).fit(X, Y), "BaggingClassifier is not supported"),
        (GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=2).fit(X, Y), "best_estimator_"),
        (IsolationForest(n_estimators=2).fit(X), "read_isolation_forest"),
        (RandomForestRegressor(2).fit(X, X[:, 0]), "pass threshold="),
        (
            RandomForestClassifier(2).fit(X, np.column_stack([Y, BINARY])),
            "2 outputs is not supported; fit one model per output",
        ),
        (DecisionTreeClassifier().fit(X, np.zeros(len(X))), "single class"),
        (
            GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()).fit(X, Y),
            "init=LogisticRegression.*init='zero'",
        ),
        (
            AdaBoostClassifier(LogisticRegression(), n_estimators=2).fit(X, Y),
            "LogisticRegression was found inside AdaBoostClassifier",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unsupported(native: Any, message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        read_sklearn(native)


@pytest.mark.parametrize(
    "native",
    [
        RandomForestClassifier(),
        DecisionTreeClassifier(),
        GradientBoostingClassifier(),
        HistGradientBoostingClassifier(),
        AdaBoostClassifier(),
    ],
    ids=lambda native: type(native).__name__,
)
def test_not_fitted(native: Any) -> None:
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_sklearn(native)
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_isolation_forest(IsolationForest())


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (0.0, "strictly between 0 and 1"),
        (1.0, "strictly between 0 and 1"),
        (-3, "strictly between 0 and 1"),
        (float("nan"), "finite"),
        ("half", "finite number or a list"),
        ([], "finite number or a list"),
        ([0.3, 0.3], "strictly ascending"),
        ([[0.3]], "finite number or a list"),
    ],
)
def test_bad_thresholds(threshold: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_sklearn(fitted("gradient", 2), threshold=threshold)


@pytest.mark.parametrize(
    ("name", "n_classes", "threshold", "message"),
    [
        ("gradient", 3, 0.4, "per-class thresholds are not supported"),
        ("forest", 3, 0.4, "per-class thresholds are not supported"),
        ("adaboost", 2, 0.4, "sum of the estimator weights"),
        ("forest", 2, [0.2, 0.4], "only one threshold"),
    ],
)
def test_thresholds_that_cannot_be_kept(name: str, n_classes: int, threshold: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_sklearn(fitted(name, n_classes), threshold=threshold)


def test_none_as_category_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    column = np.array(["a", "b", None] * 40, dtype=object)
    frame = pandas.DataFrame({"x": np.arange(120.0), "word": pandas.Series(column, dtype=object)})
    native = HistGradientBoostingClassifier(max_iter=2, categorical_features=["word"])
    native.fit(frame, np.arange(120) % 2)
    known = native._preprocessor.named_transformers_["encoder"].categories_[0]
    assert known[-1] is None
    with pytest.raises(UnsupportedModelError, match="refit with NaN"):
        read_sklearn(native)


def test_damaged_leaves_are_refused() -> None:
    native = RandomForestClassifier(2, max_depth=2).fit(X, Y)
    native.estimators_[0].tree_.value[:] = np.nan
    with pytest.raises(MalformedModelError, match="not finite"):
        read_sklearn(native)


def test_subclass_of_a_supported_estimator_is_read() -> None:
    class Mine(RandomForestClassifier):
        """A user's own class."""

    model = read_sklearn(Mine(3, random_state=0).fit(X, Y))
    assert model.kind == "sklearn.RandomForestClassifier"
    assert model.forest.n_trees == 3


def test_isolation_forest_of_another_kind() -> None:
    with pytest.raises(UnsupportedModelError, match="only IsolationForest"):
        read_isolation_forest(fitted("forest", 2))


def test_old_scikit_learn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    native = fitted("forest", 2)
    monkeypatch.setattr("sklearn.__version__", "1.5.2")
    with pytest.raises(UnsupportedModelError, match=r"1\.5\.2 .* Use scikit-learn 1\.6"):
        read_sklearn(native)
