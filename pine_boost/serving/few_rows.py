"""Test a few rows for membership in a region without numpy's overhead per call.

The verdicts are those of ``Region.contains``. A single row takes a few microseconds instead of hundreds. Tree scores
and categorical features use the ordinary path.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray
from pine_boost.model.rules import Comparison
from pine_boost.region.fast.digitize import Digitizer
from pine_boost.region.fast.membership import Membership, compile_membership
from pine_boost.region.region import Region
from pine_boost.serving.compiled_region import compile_contains

# From here on the vectorised numpy code is faster than a Python loop.
FEW_ROWS = 24
_FEW_IN_C = 1000  # the same limit for the C loop, which branches where numpy's columns do not
Contains = Callable[[FloatArray], npt.NDArray[np.bool_]]
_StateOf = Callable[[float], int]


def fast_membership(region: Region, *, in_c: bool = False) -> Contains:
    """Return ``region.contains`` for matrices of any size, ignoring the region's indifference.

    The matrix must come from `to_matrix`; it is not checked again. ``in_c`` compiles the test if
    the tables allow it and a compiler is installed.
    """
    compiled = compile_membership(region.space, region.tables, region.score_tables)
    if _is_everything(compiled):
        return lambda matrix: np.ones(len(matrix), dtype=bool)
    machine_code = compile_contains(compiled) if in_c else None
    if machine_code is not None:
        few = machine_code
        return lambda matrix: (few if len(matrix) <= _FEW_IN_C else compiled.contains)(matrix)
    one_row = _one_row(compiled)
    is_double = region.space.comparison is Comparison.FLOAT64_LESS_EQUAL

    def contains(matrix: FloatArray) -> npt.NDArray[np.bool_]:
        if one_row is None or len(matrix) > FEW_ROWS:
            return compiled.contains(matrix)
        if not is_double:
            with np.errstate(over="ignore"):
                matrix = matrix.astype(np.float32)
        return np.array([one_row(row) for row in matrix.tolist()], dtype=bool)

    return contains


def _is_everything(compiled: Membership) -> bool:
    tables = compiled.tables
    narrowed = tables.forbidden or tables.at_least_one or not all(a.all() for a in tables.allowed)
    return tables.tau is None and not narrowed


def _one_row(compiled: Membership) -> Callable[[list[float]], bool] | None:
    """Return a membership test for one row of Python floats; None if a table is not plain."""
    tables, score = compiled.tables, compiled.fast_score
    if score is not None and (score.sums is not None or any(t.bins for t in score.terms)):
        return None
    if any(column.ordinary and column.axis.n_states > 1 for column in compiled.columns):
        return None
    state_of = [_state_of(column) for column in compiled.columns]
    allowed = [(feature, states.tolist()) for feature, states in enumerate(tables.allowed) if not states.all()]
    forbidden = [(p.first, p.second, p.forbidden.tolist()) for p in tables.forbidden]
    clauses = [[(feature, literal.tolist()) for feature, literal in clause] for clause in tables.at_least_one]
    terms = [] if score is None or tables.tau is None else score.terms
    unary = [(t.first, t.table.tolist()) for t in terms if t.second < 0]
    pairs = [(t.first, t.second, int(t.width), t.table.tolist()) for t in terms if t.second >= 0]
    used = _used(allowed, forbidden, clauses, unary, pairs)
    tau = 0 if tables.tau is None else int(tables.tau)
    states = [0] * len(state_of)
    asked = [(feature, state_of[feature]) for feature in used]

    def contains(row: list[float]) -> bool:
        found = states.copy()
        for feature, state in asked:
            found[feature] = state(row[feature])
        if not all(states_of[found[feature]] for feature, states_of in allowed):
            return False
        if any(pair[found[first]][found[second]] for first, second, pair in forbidden):
            return False
        if not all(any(lit[found[feature]] for feature, lit in clause) for clause in clauses):
            return False
        total = 0
        for feature, cost in unary:
            total += cost[found[feature]]
        for first, second, width, cost in pairs:
            total += cost[found[first] * width + found[second]]
        return total <= tau

    return contains


def _used(allowed: Any, forbidden: Any, clauses: Any, unary: Any, pairs: Any) -> list[int]:
    used = {entry[0] for entry in [*allowed, *unary]}
    used |= {feature for entry in [*forbidden, *pairs] for feature in entry[:2]}
    used |= {feature for clause in clauses for feature, _ in clause}
    return sorted(used)


def _state_of(column: Digitizer) -> _StateOf:
    """Return a function that gives the state of one value, already cast to the native type."""
    axis, edges = column.axis, column.edges.tolist()
    if axis.n_states == 1:
        return lambda x: 0
    find = bisect_right if column.closed else bisect_left
    zero_state, missing_state = axis.zero_state, axis.missing_state
    zero = LIGHTGBM_ZERO if column.space.snaps_to_zero else 0.0

    def state(x: float) -> int:
        if x != x:
            return missing_state
        if zero_state >= 0 and -zero <= x <= zero:
            return zero_state
        return find(edges, x)

    return state
