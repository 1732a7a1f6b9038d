"""Read tables from files for the command line: CSV, Parquet, Arrow/Feather, NumPy.

Numbers are read exactly, and columns are matched as in Python (`schema.find_columns`); others raise.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from pine_boost.errors import InvalidInputError, MissingDependencyError, install_with, needing
from pine_boost.tables.schema import InputSchema, find_columns, listing

_TEXT = (".csv", ".tsv", ".txt")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
_BINARY = (".parquet", ".feather", ".arrow", ".ipc")
_UNREADABLE = (  # what reading a text file may raise, compressed or not
    *(OSError, EOFError, RuntimeError, UnicodeDecodeError, csv.Error),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)
ACCEPTED = "CSV/TSV (.gz too), Parquet, Feather/Arrow and .npy files"


class LabelIfAny(str):
    """The name of a label column that a table need not have; it is left out of one that has it."""


def label_if_any(label: str | None) -> LabelIfAny | None:
    """The label column for a table that may lack it."""
    return None if label is None else LabelIfAny(label)


def _label_in(names: Sequence[str], label: str | None) -> str | None:
    """The label column of a table with these columns, which the caller requires unless it is a `LabelIfAny`."""
    return None if isinstance(label, LabelIfAny) and label not in names else label


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table read from a file.

    Attributes
    ----------
    X : DataFrame or float64 array
        The model's columns in its order.
    y : array or None
        The label column.
    left_out : tuple of str
        Columns of the file that are not in the model.
    """

    X: Any
    y: Any
    left_out: tuple[str, ...]


def read_table(path: str | Path, schema: InputSchema, label: str | None = None) -> TableFile:
    """Read a table file and match its columns with the model's.

    Parameters
    ----------
    path : path
    schema : InputSchema
        The schema of the model (`schema.schema_of`) or of a region.
    label : str, optional
        Name of the column that holds the labels.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or its columns do not fit the model.
    MissingDependencyError
        The format needs pandas or pyarrow.
    """
    path = Path(path)
    texts = {}
    for feature in range(schema.n_features):
        known = schema.categories_of(feature)
        if known is not None and all(isinstance(value, str) for value in known):
            texts[schema.name_of(feature)] = str  # "01" must not become the number 1
    try:
        table, cells = read_any(path, texts), None
        names = [str(name) for name in getattr(table, "columns", ())]
    except MissingDependencyError:
        if _kind_of(path) not in _TEXT:
            raise
        names, cells = _plain_csv(path, schema)
    label = _label_in(names, label)
    if not names or (label is None and names == [str(position) for position in range(len(names))]):
        array = np.asarray(table) if cells is None else _floats(cells, range(cells.shape[1]), path)
        return _from_array(array, schema, label, path)
    # as in Python, columns out of order raise
    order = None if schema.feature_names is None else find_columns(names, schema, str(path))
    order, left_out = _chosen(names, order, schema.n_features, label, path)
    if cells is not None:
        y = None if label is None else cells[:, names.index(label)]
        return TableFile(_floats(cells[:, order], [names[j] for j in order], path), y, left_out)
    y = None if label is None else table.iloc[:, names.index(label)].to_numpy()
    return TableFile(_as_trained(table.iloc[:, order].copy(), schema), y, left_out)


def read_any(path: Path, texts: Mapping[str, Any]) -> Any:
    """Read a whole table file as a frame, or as an array for .npy; ``texts`` names the text columns."""
    if not path.is_file():
        raise InvalidInputError(f"{path} does not exist or is not a file; pass one of {ACCEPTED}.")
    kind = _kind_of(path)
    if kind == ".npy":
        return _read_npy(path)
    if kind in _TEXT:
        return _read_csv(path, texts, _separator(path))
    if kind in _BINARY:
        return _read_binary(path, kind)
    raise InvalidInputError(f"{path} has a suffix that cannot be read; pass one of {ACCEPTED}.")


def _kind_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((s for s in reversed(suffixes) if s not in _COMPRESSED), "")


def _separator(path: Path) -> str:
    return "\t" if _kind_of(path) == ".tsv" else ","


def _read_npy(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInputError(f"{path} is not a NumPy array of numbers: {error}.") from error


def _read_csv(path: Path, texts: Mapping[str, Any], separator: str) -> Any:
    with needing(f"Reading {path.name} needs pandas", "tables"):
        import pandas
    _check_widths(path, separator)
    try:
        first = pandas.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)
        header = 0 if _is_header(first.iloc[0].tolist()) else None
        # the fast parser of older pandas can be off by one ulp, which may cross a split; from 3.1 on
        # the exact parser is the default and naming it gives a warning
        exact: dict[str, Any] = {"float_precision": "round_trip"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pandas.read_csv(
                path,
                sep=separator,
                header=header,
                dtype=dict(texts) if header == 0 else None,
                low_memory=False,
                **(exact if int(pandas.__version__.split(".")[0]) < 4 else {}),
            )
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as CSV: {error}.") from error


def _check_widths(path: Path, separator: str) -> None:
    """Raise if a line is longer or shorter than the first: pandas would pad or shift it."""
    try:
        with _open_text(path) as file:
            lines = csv.reader(file, delimiter=separator)
            width = None
            for cells in lines:
                width = len(cells) if width is None and cells else width
                if cells and len(cells) != width:
                    raise InvalidInputError(
                        f"{path}: line {lines.line_num} has {len(cells)} cells, the first line has "
                        f"{width}. Write missing values as empty cells."
                    )
    except _UNREADABLE as error:
        raise InvalidInputError(f"{path} cannot be read as CSV: {error}.") from error


def _open_text(path: Path) -> IO[str]:
    """Open a text file, compressed or not."""
    suffix = path.suffix.lower()
    if suffix == ".zip":
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
        if len(names) != 1:
            raise InvalidInputError(f"{path} holds {len(names)} files; one CSV file is expected in it.")
        return io.TextIOWrapper(archive.open(names[0]), "utf-8-sig", newline="")
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast(IO[str], openers.get(suffix, open)(path, "rt", newline="", encoding="utf-8-sig"))


def _read_binary(path: Path, kind: str) -> Any:
    with needing(f"Reading {path.name} needs pandas and pyarrow", "tables"):
        import pandas  # noqa: F401
        import pyarrow
    try:
        if kind == ".parquet":
            from pyarrow import parquet

            return parquet.read_table(path).to_pandas()
        from pyarrow import feather, ipc

        try:
            return feather.read_table(path).to_pandas()
        except pyarrow.ArrowInvalid:  # the streaming form of Arrow has no footer
            with ipc.open_stream(path.read_bytes()) as stream:
                return stream.read_all().to_pandas()
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}.") from error


