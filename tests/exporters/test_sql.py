"""The SELECT of a model against its native classes, run by sqlite3 and DuckDB on thresholds, ulps and NULLs."""

import sqlite3
from fractions import Fraction

import duckdb
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters.sql import _number, last_left, to_sql, undecided_distance
from pine_boost.model.exact import original_scale, to_units
from pine_boost.model.forest import spread
from pine_boost.model.reference import cast_value
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.native.predict import predict_classes
from pine_boost.parsers import read_model
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.support.category_tables import models_of_categories, words_and_codes
from tests.support.command_line import run
from tests.support.hard_rows import hard_rows
from tests.support.native_models import MODELS, built
from tests.support.xgboost_models import categorical_booster, edit_trees, leaves_of

ENGINES = {"sqlite": lambda: sqlite3.connect(":memory:"), "duckdb": lambda: duckdb.connect()}
SAYABLE = [name for name in MODELS if name != "lgb zero as missing"]


def ask(engine, query, names, X, table="rows"):
    connection = ENGINES[engine]()
    quoted = [f'"{name}"' for name in names]
    connection.execute(f'CREATE TABLE "{table}" ({", ".join(f"{name} DOUBLE PRECISION" for name in quoted)})')
    # sqlite stores NaN as NULL, DuckDB keeps half of them as NaN here
    rows = [[None if v != v and (engine == "sqlite" or i % 2) else v for v in row] for i, row in enumerate(X.tolist())]
    connection.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(names))})', rows)
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def names_of(forest):
    return [forest.name_of(feature) for feature in range(forest.n_features)]


def rows_of(forest, X, n_rows=300):
    """Rows of the model's table, and hard ones that the library accepts."""
    hard = hard_rows(forest, n_rows, seed=3)
    if not forest.accepts_missing:
        hard = np.nan_to_num(hard, nan=0.3)
    if forest.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        hard = np.clip(hard, -1e30, 1e30)
    rows = np.vstack([X[:50], hard])
    for column, known in enumerate(forest.feature_categories):
        if known is not None:  # what is not a known code is missing in a table
            codes = rows[:, column]
            rows[:, column] = np.where((codes >= 0) & (codes < len(known)) & (codes == np.floor(codes)), codes, np.nan)
    return rows


@pytest.mark.parametrize("name", SAYABLE)
def test_classes_are_the_native_ones(name):
    native, X = built(name)
    model = read_model(native)
    forest = model.forest
    rows = rows_of(forest, np.asarray(X, dtype=float))
    expected = np.array(forest.classes)[predict_classes(model, as_table(rows, schema_of(forest)))].tolist()
    query = to_sql(native)
    for engine in ENGINES:
        found = [row[-1] for row in ask(engine, query, names_of(forest), rows)]
        decided = [value is not None for value in found]
        assert [f for f, d in zip(found, decided, strict=True) if d] == [
            e for e, d in zip(expected, decided, strict=True) if d
        ], engine
        assert np.mean(decided) > 0.97, engine


def test_a_model_on_a_grid_has_a_class_everywhere():
    native, X = built("xgb binary")
    result = pine_boost.prune_booster(native, X[:250], X[250:], alpha=0.2)
    forest = result.pruned.forest
    query = to_sql(result.pruned)
    assert "on every input" in query
    rows = rows_of(forest, X)
    expected = np.array(forest.classes)[predict_classes(result.pruned, rows)].tolist()
    for engine in ENGINES:
        assert [row[-1] for row in ask(engine, query, names_of(forest), rows)] == expected


def test_null_stands_exactly_where_rounding_could_decide():
    X = np.arange(8.0)[:, None]
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 3, "min_child_weight": 0, "nthread": 1, "base_score": 0.5},
        xgboost.DMatrix(X, X[:, 0] > 3),
        4,
    )

    def make_tiny(trees):  # on the left, so that the sign is a matter of rounding
        for tree in trees:
            for node in leaves_of(tree):
                tree["split_conditions"][node] = 1e-9 if tree["split_conditions"][node] < 0 else 0.3

    contents = edit_trees(booster, make_tiny)
    model = read_model(contents)
    expected = np.array(model.forest.classes)[predict_classes(model, X)].tolist()
    for engine in ENGINES:
        found = [row[-1] for row in ask(engine, to_sql(contents), names_of(model.forest), X)]
        assert found == [None] * 4 + expected[4:]


def test_the_distance_covers_the_rounding_of_leaves():
    forest = read_model(built("lgb binary")[0]).forest
    scale, is_exact = original_scale(forest)
    leaves = np.where((forest.kind == SplitKind.LEAF)[:, None], forest.value, 0.0)
    values = to_units(spread(forest, leaves), scale)
    distance = undecided_distance(forest, scale, is_exact)
    error = sum(
        max(abs(Fraction(float(v)) * 2**scale - int(i)) for v, i in zip(leaves[a:b, 0], values[a:b, 0], strict=True))
        for a, b in zip(forest.tree_offset, forest.tree_offset[1:], strict=False)
    )
    assert not is_exact
    assert 0 < error <= distance


