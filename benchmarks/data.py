"""The twelve data sets of the paper: read, encode, split.

A data set is ``<Name>.csv`` or ``<Name>.csv.gz`` in a folder, with the label last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import Domain

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FOLDER = ROOT.parent / "shared" / "data"
DATASETS = (
    "Adult",
    "Balance-Scale",
    "Breast-Cancer-Wisconsin",
    "COMPAS-ProPublica",
    "ELEC2",
    "FICO",
    "HTRU2",
    "JM1",
    "Pima-Diabetes",
    "PoL",
    "Seeds",
    "Spambase",
)
# Rows without a gap, to know the binomial error of a coverage without the data at hand.
N_ROWS = {
    "Adult": 32561,
    "Balance-Scale": 625,
    "Breast-Cancer-Wisconsin": 683,
    "ELEC2": 38474,
    "COMPAS-ProPublica": 6907,
    "FICO": 10459,
    "HTRU2": 17898,
    "JM1": 10880,
    "Pima-Diabetes": 768,
    "PoL": 10082,
    "Seeds": 210,
    "Spambase": 4601,
}

FloatTable = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


class DataNotFoundError(FileNotFoundError):
    """A data set's file is not in the folder."""


@dataclass(frozen=True, eq=False)
class Table:
    """A data set ready for a tree library.

    Attributes
    ----------
    X : float32 (n_rows, n_features)
    y : int64 (n_rows,)
    names : tuple of str
    binary : tuple of int
        Columns that only hold 0 and 1 by construction (not those of a one-hot group).
    one_hot : tuple of tuple of int
        Columns of which exactly one is 1.
    """

    X: FloatTable
    y: Labels
    names: tuple[str, ...]
    binary: tuple[int, ...] = ()
    one_hot: tuple[tuple[int, ...], ...] = ()

    def domain(self) -> Domain:
        """What the paper's input space knows: no gaps, 0/1 columns, one category at a time."""
        complete = [int(j) for j in np.flatnonzero(~np.isnan(self.X).any(axis=0))]
        return Domain(
            one_hot=self.one_hot,
            lower=dict.fromkeys(self.binary, 0.0),
            upper=dict.fromkeys(self.binary, 1.0),
            integer=self.binary,
            never_missing=True if len(complete) == self.X.shape[1] else complete,
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Fit, calibration and test rows; selection rows where a fourth part was asked for."""

    X_fit: FloatTable
    y_fit: Labels
    X_cal: FloatTable
    y_cal: Labels
    X_test: FloatTable
    y_test: Labels
    X_sel: FloatTable | None = None


def find_file(name: str, folder: str | Path | None = None) -> Path:
    """Path of a data set's file.

    Raises
    ------
    DataNotFoundError
        Neither ``<name>.csv`` nor ``<name>.csv.gz`` lies in the folder.
    """
    place = Path(folder) if folder else DEFAULT_FOLDER
    for suffix in (".csv", ".csv.gz"):
        if (place / f"{name}{suffix}").is_file():
            return place / f"{name}{suffix}"
    raise DataNotFoundError(
        f"No {name}.csv or {name}.csv.gz in {place}. Put the files there (comma separated, header, "
        "label last) or name their folder with --data; benchmarks/README.md says where to find them."
    )


@lru_cache(maxsize=4)
def load(name: str, folder: str | None = None, encoder: str = "paper", keep_gaps: bool = False) -> Table:
    """Read and encode a data set.

    Parameters
    ----------
    name : str
    folder : str, optional
        Default: ``../shared/data`` beside the project.
    encoder : {"paper", "raw", "dummies"}
        "paper": as the published code encodes (numbers scaled to whole steps of 0..10000, two
        values as one 0/1 column, other texts one-hot). "raw": numbers untouched, the rest as
        "paper". "dummies": the prototype's, every text column one-hot, nothing known about it.
    keep_gaps : bool
        Keep rows with missing values (JM1 has 5), which the published code drops.
    """
    import pandas as pd

    frame = pd.read_csv(find_file(name, folder), keep_default_na=False, na_values=[""])
    if not keep_gaps:
        frame = frame.dropna()
    y = frame.iloc[:, -1].astype("category").cat.codes.to_numpy(np.int64)
    frame = frame.iloc[:, :-1]
    if encoder == "dummies":
        texts = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
        frame = pd.get_dummies(frame, columns=texts)
        return Table(frame.to_numpy(np.float32), y, tuple(map(str, frame.columns)))
    return _encode(frame, y, rescale=encoder == "paper")


def _encode(frame: Any, y: Labels, *, rescale: bool) -> Table:
    """Numbers first, then 0/1 columns, then one-hot groups: the order of the published encoder."""
    import pandas as pd

    numeric: dict[str, Any] = {}
    binary: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for name in frame.columns:
        column = frame[name]
        values = sorted(column.dropna().unique())
        if len(values) < 2:
            continue
        if len(values) == 2:
            binary[name] = (column == values[1]).where(column.notna()).astype(float)
        elif pd.api.types.is_numeric_dtype(column):
            numeric[name] = _rescale(column.astype(float)) if rescale else column.astype(float)
        else:
            groups.append({f"{name}={v}": (column == v).astype(float) for v in values})
    columns = {**numeric, **binary}
    first = len(numeric)
    one_hot = []
    for group in groups:
        one_hot.append(tuple(range(len(columns), len(columns) + len(group))))
        columns.update(group)
    X = np.column_stack([np.asarray(c, dtype=np.float32) for c in columns.values()])
    binary_columns = tuple(range(first, first + len(binary)))
    return Table(X, y, tuple(map(str, columns)), binary_columns, tuple(one_hot))


def _rescale(x: Any) -> Any:
    """Whole steps of 0..10000 where two neighbouring *rows* differ by less than 1e-4.

    The published code tests the rows in file order, so nearly every unsorted column is rescaled.
    """
    if np.diff(x).min() >= 1e-4:
        return x
    return np.round((x - x.min()) / (x.max() - x.min()) * 1e4)


def split(table: Table, seed: int, *, selection: bool = False) -> Split:
    """Stratified split with the published seeds: 64/16/20, or 48/16/16/20 with a selection set."""
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(table.X, table.y, test_size=0.2, random_state=seed, stratify=table.y)
    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.2, random_state=seed + 1, stratify=y)
    X_sel = None
    if selection:
        X_fit, X_sel, y_fit, _ = train_test_split(X_fit, y_fit, test_size=0.25, random_state=seed + 2, stratify=y_fit)
    return Split(X_fit, y_fit, X_cal, y_cal, X_test, y_test, X_sel)
