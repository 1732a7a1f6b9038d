"""Read table files for a Pipeline: the raw columns it was fitted on, including text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.tables.table_files import TableFile, is_text_file, match_names, read_any

_CODE = r"[+-]?0[0-9]+"  # "01" is a code, but a number parser reads it as 1


def read_raw_table(
    path: str | Path, names: Sequence[str] | None, n_features: int | None, label: str | None = None
) -> TableFile:
    """Read a table file for the first steps of a Pipeline.

    Parameters
    ----------
    path : path
    names : sequence of str or None
        Columns that it was fitted on; None if it was fitted on a bare array or does not store them.
    n_features : int or None
        Number of columns that it was fitted on; None if it does not store it.
    label : str, optional
        Name of the column that holds the labels.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or lacks a column.
    """
    path = Path(path)
    table = read_any(path, {})
    if isinstance(table, np.ndarray):
        if label is not None or names is not None:
            raise InvalidInputError(
                f"{path} has no column names; the Pipeline was fitted on a table with names. Pass "
                "CSV, Parquet or Feather."
            )
        return TableFile(table, None, ())
    found = [str(name) for name in table.columns]
    order, left_out = match_names(found, names, n_features, label, path, lambda name: name)
    chosen = table.iloc[:, order]
    if is_text_file(path):
        _require_plain_numbers(path, chosen)
    y = None if label is None else table.iloc[:, found.index(label)].to_numpy()
    if names is None and n_features is not None:
        return TableFile(chosen.to_numpy(), y, left_out)  # fitted on an array
    return TableFile(chosen.copy(), y, left_out)


def _require_plain_numbers(path: Path, chosen: Any) -> None:
    """Raise if a numeric CSV column may hold codes such as 01; CSV stores no types."""
    numbers = [str(name) for name in chosen.columns if chosen[name].dtype.kind in "iuf"]
    if not numbers:
        return
    texts = read_any(path, dict.fromkeys(numbers, str))
    texts.columns = [str(name) for name in texts.columns]
    for name in numbers:
        column = texts[name].dropna().astype(str).str.strip()
        codes = column[column.str.fullmatch(_CODE)]
        if len(codes):
            raise InvalidInputError(
                f"{path}: column {name!r} holds {codes.iloc[0]!r}, which may be a text or a "
                "number, and CSV does not say. Write the table as Parquet or Feather, with the "
                "types that the Pipeline was fitted on."
            )
