"""Categories 0 and 1, False and True, 0.0 and 1.0: which of them a library takes for the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import schema_of

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
ensemble = pytest.importorskip("sklearn.ensemble")

VALUES: dict[str, Any] = {
    "bool": np.array([False, True]),
    "int": np.array([0, 1]),
    "float": np.array([0.0, 1.0]),
    "text": np.array(["0", "1"], dtype=object),
}
MAKERS: dict[str, Any] = {
    "lightgbm": lambda: lightgbm.LGBMClassifier(
        n_estimators=4, n_jobs=1, verbose=-1, min_child_samples=3, min_data_per_group=3, cat_smooth=1
    ),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=4, categorical_features="from_dtype", min_samples_leaf=3
    ),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=4, n_jobs=1, enable_categorical=True),
}
# XGBoost itself takes neither floats nor booleans as categories
TRAINED = [(maker, known) for maker in MAKERS for known in VALUES if maker != "xgboost" or known in ("int", "text")]


@pytest.mark.parametrize(("maker", "known"), TRAINED)
def test_categories_are_matched_as_the_library_matches_them(maker: str, known: str) -> None:
    rng = np.random.default_rng(0)
    code, x = rng.integers(0, 2, 300), rng.normal(size=300)

    def table(values: Any) -> Any:
        category = pandas.Categorical.from_codes(code, categories=values)
        return pandas.DataFrame({"k": category, "x": x})

    fitted = MAKERS[maker]().fit(table(VALUES[known]), (code == 1) ^ (x > 0.3))
    model = read_model(fitted)
    n_read = 0
    for values in VALUES.values():
        frame = table(values)
        kinds = [
            frame,
            frame.assign(k=values[code]),
            frame.assign(k=values[code].astype(object)),
            pyarrow.Table.from_pandas(frame),
        ]
        if values.dtype == object:
            kinds.append(polars.from_pandas(frame))
        for X in kinds:
            try:
                matrix = to_matrix(X, schema_of(model.forest))
                margins, bound = predict_margins(model, X)
            except InvalidInputError:
                continue
            own = np.reshape(native_margins(model.forest, matrix), margins.shape)
            assert np.abs(margins - own).max() <= bound
            n_read += 1
    assert n_read > 0


BOOLEANS: dict[str, Any] = {
    "bool": pandas.Index([False, True]),
    "reversed": pandas.Index([True, False]),
    "only True": pandas.Index([True]),
    "object": pandas.Index([False, True], dtype=object),
    "nullable": pandas.Index(pandas.array([False, True], dtype="boolean")),
}
NUMBERS: dict[str, Any] = {
    "int": pandas.Index([0, 1]),
    "three": pandas.Index([0, 1, 2]),
    "subset": pandas.Index([1, 2]),
    "only 1": pandas.Index([1]),
    "float": pandas.Index([0.0, 1.0, 2.0]),
    "nullable": pandas.Index(pandas.array([0, 1, 2], dtype="Int64")),
}
MIXED: dict[str, Any] = {
    "numbers": pandas.Index([True, False, 2], dtype=object),
    "text": pandas.Index([False, True, "a"], dtype=object),
    "both": pandas.Index([False, 1], dtype=object),
}
CATEGORIES = {
    f"{kind} {name}": values
    for kind, group in (("boolean", BOOLEANS), ("number", NUMBERS), ("mixed", MIXED))
    for name, values in group.items()
}
# scikit-learn refuses most of what mixes
READERS = [("lightgbm", name) for name in CATEGORIES if "only" not in name]
READERS += [("histogram", name) for name in ("boolean bool", "number three", "number float")]


def _rows_of(categories: Any, n_rows: int) -> Any:
    """A table whose column k goes through all of its categories, again and again."""
    rng = np.random.default_rng(1)
    category = pandas.Categorical.from_codes(np.arange(n_rows) % len(categories), categories)
    return pandas.DataFrame({"k": category, "x": rng.normal(size=n_rows)})


@pytest.mark.filterwarnings("ignore:The behavior of is_bool_dtype")  # pandas, in scikit-learn
@pytest.mark.parametrize(("maker", "known"), READERS)
def test_booleans_and_numbers_are_read_as_natively_or_refused(maker: str, known: str) -> None:
    X = _rows_of(CATEGORIES[known], 240)
    codes = X["k"].cat.codes.to_numpy()
    model = read_model(MAKERS[maker]().fit(X, (codes == 1) ^ (X["x"].to_numpy() > 0.8)))
    n_read = 0
    for name, own in CATEGORIES.items():
        for n_rows in (1, 40):
            rows = _rows_of(own, n_rows)
            tables = [rows] if "mixed" in name else [rows, pyarrow.Table.from_pandas(rows)]
            n_read += sum(_is_read_alike(model, table, maker, known, name) for table in tables)
    assert n_read >= 20


def _is_read_alike(model: Any, X: Any, maker: str, known: str, own: str) -> bool:
    """Whether a table is read, then as natively; LightGBM only lacks booleans against numbers."""
    kinds = {known.partition(" ")[0], own.partition(" ")[0]}
    try:
        matrix = to_matrix(X, schema_of(model.forest))
        margins, bound = predict_margins(model, X)
    except InvalidInputError:
        assert maker != "lightgbm" or kinds == {"boolean", "number"}
        return False
    own_margins = np.reshape(native_margins(model.forest, matrix), margins.shape)
    assert np.abs(margins - own_margins).max() <= bound, (known, own, type(X))
    return True


@pytest.mark.parametrize("own", [name for name in CATEGORIES if "number " not in name])
def test_xgboost_takes_no_booleans_as_categories(own: str) -> None:
    X = _rows_of(pandas.Index([0, 1, 2]), 60)
    model = read_model(MAKERS["xgboost"]().fit(X, X["k"].cat.codes.to_numpy() == 1))
    rows = _rows_of(CATEGORIES[own], 6)
    with pytest.raises(InvalidInputError, match="XGBoost's own predict refuses"):
        predict_margins(model, rows)
    with pytest.raises(InvalidInputError, match="takes no booleans as categories"):
        to_matrix(rows, schema_of(model.forest))


def test_numbers_that_xgboost_takes_for_others_are_refused_in_true_words() -> None:
    """Trained on 1 and 2, XGBoost itself reads 0 as 1 and refuses 3: no word of a refusal of 0."""
    X = _rows_of(pandas.Index([1, 2]), 60)
    fitted = MAKERS["xgboost"]().fit(X, X["k"].cat.codes.to_numpy() == 1)
    schema = schema_of(read_model(fitted).forest)
    zero, three = (_rows_of(pandas.Index(values), 6) for values in ([0, 1], [2, 3]))
    assert len(fitted.predict(zero)) == 6
    with pytest.raises(ValueError, match="not in the training set"):
        fitted.predict(three)
    for rows in (zero, three):
        with pytest.raises(InvalidInputError, match="refuses such numbers, or takes them for"):
            to_matrix(rows, schema)
    words = _rows_of(pandas.Index(["a", "b"]), 60)
    fitted = MAKERS["xgboost"]().fit(words, words["k"].cat.codes.to_numpy() == 1)
    with pytest.raises(InvalidInputError, match=r"knows 'a', 'b'. XGBoost refuses it as well."):
        to_matrix(_rows_of(pandas.Index(["b", "c"]), 6), schema_of(read_model(fitted).forest))


def test_the_refusal_of_booleans_says_what_to_do() -> None:
    X = _rows_of(pandas.Index([0, 1, 2]), 240)
    codes = X["k"].cat.codes.to_numpy()
    model = read_model(MAKERS["lightgbm"]().fit(X, (codes == 1) ^ (X["x"].to_numpy() > 0.8)))
    rows = _rows_of(pandas.Index([False, True]), 40)
    rows.loc[3, "k"] = None
    with pytest.raises(InvalidInputError, match=r"False, True.*0, 1, 2.*rename_categories\(int\)"):
        to_matrix(rows, schema_of(model.forest))
    renamed = rows.assign(k=rows["k"].cat.rename_categories(int))
    matrix = to_matrix(renamed, schema_of(model.forest))
    assert np.isnan(matrix[3, 0])
    assert set(matrix[4:, 0]) == {0.0, 1.0}
    margins, bound = predict_margins(model, renamed)
    own_margins = np.reshape(native_margins(model.forest, matrix), margins.shape)
    assert np.abs(margins - own_margins).max() <= bound


def test_integers_of_128_bits_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = polars.DataFrame({"a": rng.integers(0, 9, 60), "b": rng.normal(size=60)})
    model = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(X.to_pandas(), X["a"] > 4)
    with pytest.raises(InvalidInputError, match="Int128; numbers are accepted"):
        to_matrix(X.cast({"a": polars.Int128}), schema_of(read_model(model).forest))
