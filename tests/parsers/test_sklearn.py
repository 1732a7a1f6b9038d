"""The scikit-learn reader against scikit-learn itself: margins, classes, thresholds, and what is refused."""

from fractions import Fraction

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris
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
from threadpoolctl import threadpool_limits

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model import exact
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.parsers import read_model
from pine_boost.parsers.sklearn.read import read_isolation_forest, read_sklearn
from tests.support.grids import edge_rows
from tests.support.sklearn_models import (
    CASES,
    decide,
    expected_values,
    fitted,
    native_values,
    probe_rows,
    random_case,
    table,
)
from tests.support.value_models import ESTIMATORS as REGRESSORS

# OpenMP threads that spin on a shared machine turn seconds into minutes
threadpool_limits(1)


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_margins_are_bit_equal_and_classes_equal(name, n_classes):
    native = fitted(name, n_classes)
    model = read_sklearn(native)
    forest = model.forest
    codes, raw = probe_rows(model, name, n_classes)
    margins = native_margins(forest, codes)
    if "AdaBoost" in model.kind and n_classes > 2:
        total = native.estimator_weights_.sum()
        scale = (n_classes - 1) / n_classes
        votes = (native.decision_function(raw) * total + total / (n_classes - 1)) * scale
        assert np.abs(votes - margins).max() <= forest.slack + 8 * exact.UNIT_ROUNDOFF[np.float64] * (total + 1)
        gap = np.sort(margins, axis=1)
        clear = gap[:, -1] - gap[:, -2] > 2 * forest.slack + forest.decision.guard
        assert clear.mean() > 0.9
    else:
        assert np.array_equal(expected_values(native, forest, margins), native_values(native, model.kind, raw))
        clear = np.ones(len(raw), dtype=bool)
    labels = np.array(forest.classes)[decide(forest, margins)]
    assert np.array_equal(labels[clear], native.predict(raw)[clear])
    assert len(np.unique(labels)) == n_classes


@pytest.mark.parametrize("name", ["forest", "extra trees", "forest fitted with NaN"])
def test_leaves_are_those_of_apply(name):
    native = fitted(name, 3)
    model = read_sklearn(native)
    codes, raw = probe_rows(model, name, 3)
    leaves = find_leaves(model.forest, codes) - model.forest.tree_offset[:-1]
    assert np.array_equal(leaves, native.apply(raw))


def test_reading_changes_nothing_and_tells_names():
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    native = GradientBoostingClassifier(n_estimators=3).fit(frame, y)
    before = native.decision_function(frame)
    model = read_sklearn(native)
    assert model.native is native
    assert model.kind == "sklearn.GradientBoostingClassifier"
    assert model.forest.feature_names == ("a", "b", "c", "d")
    assert model.forest.classes == (0, 1, 2)
    assert model.forest.tree_round.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert model.forest.tree_output.tolist() == [0, 1, 2] * 3
    assert np.array_equal(native.decision_function(frame), before)


def test_string_categories_of_a_table_keep_their_column():
    random = np.random.default_rng(0)
    words = np.array(["oak", "elm", "fir", "yew"])
    frame = pandas.DataFrame(
        {
            "height": random.normal(size=300),
            "kind": pandas.Categorical(words[random.integers(4, size=300)]),
            "age": random.normal(size=300),
        }
    )
    y = ((frame["kind"].isin(["oak", "yew"])) ^ (frame["age"] > 0)).astype(int)
    frame.loc[:20, "kind"] = np.nan
    native = HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5).fit(frame, y)
    forest = read_sklearn(native).forest
    assert forest.feature_categories == (None, ("elm", "fir", "oak", "yew"), None)
    used = {
        int(kind): set(forest.feature[forest.kind == kind].tolist())
        for kind in (SplitKind.NUMERIC, SplitKind.CATEGORICAL)
    }
    assert used[SplitKind.CATEGORICAL] == {1}
    assert used[SplitKind.NUMERIC] <= {0, 2}
    unseen = frame.copy()
    unseen["kind"] = pandas.Categorical(["larch"] * 100 + ["fir"] * 200)
    for rows in (frame, unseen):
        codes = np.column_stack(
            [
                rows["height"],
                rows["kind"].map({"elm": 0.0, "fir": 1.0, "oak": 2.0, "yew": 3.0}).astype(float),
                rows["age"],
            ]
        )
        assert np.array_equal(native_margins(forest, codes)[:, 0], native.decision_function(rows))


