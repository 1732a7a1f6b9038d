"""Compile the membership test of a region to C: less than a microsecond per row, even for a single row.

The compiled function returns the same verdicts as ``Region.contains``. One small C file serves all regions and is
compiled on first use. Regions whose tables are not plain, and machines without a C compiler, give None.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray
from pine_boost.model.rules import Comparison
from pine_boost.region.fast.membership import Membership

# States are computed as in digitize.py: the state is the number of edges to the left of the value (closed comparison:
# at or to the left of it); NaN and zeros that count as missing have states of their own.
_SOURCE = r"""
#include <stdint.h>

typedef struct {
    int64_t feature, n_edges, missing_state, zero_state;
    const double *edges;
    const uint8_t *allowed;
} column_t;

typedef struct {
    int64_t first, second, width;
    const int64_t *cost;
} term_t;

void contains(const double *rows, int64_t n_rows, int64_t n_features,
              const column_t *columns, int64_t n_columns, const term_t *terms, int64_t n_terms,
              int64_t is_float32, int64_t is_closed, double zero, int64_t has_tau, int64_t tau,
              int64_t *states, uint8_t *inside)
{
    for (int64_t i = 0; i < n_rows; i++, rows += n_features) {
        int64_t total = 0;
        uint8_t permitted = 1;
        for (int64_t j = 0; j < n_columns; j++) {
            const column_t *column = &columns[j];
            double x = rows[column->feature];
            int64_t state;
            if (is_float32) x = (double)(float)x;
            if (x != x) {
                state = column->missing_state;
            } else if (column->zero_state >= 0 && x <= zero && x >= -zero) {
                state = column->zero_state;
            } else {
                int64_t low = 0, high = column->n_edges;
                while (low < high) {
                    int64_t middle = (low + high) / 2;
                    double edge = column->edges[middle];
                    if (is_closed ? x >= edge : x > edge) low = middle + 1; else high = middle;
                }
                state = low;
            }
            states[j] = state;
            if (column->allowed) permitted &= column->allowed[state];
        }
        for (int64_t k = 0; k < n_terms; k++) {
            const term_t *term = &terms[k];
            int64_t place = states[term->first];
            if (term->second >= 0) place = place * term->width + states[term->second];
            total += term->cost[place];
        }
        inside[i] = permitted && (!has_tau || total <= tau);
    }
}
"""


class _Column(ctypes.Structure):
    _fields_ = (
        ("feature", ctypes.c_int64),
        ("n_edges", ctypes.c_int64),
        ("missing_state", ctypes.c_int64),
        ("zero_state", ctypes.c_int64),
        ("edges", ctypes.c_void_p),
        ("allowed", ctypes.c_void_p),
    )


class _Term(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_int64),
        ("second", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("cost", ctypes.c_void_p),
    )


def compile_contains(compiled: Membership) -> Callable[[FloatArray], npt.NDArray[np.bool_]] | None:
    """Return a C membership test; None for tree scores, categorical features and constraints on pairs."""
    tables, score = compiled.tables, compiled.fast_score
    terms = () if score is None or tables.tau is None else score.terms
    if score is not None and (score.sums is not None or any(t.bins for t in score.terms)):
        return None
    if tables.forbidden or tables.at_least_one:
        return None
    if any(column.ordinary and column.axis.n_states > 1 for column in compiled.columns):
        return None
    library = _library()
    if library is None:
        return None
    used = sorted(
        {term.first for term in terms}
        | {term.second for term in terms if term.second >= 0}
        | {j for j, allowed in enumerate(tables.allowed) if not allowed.all()}
    )
    kept: list[npt.NDArray[Any]] = []  # the arrays that C points into
    columns = [_column(compiled, feature, kept) for feature in used]
    place = {feature: position for position, feature in enumerate(used)}
    plain = [_term(term, place, kept) for term in terms]
    return _bound(library, compiled, columns, plain, kept)


def _column(compiled: Membership, feature: int, kept: list[npt.NDArray[Any]]) -> _Column:
    digitizer = compiled.columns[feature]
    edges = np.ascontiguousarray(digitizer.edges, dtype=np.float64)
    allowed = np.ascontiguousarray(compiled.tables.allowed[feature], dtype=np.uint8)
    kept += [edges, allowed]
    # a feature with one state has no edges, and its missing values are that state too
    alone = digitizer.axis.n_states == 1
    return _Column(
        feature,
        0 if alone else len(edges),
        0 if alone else digitizer.axis.missing_state,
        -1 if alone else digitizer.axis.zero_state,
        edges.ctypes.data,
        allowed.ctypes.data,
    )


def _term(term: Any, place: dict[int, int], kept: list[npt.NDArray[Any]]) -> _Term:
    cost = np.ascontiguousarray(term.table, dtype=np.int64)
    kept.append(cost)
    second = -1 if term.second < 0 else place[term.second]
    return _Term(place[term.first], second, int(term.width), cost.ctypes.data)


def _bound(
    library: Any, compiled: Membership, columns: Sequence[_Column], terms: Sequence[_Term], kept: list[npt.NDArray[Any]]
) -> Callable[[FloatArray], npt.NDArray[np.bool_]]:
    space = compiled.columns[0].space
    column_array = (_Column * len(columns))(*columns)
    term_array = (_Term * len(terms))(*terms)
    is_float32 = space.comparison is not Comparison.FLOAT64_LESS_EQUAL
    is_closed = space.comparison is Comparison.FLOAT32_LESS
    zero = LIGHTGBM_ZERO if space.snaps_to_zero else 0.0
    tau = compiled.tables.tau

    def contains(matrix: FloatArray) -> npt.NDArray[np.bool_]:
        rows = np.ascontiguousarray(matrix, dtype=np.float64)
        inside = np.empty(len(rows), dtype=np.bool_)
        states = np.empty(max(len(columns), 1), dtype=np.int64)  # per call, so threads share nothing
        assert kept is not None
        library.contains(
            rows.ctypes.data,
            len(rows),
            rows.shape[1],
            column_array,
            len(columns),
            term_array,
            len(terms),
            is_float32,
            is_closed,
            zero,
            tau is not None,
            0 if tau is None else int(tau),
            states.ctypes.data,
            inside.ctypes.data,
        )
        return inside

    return contains


@lru_cache(maxsize=1)
def _library() -> Any:
    """Compile and load the C file; None without a C compiler."""
    with tempfile.TemporaryDirectory(prefix="pine-boost-") as folder:
        source, target = Path(folder) / "region.c", Path(folder) / "region.so"
        source.write_text(_SOURCE, encoding="utf-8")
        command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(target), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            library = ctypes.CDLL(str(target))  # stays mapped after the file is deleted
        except (OSError, subprocess.SubprocessError):
            return None
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    library.contains.restype = None
    library.contains.argtypes = [
        pointer,
        number,
        number,
        pointer,
        number,
        pointer,
        number,
        number,
        number,
        ctypes.c_double,
        number,
        number,
        pointer,
        pointer,
    ]
    return library
