"""Iterate over the rows of a table in chunks: in memory, from Parquet, or on the workers of a Dask cluster.

A table larger than memory gives exactly the counts that the same rows give in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from pine_boost.budget import Budget
from pine_boost.errors import InvalidInputError, needing
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.states import States, StateSpace
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import InputSchema, find_columns

CHUNK_ROWS = 2**14  # a thousand deep trees take half a second for these
Found = TypeVar("Found")


class KnownStates(Protocol):
    """Rows of which only the states are needed."""

    n_rows: int

    def map_states(self, space: StateSpace, function: Callable[[States], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of states."""


@runtime_checkable
class Rows(KnownStates, Protocol):
    """Rows as the trees see them. Every method makes one pass over them, chunk by chunk."""

    def map_values(self, function: Callable[[FloatArray], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of the matrix."""

    def map_states(self, space: StateSpace, function: Callable[[States], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of states."""
        return self.map_values(lambda matrix: function(space.states(matrix)))

    def take(self, rows: IntArray) -> FloatArray:
        """Return the matrix of some rows, given in ascending order."""

    def take_states(self, space: StateSpace, rows: IntArray) -> States:
        """Return the states of some rows, given in ascending order."""
        return space.states(self.take(rows))

    def chunks(self) -> Iterator[FloatArray]:
        """Iterate over the matrix, one chunk at a time."""
        return self.map_values(np.asarray)

    def kept(self, space: StateSpace) -> KnownStates:
        """Return the same rows for later use: without a deadline, and without the matrix in memory."""
        again = copy(self)  # read again when needed
        again._budget = Budget()  # type: ignore[attr-defined]  # all rows that are read again have one
        return again


class StateRows:
    """States in memory, without the matrix they come from."""

    def __init__(self, space: StateSpace, states: States) -> None:
        self.n_rows = len(states)
        self._space, self._states = space, states

    def map_states(self, space: StateSpace, function: Callable[[States], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of states; ``space`` must be the one they were computed in."""
        assert space is self._space
        for start in range(0, self.n_rows, CHUNK_ROWS):
            yield function(self._states[start : start + CHUNK_ROWS])


class MemoryRows(Rows):
    """A matrix in memory; its states are computed once."""

    def __init__(self, matrix: FloatArray, budget: Budget | None = None) -> None:
        self.matrix = matrix
        self.n_rows = len(matrix)
        self._budget = budget or Budget()
        self._states: tuple[StateSpace, States] | None = None

    def map_values(self, function: Callable[[FloatArray], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of the matrix."""
        return (function(self.matrix[part]) for part in self._parts())

    def map_states(self, space: StateSpace, function: Callable[[States], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of states."""
        states = self.states(space)
        return (function(states[part]) for part in self._parts())

    def take(self, rows: IntArray) -> FloatArray:
        """Return the matrix of some rows, given in ascending order."""
        return self.matrix if len(rows) == self.n_rows else self.matrix[rows]

    def take_states(self, space: StateSpace, rows: IntArray) -> States:
        """Return the states of some rows, given in ascending order."""
        return self.states(space)[rows]  # computed once

    def states(self, space: StateSpace) -> States:
        """Return the states of all rows."""
        if self._states is None or self._states[0] is not space:
            states = np.empty(self.matrix.shape, dtype=np.int32, order="F")
            for part in self._parts():
                states[part] = space.states(self.matrix[part])
            self._states = (space, states)
        return self._states[1]

    def _parts(self) -> Iterator[slice]:
        for start in range(0, self.n_rows, CHUNK_ROWS):
            self._budget.check()
            yield slice(start, start + CHUNK_ROWS)

    def kept(self, space: StateSpace) -> KnownStates:
        """Return the states of the same rows, without the matrix."""
        return StateRows(space, self.states(space))


class BatchRows(Rows):
    """A pyarrow Dataset; every map is one pass over its files."""

    def __init__(self, dataset: Any, schema: InputSchema, name: str, budget: Budget) -> None:
        self.dataset = dataset
        self.columns = _columns_of(dataset.schema.names, schema, name)
        self.n_rows = int(dataset.count_rows())
        self._schema, self._name, self._budget = schema, name, budget

    def map_values(self, function: Callable[[FloatArray], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of the matrix."""
        import pyarrow
        from pyarrow import dataset

        # a scanner that reads far ahead, or holds whole row groups, would fill the memory
        options: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0}
        if isinstance(getattr(self.dataset, "format", None), dataset.ParquetFileFormat):
            options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
                use_buffered_stream=True, buffer_size=2**18, pre_buffer=False
            )
        batches = self.dataset.to_batches(columns=self.columns, batch_size=CHUNK_ROWS, use_threads=False, **options)
        try:
            for batch in batches:
                self._budget.check()
                if batch.num_rows:
                    yield function(to_matrix(batch, self._schema, self._name))
        except (pyarrow.ArrowException, OSError) as error:
            raise InvalidInputError(f"{self._name} cannot be read: {error}.") from error

    def take(self, rows: IntArray) -> FloatArray:
        """Return the matrix of some rows, given in ascending order."""
        parts, start = [], 0
        for chunk in self.map_values(np.asarray):
            inside = np.searchsorted(rows, [start, start + len(chunk)])
            parts.append(chunk[rows[slice(*inside)] - start])
            start += len(chunk)
        return np.concatenate(parts)


class DaskRows(Rows):
    """A Dask DataFrame; counts are computed on the workers, partition by partition."""

    def __init__(self, frame: Any, schema: InputSchema, name: str, budget: Budget) -> None:
        columns = _columns_of([str(column) for column in frame.columns], schema, name)
        self.frame = frame[columns]
        self._schema, self._name, self._budget = schema, name, budget
        self._lengths = list(self.frame.map_partitions(len).compute())
        self.n_rows = int(sum(self._lengths))

    def map_values(self, function: Callable[[FloatArray], Found]) -> Iterator[Found]:
        """Apply ``function`` to every chunk of the matrix."""
        import dask

        self._budget.check()
        task = dask.delayed(_of_partition)
        tasks = [task(part, self._schema, self._name, function) for part in self.frame.to_delayed()]
        for found in dask.compute(*tasks):
            yield from found

    def take(self, rows: IntArray) -> FloatArray:
        """Return the matrix of some rows, given in ascending order; the workers select them."""
        import dask

        starts = np.concatenate([[0], np.cumsum(self._lengths)])
        bounds = np.searchsorted(rows, starts)
        task = dask.delayed(_some_rows)
        tasks = [
            task(part, rows[low:high] - start, self._schema, self._name)
            for part, start, low, high in zip(self.frame.to_delayed(), starts, bounds, bounds[1:], strict=False)
        ]
        return np.concatenate(dask.compute(*tasks))

    def chunks(self) -> Iterator[FloatArray]:
        """Iterate over the matrix, one partition at a time."""
        import dask

        task = dask.delayed(_of_partition)
        for part in self.frame.to_delayed():
            self._budget.check()
            (found,) = dask.compute(task(part, self._schema, self._name, np.asarray))
            yield from found


AnyRows = MemoryRows | BatchRows | DaskRows


def _some_rows(part: Any, rows: IntArray, schema: InputSchema, name: str) -> FloatArray:
    return to_matrix(part.iloc[rows], schema, name)


def _of_partition(part: Any, schema: InputSchema, name: str, function: Callable[[FloatArray], Found]) -> list[Found]:
    """Apply ``function`` to the chunks of a partition, on a worker; an empty partition gives nothing."""
    starts = range(0, len(part), CHUNK_ROWS)
    chunks = (part.iloc[start : start + CHUNK_ROWS] for start in starts)
    return [function(to_matrix(chunk, schema, name)) for chunk in chunks]


def open_rows(X: Any, schema: InputSchema, name: str = "X", budget: Budget | None = None) -> AnyRows:
    """Open the rows of a table of any kind.

    A path to a Parquet file or to a folder of them, a pyarrow Dataset and a Dask DataFrame are
    read in chunks, with columns selected by the model's names; any other table is converted as a whole.
    """
    budget = budget or Budget()
    if is_dask(X):
        return DaskRows(X, schema, name, budget)
    if is_large(X):
        return BatchRows(_dataset_of(X, name), schema, name, budget)
    return MemoryRows(to_matrix(X, schema, name), budget)


def is_dask(X: Any) -> bool:
    """Return whether a table is a Dask DataFrame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "to_delayed")


def is_large(X: Any) -> bool:
    """Return whether a table is read in chunks."""
    if isinstance(X, (str, os.PathLike)):
        path = Path(X)
        return path.suffix.lower() == ".parquet" or path.is_dir()
    return is_dask(X) or (type(X).__module__ == "pyarrow._dataset" and hasattr(X, "to_batches"))


def large_head(X: Any, n_rows: int, names: Sequence[str] | None) -> Any:
    """Return the first rows of a table that is read in chunks, as a table in memory."""
    if is_dask(X):
        return (X[list(names)] if names else X).head(n_rows, npartitions=-1)
    dataset = _dataset_of(X, "X")
    return dataset.head(n_rows, columns=list(names) if names else None)


def _dataset_of(X: Any, name: str) -> Any:
    if not isinstance(X, (str, os.PathLike)):
        return X
    with needing(f"Reading {name} from Parquet needs pyarrow", "tables"):
        import pyarrow
        from pyarrow import dataset
    try:
        return dataset.dataset(os.fspath(X), format="parquet")
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{name}: no readable Parquet file at {os.fspath(X)!r}.") from error


def _columns_of(found: list[str], schema: InputSchema, name: str) -> list[str]:
    """Return the model's columns in its order; extra columns are dropped only if the model has names."""
    if schema.feature_names is None:
        if len(found) != schema.n_features:
            raise InvalidInputError(
                f"{name} has {len(found)} columns, the model has {schema.n_features} features and "
                "no names to choose them by. Leave only the features, in the model's order."
            )
        return found
    return [found[position] for position in find_columns(found, schema, name)]
