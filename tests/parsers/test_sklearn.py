"""The scikit-learn reader against scikit-learn itself: margins bit for bit, classes exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pine_boost.model import exact
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.parsers.sklearn.read import read_sklearn
from tests.support.grids import edge_rows

pytest.importorskip("sklearn")

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from tests.support.sklearn_models import CASES, decide, expected_values, fitted, native_values, probe_rows, table

# OpenMP threads that spin on a shared machine turn seconds into minutes
threadpool_limits(1)


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_margins_are_bit_equal_and_classes_equal(name: str, n_classes: int) -> None:
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
def test_leaves_are_those_of_apply(name: str) -> None:
    native = fitted(name, 3)
    model = read_sklearn(native)
    codes, raw = probe_rows(model, name, 3)
    leaves = find_leaves(model.forest, codes) - model.forest.tree_offset[:-1]
    assert np.array_equal(leaves, native.apply(raw))


def test_reading_changes_nothing_and_tells_names() -> None:
    pandas = pytest.importorskip("pandas")
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


def test_string_categories_of_a_table_keep_their_column() -> None:
    pandas = pytest.importorskip("pandas")
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


def test_ties_of_a_forest_go_to_the_lowest_class() -> None:
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
def test_band_covers_every_order_of_the_trees(n_classes: int) -> None:
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


def test_sparse_rows_mean_zero() -> None:
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
def test_random_models(kind: str, seed: int, n_trees: int, depth: int, n_classes: int, decimals: int) -> None:
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(60, 3)), decimals)
    y = np.concatenate([np.arange(n_classes), random.integers(n_classes, size=60 - n_classes)])
    stump = DecisionTreeClassifier(max_depth=depth)
    native = {
        "forest": RandomForestClassifier(n_trees, max_depth=depth, random_state=seed),
        "extra": ExtraTreesClassifier(n_trees, max_depth=depth, random_state=seed),
        "gradient": GradientBoostingClassifier(n_estimators=n_trees, max_depth=depth),
        "histogram": HistGradientBoostingClassifier(max_iter=n_trees, max_depth=depth, min_samples_leaf=2),
        "adaboost": AdaBoostClassifier(stump, n_estimators=n_trees, random_state=seed),
    }[kind].fit(X, y)
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
