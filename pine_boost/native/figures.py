"""What people pay for a model, beside what replaces it: trees, leaves, file size, work, and the time of a call.

Nothing is claimed on these figures. Speeds are measured when they are asked for; both sides take turns.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np

from pine_boost.budget import StopReason
from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, Model
from pine_boost.model.synthetic_rows import WORK_ROWS, synthetic_rows, work_of
from pine_boost.native.child_process import try_in_child
from pine_boost.native.predict import load_native, model_file, original_bytes, predict_classes, predict_margins
from pine_boost.options import require_whole
from pine_boost.tables.native import as_table, row_count, take_rows
from pine_boost.tables.schema import schema_of

SIZES = (1, 100, 100_000)  # rows of a call
_QUICK = 0.5  # seconds for the speeds of a summary
_QUICK_LEAVES = 20_000  # loading a larger file takes longer
_HARDLY, _SLOWER = 1.1, 0.9  # times as fast
REPORT_SECONDS = 5.0  # seconds for those of a report
_MOST_ROUNDS, _OF_SIZE = 2000, 0.3  # seconds for each size, where more than a few calls fit into it
HOW = (
    "Work is 2 per tree plus the splits that a row passes. A time is the least of several calls of predict, both sides "
    "in turn."
)

Predict = Callable[[Any], Any]
_LOGGER = logging.getLogger("pine_boost")


@dataclass(frozen=True)
class Figures:
    """Size and work of a model; ``work`` is 2 per tree plus the splits that a typical row passes."""

    trees: int
    leaves: int
    bytes: int
    work: float


@dataclass(frozen=True)
class Speed:
    """Seconds of one call with so many rows, before and after."""

    n_rows: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How many times as fast it is now."""
        return self.before / max(self.after, 1e-9)

    @property
    def words(self) -> str:
        """How many times as fast, for how many rows."""
        return f"{times_in_words(self.ratio)}x for {_rows_in_words(self.n_rows)}"


