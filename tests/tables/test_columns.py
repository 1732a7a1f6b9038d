"""Columns by name, and categories such as 0, False and 0.0: what a library takes for the same."""

from dataclasses import replace

import lightgbm
import numpy as np
import pandas
import polars
import pyarrow
import pytest
import xgboost
from sklearn import ensemble

from pine_boost import InvalidInputError, compress_booster, prune_booster
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import schema_of
from pine_boost.tables.table_files import read_table
from tests.support.xgboost_models import REFUSES_NEW_CATEGORIES

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")
MAKERS = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=6, max_depth=2, n_jobs=1, verbose=-1),
    "forest": lambda: ensemble.RandomForestClassifier(4, max_depth=2, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(max_iter=4, max_depth=2),
}
KINDS = {"pandas": lambda frame: frame, "polars": polars.from_pandas, "arrow": pyarrow.Table.from_pandas}


@pytest.fixture(scope="module")
def rows():
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(600, 3)), columns=list("abc"))
    return frame, (frame.a + 0.5 * frame.b > 0.3).astype(int)


@pytest.mark.parametrize("table", KINDS)
@pytest.mark.parametrize("maker", MAKERS)
def test_further_columns_are_left_out_and_another_order_is_refused(maker, table, rows):
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
def test_files_and_datasets_follow_the_same_rule(maker, rows, tmp_path):
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


def test_results_are_those_of_the_models_columns_alone(rows):
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


def test_the_advice_about_the_order_works_with_names_that_lightgbm_changes(rows):
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


def test_a_table_without_rows_has_no_types(rows, tmp_path):
    frame, y = rows
    model = MAKERS["xgboost"]().fit(frame, y)
    frame[:0].to_csv(tmp_path / "none.csv", index=False)
    none = read_table(tmp_path / "none.csv", schema_of(read_model(model).forest)).X
    with pytest.raises(InvalidInputError, match="X_val has no rows"):
        compress_booster(model, frame, none)


def test_text_among_objects_is_named_and_not_rounding(rows):
    frame, y = rows
    schema = schema_of(read_model(MAKERS["lightgbm"]().fit(frame, y)).forest)
    array = frame.to_numpy().astype(object)
    with pytest.raises(InvalidInputError, match="float32 must round"):
        to_matrix(array, schema)
    array[5, 2] = "north"
    with pytest.raises(InvalidInputError, match="column 'c' of X holds 'north' in row 5; numbers"):
        to_matrix(array, schema)


CATEGORY_MAKERS = {
    "lightgbm": lambda: lightgbm.LGBMClassifier(
        n_estimators=4, n_jobs=1, verbose=-1, min_child_samples=3, min_data_per_group=3, cat_smooth=1
    ),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=4, categorical_features="from_dtype", min_samples_leaf=3
    ),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=4, n_jobs=1, enable_categorical=True),
}


BOOLEANS = {
    "bool": pandas.Index([False, True]),
    "reversed": pandas.Index([True, False]),
    "only True": pandas.Index([True]),
    "object": pandas.Index([False, True], dtype=object),
    "nullable": pandas.Index(pandas.array([False, True], dtype="boolean")),
}
NUMBERS = {
    "int": pandas.Index([0, 1]),
    "three": pandas.Index([0, 1, 2]),
    "subset": pandas.Index([1, 2]),
    "only 1": pandas.Index([1]),
    "float": pandas.Index([0.0, 1.0, 2.0]),
    "nullable": pandas.Index(pandas.array([0, 1, 2], dtype="Int64")),
}
MIXED = {
    "numbers": pandas.Index([True, False, 2], dtype=object),
    "text": pandas.Index([False, True, "a"], dtype=object),
    "both": pandas.Index([False, 1], dtype=object),
}
TEXT = {"digits": pandas.Index(["0", "1"], dtype=object)}
CATEGORIES = {
    f"{kind} {name}": values
    for kind, group in (("boolean", BOOLEANS), ("number", NUMBERS), ("mixed", MIXED), ("text", TEXT))
    for name, values in group.items()
}
# scikit-learn refuses most of what mixes, XGBoost takes neither floats nor booleans as categories
READERS = [("lightgbm", name) for name in CATEGORIES if "only" not in name]
READERS += [("histogram", name) for name in ("boolean bool", "number three", "number float", "text digits")]
READERS += [("xgboost", name) for name in ("number int", "text digits")]


