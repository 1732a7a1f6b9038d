"""The state space: every feature has a short list of states, and no split distinguishes two values of the same state.

A state is an interval between two thresholds, a group of categories, zero-as-missing, or missing. The state of an input
is found with the library's own comparison, without any tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.exact import FLOAT32_MAX, LIGHTGBM_ZERO
from pine_boost.model.forest import BoolArray, FloatArray, Forest, Int32Array, IntArray
from pine_boost.model.reference import cast_value, category_codes
from pine_boost.model.rules import CategoryRule, Comparison, MissingRule, SplitKind

States = Int32Array  # rows of states


@dataclass(frozen=True, eq=False)
class Axis:
    """The states of one feature.

    Numeric: state ``s`` is the s-th interval between the sorted ``edges``; the special states
    follow. Categorical (``codes`` is not None): one state per group of categories.

    Attributes
    ----------
    edges : float64
        Distinct thresholds, ascending; empty for categorical axes.
    codes, code_states : int64 or None
        Sorted category codes named by some split, and their states.
    other_state : int
        State of every category that no split names (-1 if there is none).
    zero_state : int
        State of 0 if zero means missing (-1 if zero is compared like any number).
    missing_state : int
        State of NaN (-1 if NaN cannot occur).
    n_states : int
    reachable : bool (n_states,)
        False for an interval that contains no value of the native float type.
    n_known : int or None
        Number of known categories (only for `CategoryRule.KNOWN`).
    """

    edges: FloatArray
    n_states: int
    missing_state: int
    zero_state: int = -1
    codes: IntArray | None = None
    code_states: IntArray | None = None
    other_state: int = -1
    n_known: int | None = None
    reachable: BoolArray | None = None

    @property
    def n_intervals(self) -> int:
        """Number of states before the special ones (0 for a categorical axis)."""
        return 0 if self.codes is not None else len(self.edges) + 1


# A feature that no split uses has one state for all values; there may be millions of such features
_UNUSED = Axis(np.zeros(0), 1, missing_state=0, reachable=np.ones(1, dtype=bool))


@dataclass(frozen=True, eq=False)
class StateSpace:
    """The product of the axes, and the rules that give an input its states.

    ``missing_value`` is a number that the library reads as missing: no state contains it.
    """

    axes: tuple[Axis, ...]
    comparison: Comparison
    category_rule: CategoryRule
    snaps_to_zero: bool
    missing_value: float = float("nan")

    @property
    def n_features(self) -> int:
        """Number of features, including those that no split uses."""
        return len(self.axes)

    @property
    def n_states(self) -> IntArray:
        """Number of states of each feature."""
        return np.array([axis.n_states for axis in self.axes], dtype=np.int64)

    def states(self, X: FloatArray) -> States:
        """Return the state of every cell of a float64 matrix (categories as codes, NaN for missing)."""
        states = np.empty(X.shape, dtype=np.int32, order="F")
        for feature, axis in enumerate(self.axes):
            states[:, feature] = self.axis_states(axis, X[:, feature])
        return states

    def axis_states(self, axis: Axis, x: FloatArray) -> IntArray:
        """Return the state of every value of one feature."""
        if axis.codes is not None:
            return self._category_states(axis, x)
        if axis.n_states == 1:
            return np.zeros(len(x), dtype=np.int64)
        x = cast_value(self.comparison, np.asarray(x, dtype=np.float64))
        if self.snaps_to_zero:
            x = np.where(np.abs(x) <= LIGHTGBM_ZERO, 0.0, x)
        # x == edge goes right under "<" and left under "<="
        side = "right" if self.comparison is Comparison.FLOAT32_LESS else "left"
        states: IntArray = np.searchsorted(axis.edges, x, side=side)  # type: ignore[call-overload]
        if axis.zero_state >= 0:
            states[x == 0.0] = axis.zero_state
        is_nan = np.isnan(x)
        if is_nan.any():
            states[is_nan] = axis.missing_state
        return states

    def _category_states(self, axis: Axis, x: FloatArray) -> IntArray:
        assert axis.codes is not None
        assert axis.code_states is not None
        x = cast_value(self.comparison, np.asarray(x, dtype=np.float64))  # 5 - 1e-12 is code 5
        code = category_codes(self.category_rule, x, axis.n_known)
        states = np.full(len(code), axis.other_state, dtype=np.int64)
        if len(axis.codes):
            position = np.minimum(np.searchsorted(axis.codes, code), len(axis.codes) - 1)
            named = axis.codes[position] == code
            states[named] = axis.code_states[position[named]]
        states[np.isnan(code)] = axis.missing_state
        return states

    def representative(self, states: npt.NDArray[Any]) -> FloatArray:
        """Return a real input that the native library routes exactly like each row of states."""
        states = np.atleast_2d(states)
        X = np.empty(states.shape, dtype=np.float64)
        for feature, axis in enumerate(self.axes):
            used, position = np.unique(states[:, feature], return_inverse=True)
            X[:, feature] = np.array([value_of(self, axis, s) for s in used.tolist()])[position.ravel()]
        return X

    def describe(self, feature: int, state: int) -> str:
        """Describe a state in words, without the feature's name: ``>= 3 and < 7``, ``missing``."""
        axis = self.axes[feature]
        if state == axis.missing_state and state >= axis.n_intervals:
            return "missing"
        if axis.codes is not None:
            codes = [str(code) for code in _categories_in(axis, state).astype(int)]
            if state == axis.other_state:
                return "any other category"
            return "category " + ", ".join(codes[:6]) + (", ..." if len(codes) > 6 else "")
        if state == axis.zero_state:
            return "zero (counts as missing)"
        below, above = (">=", "<") if self.comparison is Comparison.FLOAT32_LESS else (">", "<=")
        parts = []
        if state > 0:
            parts.append(f"{below} {axis.edges[state - 1]:.9g}")
        if state < len(axis.edges):
            parts.append(f"{above} {axis.edges[state]:.9g}")
        return " and ".join(parts) or "any value"


