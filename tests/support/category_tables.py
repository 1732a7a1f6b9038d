"""Models of categories, and the same categories in every kind of table.

In comes the name of a kind; out go a trained model and tables whose categories come in several
orders, with gaps and strangers, as words and as numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

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


def models_of_categories() -> dict[str, Any]:
    """One estimator per library, not fitted, that takes the categories of a frame and splits sets of them."""
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier

    return {
        "xgboost": xgboost.XGBClassifier(
            n_estimators=8, max_depth=3, n_jobs=1, enable_categorical=True, max_cat_to_onehot=1
        ),
        "lightgbm": lightgbm.LGBMClassifier(
            n_estimators=8, max_depth=3, n_jobs=1, verbose=-1, min_child_samples=5, min_data_per_group=5, cat_smooth=1
        ),
        "histogram": HistGradientBoostingClassifier(max_iter=8, max_depth=3, categorical_features="from_dtype"),
    }


def words_and_codes() -> tuple[Any, np.ndarray, np.ndarray]:
    """A frame with one number and one word, the same as a matrix of codes, and labels."""
    import pandas

    random = np.random.default_rng(0)
    codes = np.column_stack([random.normal(size=300).round(1), random.integers(0, 5, 300)])
    words = np.array(list("abcde"))
    frame = pandas.DataFrame({"x": codes[:, 0], "word": pandas.Categorical(words[codes[:, 1].astype(int)], words)})
    return frame, codes, (codes[:, 1] % 2 == 0) ^ (codes[:, 0] > 0)