def _plain_csv(path: Path, schema: InputSchema) -> tuple[list[str], Any]:
    """Read a CSV file of numbers without pandas: its column names, none without a header, and its cells."""
    if any(schema.feature_categories):
        raise MissingDependencyError(
            f"This model has categories; reading them from CSV needs pandas; {install_with('tables')}"
        )
    _check_widths(path, _separator(path))
    with _open_text(path) as file:
        lines = [line for line in csv.reader(file, delimiter=_separator(path)) if line]
    if not lines:
        raise InvalidInputError(f"{path} is empty.")
    names = [name.strip() for name in lines[0]] if _is_header(lines[0]) else []
    body = lines[1:] if names else lines
    cells = [None if cell.strip() in _MISSING else cell for line in body for cell in line]
    return names, np.array(cells, dtype=object).reshape(len(body), len(lines[0]))


_MISSING = {"", "NA", "N/A", "NaN", "nan", "null", "None"}


def _floats(rows: Any, names: Sequence[Any], path: Path) -> Any:
    matrix = np.empty(rows.shape, dtype=np.float64)
    for (row, column), cell in np.ndenumerate(rows):
        try:
            # Python reads 1_0 as 10, pandas as a text
            matrix[row, column] = np.nan if cell is None else float(cell.replace("_", "?"))
        except ValueError as error:
            raise InvalidInputError(
                f"{path}: column {str(names[column])!r} holds {cell!r} in row {row}; numbers are "
                "accepted. Encode it the way the model's training data were encoded."
            ) from error
    return matrix


def _from_array(array: Any, schema: InputSchema, label: str | None, path: Path) -> TableFile:
    if label is not None:
        raise InvalidInputError(f"{path} has no column names, so no column {label!r}.")
    if array.ndim != 2 or array.shape[1] != schema.n_features:
        raise InvalidInputError(
            f"{path} has no column names and the shape {array.shape}; the model has "
            f"{schema.n_features} features. Give exactly these columns, or names."
        )
    if schema.feature_names is None or any(schema.feature_categories) or array.dtype.kind not in "fiub":
        return TableFile(array, None, ())
    from pine_boost.tables.native import as_table

    try:
        return TableFile(as_table(array.astype(np.float64), schema), None, ())
    except ImportError:
        return TableFile(array, None, ())


def _as_trained(table: Any, schema: InputSchema) -> Any:
    """Return a frame as the model was trained on it: a bare array, or with its categories as such."""
    if schema.feature_names is None:
        return table.to_numpy()
    for position in range(schema.n_features):
        known = schema.categories_of(position)
        if known is not None and not hasattr(table.iloc[:, position], "cat"):
            column = table.columns[position]
            table[column] = table[column].astype("category")
    return table


def _chosen(
    names: list[str], order: list[int] | None, n_features: int | None, label: str | None, path: Path
) -> tuple[list[int], tuple[str, ...]]:
    """Return the positions of the model's columns and the names of the others; ``order`` is None without names."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"{path} has the column {twice!r} more than once.")
    if label is not None and label not in names:
        raise InvalidInputError(f"{path} has no column {label!r}; it has {listing(names)}.")
    if order is None:
        order = [j for j, name in enumerate(names) if name != label]
        if n_features is not None and len(order) != n_features:
            raise InvalidInputError(
                f"The model has no feature names and {n_features} features, {path} has "
                f"{len(order)} columns. Leave only the features, in the model's order (name the "
                "label column with --label)."
            )
    used = {names[j] for j in order} | {label}
    return order, tuple(name for name in names if name not in used)


def _is_header(cells: list[Any]) -> bool:
    """Return whether the cells are column names, or the 0, 1, 2, ... that pandas writes if there are none."""
    texts = [str(cell).strip() for cell in cells]
    if len(texts) > 1 and texts == [str(position) for position in range(len(texts))]:
        return True
    try:
        [float(text) for text in texts if text not in _MISSING]
    except ValueError:
        return True
    return False


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
    label = _label_in([str(name) for name in getattr(table, "columns", ())], label)
    if isinstance(table, np.ndarray):
        if label is not None or names is not None:
            raise InvalidInputError(
                f"{path} has no column names; the Pipeline was fitted on a table with names. Pass "
                "CSV, Parquet or Feather."
            )
        return TableFile(table, None, ())
    found = [str(name) for name in table.columns]
    absent = [name for name in names or () if name not in found]
    if absent:
        raise InvalidInputError(f"{path} lacks the model's column(s) {listing(absent)}; it has {listing(found)}.")
    order = None if names is None else [found.index(name) for name in names]
    order, left_out = _chosen(found, order, n_features, label, path)
    chosen = table.iloc[:, order]
    if _kind_of(path) in _TEXT:  # which store no types
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
