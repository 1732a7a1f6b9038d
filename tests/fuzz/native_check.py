"""What an accepted model file must satisfy: the native library loads it and gives the margins that were read.

Both the file itself and what is written from it are loaded, in a child process.
"""

from itertools import product
from typing import Any

import numpy as np

from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Model
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import original_bytes
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.fuzz.driver import remember
from tests.fuzz.native_worker import WORKER
from tests.support.catboost_models import TOWNS

_MOST_CELLS = 20_000  # a file may claim 16 million features; nobody predicts with those


def check_model(contents: bytes, model: Model, threshold: Any = None) -> None:
    """Write, read back, load natively in a child, compare margins on rows of all kinds.

    Raises
    ------
    AssertionError
        The library refuses the file or does not survive it, or reads or adds up something else.
    """
    forest = model.forest
    written = original_bytes(model)
    again = read_model(written, threshold=threshold, decision="value")
    assert forest_digest(again.forest) == forest_digest(forest)
    if forest.n_features * 12 > _MOST_CELLS or forest.n_outputs * forest.n_nodes > _MOST_CELLS:
        return
    X = probe_rows(model)
    rows = X
    if forest.library == "catboost":
        table = _named(model, X)
        X, rows = to_matrix(table, schema_of(forest)), table.astype(str)
    ours = native_margins(forest, X).astype(np.float64)
    slack = forest.slack if forest.library == "xgboost" else 0.0  # dart, loaded by a Booster or in place
    tables = [rows]
    if forest.library == "lightgbm" and any(forest.feature_categories):
        tables.append(as_table(X, schema_of(forest)))  # a frame of categories
    for given, table in product((contents, written), tables):
        remember(given)
        theirs = WORKER.margins(given, forest.library, table).reshape(ours.shape).astype(np.float64)
        finite = np.isfinite(ours) & np.isfinite(theirs)
        with np.errstate(invalid="ignore"):
            close = np.abs(ours - theirs) <= slack
        same = np.where(finite, close, _text(ours) == _text(theirs))
        assert same.all(), f"native {theirs[~same][:3]} but read {ours[~same][:3]}"


def probe_rows(model: Model) -> Any:
    """Thresholds and codes of the model itself, zero, NaN and far values, in float32."""
    forest = model.forest
    random = np.random.default_rng(0)
    usable = forest.threshold[np.isfinite(forest.threshold)]
    values = np.concatenate([usable[:20], [0.0, 1.0, 2.0, 5.0, -3.0, 1e6, np.nan]])
    with np.errstate(over="ignore"):
        X = random.choice(values, (12, forest.n_features)).astype(np.float32).astype(np.float64)
    for feature, known in enumerate(forest.feature_categories):
        if known:
            X[:, feature] = random.integers(0, len(known), 12)
    return np.where(np.isinf(X), 7.0, X)


def _named(model: Model, X: Any) -> Any:
    """The rows as a table whose categories are names, known to the healthy model or not."""
    table = X.astype(object)
    for feature, known in enumerate(model.forest.feature_categories):
        if known is not None:
            table[:, feature] = np.resize([*TOWNS, "0", "1", "2", "-1", "none"], len(X))
    return table


def _text(numbers: Any) -> Any:
    return np.nan_to_num(np.sign(numbers), nan=9.0)
