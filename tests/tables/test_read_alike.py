"""Every library, kind of table and dtype: our matrix is what the library sees, or a refusal.

Native margins against the reference evaluator, bit for bit, on rows at, beside and half-way
between the thresholds.
"""

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import schema_of
from tests.support.category_tables import CATEGORY_KINDS, NUMBERS, WORDS, category_tables, trained_on_categories
from tests.support.native_tables import KINDS, native_margins_of, numeric_tables, probes, trained
from tests.support.xgboost_models import REFUSES_NEW_CATEGORIES

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
