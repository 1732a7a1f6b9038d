"""Pass rows through the first steps of a Pipeline.

Steps that change the number of rows, or that give a different result when called again, raise: the original class of a
row would not be defined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.model.exact import SAME_PREPARED
from pine_boost.tables.native import take_rows
from pine_boost.tables.rows import is_large

_ASKED_AGAIN = 50


@dataclass(frozen=True)
class Prepared:
    """Several steps in sequence (a class, so that it can be pickled into a folder)."""

    steps: tuple[Callable[[Any], Any], ...]

    def __call__(self, X: Any) -> Any:
        """Apply all steps to rows."""
        for step in self.steps:
            X = step(X)
        return X


def prepare_rows(prepare: Callable[[Any], Any], X: Any) -> Any:
    """Prepare rows for the ensemble.

    Raises
    ------
    InvalidInputError
        The steps reject these rows, or the table is one that is read in chunks.
    UnsupportedModelError
        The steps add or drop rows, or give a different result for the same rows.
    """
    if is_large(X):
        raise InvalidInputError(
            "This table is read in chunks, and the first steps of a Pipeline take a table as a "
            "whole. Pass it in memory; or pass the last step of the Pipeline, and chunks that "
            "pipeline[:-1].transform prepared, written as Parquet."
        )
    rows = _ask(prepare, X)
    n_given, n_made = _length(X), _length(rows)
    if n_given is None or n_made is None:
        return rows
    if n_given != n_made:
        raise UnsupportedModelError(
            f"The first steps of the Pipeline make {n_made} rows of {n_given}; accepted are steps "
            "that keep every row, so that it has a class."
        )
    if hasattr(X, "shape") and n_given:
        some = np.arange(min(n_given, _ASKED_AGAIN))
        if not _alike(_ask(prepare, take_rows(X, some)), take_rows(rows, some)):
            raise UnsupportedModelError(
                f"The first steps of the Pipeline were asked about the first {len(some)} rows "
                "again, without the others, and gave other numbers: they are random, or look at "
                "the whole table. Such a model has no class of one row that could be kept."
            )
    return rows


def _ask(prepare: Callable[[Any], Any], X: Any) -> Any:
    try:
        return prepare(X)
    except PineBoostError:
        raise
    except Exception as error:  # a user's own steps may raise anything
        raise InvalidInputError(
            f"The first steps of the Pipeline cannot prepare these rows "
            f"({type(error).__name__}: {' '.join(str(error).split())[:300]}); pass what its "
            "predict takes, and a Pipeline that is fitted."
        ) from error


def _length(table: Any) -> int | None:
    shape = getattr(table, "shape", None)
    if shape:
        return int(shape[0])
    return len(table) if hasattr(table, "__len__") else None


def _alike(one: Any, other: Any) -> bool:
    first, second = (_dense(table) for table in (one, other))
    if first.shape != second.shape:
        return False
    try:
        one, other = (np.asarray(table, dtype=np.float64) for table in (first, second))
    except (TypeError, ValueError):  # text categories
        same = (first == second) | ((first != first) & (second != second))
        return bool(np.all(same))
    return bool(np.allclose(one, other, rtol=SAME_PREPARED, atol=SAME_PREPARED, equal_nan=True))


def _dense(table: Any) -> npt.NDArray[Any]:
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)
