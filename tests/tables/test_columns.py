"""Columns are found by name, others left out, another order refused: in Python as in files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost import InvalidInputError, compress_booster, prune_booster
from pine_boost.native.predict import predict_classes
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import schema_of
from pine_boost.tables.table_files import read_table

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

MAKERS = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=6, max_depth=2, n_jobs=1, verbose=-1),
    "forest": lambda: ensemble.RandomForestClassifier(4, max_depth=2, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(max_iter=4, max_depth=2),
}
KINDS: dict[str, Any] = {
    "pandas": lambda frame: frame,
    "polars": polars.from_pandas,
    "arrow": pyarrow.Table.from_pandas,
}


@pytest.fixture(scope="module")
def rows() -> Any:
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(600, 3)), columns=list("abc"))
    return frame, (frame.a + 0.5 * frame.b > 0.3).astype(int)


@pytest.mark.parametrize("table", KINDS)
@pytest.mark.parametrize("maker", MAKERS)
def test_further_columns_are_left_out_and_another_order_is_refused(maker: str, table: str, rows: Any) -> None:
    frame, y = rows
    model = read_model(MAKERS[maker]().fit(frame, y))
    schema, make = schema_of(model.forest), KINDS[table]
    wide = frame.assign(z=np.arange(600), note="x")[["z", "a", "note", "b", "c"]]
    assert np.array_equal(to_matrix(make(wide), schema), frame.to_numpy())
    assert np.array_equal(predict_classes(model, make(wide)), predict_classes(model, frame))
    for wrong in (frame[["b", "a", "c"]], wide[["b", "z", "a", "c"]]):
        for ask in (lambda X: to_matrix(X, schema), lambda X: predict_classes(model, X)):
            with pytest.raises(InvalidInputError, match="same in another order"):
                ask(make(wrong))
    with pytest.raises(InvalidInputError, match="lacks the model's column"):
        to_matrix(make(frame[["a", "b"]]), schema)


@pytest.mark.parametrize("maker", MAKERS)
def test_files_and_datasets_follow_the_same_rule(maker: str, rows: Any, tmp_path: Path) -> None:
    frame, y = rows
    schema = schema_of(read_model(MAKERS[maker]().fit(frame, y)).forest)
    for order, is_taken in ((list("zabc"), True), (list("bzac"), False)):
        wide = frame.assign(z=0)[order]
        wide.to_csv(tmp_path / "t.csv", index=False)
        wide.to_parquet(tmp_path / "t.parquet")
        readers = (
            lambda: to_matrix(read_table(tmp_path / "t.csv", schema).X, schema),
            lambda: to_matrix(read_table(tmp_path / "t.parquet", schema).X, schema),
            lambda: open_rows(str(tmp_path / "t.parquet"), schema).take(np.arange(600)),
        )
        for read in readers:
            if is_taken:
                assert np.array_equal(read(), frame.to_numpy())
            else:
                with pytest.raises(InvalidInputError, match="same in another order"):
                    read()


def test_results_are_those_of_the_models_columns_alone(rows: Any) -> None:
    frame, y = rows
    model = MAKERS["xgboost"]().fit(frame[:200], y[:200])
    wide = frame.assign(z=1)[list("zabc")]
    narrow = prune_booster(model, frame[:200], frame[200:], alpha=0.2)
    result = prune_booster(model, wide[:200], wide[200:], alpha=0.2)
    assert replace(result.certificate, timings={}) == replace(narrow.certificate, timings={})
    assert result.evaluate(wide, y) == narrow.evaluate(frame, y)
    assert result.region.contains(wide).tolist() == narrow.region.contains(frame).tolist()
    small = compress_booster(model, wide[:200], wide[200:], fidelity=0.95)
    assert small.leaves_after == compress_booster(model, frame[:200], frame[200:], fidelity=0.95).leaves_after


def test_the_advice_about_the_order_works_with_names_that_lightgbm_changes(rows: Any) -> None:
    frame, y = rows
    X_train = frame.rename(columns={"a": "num 1"})
    model = read_model(MAKERS["lightgbm"]().fit(X_train, y))
    schema = schema_of(model.forest)
    X = X_train[["b", "num 1", "c"]]
    with pytest.raises(InvalidInputError) as caught:
        to_matrix(X, schema)
    assert "order: 'num 1', 'b', 'c' (in Python X[X_train.columns]," in str(caught.value)
    assert np.array_equal(to_matrix(X[X_train.columns], schema), frame.to_numpy())
    with pytest.raises(InvalidInputError) as caught:
        to_matrix(frame, schema)
    assert str(caught.value).count("'num_1'") == 1
    assert "Not in the model: 'a'." in str(caught.value)


def test_a_table_without_rows_has_no_types(rows: Any, tmp_path: Path) -> None:
    frame, y = rows
    model = MAKERS["xgboost"]().fit(frame, y)
    frame[:0].to_csv(tmp_path / "none.csv", index=False)
    none = read_table(tmp_path / "none.csv", schema_of(read_model(model).forest)).X
    with pytest.raises(InvalidInputError, match="X_val has no rows"):
        compress_booster(model, frame, none)


def test_text_among_objects_is_named_and_not_rounding(rows: Any) -> None:
    frame, y = rows
    schema = schema_of(read_model(MAKERS["lightgbm"]().fit(frame, y)).forest)
    array = frame.to_numpy().astype(object)
    with pytest.raises(InvalidInputError, match="float32 must round"):
        to_matrix(array, schema)
    array[5, 2] = "north"
    with pytest.raises(InvalidInputError, match="column 'c' of X holds 'north' in row 5; numbers"):
        to_matrix(array, schema)