def test_ties_of_a_forest_go_to_the_lowest_class():
    native = fitted("forest of pure leaves", 2)
    model = read_sklearn(native)
    codes, raw = probe_rows(model, "", 2)
    margins = native_margins(model.forest, codes)
    tied = margins[:, 0] == margins[:, 1]
    assert tied.sum() > 3
    assert set(native.predict(raw[tied])) == {"ash"}
    assert exact.is_exact(model.forest)
    assert model.forest.decision.guard == 0
    assert exact.summation_band(model.forest) == 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_band_covers_every_order_of_the_trees(n_classes):
    forest = read_sklearn(fitted("forest", n_classes)).forest
    codes = table(n_classes, "")[0][:40]
    values = forest.leaf_vectors()[find_leaves(forest, codes)]
    exact_sums = [[sum(map(Fraction, column)) for column in row.T] for row in values]
    band = Fraction(exact.summation_band(forest))
    assert 0 < band < Fraction(1, 10**12)
    random = np.random.default_rng(0)
    for _ in range(20):
        sums = np.zeros((len(codes), n_classes))
        for tree in random.permutation(forest.n_trees):
            sums += values[:, tree]
        for row, exact_row in zip(sums, exact_sums, strict=True):
            assert all(abs(Fraction(s) - e) <= band for s, e in zip(row.tolist(), exact_row, strict=True))


def test_sparse_rows_mean_zero():
    X, y = table(2, "")
    X[np.abs(X) < 0.4] = 0.0
    native = RandomForestClassifier(5, max_depth=4, random_state=0).fit(csr_matrix(X), y)
    model = read_sklearn(native)
    assert not model.forest.sparse_zero_is_missing
    assert np.array_equal(native_margins(model.forest, X) / 5, native.predict_proba(csr_matrix(X)))


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["forest", "extra", "gradient", "histogram", "adaboost"]),
    seed=st.integers(0, 10**6),
    n_trees=st.integers(1, 5),
    depth=st.integers(1, 4),
    n_classes=st.integers(2, 4),
    decimals=st.integers(0, 3),
)
def test_random_models(kind, seed, n_trees, depth, n_classes, decimals):
    native, X, y = random_case(kind, seed, n_classes, n_trees=n_trees, depth=depth, decimals=decimals)
    native.fit(X, y)
    model = read_sklearn(native)
    rows = edge_rows(model.forest, X, limit=60, seed=seed)
    if kind in ("gradient", "adaboost"):
        rows = np.where(np.isnan(rows), 0.0, rows)
    margins = native_margins(model.forest, rows)
    labels = np.array(model.forest.classes)[decide(model.forest, margins)]
    if kind == "adaboost" and n_classes > 2:
        ordered = np.sort(margins, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 2 * model.forest.slack + model.forest.decision.guard
        assert np.array_equal(labels[clear], native.predict(rows)[clear])
    else:
        values = expected_values(native, model.forest, margins)
        assert np.array_equal(values, native_values(native, model.kind, rows))
        assert np.array_equal(labels, native.predict(rows))


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.83])
def test_probability_threshold_of_gradient_boosting(loss, threshold):
    X, y = table(2, "")
    native = GradientBoostingClassifier(n_estimators=6, learning_rate=0.5, loss=loss, random_state=0).fit(X, y)
    forest = read_sklearn(native, threshold=threshold).forest
    margins = native_margins(forest, X)[:, 0]
    assert np.array_equal(margins, native.decision_function(X))
    assert forest.decision.thresholds == (threshold,)
    clear = np.abs(margins - forest.decision.cuts[0]) > forest.decision.guard
    above = native.predict_proba(X)[:, 1] > threshold
    assert clear.sum() > 200
    assert 0 < above.sum() < len(X)
    assert np.array_equal(above[clear], margins[clear] > forest.decision.cuts[0])


