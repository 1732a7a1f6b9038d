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
        n_estimators=4, n_jobs=1, verbose=-1, min_child_samples=3, min_data_per_group=3,
        cat_smooth=1,
    ),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=4, categorical_features="from_dtype", min_samples_leaf=3
    ),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=4, n_jobs=1, enable_categorical=True),
}  # fmt: skip
# XGBoost itself takes neither floats nor booleans as categories
TRAINED = [(maker, known) for maker in MAKERS for known in VALUES
           if maker != "xgboost" or known in ("int", "text")]  # fmt: skip


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
        kinds = [frame, frame.assign(k=values[code]), frame.assign(k=values[code].astype(object)),
                 pyarrow.Table.from_pandas(frame)]  # fmt: skip
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


def test_integers_of_128_bits_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = polars.DataFrame({"a": rng.integers(0, 9, 60), "b": rng.normal(size=60)})
    model = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(X.to_pandas(), X["a"] > 4)
    with pytest.raises(InvalidInputError, match="Int128; numbers are accepted"):
        to_matrix(X.cast({"a": polars.Int128}), schema_of(read_model(model).forest))