def _rows_of(categories, n_rows):
    """A table whose column k goes through all of its categories, again and again."""
    rng = np.random.default_rng(1)
    category = pandas.Categorical.from_codes(np.arange(n_rows) % len(categories), categories)
    return pandas.DataFrame({"k": category, "x": rng.normal(size=n_rows)})


@pytest.mark.filterwarnings("ignore:The behavior of is_bool_dtype")  # pandas, in scikit-learn
@pytest.mark.parametrize(("maker", "known"), READERS)
def test_categories_of_every_type_are_read_as_natively_or_refused(maker, known):
    X = _rows_of(CATEGORIES[known], 240)
    codes = X["k"].cat.codes.to_numpy()
    model = read_model(CATEGORY_MAKERS[maker]().fit(X, (codes == 1) ^ (X["x"].to_numpy() > 0.8)))
    n_read = n_plain = 0
    for name, own in CATEGORIES.items():
        for n_rows in (1, 40):
            rows = _rows_of(own, n_rows)
            tables = [rows] if "mixed" in name else [rows, pyarrow.Table.from_pandas(rows)]
            tables += [polars.from_pandas(rows)] if name == "text digits" else []
            n_read += sum(_is_read_alike(model, table, maker, known, name) for table in tables)
            for dtype in (own.dtype, object):  # columns of plain values
                n_plain += _is_read_alike(model, rows.assign(k=rows["k"].astype(dtype)), None, known, name)
    assert n_read >= (4 if maker == "xgboost" or known == "text digits" else 20)
    assert (n_plain > 0) == (maker == "histogram")


def _is_read_alike(model, X, maker, known, own):
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


@pytest.mark.parametrize("own", [name for name in CATEGORIES if name.startswith(("boolean", "mixed"))])
def test_xgboost_takes_no_booleans_as_categories(own):
    X = _rows_of(pandas.Index([0, 1, 2]), 60)
    model = read_model(CATEGORY_MAKERS["xgboost"]().fit(X, X["k"].cat.codes.to_numpy() == 1))
    rows = _rows_of(CATEGORIES[own], 6)
    with pytest.raises(InvalidInputError, match="XGBoost's own predict refuses"):
        predict_margins(model, rows)
    with pytest.raises(InvalidInputError, match="takes no booleans as categories"):
        to_matrix(rows, schema_of(model.forest))


@pytest.mark.parametrize(
    ("known", "taken", "as_known", "refused"),
    [([1, 2], [0, 2], [1, 2], [2, 3]), (["b", "d"], ["a", "d"], ["b", "d"], ["d", "e"])],
    ids=["numbers", "words"],
)
def test_categories_that_xgboost_takes_for_others_are_refused_in_true_words(known, taken, as_known, refused):
    """Before 3.3 an unknown category is read as the next known one, and refused if there is none."""
    X = _rows_of(pandas.Index(known), 60)
    fitted = CATEGORY_MAKERS["xgboost"]().fit(X, X["k"].cat.codes.to_numpy() == 1)
    schema = schema_of(read_model(fitted).forest)
    taken, as_known, refused = (_rows_of(pandas.Index(values), 6) for values in (taken, as_known, refused))
    if not REFUSES_NEW_CATEGORIES:
        assert np.array_equal(fitted.predict(taken), fitted.predict(as_known))
    for rows in [taken, refused] if REFUSES_NEW_CATEGORIES else [refused]:
        with pytest.raises(ValueError, match="not in the training set"):
            fitted.predict(rows)
    for rows in (taken, refused):
        with pytest.raises(InvalidInputError, match="and newer refuse such values; older versions take one for"):
            to_matrix(rows, schema)


def test_the_refusal_of_booleans_says_what_to_do():
    X = _rows_of(pandas.Index([0, 1, 2]), 240)
    codes = X["k"].cat.codes.to_numpy()
    model = read_model(CATEGORY_MAKERS["lightgbm"]().fit(X, (codes == 1) ^ (X["x"].to_numpy() > 0.8)))
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


def test_integers_of_128_bits_are_refused():
    rng = np.random.default_rng(0)
    X = polars.DataFrame({"a": rng.integers(0, 9, 60), "b": rng.normal(size=60)})
    model = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(X.to_pandas(), X["a"] > 4)
    with pytest.raises(InvalidInputError, match="Int128; numbers are accepted"):
        to_matrix(X.cast({"a": polars.Int128}), schema_of(read_model(model).forest))