def test_guard_covers_the_sigmoid_next_to_the_cut():
    X, y = table(2, "")
    for threshold in (0.01, 0.3, 0.9):
        native = HistGradientBoostingClassifier(max_iter=1).fit(X, y)
        decision = read_sklearn(native, threshold=threshold).forest.decision
        margin = decision.cuts[0] + decision.guard * np.array([-1.0, 1.0])
        native._predictors = []
        for side, expected in zip(margin, [False, True], strict=True):
            native._baseline_prediction = np.array([[side]])
            assert (native.predict_proba(X[:1])[0, 1] > threshold) is np.bool_(expected)


def test_several_thresholds_are_ordered_bands():
    X, y = table(2, "")
    native = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    forest = read_sklearn(native, threshold=[0.2, 0.7]).forest
    assert forest.decision.thresholds == (0.2, 0.7)
    assert forest.classes == (0, 1, 2)
    bands = np.searchsorted(forest.decision.cuts, native_margins(forest, X)[:, 0])
    native_bands = np.searchsorted([0.2, 0.7], native.predict_proba(X)[:, 1])
    assert np.array_equal(bands, native_bands)


@pytest.mark.parametrize("threshold", [0.5, 0.25, 0.3])
@pytest.mark.parametrize("name", ["forest", "forest of pure leaves", "tree"])
def test_probability_threshold_of_a_forest(name, threshold):
    native = fitted(name, 2)
    model = read_sklearn(native, threshold=threshold)
    forest = model.forest
    assert forest.n_outputs == 1
    codes, raw = probe_rows(model, name, 2)
    margins = native_margins(forest, codes)[:, 0]
    above = native.predict_proba(raw)[:, 1] > threshold
    clear = np.abs(margins) > exact.summation_band(forest) + forest.decision.guard
    if exact.is_exact(forest):
        clear[:] = True  # a tie is a tie
    assert clear.mean() > 0.9
    assert np.array_equal(above[clear], margins[clear] > 0)


@pytest.mark.parametrize("name", ["forest", "extra trees", "tree", "gradient", "gradient huber", "histogram"])
def test_regressors_need_a_threshold(name):
    X, y = table(3, "")
    native = clone(REGRESSORS[name]).fit(X, X[:, 0] * 2 + y)
    forest = read_sklearn(native, threshold=0.7).forest
    margins = native_margins(forest, X)[:, 0]
    above = native.predict(X) > 0.7
    assert 0 < above.sum() < len(X)
    assert forest.classes == (0, 1)
    assert np.array_equal(above, margins > forest.decision.cuts[0])


def test_isolation_trees_route_as_their_own():
    X, _ = table(2, "")
    native = IsolationForest(n_estimators=12, random_state=0).fit(X)
    forest = read_isolation_forest(native)
    rows = np.vstack([X, edge_rows(forest, X, limit=60)])
    rows = np.where(np.isnan(rows), 0.0, rows)
    own = [tree.apply(rows) for tree in native.estimators_]
    assert np.array_equal(find_leaves(forest, rows), np.stack(own, axis=1) + forest.tree_offset[:-1])
    assert not forest.decides
    assert forest.classes == ()


X, Y = table(3, "")
BINARY = (Y > 0).astype(int)