@dataclass(frozen=True, eq=False)
class SideBySide:
    """A model and what replaces it.

    Attributes
    ----------
    before, after : Figures
    rows : str
        What the work was measured on.
    calls : callable
        Returns both ``predict``; libraries are loaded only then.
    sample : table
        Rows that both take.
    is_quick : bool
        Whether a summary may load the models.
    takes_arrays : bool
        Whether both take a frame of numbers as an array; the first steps of a Pipeline may need its columns.
    original : str
        What the speed is compared with.
    is_native : bool
        Whether the replacement is a native model and no scorer.
    """

    before: Figures
    after: Figures
    rows: str
    calls: Callable[[], tuple[Predict, Predict]]
    sample: Any
    is_quick: bool = True
    takes_arrays: bool = False
    original: str = "the original"
    is_native: bool = False

    def unless_interrupted(self, stopped: str | None) -> SideBySide:
        """The same, but after Ctrl-C a summary waits for no measurement."""
        return replace(self, is_quick=self.is_quick and stopped != StopReason.INTERRUPTED)

    def speeds(self, X: Any = None, sizes: Sequence[int] = SIZES, seconds: float = inf) -> tuple[Speed, ...]:
        """Speeds at every size that fits into the time; none where a library is not installed.

        With a limited time they are told beside a finished result, which no failure here may lose: it is only logged.
        """
        try:
            return time_calls(self.calls(), self.sample if X is None else X, sizes, seconds, self.takes_arrays)
        except ImportError:
            return ()
        except Exception as error:  # a user's own steps may raise anything
            if seconds == inf:
                raise
            _LOGGER.warning("the speed was not measured: %s: %s", type(error).__name__, error)
            return ()

    def speedup(self, X: Any, sizes: Sequence[int]) -> dict[int, float]:
        """Ratio of the times at every size, on the sample or on rows of the user's own."""
        if isinstance(X, (list, tuple, range)) and len(X) and np.ndim(X[0]) == 0:
            raise InvalidInputError(f"X={X!r} is not a table of rows; numbers of rows per call are given as sizes=.")
        whole = np.atleast_1d(np.asarray(sizes, dtype=object)).tolist()
        for size in whole:
            require_whole(size, "sizes", 1)
        return {speed.n_rows: speed.ratio for speed in self.speeds(X, whole)}

    @cached_property
    def quick(self) -> tuple[Speed, ...]:
        """Speeds for a summary, at the sizes that take no time to speak of."""
        return self.speeds(seconds=_QUICK) if self.is_quick else ()

    def by_name(self) -> dict[str, Any]:
        """Every figure of both: trees_before, trees_after, leaves_before, ..."""
        both = (("before", self.before), ("after", self.after))
        return {f"{name}_{when}": figure for when, figures in both for name, figure in asdict(figures).items()}

    def summary(self) -> list[str]:
        """File size, work and speed, a line each."""
        before, after = self.before, self.after
        lines = [
            f"File: {before.bytes / 1000:.0f} -> {after.bytes / 1000:.0f} kB.",
            f"Work per row: {before.work:.0f} -> {after.work:.0f} (2 per tree plus the splits passed, mean over "
            f"{self.rows}).",
        ]
        if self.quick:
            told = ", ".join(speed.words for speed in self.quick)
            rest = "" if len(self.quick) == len(SIZES) else " (larger batches would take too long here)"
            is_no_faster = self.is_native and all(speed.ratio <= _HARDLY for speed in self.quick)
            is_slower = any(speed.ratio < _SLOWER for speed in self.quick)
            advice = " Below 1x it is slower." if is_slower else ""
            advice += " This is hardly faster natively; for speed, use accelerate_booster." if is_no_faster else ""
            lines.append(f"Speed-up over {self.original}, measured on this machine: {told}{rest}.{advice}")
        elif not self.is_quick:
            lines.append("The speed was not measured; in Python, the result's speedup() measures it.")
        return lines

    def table(self, seconds: float = REPORT_SECONDS) -> list[tuple[str, str, str]]:
        """All figures for a report: what, before, after."""
        before, after = self.before, self.after
        rows = [
            ("Trees", f"{before.trees:,}", f"{after.trees:,}"),
            ("Leaves", f"{before.leaves:,}", f"{after.leaves:,}"),
            ("File (kB)", f"{before.bytes / 1000:,.1f}", f"{after.bytes / 1000:,.1f}"),
            (f"Work per row ({self.rows})", f"{before.work:,.1f}", f"{after.work:,.1f}"),
        ]
        for speed in self.speeds(seconds=seconds):
            what = f"Milliseconds for {_rows_in_words(speed.n_rows)}"
            before_ms, after_ms = (_plain(1000 * seconds, 3) for seconds in (speed.before, speed.after))
            rows.append((what, before_ms, f"{after_ms} ({times_in_words(speed.ratio)} ×)"))
        return rows


def times_in_words(ratio: float) -> str:
    """How many times as fast: two digits below 100, a whole number above; more would not be measured again."""
    return _plain(ratio, 2)


def _plain(number: float, digits: int) -> str:
    """A number with so many significant digits and all its whole ones, never as a power of ten."""
    if number >= 10**digits - 0.5:
        return f"{number:,.0f}".replace(",", " ")
    return np.format_float_positional(number, precision=digits, fractional=False, trim="-")


def _rows_in_words(n_rows: int) -> str:
    return "1 row" if n_rows == 1 else f"{n_rows:,} rows".replace(",", " ")


def side_by_side(
    original: Model, smaller: Model, work: tuple[float, float] | None = None, rows: str = "synthetic rows"
) -> SideBySide:
    """Two native models; ``work`` is given where it was measured on better rows than synthetic ones."""
    sample = synthetic_rows(original.forest, WORK_ROWS)
    before, after = (figures_of(model, sample) for model in (original, smaller))
    if work is not None:
        before, after = replace(before, work=work[0]), replace(after, work=work[1])

    calls = partial(_native_calls, original, smaller)  # can be pickled with a result
    table = as_table(sample, schema_of(original.forest))
    return SideBySide(before, after, rows, calls, table, is_quick(original), takes_arrays=True, is_native=True)


