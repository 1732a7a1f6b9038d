"""Tables that the native library refuses are refused by every reader of ours, and the others read alike."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from xgboost import XGBClassifier

from pine_boost import GuardedModel, InvalidInputError, load_scorer, prune_booster
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import schema_of

A = np.zeros(4)


@pytest.mark.parametrize("fitted", [int, str])
@pytest.mark.parametrize("given", [int, str])
def test_numbered_columns_are_the_names_that_xgboost_makes_of_them(fitted, given):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)))
    model = XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1)
    model.fit(X.rename(columns=fitted), X[0] > 0)
    table = X.rename(columns=given)
    model.predict(table)  # the library takes it
    assert np.array_equal(to_matrix(table, schema_of(read_model(model).forest)), X.to_numpy())


CATEGORIES = {
    "text": pd.Categorical(["u", "v", "w", "x"]),
    "missing text": pd.Categorical([None] * 4, categories=["u"]),
    "missing": pd.Categorical([None] * 4),
    "missing numbers": pd.Categorical([np.nan] * 4, categories=[1.0, 2.0]),
    "ints": pd.Categorical([1, 2, 3, 4]),
    "floats": pd.Categorical([1.0, 2.5, np.nan, 1.0]),
    "booleans": pd.Categorical([True, False, True, True]),
    "objects": pd.Categorical(pd.Series([1, 2, 1, 2], dtype=object)),
    "mixed objects": pd.Categorical(np.array([1, 2, "u", "v"], dtype=object)),
    "dates": pd.Categorical(pd.to_datetime(["2020-01-01"] * 4)),
    "nullable": pd.Categorical(pd.array([1, 2, None, 3], dtype="Int64")),
    "plain text": np.array(["u", "v", "w", "x"], dtype=object),
    "plain ints": np.array([1, 2, 3, 4]),
    "plain floats": np.array([1.0, np.nan, 2.0, 3.0]),
    "plain booleans": np.array([True, False, True, True]),
    "plain nullable": pd.array([1, 2, None, 3], dtype="Int64"),
    "plain arrow": pd.array([1, 2, None, 3], dtype="int64[pyarrow]"),
}
TABLES = {name: pd.DataFrame({"a": A, "c": column}) for name, column in CATEGORIES.items()} | {
    "polars text": pl.DataFrame({"a": A, "c": ["u", "v", "w", "x"]}),
    "polars categories": pl.DataFrame({"a": A, "c": pl.Series(["u", "v", "w", "x"], dtype=pl.Categorical)}),
    "polars ints": pl.DataFrame({"a": A, "c": [1, 2, 3, 4]}),
    "polars floats": pl.DataFrame({"a": A, "c": [1.0, 2.0, 3.0, 4.0]}),
    "polars booleans": pl.DataFrame({"a": A, "c": [True, False, True, True]}),
    "polars nulls": pl.DataFrame({"a": A, "c": [None] * 4}),
    "arrow text": pa.table({"a": A, "c": ["u", "v", "w", "x"]}),
    "arrow categories": pa.table({"a": A, "c": pa.array(["u", "v", "w", "x"]).dictionary_encode()}),
    "arrow ints": pa.table({"a": A, "c": [1, 2, 3, 4]}),
    "arrow booleans": pa.table({"a": A, "c": [True, False, True, True]}),
    "arrow numbers as categories": pa.table({"a": A, "c": pa.array([1, 2, 3, 4]).dictionary_encode()}),
}


def _with_categories(frame):
    return frame.astype({"c": "category"})


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("table", [np.asarray, np.float32, pd.DataFrame, pl.DataFrame, _with_categories])
def test_an_infinite_category_is_refused_as_histgradientboosting_does(bad, table):
    """Infinity in a column of numbers is taken."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "c": rng.integers(0, 4, 200).astype(float)})
    categories = "from_dtype" if table is _with_categories else [1]
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=categories)
    model.fit(table(frame), frame["c"] > 1)
    schema = schema_of(read_model(model).forest)
    number, category = frame[:4].copy(), frame[:4].copy()
    number.loc[1, "a"] = category.loc[1, "c"] = bad
    model.predict(table(number))
    assert to_matrix(table(number), schema)[1, 0] == bad
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(table(category))
    with pytest.raises(InvalidInputError, match=f"holds {bad}, which HistGradientBoosting refuses"):
        to_matrix(table(category), schema)


@cache
def _of_text():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"a": random.normal(size=300), "c": pd.Categorical(random.choice(["u", "v", "w"], 300))})
    y = (X["a"] > 0) ^ (X["c"] == "u")
    return HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(X, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TABLES)
def test_a_model_of_text_categories_takes_what_histgradientboosting_takes(name):
    model, table = _of_text(), TABLES[name]
    try:
        model.predict(table)
    except (TypeError, ValueError):
        with pytest.raises(InvalidInputError, match="column 'c'"):
            to_matrix(table, schema_of(read_model(model).forest))
    else:
        assert to_matrix(table, schema_of(read_model(model).forest)).shape == (4, 2)


@cache
def _pruned(named):
    random = np.random.default_rng(0)
    values = random.normal(size=(600, 3)) * (random.random((600, 3)) < 0.7)
    X = pd.DataFrame(values, columns=["a", "b", "c"]) if named else values
    y = (values[:, 0] + values[:, 1] > 0).astype(int)
    model = XGBClassifier(n_estimators=6, max_depth=2).fit(X[:200], y[:200])
    return prune_booster(model, X[200:400], X[400:], alpha=0.1)


FORMATS = [
    "csr_matrix",
    "csc_matrix",
    "coo_matrix",
    "bsr_matrix",
    "dia_matrix",
    "lil_matrix",
    "dok_matrix",
    "coo_array",
]


@pytest.mark.filterwarnings("ignore:Unknown data type")
@pytest.mark.parametrize("backend", ["native", "kernel"])
@pytest.mark.parametrize("named", [False, True])
def test_guards_take_the_sparse_tables_that_the_original_takes(named, backend, tmp_path):
    result = _pruned(named)
    native = result.original.native
    live = GuardedModel(result, backend=backend)
    live.save(tmp_path / "guard")
    dense = np.random.default_rng(1).normal(size=(40, 3))
    dense[::3, 1] = 0
    tables = {name: getattr(scipy.sparse, name)(dense) for name in FORMATS}
    tables["frame without names"] = pd.DataFrame(dense)
    for guard in (live, load_scorer(tmp_path / "guard", backend=backend)):
        for name, table in tables.items():
            try:
                expected = native.predict(table)
            except (TypeError, ValueError):
                with pytest.raises(InvalidInputError):
                    guard.predict(table)
            else:
                assert np.array_equal(guard.predict(table), expected), name


def test_a_path_that_is_no_parquet_says_which_paths_are_read():
    result = _pruned(named=True)
    for path in ("train.csv", Path("train.csv")):
        with pytest.raises(InvalidInputError, match=r"X_fit is the path 'train.csv'.*Parquet.*folders.*read_csv"):
            prune_booster(result.original.native, path)


def test_half_floats_of_arrow_are_read_exactly():
    values = np.array([1.5, np.nan, -0.25], dtype=np.float16)
    table = pa.table({name: pa.array(values) for name in ("a", "b", "c")})
    schema = schema_of(_pruned(named=True).original.forest)
    for arrow in (table, table.to_batches()[0]):
        assert np.array_equal(to_matrix(arrow, schema)[:, 0], values.astype(np.float64), equal_nan=True)
