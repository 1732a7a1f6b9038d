"""Measure sizes and speed of two models before and after; neither is modified.

Speed is batch throughput on one thread, in rows per second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.native.predict import load_native, original_bytes
from pine_boost.parsers.traits import traits_of
from pine_boost.result import model_file
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

_NATIVE_ROWS = 10_000
_TREELITE_ROWS = 2_000
REPEATS = 15


@dataclass(frozen=True)
class Size:
    """One size before and after."""

    name: str
    before: int
    after: int
    is_bytes: bool


@dataclass(frozen=True)
class Speed:
    """Batch throughput of one engine on one thread, in rows per second."""

    engine: str
    n_rows: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How many times as fast the smaller model is."""
        return self.after / self.before


def measure_sizes(original: Model, pruned: Model) -> tuple[Size, ...]:
    """Trees, leaves, bytes of the native file and of the tree tables in memory."""
    before, after = original.forest, pruned.forest
    return (
        Size("Trees", before.n_trees, _n_real_trees(after), False),
        Size("Leaves", before.n_leaves, after.n_leaves, False),
        Size("Model file", len(file_contents(original)), len(file_contents(pruned)), True),
        Size("Memory of the trees", table_bytes(before), table_bytes(after), True),
    )


def _n_real_trees(forest: Forest) -> int:
    """Trees that split; an exporter adds single leaves to fill a round or hold a constant."""
    return int(np.count_nonzero(np.diff(forest.tree_offset) > 1)) or forest.n_trees


def file_contents(model: Model) -> bytes:
    """The native file of a model, also of a live object."""
    native = original_bytes(model) if model.native is None else model.native
    return model_file(native, model.forest.library)[1]


def table_bytes(forest: Forest) -> int:
    """Bytes of our arrays of the trees; other engines pack them differently."""
    arrays = (getattr(forest, entry.name) for entry in fields(forest))
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit OpenMP to one thread, which is what is measured."""
    if find_spec("threadpoolctl") is None:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def measure_speeds(
    original: Model, pruned: Model, matrix: FloatArray, budget: Budget | None = None
) -> tuple[Speed, ...]:
    """Native and, if installed, Treelite throughput on these rows, repeated to fill a batch.

    Nothing more is repeated or begun when the time of ``budget`` is over.
    """
    budget = budget or Budget()
    if len(matrix) == 0 or find_spec(original.forest.library) is None:
        return ()
    batch = np.resize(matrix, (_NATIVE_ROWS, matrix.shape[1]))
    runs = [_native_run(model, batch) for model in (original, pruned)]
    speeds = [Speed(original.forest.library, len(batch), *_rates(runs, len(batch), budget))]
    if find_spec("treelite") is not None and not budget.is_over:
        batch = batch[:_TREELITE_ROWS]
        try:
            runs = [_treelite_run(model, batch) for model in (original, pruned)]
        except UnsupportedModelError:
            return tuple(speeds)
        speeds.append(Speed("Treelite (gtil)", len(batch), *_rates(runs, len(batch), budget)))
    return tuple(speeds)


def _rates(runs: list[Callable[[], Any]], n_rows: int, budget: Budget) -> list[float]:
    """Rows per second of each run; they take turns, so that a busy machine slows all of them."""
    seconds = [float("inf")] * len(runs)
    for repeat in range(REPEATS):
        if repeat and budget.is_over:
            break
        for index, run in enumerate(runs):
            started = time.perf_counter()
            run()
            seconds[index] = min(seconds[index], time.perf_counter() - started)
    return [n_rows / max(second, 1e-9) for second in seconds]


def _native_run(model: Model, batch: FloatArray) -> Callable[[], Any]:
    traits = traits_of(model.forest.library)
    schema = schema_of(model.forest)
    return traits.prepared(model, load_native(model), batch, lambda: as_table(batch, schema))


def _treelite_run(model: Model, batch: FloatArray) -> Callable[[], Any]:
    import treelite

    from pine_boost.exporters.treelite import to_treelite

    built = to_treelite(model, codes=any(model.forest.feature_categories))
    values = np.ascontiguousarray(batch, dtype=np.float32)
    if model.forest.arithmetic is not np.float32:
        values = values.astype(np.float64)
    return lambda: treelite.gtil.predict(built, values, nthread=1, pred_margin=True)