def _native_calls(original: Model, smaller: Model) -> tuple[Predict, Predict]:
    try_in_child(original, smaller)
    return native_predict(original), native_predict(smaller)


def is_quick(model: Model) -> bool:
    """Whether a model is predicted natively without waiting for it."""
    return find_spec(model.forest.library) is not None and (
        model.native is not None or model.forest.n_leaves <= _QUICK_LEAVES
    )


def figures_of(model: Model, rows: FloatArray) -> Figures:
    """Size of a model, and its work on these rows (see `tables.to_matrix`)."""
    forest = model.forest
    return Figures(forest.n_trees, forest.n_leaves, file_size(model), work_of(forest, rows))


def file_contents(model: Model) -> bytes:
    """The native file of a model, also of a live object."""
    native = original_bytes(model) if model.native is None else model.native
    return model_file(native, model.forest.library)[1]


def file_size(model: Model) -> int:
    """Bytes of the file that a model was read from, else of its native file."""
    return len(file_contents(model)) if model.n_bytes is None else model.n_bytes


def native_predict(parsed: Model, outer: Any = None) -> Predict:
    """The native ``predict``: that of ``outer`` or of the live object, else that of the loaded file."""
    outer = parsed.native if outer is None or isinstance(outer, Model) else outer
    if hasattr(outer, "predict") and not type(outer).__module__.startswith("xgboost.core"):
        return outer.predict  # type: ignore[no-any-return]

    def predict(X: Any) -> Any:
        loaded = replace(parsed, native=load_native(parsed))
        return predict_classes(loaded, X) if parsed.forest.decides else predict_margins(loaded, X)[0]

    return predict


def time_calls(
    calls: tuple[Predict, Predict],
    rows: Any,
    sizes: Sequence[int] = SIZES,
    seconds: float = inf,
    takes_arrays: bool = False,
) -> tuple[Speed, ...]:
    """Least seconds of both calls, on rows that are repeated as often as needed.

    Sizes ascend; those that would not fit into ``seconds`` are left out. A first call of both is not measured: it loads
    libraries and builds what the later calls use again.
    """
    is_numeric = not hasattr(rows, "iloc") or all(getattr(dtype, "kind", "O") in "fiu" for dtype in rows.dtypes)
    if takes_arrays and is_numeric and not hasattr(rows, "tocsr"):
        rows = np.asarray(rows)  # what both read fastest
    began: float | None = None
    found: list[Speed] = []
    for size in sizes:
        left = seconds if began is None else seconds - (time.perf_counter() - began)
        if found and _expected(found, size) > left:
            break
        table = take_rows(rows, np.arange(size) % row_count(rows))
        with warnings.catch_warnings():  # of scikit-learn, about an array in place of a frame
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            if began is None:
                for call in calls:
                    call(table)
                began = time.perf_counter()
            found.append(Speed(int(size), *_best_times(calls, table, left)))
    return tuple(found)


def _expected(found: Sequence[Speed], size: int) -> float:
    """Seconds of both calls at the next size, judging by the last two."""
    last, first = found[-1], found[-2] if len(found) > 1 else Speed(0, 0.0, 0.0)
    per_row = (last.before + last.after - first.before - first.after) / (last.n_rows - first.n_rows)
    return last.before + last.after + max(per_row, 0.0) * (size - last.n_rows)


def _best_times(calls: Sequence[Predict], table: Any, left: float) -> list[float]:
    """Least time of each call; they take turns, so that a busy machine slows all of them.

    Two rounds at least, but one where it alone takes all the time that is left.
    """
    best, began, rounds, spent = [inf] * len(calls), time.perf_counter(), 0, 0.0
    while rounds < 1 or (rounds < 2 and spent < left) or (spent < min(_OF_SIZE, left / 4) and rounds < _MOST_ROUNDS):
        for place, call in enumerate(calls):
            started = time.perf_counter()
            call(table)
            best[place] = min(best[place], time.perf_counter() - started)
        rounds, spent = rounds + 1, time.perf_counter() - began
    return best