def build_space(forest: Forest, extra_edges: Sequence[npt.ArrayLike | None] = ()) -> StateSpace:
    """Collect the states of every feature that the trees of ``forest`` can distinguish.

    Parameters
    ----------
    forest : Forest
    extra_edges : sequence, optional
        Further thresholds per feature in the forest's own comparison (for example of an isolation forest).
    """
    inner = forest.kind != SplitKind.LEAF
    order = np.argsort(np.where(inner, forest.feature, forest.n_features), kind="stable")
    bounds = np.searchsorted(forest.feature[order][: inner.sum()], np.arange(forest.n_features + 1))
    axes = []
    space = StateSpace((), forest.comparison, forest.category_rule, forest.snaps_to_zero, forest.missing_value)
    for feature in range(forest.n_features):
        nodes = order[bounds[feature] : bounds[feature + 1]]
        extra = extra_edges[feature] if feature < len(extra_edges) else None
        if len(nodes) == 0 and extra is None:
            axes.append(_UNUSED)
        else:
            axes.append(_build_axis(forest, space, feature, nodes, extra))
    return replace(space, axes=tuple(axes))


def _build_axis(forest: Forest, space: StateSpace, feature: int, nodes: IntArray, extra: Any) -> Axis:
    if np.any(forest.kind[nodes] == SplitKind.CATEGORICAL):
        return _build_category_axis(forest, space, feature, nodes)
    thresholds = forest.threshold[nodes]
    if extra is not None:
        thresholds = np.concatenate([thresholds, np.asarray(extra, dtype=np.float64)])
    edges = np.unique(thresholds + 0.0)  # -0.0 and 0.0 are the same edge
    n_states = len(edges) + 1
    rules = forest.missing[nodes]
    zero_state = missing_state = -1
    if np.any(rules == MissingRule.ZERO_IS_MISSING):
        zero_state, n_states = n_states, n_states + 1
    if np.all(rules == MissingRule.NAN_IS_ZERO) and len(nodes):
        zero = Axis(edges, n_states, missing_state=-1)
        missing_state = int(space.axis_states(zero, np.zeros(1))[0])
    elif forest.accepts_missing:
        missing_state, n_states = n_states, n_states + 1
    axis = Axis(edges, n_states, missing_state, zero_state)
    return replace(axis, reachable=reachable_states(space, axis))


def _build_category_axis(forest: Forest, space: StateSpace, feature: int, nodes: IntArray) -> Axis:
    if np.any(forest.kind[nodes] != SplitKind.CATEGORICAL):
        raise UnsupportedModelError(
            f"Feature {forest.name_of(feature)!r} is split both as a number and as a category; "
            "no training library makes such a model."
        )
    known = forest.feature_categories[feature] if forest.feature_categories else None
    closed = forest.category_rule is CategoryRule.KNOWN
    sets = [forest.categories_of(node) for node in nodes]
    codes = np.unique(np.concatenate([*sets, np.arange(len(known) if known and closed else 0)]))
    member = np.ascontiguousarray(forest.in_sets(nodes, codes).T)
    first, code_states = unique_rows(member)
    # A code that is in no set behaves like an unseen one; they share the state "other".
    other = np.flatnonzero(~member[first].any(axis=1))
    n_states = len(first)
    other_state = int(other[0]) if len(other) else -1
    if other_state < 0 and not closed:
        other_state, n_states = n_states, n_states + 1
    missing_state = -1
    if forest.accepts_missing or closed:
        missing_state, n_states = n_states, n_states + 1
    axis = Axis(
        edges=np.zeros(0),
        n_states=n_states,
        missing_state=missing_state,
        codes=codes.astype(np.int64),
        code_states=code_states,
        other_state=other_state,
        n_known=len(known) if known and closed else None,
    )
    return replace(axis, reachable=reachable_states(space, axis))


def unique_rows(rows: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
    """First places of distinct rows of bools or whole numbers from 0, in ascending order, and which each row is.

    np.unique(axis=0) compares records with a field per column, slowly, and makes Ctrl-C a TypeError; bytes from the
    highest on have the same order.
    """
    keys = rows.reshape(-1)
    if rows.shape[1] > 1:
        packed = np.packbits(rows, axis=1) if rows.dtype == bool else rows.astype(rows.dtype.newbyteorder(">"))
        keys = np.ascontiguousarray(packed).view(f"V{packed.itemsize * packed.shape[1]}").reshape(-1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse


def reachable_states(space: StateSpace, axis: Axis) -> BoolArray:
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
    edges = edges[np.abs(edges) < FLOAT32_MAX]
    values: FloatArray = np.concatenate([cast_value(space.comparison, edges), *neighbours(space.comparison, edges)])
    return values[np.isfinite(values)]


def neighbours(comparison: Comparison, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers next below and next above, in the type that is compared."""
    kind = np.float64 if comparison is Comparison.FLOAT64_LESS_EQUAL else np.float32
    with np.errstate(over="ignore", under="ignore"):  # the largest float has an infinite neighbour
        cast = values.astype(kind)
        below, above = (np.nextafter(cast, kind(side)).astype(np.float64) for side in (-np.inf, np.inf))
    return below, above


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
    ends = np.array([low, high])
    below, above = neighbours(space.comparison, ends)
    at = cast_value(space.comparison, ends)
    return [at[1], below[1], at[0], above[0], 0.0]