def test_last_left_is_the_last_double_that_goes_left():
    random = np.random.default_rng(0)
    largest = float(np.finfo(np.float32).max)
    exact = np.concatenate([random.normal(size=500), [0.0, -0.0, 1e-45, -1e-45, largest, np.inf, 1.0, 2.0**24]])
    with np.errstate(over="ignore"):
        exact = exact.astype(np.float32).astype(np.float64)
        last = last_left(Comparison.FLOAT32_LESS, exact)
        assert np.all(cast_value(Comparison.FLOAT32_LESS, last) < exact)
        assert not np.any(cast_value(Comparison.FLOAT32_LESS, np.nextafter(last, np.inf)) < exact)
        wide = np.concatenate([random.normal(size=500), [0.1, 1.0, -1e-50, 16777217.0]])
        last = last_left(Comparison.FLOAT32_VALUE_LESS_EQUAL, wide)
        assert np.all(cast_value(Comparison.FLOAT32_VALUE_LESS_EQUAL, last) <= wide)
        assert not np.any(cast_value(Comparison.FLOAT32_VALUE_LESS_EQUAL, np.nextafter(last, np.inf)) <= wide)
    numbers = [*last[:100].tolist(), 5e-324, -1e-310, 1.7976931348623157e308, 1e-35, 0.1, -1e300, 2.0**60]
    for engine in ENGINES.values():
        connection = engine()
        assert [connection.execute(f"SELECT {_number(value)}").fetchone()[0] for value in numbers] == numbers
        connection.close()


def test_bands_names_and_keys(tmp_path, capsys):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    data = xgboost.DMatrix(X, X[:, 0] + X[:, 1] > 0, feature_names=["it's", 'say "x"'])
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 2, "nthread": 1}, data, 5)
    model = read_model(booster, threshold=(0.3, 0.6))
    expected = predict_classes(model, X).tolist()
    query = to_sql(booster, table="my table", threshold=(0.3, 0.6), keep=["it's"])
    for engine in ENGINES:
        found = ask(engine, query, ["it's", 'say ""x""'], X, "my table")
        assert [row[0] for row in found] == X[:, 0].tolist()
        assert [row[1] for row in found] == expected
    booster.save_model(tmp_path / "model.json")
    path = tmp_path / "model.sql"
    command = ("export", tmp_path / "model.json", "--to", "sql", "-o", path, "--table", "my table", "--keep", "it's")
    assert run(capsys, *command)[0] == 0
    assert path.read_text() == to_sql(booster, table="my table", keep=["it's"])
    assert run(capsys, "export", tmp_path / "model.json", "--to", "c", "-o", tmp_path / "m.c", "--table", "x")[0] == 1


def test_what_sql_cannot_say_is_refused():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(UnsupportedModelError, match="gives values"):
        to_sql(ensemble.RandomForestRegressor(3).fit(X, X[:, 0]))
    with pytest.raises(UnsupportedModelError, match="zero_as_missing"):
        to_sql(built("lgb zero as missing")[0])
    data = xgboost.DMatrix(X, X[:, 0] > 0, feature_names=["a", "A"])
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 2}, data, 2)
    with pytest.raises(UnsupportedModelError, match="case only"):
        to_sql(booster)
    with pytest.raises(InvalidInputError, match="name of a column"):
        to_sql(built("xgb binary")[0], keep=[""])


def test_named_categories_are_codes():
    frame, codes, y = words_and_codes()
    for native in models_of_categories().values():
        native.fit(frame, y)
        with pytest.raises(UnsupportedModelError, match="SQL takes whole numbers only"):
            to_sql(native)
        rows = np.vstack([codes, [[0.3, np.nan], [np.nan, 2.0]]])
        model = read_model(native)
        expected = np.array(model.forest.classes)[predict_classes(model, as_table(rows, schema_of(model.forest)))]
        for engine in ENGINES:
            found = ask(engine, to_sql(native, codes=True), names_of(model.forest), rows)
            assert [bool(row[-1]) for row in found] == expected.astype(bool).tolist()


def test_numbers_stand_for_codes_as_the_library_reads_them():
    booster, X = categorical_booster(max_cat_to_onehot=1)
    data = lightgbm.Dataset(X, np.isin(X[:, 1], [1, 4, 5, 11]) ^ (X[:, 2] == 1), categorical_feature=[1, 2])
    options = {"objective": "binary", "num_leaves": 8, "min_data_per_group": 5, "num_threads": 1, "verbose": -1}
    for native in (booster, lightgbm.train(options, data, 8)):
        model = read_model(native)
        assert np.any(model.forest.kind == SplitKind.CATEGORICAL)
        rows = hard_rows(model.forest, 500, seed=1)
        beside = np.nextafter(np.tile(np.arange(12.0), 10), np.repeat([-np.inf, np.inf], 60))
        rows[:120, 1] = beside
        expected = np.array(model.forest.classes)[predict_classes(model, rows)].tolist()
        for engine in ENGINES:
            assert [row[-1] for row in ask(engine, to_sql(native), names_of(model.forest), rows)] == expected