@pytest.mark.parametrize(
    ("native", "message"),
    [
        (
            make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(X, Y),
            r"named_steps\['randomforestclassifier'\].*pipeline\[:-1\]",
        ),
        (
            LogisticRegression().fit(X, Y),
            "LogisticRegression of sklearn.linear_model._logistic is not supported; accepted from sklearn",
        ),
        (BaggingClassifier(n_estimators=2).fit(X, Y), "BaggingClassifier of .* is not supported"),
        (GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=2).fit(X, Y), "best_estimator_"),
        (IsolationForest(n_estimators=2).fit(X), "pass score='isolation-forest'"),
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
        (
            AdaBoostClassifier(type("DecisionTreeClassifier", (LogisticRegression,), {})(), n_estimators=2).fit(X, Y),
            "DecisionTreeClassifier was found inside AdaBoostClassifier",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unsupported(native, message):
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(native)


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
def test_not_fitted(native):
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_sklearn(native)
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_isolation_forest(IsolationForest())


@pytest.mark.parametrize(
    ("name", "n_classes", "threshold", "message"),
    [
        ("gradient", 3, 0.4, "per-class thresholds are not supported"),
        ("forest", 3, 0.4, "per-class thresholds are not supported"),
        ("adaboost", 2, 0.4, "sum of the estimator weights"),
        ("forest", 2, [0.2, 0.4], "only one threshold"),
    ],
)
def test_thresholds_that_cannot_be_kept(name, n_classes, threshold, message):
    with pytest.raises(InvalidInputError, match=message):
        read_sklearn(fitted(name, n_classes), threshold=threshold)


def test_none_as_category_is_refused():
    column = np.array(["a", "b", None] * 40, dtype=object)
    frame = pandas.DataFrame({"x": np.arange(120.0), "word": pandas.Series(column, dtype=object)})
    native = HistGradientBoostingClassifier(max_iter=2, categorical_features=["word"])
    native.fit(frame, np.arange(120) % 2)
    known = native._preprocessor.named_transformers_["encoder"].categories_[0]
    assert known[-1] is None
    with pytest.raises(UnsupportedModelError, match="refit with NaN"):
        read_sklearn(native)


def test_damaged_leaves_are_refused():
    native = RandomForestClassifier(2, max_depth=2).fit(X, Y)
    native.estimators_[0].tree_.value[:] = np.nan
    with pytest.raises(MalformedModelError, match="not finite"):
        read_sklearn(native)


@pytest.mark.parametrize("children", [(-2, -2), (-2, -1), (-1, 1), (0, 0), (99, 99)])
def test_damaged_children_are_refused(children):
    """Only -1 is a leaf: at -2 scikit-learn itself reads before its nodes."""
    X, y = load_iris(return_X_y=True)
    native = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    state = native.tree_.__getstate__()
    last = state["nodes"][-1:].copy()
    last["left_child"], last["right_child"] = children
    native.tree_.__setstate__({**state, "nodes": np.concatenate([state["nodes"][:-1], last])})
    with pytest.raises(MalformedModelError):
        read_sklearn(native)


def test_subclass_of_a_supported_estimator_is_read():
    class Mine(RandomForestClassifier):
        """A user's own class."""

    model = read_sklearn(Mine(3, random_state=0).fit(X, Y))
    assert model.kind == "sklearn.RandomForestClassifier"
    assert model.forest.n_trees == 3


def test_isolation_forest_of_another_kind():
    with pytest.raises(UnsupportedModelError, match="accepted from sklearn: IsolationForest"):
        read_isolation_forest(fitted("forest", 2))
    X, _ = table(2, "")
    with pytest.raises(UnsupportedModelError, match="max_features"):
        read_isolation_forest(IsolationForest(n_estimators=2, max_features=0.5).fit(X))


def test_old_scikit_learn_is_refused(monkeypatch):
    native = fitted("forest", 2)
    monkeypatch.setattr("sklearn.__version__", "1.5.2")
    with pytest.raises(UnsupportedModelError, match=r"1\.5\.2 .* Use scikit-learn 1\.6"):
        read_sklearn(native)
