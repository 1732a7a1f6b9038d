"""Tables of every kind: the matrix routes each row as the native library routes the table."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy import sparse
from sklearn import ensemble

from pine_boost.errors import InvalidInputError
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import raw_values, to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import InputSchema, schema_of
from tests.support.forests import random_forest

NAMES = ("age", "income", "rate")
SCHEMA = InputSchema(
    n_features=3,
    feature_names=NAMES,
    feature_categories=(),
    library="xgboost",
    comparison=Comparison.FLOAT32_LESS,
    category_rule=CategoryRule.EXACT,
    missing_value=float("nan"),
    sparse_zero_is_missing=True,
    accepts_missing=True,
)
TABLE = np.array([[1.0, 2.5, np.nan], [-3.0, 0.0, 7.0]])


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (TABLE, TABLE),
        (TABLE.astype(np.float32), TABLE),
        (TABLE.astype(object), TABLE),
        (np.asfortranarray(TABLE), TABLE),
        ([[1, 2, 3]], [[1, 2, 3]]),
        (np.array([[1, 2, 3]], dtype=np.uint8), [[1, 2, 3]]),
        (np.array([[True, False, True]]), [[1, 0, 1]]),
        (np.array([[1, None, Decimal("2.5")]], dtype=object), [[1, np.nan, 2.5]]),
        (np.zeros((0, 3)), np.zeros((0, 3))),
    ],
    ids=["float", "float32", "object", "fortran", "list", "uint8", "bool", "mixed", "empty"],
)
def test_arrays(X, expected):
    matrix = to_matrix(X, SCHEMA)
    assert matrix.dtype == np.float64
    assert np.array_equal(matrix, np.asarray(expected, dtype=float), equal_nan=True)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "1 dimension"),
        (np.zeros((2, 4)), "4 columns, the model has 3"),
        (np.array([["1", "2", "3"]]), "holds '1'"),
        (np.array([[1, "x", 3]], dtype=object), "column 'income' of X.* holds 'x' in row 0"),
        (np.array([[1, "2", 3], [1, "x", 3]], dtype=object), "column 'income' of X.* holds 'x' in row 1"),
        (np.array([[1, "2", 3], [1, None, 3]], dtype=object), "column 'income' of X.* holds '2' in row 0"),
        (np.zeros((2, 3), dtype=complex), "complex"),
        (np.zeros((2, 3), dtype="datetime64[s]"), "datetime64"),
        ([[1, 2, 3], [1, 2]], "equally long rows"),
        (np.ma.masked_array(TABLE, TABLE > 2), "masked"),
        (np.array([[1, object(), 3]], dtype=object), "numbers are accepted"),
    ],
)
def test_refused_arrays(X, message):
    with pytest.raises(InvalidInputError, match=message):
        to_matrix(X, SCHEMA)


def test_frames_of_every_dtype():
    frame = pandas.DataFrame(
        {
            "age": pandas.array([1, None], dtype="Int64"),
            "income": pandas.array([True, None], dtype="boolean"),
            "rate": np.array([np.float32(0.1), np.nan], dtype=np.float32),
        }
    )
    expected = [[1, 1, float(np.float32(0.1))], [np.nan] * 3]
    assert np.array_equal(to_matrix(frame, SCHEMA), expected, equal_nan=True)
    frame = pandas.DataFrame({"age": [True, False], "income": [3, 4], "rate": [None, 2.5]})
    objects = frame.astype({"rate": object})
    trees = replace(SCHEMA, comparison=Comparison.FLOAT32_VALUE_LESS_EQUAL, library="sklearn")
    assert np.array_equal(to_matrix(objects, trees), [[1, 3, np.nan], [0, 4, 2.5]], True)
    for library in ("xgboost", "lightgbm"):
        with pytest.raises(InvalidInputError, match=r"'rate'.*float64/float32 first"):
            to_matrix(objects, replace(SCHEMA, library=library))


def test_names_are_checked():
    frame = pandas.DataFrame(TABLE, columns=list(NAMES))
    assert np.array_equal(to_matrix(frame, SCHEMA), TABLE, equal_nan=True)
    unnamed = pandas.DataFrame(TABLE)
    with pytest.raises(InvalidInputError, match=r"without column names, which XGBoost refuses.*'age'"):
        to_matrix(unnamed, SCHEMA)
    assert np.array_equal(to_matrix(unnamed, replace(SCHEMA, library="lightgbm")), TABLE, equal_nan=True)
    cases = {
        "same in another order.*column 0 is 'rate'": frame[["rate", "income", "age"]],
        "lacks the model's column.s. 'rate'. Not in the model: 'speed'": frame.rename(columns={"rate": "speed"}),
        "2 columns, the model has 3.*lacks the model's column.s. 'income'": frame[["age", "rate"]],
        "'rate' more than once": frame[["age", "income", "rate", "rate"]],
    }
    for message, wrong in cases.items():
        with pytest.raises(InvalidInputError, match=message):
            to_matrix(wrong, SCHEMA)
    with pytest.raises(InvalidInputError, match="pass a DataFrame"):
        to_matrix(frame["age"], SCHEMA)
    # a model without names takes the columns as they come
    assert len(to_matrix(frame, replace(SCHEMA, feature_names=None))) == 2


def test_lightgbm_names():
    forest = random_forest(np.random.default_rng(0), 1, 1, 2)
    automatic = replace(forest, feature_names=("Column_0", "Column_1"))
    assert schema_of(automatic).feature_names is None
    schema = replace(SCHEMA, library="lightgbm", feature_names=("my_age", "income", "rate"))
    frame = pandas.DataFrame(TABLE, columns=["my age", "income", "rate"])
    assert np.array_equal(to_matrix(frame, schema), TABLE, equal_nan=True)


def test_text_columns_are_refused():
    frame = pandas.DataFrame({"age": ["1", "2"], "income": [1, 2], "rate": [1, 2]})
    with pytest.raises(InvalidInputError, match=r"column 'age' of X.* holds '1'"):
        to_matrix(frame, SCHEMA)
    frame["age"] = pandas.to_datetime(["2020-01-01", "2020-01-02"])
    with pytest.raises(InvalidInputError, match="column 'age'"):
        to_matrix(frame, SCHEMA)


def test_polars_and_pyarrow():
    columns = {"age": [1, None], "income": [True, False], "rate": [0.5, None]}
    expected = [[1, 1, 0.5], [np.nan, 0, np.nan]]
    for table in (polars.DataFrame(columns), pyarrow.table(columns)):
        assert np.array_equal(to_matrix(table, SCHEMA), expected, equal_nan=True)
    with pytest.raises(InvalidInputError, match="collect a lazy frame"):
        to_matrix(polars.DataFrame(columns).lazy(), SCHEMA)
    schema = replace(SCHEMA, feature_categories=(("a", "b"), None, None))
    words = polars.DataFrame({"age": ["b", "a"], "income": [1, 2], "rate": [3, 4]})
    words = words.with_columns(polars.col("age").cast(polars.Categorical))
    assert to_matrix(words, schema)[:, 0].tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_absent_entries(kind):
    rows, columns, data = [0, 1, 1], [0, 0, 2], [1.5, 0.0, 2.0]  # one explicit zero
    unnamed = replace(SCHEMA, feature_names=None)
    for make in (getattr(sparse, f"{kind}_matrix"), getattr(sparse, f"{kind}_array")):
        X = make((data, (rows, columns)), shape=(2, 3))
        absent = to_matrix(X, unnamed)
        assert np.array_equal(absent, [[1.5, np.nan, np.nan], [0, np.nan, 2]], equal_nan=True)
        dense = to_matrix(X, replace(unnamed, sparse_zero_is_missing=False))
        assert np.array_equal(dense, [[1.5, 0, 0], [0, 0, 2]])
        with pytest.raises(InvalidInputError, match="2 columns"):
            to_matrix(X.tocsc()[:, :2], unnamed)


def test_categories_by_value_not_by_position():
    schema = replace(SCHEMA, feature_categories=(("red", "blue"), None, None))
    frame = pandas.DataFrame({"age": ["blue", "red", None], "income": [1, 2, 3], "rate": 0.5})
    for order in (["red", "blue"], ["blue", "red"], ["blue", "green", "red"]):
        frame["age"] = pandas.Categorical(frame["age"], categories=order)
        codes = to_matrix(frame, schema)[:, 0]
        assert np.array_equal(codes, [1, 0, np.nan], equal_nan=True)
    frame["age"] = pandas.Categorical(["green", "red", None])
    with pytest.raises(InvalidInputError, match=r"'green'.*knows 'red', 'blue'"):
        to_matrix(frame, schema)
    unseen = to_matrix(frame, replace(schema, library="lightgbm"))[:, 0]
    assert np.array_equal(unseen, [np.nan, 0, np.nan], equal_nan=True)
    with pytest.raises(InvalidInputError, match="stores no categories"):
        to_matrix(frame, SCHEMA)
    with pytest.raises(InvalidInputError, match=r"pandas_categorical name no columns.*ordered categories"):
        to_matrix(frame, replace(SCHEMA, library="lightgbm"))
    with pytest.raises(InvalidInputError, match="astype"):
        to_matrix(frame.assign(age=[0, 1, 0]), schema)
    back = raw_values(np.array([[1.0, 2.0, 3.0], [np.nan, 0.0, 0.0]]), schema)
    assert back[0].tolist() == ["blue", 2.0, 3.0]
    assert np.isnan(back[1, 0])


def test_values_the_native_library_refuses():
    trees = replace(SCHEMA, comparison=Comparison.FLOAT32_VALUE_LESS_EQUAL, library="sklearn")
    for value in (np.inf, -np.inf, 1e39):
        with pytest.raises(InvalidInputError, match="row 1, 'rate'"):
            to_matrix([[1, 2, 3], [1, 2, value]], trees)
        assert to_matrix([[1, 2, value]], SCHEMA)[0, 2] == value
    with pytest.raises(InvalidInputError, match=r"missing value .row 0, 'rate'"):
        to_matrix(TABLE, replace(trees, accepts_missing=False))


def test_missing_value_of_xgboost_is_compared_in_float32():
    schema = replace(SCHEMA, missing_value=0.1)
    matrix = to_matrix([[0.1, float(np.float32(0.1)), 0.2]], schema)
    assert np.array_equal(np.isnan(matrix), [[True, True, False]])


def test_features_by_name_or_position():
    assert SCHEMA.index_of("rate") == 2
    assert SCHEMA.index_of(np.int64(1)) == 1
    assert replace(SCHEMA, feature_names=None).name_of(1) == "f1"
    for wrong, message in ((3, "out of range"), ("x", "no feature 'x'"), (True, "not True")):
        with pytest.raises(InvalidInputError, match=message):
            SCHEMA.index_of(wrong)


def _margins(forest, X):
    return native_margins(forest, to_matrix(X, schema_of(forest)))[:, 0]


def test_histogram_gradient_boosting_sees_the_same_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[:, 1] = rng.choice([2.0, 5.0, 7.0], size=400)
    y = (X[:, 0] + (X[:, 1] == 5) > 0.5).astype(int)
    kind = ensemble.HistGradientBoostingClassifier
    model = kind(max_iter=8, categorical_features=[1], early_stopping=False).fit(X, y)
    forest = read_model(model).forest
    probe = X.copy()
    probe[:5, 1] = [np.nan, 3.0, -1.0, 5.5, 2.0]
    for table in (X, probe):
        assert np.array_equal(_margins(forest, table), model.decision_function(table))
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["b"] = pandas.Categorical(np.where(X[:, 1] == 5, "five", "other"))
    model = kind(max_iter=8, categorical_features="from_dtype", early_stopping=False)
    model.fit(frame, y)
    forest = read_model(model).forest
    assert np.array_equal(_margins(forest, frame), model.decision_function(frame))


def test_a_frame_with_the_names_that_lightgbm_gives_itself_gets_its_categories_back():
    schema = replace(SCHEMA, library="lightgbm", feature_names=None, feature_categories=(("red", "blue"), None, None))
    codes = np.array([[1, 0.5, 2], [0, 3, 4]])
    frame = as_table(codes, schema)
    assert list(frame[0]) == ["blue", "red"]
    assert np.array_equal(to_matrix(frame, schema), codes)
