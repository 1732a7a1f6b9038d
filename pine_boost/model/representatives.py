"""Find inputs in a state (a few numbers of the native type, simplest first) and describe states in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray
from pine_boost.model.rules import Comparison

if TYPE_CHECKING:
    from pine_boost.model.states import Axis, StateSpace


def reachable_states(space: StateSpace, axis: Axis) -> npt.NDArray[np.bool_]:
    """Return which states contain a value of the native type; most are shown by a value next to a threshold."""
    found = np.zeros(axis.n_states, dtype=bool)
    if axis.codes is None:
        witnesses = _not_missing(space, _witnesses(space, axis.edges))
        found[space.axis_states(axis, witnesses)] = True
    for state in np.flatnonzero(~found):
        found[state] = len(values_in(space, axis, int(state))) > 0
    return found


def _witnesses(space: StateSpace, edges: FloatArray) -> FloatArray:
    """Return finite inputs at and next to every threshold, vectorised."""
    largest = np.finfo(np.float32).max
    edges = edges[np.abs(edges) < largest]
    if space.comparison is Comparison.FLOAT64_LESS_EQUAL:
        return np.concatenate([edges, np.nextafter(edges, np.inf)])
    single = edges.astype(np.float32)
    beside = [np.nextafter(single, np.float32(side)) for side in (np.inf, -np.inf)]
    values: FloatArray = np.concatenate([single, *beside]).astype(np.float64)
    return values[np.isfinite(values)]


def value_of(space: StateSpace, axis: Axis, state: int) -> float:
    """Return the simplest number in a state; NaN for missing and for states without a value."""
    values = values_in(space, axis, state)
    return float(values[0]) if len(values) else float("nan")


def values_in(space: StateSpace, axis: Axis, state: int) -> FloatArray:
    """Return a few numbers in a state, simplest first; empty if it contains none."""
    if state == axis.missing_state and state >= axis.n_intervals:
        return np.array([np.nan])
    if axis.codes is not None:
        return _not_missing(space, _categories_in(axis, state))
    if state == axis.zero_state:
        return np.zeros(1)
    # The candidates at the edges are complete: a non-empty interval contains the value of the native
    # type next to its closed edge, and the one after that if the first counts as missing. The
    # simpler candidates before them are tried first.
    low = axis.edges[state - 1] if state > 0 else -np.inf
    high = axis.edges[state] if state < len(axis.edges) else np.inf
    # an edge may be the largest float, whose neighbour is infinite
    with np.errstate(over="ignore", under="ignore"):
        candidates = np.array([*_plain_values(low, high), *_edge_values(space, low, high)])
    # Infinity comes last, and is left out if the native predict rejects it.
    finite = np.isfinite(candidates)
    infinite = candidates[np.isinf(candidates)]
    if space.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        infinite = infinite[:0]
    candidates = np.concatenate([candidates[finite], infinite])
    return _not_missing(space, candidates[space.axis_states(axis, candidates) == state])


def _not_missing(space: StateSpace, values: FloatArray) -> FloatArray:
    """Remove the number that means missing; XGBoost compares both as float32."""
    with np.errstate(over="ignore"):
        kept: FloatArray = values[values.astype(np.float32) != np.float32(space.missing_value)]
    return kept


def _categories_in(axis: Axis, state: int) -> FloatArray:
    """Return the codes of a state; if no split names them, the first two."""
    assert axis.codes is not None
    assert axis.code_states is not None
    codes: FloatArray = axis.codes[axis.code_states == state].astype(np.float64)
    if state == axis.other_state and axis.n_known is None:
        # the smallest codes, so that a known category represents the state if there is one
        unnamed = np.setdiff1d(np.arange(len(axis.codes) + 2), axis.codes)[:2]
        codes = np.union1d(codes, unnamed.astype(np.float64))
    return codes


def _plain_values(low: float, high: float) -> list[float]:
    if np.isfinite(low) and np.isfinite(high):
        middle = low / 2 + high / 2
        step = 10.0 ** np.floor(np.log10(high - low)) if high - low > 1e-300 else 1.0
        return [float(np.round(middle)), float(np.round(middle / step) * step), middle]
    if np.isfinite(low):
        return [float(np.floor(low) + 1)]
    if np.isfinite(high):
        return [float(np.ceil(high) - 1)]
    return [0.0]


def _edge_values(space: StateSpace, low: float, high: float) -> list[float]:
    if space.comparison is Comparison.FLOAT64_LESS_EQUAL:
        return [high, np.nextafter(high, -np.inf), np.nextafter(low, np.inf), 0.0]
    with np.errstate(over="ignore"):
        low32, high32 = np.float32(low), np.float32(high)
    below, above = np.float32(-np.inf), np.float32(np.inf)
    return [float(value) for value in (high32, np.nextafter(high32, below), low32, np.nextafter(low32, above))]


def describe_state(space: StateSpace, axis: Axis, state: int) -> str:
    """Describe a state in words."""
    if state == axis.missing_state and state >= axis.n_intervals:
        return "missing"
    if axis.codes is not None:
        codes = [str(code) for code in _categories_in(axis, state).astype(int)]
        if state == axis.other_state:
            return "any other category"
        return "category " + ", ".join(codes[:6]) + (", ..." if len(codes) > 6 else "")
    if state == axis.zero_state:
        return "zero (counts as missing)"
    below, above = (">=", "<") if space.comparison is Comparison.FLOAT32_LESS else (">", "<=")
    parts = []
    if state > 0:
        parts.append(f"{below} {axis.edges[state - 1]:.9g}")
    if state < len(axis.edges):
        parts.append(f"{above} {axis.edges[state]:.9g}")
    return " and ".join(parts) or "any value"
