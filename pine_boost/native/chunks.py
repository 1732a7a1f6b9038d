"""Native answers for every row of a table, chunk by chunk where it is larger than memory.

In come a question to the native library, a parsed Model and a table or rows in chunks; out goes one
array of all rows in their order. On Dask the workers ask their own copy of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, Model
from pine_boost.native.predict import load_native
from pine_boost.tables.native import as_table, row_count, take_rows
from pine_boost.tables.rows import BatchRows, DaskRows, is_large, open_rows
from pine_boost.tables.schema import InputSchema, schema_of

CHUNK_CELLS = 2_000_000  # rows x trees predicted between two looks at the clock
_FEWEST_ROWS = 500
Ask = Callable[[Model, Any], npt.NDArray[Any]]


def asked_in_chunks(ask: Ask, model: Model, X: Any, check: Callable[[], None] | None = None) -> npt.NDArray[Any]:
    """What ``ask`` (a function of a module, so that workers find it) says of all rows.

    ``check`` (such as `Budget.check`) is called before every chunk of a table in memory and may raise.
    """
    if is_large(X):
        X = open_rows(X, schema_of(model.forest))
    model = replace(model, native=load_native(model))  # once, not for every chunk
    if not isinstance(X, (BatchRows, DaskRows)):
        n_rows, n_most = row_count(X), max(_FEWEST_ROWS, CHUNK_CELLS // model.forest.n_trees)
        if check is None or n_rows <= n_most:
            return ask(model, X)
        parts = []
        for start in range(0, n_rows, n_most):
            check()
            parts.append(np.asarray(ask(model, take_rows(X, np.arange(start, min(start + n_most, n_rows))))))
        return np.concatenate(parts)
    chunks = list(X.map_values(partial(_ask_matrix, ask, model, schema_of(model.forest))))
    return np.concatenate(chunks) if chunks else np.zeros(0)


def _ask_matrix(ask: Ask, model: Model, schema: InputSchema, matrix: FloatArray) -> Any:
    return np.asarray(ask(model, as_table(matrix, schema)))
