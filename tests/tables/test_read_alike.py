"""Every library, kind of table and dtype: our matrix is what the library sees, or a refusal.

Native margins against the reference evaluator, bit for bit, on rows at, beside and half-way
between the thresholds.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import schema_of
from tests.support.category_tables import models_of_categories
from tests.support.native_tables import KINDS, native_margins_of, numeric_tables, probes, trained
from tests.support.xgboost_models import REFUSES_NEW_CATEGORIES

WORDS, NUMBERS = ("red", "green", "blue", "pink", "grey"), (10, 20, 30, 40, 70)


CATEGORY_KINDS = (
    "xgboost",
    "xgboost partition",
    "xgboost missing 0",
    "xgboost missing 1",
    "xgboost missing 3",
    "xgboost.Booster",
    "lightgbm",
    "lightgbm.Booster",
    "histogram",
    "histogram by name",
    "histogram with gaps",
)


def category_rows(values: tuple[Any, ...], n_rows: int = 600) -> tuple[Any, np.ndarray]:
    """A frame with one category and one number, and labels that need both."""
    import pandas as pd

    rng = np.random.default_rng(11)
    code, number = rng.integers(0, 5, n_rows), np.round(rng.normal(size=n_rows), 1)
    colour = pd.Categorical.from_codes(code, categories=list(values))
    frame = pd.DataFrame({"colour": colour, "number": number})
    return frame, (((code == 1) | (code == 3)) ^ (number > 0.2)).astype(int)


@cache
def trained_on_categories(kind: str, values: tuple[Any, ...]) -> Any:
    """A small model of a kind on `category_rows`."""
    X, y = category_rows(values)
    models = models_of_categories()
    if kind.startswith("xgboost"):
        missing = float(kind.split()[-1]) if "missing" in kind else np.nan
        one_hot = 1 if kind == "xgboost partition" else 100
        model = models["xgboost"].set_params(missing=missing, max_cat_to_onehot=one_hot).fit(X, y)
        return model.get_booster() if kind == "xgboost.Booster" else model
    if kind.startswith("lightgbm"):
        model = models["lightgbm"].set_params(min_data_per_group=1, cat_smooth=0).fit(X, y)
        return model.booster_ if kind == "lightgbm.Booster" else model
    by_name = kind == "histogram by name"
    if by_name:
        X = X.assign(colour=X["colour"].astype(object if values == WORDS else float))
    if kind == "histogram with gaps":
        X.loc[::6, "colour"] = np.nan
    return models["histogram"].set_params(categorical_features=["colour"] if by_name else "from_dtype").fit(X, y)


def category_tables(values: tuple[Any, ...]) -> dict[str, Any]:
    """The same categories in every kind of table, in several orders, with gaps and strangers."""
    import polars as pl
    import pyarrow as pa

    frame, _ = category_rows(values)
    colour = frame["colour"]
    new = "new" if values == WORDS else 99
    gaps = colour.copy()
    gaps[::5] = np.nan
    strange = colour.astype(object)
    strange[::7] = new
    order = [values[j] for j in (3, 1, 4, 0, 2)]
    kept = np.flatnonzero(colour != values[1])
    columns = {
        "same": colour,
        "reordered": colour.cat.reorder_categories(order),
        "with gaps": gaps,
        "reordered with gaps": gaps.cat.reorder_categories(order),
        "one more, unused": colour.cat.add_categories([new]),
        "one more, first": colour.cat.set_categories([new, *values]),
        "strangers": strange.astype("category"),
        "object": colour.astype(object),
        "codes": colour.cat.codes.astype(np.int64),
        "text": colour.astype(str).astype("category"),
    }
    tables: dict[str, Any] = {f"pandas {name}": frame.assign(colour=column) for name, column in columns.items()}
    fewer = frame.iloc[kept]
    tables["pandas fewer"] = fewer.assign(colour=fewer["colour"].cat.remove_unused_categories())
    for name in ("same", "reordered", "with gaps", "reordered with gaps", "strangers"):
        made = tables[f"pandas {name}"]
        tables[f"arrow {name}"] = pa.Table.from_pandas(made, preserve_index=False)
        if values == WORDS:
            raw = made["colour"].astype(object).where(made["colour"].notna(), None).tolist()
            kinds = {
                "categorical": pl.Categorical,
                "text": pl.String,
                "enum": pl.Enum(list(made["colour"].cat.categories)),
            }
            for kind, dtype in kinds.items():
                tables[f"polars {kind} {name}"] = pl.DataFrame(
                    {"colour": raw, "number": made["number"].to_numpy()}, schema={"colour": dtype, "number": pl.Float64}
                )
    codes = np.column_stack([colour.cat.codes, frame["number"]]).astype(float)
    tables["array of codes"] = codes
    odd = codes.copy()
    for start, code in enumerate((-1, 5, 7, 2**24, 2**24 + 4, 1.5, -0.5, np.nan, 3 - 1e-9)):
        odd[start::9, 0] = code
    tables["array of odd codes"] = odd
    if values == NUMBERS:
        tables["array of raw numbers"] = np.column_stack([colour.astype(float), frame["number"]])
    return tables


# What must be read: a refusal of everything would pass the comparison.
_WIDTHS = (8, 16, 32, 64)
_PLAIN = ("float64", "fortran", "reversed", "strided", "float32", "float16", "bool", "list", "one row")
_MIXED = (
    "int64",
    *(f"{kind} and int64" for kind in ("float64", "float32", "bool")),
    "Int64",
    "boolean and Int8",
    "sparse",
)
ALWAYS = {
    *(*_PLAIN, *(f"{sign}int{width}" for sign in ("", "u") for width in _WIDTHS)),
    *(f"{frame} float{width}" for frame in ("pandas", "polars", "arrow") for width in (32, 64)),
    *(*(f"pandas {kind}" for kind in ("int64", "Int64", *_MIXED)), "arrow in chunks", "arrow batch"),
}
NEVER = {
    *("longdouble", "big-endian", "big-endian float32", "big-endian int", "sparse csr with repeated entries"),
    *(f"pandas {kind}" for kind in ("longdouble", "big-endian", "timedelta")),
    *(f"{frame} datetime" for frame in ("pandas", "polars", "arrow")),
    *(f"{frame} decimal" for frame in ("polars", "arrow")),
}


def _ours(forest, X):
    try:
        return np.asarray(native_margins(forest, to_matrix(X, schema_of(forest))))
    except InvalidInputError:
        return None


@pytest.mark.filterwarnings("ignore")  # the libraries warn about formats and names
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_in_every_kind_of_table(kind):
    model = trained(kind)
    forest = read_model(model).forest
    read, refused = set(), set()
    for name, X in numeric_tables(probes(forest, 1500)).items():
        ours = _ours(forest, X)
        if ours is None:
            refused.add(name)
            continue
        read.add(name)
        if name == "no row":
            continue
        if kind == "RandomForest":
            ours = ours / len(model.estimators_)
        native = native_margins_of(model, X)
        assert np.array_equal(ours, native), f"{kind}: {name}: {np.sum(ours != native)} differ"
    assert read >= ALWAYS
    assert refused >= NEVER


# from 3.3 on: a new category even if no row holds it, and polars.Categorical
REFUSED_BY_XGBOOST = ("pandas one more", "polars categorical")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("values", [WORDS, NUMBERS], ids=["words", "numbers"])
@pytest.mark.parametrize("kind", CATEGORY_KINDS)
def test_categories_in_every_kind_of_table(kind, values):
    model = trained_on_categories(kind, values)
    forest = read_model(model).forest
    read = set()
    for name, X in category_tables(values).items():
        ours = _ours(forest, X)
        if ours is None:
            continue
        read.add(name)
        if kind.startswith("lightgbm") and name.startswith(("arrow", "polars")):
            X = X.to_pandas()  # LightGBM itself takes categories from pandas only
        if REFUSES_NEW_CATEGORIES and kind.startswith("xgboost") and name.startswith(REFUSED_BY_XGBOOST):
            with pytest.raises(ValueError, match=r"not in the training set|does not support `polars.Categorical`"):
                native_margins_of(model, X)
            continue
        native = native_margins_of(model, X)
        assert np.array_equal(ours, native), f"{kind}: {name}: {np.sum(ours != native)} differ"
    frames = {"same", "reordered", "with gaps", "reordered with gaps", "fewer"}
    assert {f"pandas {name}" for name in frames} <= read
    if kind in ("xgboost", "xgboost.Booster", "histogram") and values == WORDS:
        assert {"arrow same", "polars categorical with gaps", "polars enum reordered"} <= read
    if "histogram" not in kind:
        assert {"array of codes", "array of odd codes"} <= read
