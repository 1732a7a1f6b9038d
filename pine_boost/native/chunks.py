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
from pine_boost.tables.native import as_table
from pine_boost.tables.rows import BatchRows, DaskRows, is_large, open_rows
from pine_boost.tables.schema import InputSchema, schema_of

Ask = Callable[[Model, Any], npt.NDArray[Any]]


def asked_in_chunks(ask: Ask, model: Model, X: Any) -> npt.NDArray[Any]:
    """What ``ask`` (a function of a module, so that workers find it) says of all rows."""
    if is_large(X):
        X = open_rows(X, schema_of(model.forest))
    if not isinstance(X, (BatchRows, DaskRows)):
        return ask(model, X)
    model = replace(model, native=load_native(model))  # once, not for every chunk
    chunks = list(X.map_values(partial(_ask_matrix, ask, model, schema_of(model.forest))))
    return np.concatenate(chunks) if chunks else np.zeros(0)


def _ask_matrix(ask: Ask, model: Model, schema: InputSchema, matrix: FloatArray) -> Any:
    return np.asarray(ask(model, as_table(matrix, schema)))
