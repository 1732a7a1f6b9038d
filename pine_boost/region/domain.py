"""Domain knowledge: which inputs cannot occur, given by the user by feature and compiled to tables over states.

The tables err towards more inputs: a state is excluded only if no value in it is permitted, so a proof over the
remaining states covers every permitted input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.files import DOMAIN_LIMIT, read_limited
from pine_boost.json_fields import parse, reading, require
from pine_boost.model.forest import BoolArray, FloatArray
from pine_boost.model.reference import cast_value
from pine_boost.model.rules import Comparison
from pine_boost.model.states import Axis, StateSpace, neighbours
from pine_boost.options import is_real, is_whole
from pine_boost.region.score_tables import ForbiddenPair, RegionTables
from pine_boost.tables.schema import InputSchema

Feature = str | int


@dataclass(frozen=True)
class Condition:
    """A number between two inclusive bounds, or one of some categories; a missing value never meets it.

    Categories are the values that the model stores, or codes if it stores none.
    """

    feature: Feature
    lower: float = -math.inf
    upper: float = math.inf
    categories: Sequence[Any] | None = None


@dataclass(frozen=True)
class Domain:
    """What is known about every input that can occur. Every part is optional.

    Numbers are those the model sees: XGBoost and scikit-learn's trees round to float32, LightGBM reads values
    within 1e-35 of zero as zero.

    Attributes
    ----------
    one_hot : sequence of groups of features
        Members are 0 or 1 and exactly one of a group is 1. A missing member counts as 0 (the absent
        entry of a sparse matrix) unless ``never_missing`` names it.
    ordinal : sequence of groups of features
        Thermometer codes: members are 0 or 1, and a member is 1 only if all members before it are.
    lower, upper : mapping of feature to number
        Inclusive bounds of the present values.
    integer : sequence of features
        Present values are whole numbers.
    never_missing : True or sequence of features
    forbidden : sequence of pairs of `Condition`
        The two conditions of a pair never hold together.

    Examples
    --------
    >>> from pine_boost.region.domain import Condition, Domain
    >>> adults = Domain(
    ...     lower={"age": 18}, integer=["age"], never_missing=True,
    ...     forbidden=[(Condition("age", upper=20), Condition("grandchildren", lower=1))],
    ... )
    """

    one_hot: Sequence[Sequence[Feature]] = ()
    ordinal: Sequence[Sequence[Feature]] = ()
    lower: Mapping[Feature, float] = field(default_factory=dict)
    upper: Mapping[Feature, float] = field(default_factory=dict)
    integer: Sequence[Feature] = ()
    never_missing: bool | Sequence[Feature] = ()
    forbidden: Sequence[tuple[Condition, Condition]] = ()


def compile_domain(domain: Domain | None, space: StateSpace, schema: InputSchema) -> RegionTables:
    """Tables over states for a domain, without score and tau.

    States that contain no value of the native float type are never allowed, with or without a domain.

    Raises
    ------
    InvalidInputError
        A feature is unknown, bounds are in the wrong order, or a feature is left without any value.
    """
    domain = _checked_kinds(domain)
    present, missing_ok = _present_and_missing(domain, space, schema)
    allowed = []
    for feature, axis in enumerate(space.axes):
        states = present[feature].copy()
        if axis.missing_state >= 0:
            # if the model reads NaN as zero, NaN shares the state of an interval
            shares = axis.missing_state < axis.n_intervals
            ok = bool(missing_ok[feature])
            states[axis.missing_state] = (states[axis.missing_state] and shares) or ok
        if axis.reachable is not None:
            states &= axis.reachable
        if not states.any():
            raise InvalidInputError(
                f"The domain leaves no value for feature {schema.name_of(feature)!r}; widen its bounds."
            )
        allowed.append(states)
    forbidden, clauses = _groups(domain, space, schema)
    whole = {schema.index_of(feature) for feature in domain.integer}
    for pair in domain.forbidden:
        forbidden.append(_forbidden_pair(pair, space, schema, whole))
    return RegionTables(tuple(allowed), tuple(forbidden), tuple(clauses))


def _checked_kinds(domain: Domain | None) -> Domain:
    """Check the types of all parts; ``integer="age"`` would otherwise mean a, g and e."""
    if domain is None:
        return Domain()
    if not isinstance(domain, Domain):
        example = "Domain(lower={'age': 18})"
        raise InvalidInputError(f"domain must be a Domain, got {type(domain).__name__}; for example {example}.")
    for name in ("lower", "upper"):
        if not isinstance(getattr(domain, name), Mapping):
            raise InvalidInputError(f"Domain.{name} must map features to numbers, like {{'age': 18}}.")
    lists = {name: getattr(domain, name) for name in ("one_hot", "ordinal", "integer", "forbidden")}
    if not isinstance(domain.never_missing, bool):
        lists["never_missing"] = domain.never_missing
    for name, given in lists.items():
        grouped = name in ("one_hot", "ordinal")
        if not _is_list(given) or (grouped and not all(_is_list(group) for group in given)):
            wanted = "a list of groups of features" if grouped else "a list"
            raise InvalidInputError(f"Domain.{name} must be {wanted}, got {given!r}.")
    return domain


def _is_list(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__iter__")


def _present_and_missing(domain: Domain, space: StateSpace, schema: InputSchema) -> tuple[list[BoolArray], BoolArray]:
    """Per feature the states with a permitted value, and whether NaN may occur."""
    lower = np.full(space.n_features, -np.inf)
    upper = np.full(space.n_features, np.inf)
    for bounds, given, word in ((lower, domain.lower, "lower"), (upper, domain.upper, "upper")):
        for feature, bound in given.items():
            bounds[schema.index_of(feature)] = _bound(bound, word, feature)
    binary = {schema.index_of(j) for group in (*domain.one_hot, *domain.ordinal) for j in group}
    whole = {schema.index_of(feature) for feature in domain.integer} | binary
    for feature in binary:
        lower[feature], upper[feature] = max(lower[feature], 0.0), min(upper[feature], 1.0)
    missing_ok = np.ones(space.n_features, dtype=bool)
    if domain.never_missing is True:
        missing_ok[:] = False
    elif domain.never_missing is not False:
        missing_ok[[schema.index_of(feature) for feature in domain.never_missing]] = False
    present = []
    for feature, axis in enumerate(space.axes):
        low, high = lower[feature], upper[feature]
        if not low <= high:
            found = f"Feature {schema.name_of(feature)!r} is bounded by {low} and {high}"
            raise InvalidInputError(f"{found}; the lower bound must not exceed the upper one.")
        free = low == -np.inf and high == np.inf and feature not in whole
        if axis.codes is not None and not free:
            raise InvalidInputError(
                f"Feature {schema.name_of(feature)!r} is categorical; bounds, integer, one_hot and "
                "ordinal are for numbers."
            )
        if free:
            own = axis.missing_state if axis.missing_state >= axis.n_intervals else -1  # a state of its own
            present.append(np.arange(axis.n_states) != own)
        else:
            present.append(_states_between(space, axis, low, high, feature in whole))
    return present, missing_ok


def _bound(value: Any, word: str, feature: Feature) -> float:
    if not is_real(value):
        raise InvalidInputError(f"The {word} bound of {feature!r} must be a number, got {value!r}.")
    try:
        return float(value)
    except OverflowError as error:
        raise InvalidInputError(f"The {word} bound of {feature!r} is larger than any float; leave it out.") from error


def _states_between(space: StateSpace, axis: Axis, lower: float, upper: float, whole: bool) -> BoolArray:
    """States that contain a value (if ``whole``, an integer) between two inclusive bounds."""
    states = np.zeros(axis.n_states, dtype=bool)
    if whole:
        lower, upper = float(np.ceil(lower)), float(np.floor(upper))
        if lower > upper:
            return states
    if axis.zero_state >= 0:
        states[axis.zero_state] = lower <= 0 <= upper
    if whole:
        states[space.axis_states(axis, _whole_candidates(space.comparison, axis, lower, upper))] = True
    else:
        # the state is monotone in the value, so the states of the bounds limit the others
        plain = replace(axis, zero_state=-1, n_states=axis.n_intervals, missing_state=-1)
        first, last = space.axis_states(plain, np.array([lower, upper]))
        states[first : last + 1] = True
    return states


def _whole_candidates(comparison: Comparison, axis: Axis, lower: float, upper: float) -> FloatArray:
    """Integers, at least one in every state that contains one between the bounds.

    The smallest integer of a state is the lower bound or the first integer past the state's left edge. That one
    is next to the edge while floats resolve 1; beyond, all floats are integers and it is the edge or its float
    neighbour. If the upper bound comes first, it lies in the state itself.
    """
    edges = axis.edges[np.isfinite(axis.edges)]
    near = [np.floor(edges) + step for step in (-1, 0, 1, 2)]
    near += [cast_value(comparison, edges), *neighbours(comparison, edges), np.array([lower, upper, 0.0])]
    values = np.concatenate(near)
    whole = np.isfinite(values) & (values == np.floor(values))
    return np.asarray(values[whole & (values >= lower) & (values <= upper)])


def _groups(
    domain: Domain, space: StateSpace, schema: InputSchema
) -> tuple[list[ForbiddenPair], list[tuple[tuple[int, BoolArray], ...]]]:
    forbidden, clauses = [], []
    for kind, groups in (("one_hot", domain.one_hot), ("ordinal", domain.ordinal)):
        for group in groups:
            members = _members(group, schema, kind)
            on = {j: _states_of_value(space, j, 1.0) for j in members}
            off = {j: _may_be_off(space, j) for j in members}
            if kind == "one_hot":
                clauses.append(tuple(on.items()))
            for first, second in combinations(members, 2):
                surely = on[first] & ~off[first] if kind == "one_hot" else off[first] & ~on[first]
                forbidden.append(ForbiddenPair(first, second, np.outer(surely, on[second] & ~off[second])))
    # a column without splits has one state, which is both on and off, and constrains nothing
    forbidden = [pair for pair in forbidden if pair.forbidden.any()]
    return forbidden, [c for c in clauses if not any(literal.all() for _, literal in c)]


def _members(group: Sequence[Feature], schema: InputSchema, kind: str) -> list[int]:
    members = [schema.index_of(feature) for feature in group]
    if len(members) < 2 or len(set(members)) < len(members):
        raise InvalidInputError(f"The {kind} group {list(group)!r} needs at least two different features.")
    return members


def _states_of_value(space: StateSpace, feature: int, value: float) -> BoolArray:
    if value == space.missing_value:
        value = np.nan
    states = np.zeros(space.axes[feature].n_states, dtype=bool)
    states[space.axis_states(space.axes[feature], np.array([value]))] = True
    return states


def _may_be_off(space: StateSpace, feature: int) -> BoolArray:
    off = _states_of_value(space, feature, 0.0)
    if space.axes[feature].missing_state >= 0:
        off[space.axes[feature].missing_state] = True
    return off


def _forbidden_pair(
    pair: tuple[Condition, Condition], space: StateSpace, schema: InputSchema, whole: set[int]
) -> ForbiddenPair:
    if len(pair) != 2 or not all(isinstance(condition, Condition) for condition in pair):
        raise InvalidInputError(f"A forbidden pair must be two Conditions, got {pair!r}.")
    first, second = (schema.index_of(condition.feature) for condition in pair)
    if first == second:
        raise InvalidInputError(f"A forbidden pair names {schema.name_of(first)!r} twice; use bounds for one feature.")
    is_met = [_surely_met(condition, space, schema, whole) for condition in pair]
    return ForbiddenPair(first, second, np.outer(is_met[0], is_met[1]))


def _surely_met(condition: Condition, space: StateSpace, schema: InputSchema, whole: set[int]) -> BoolArray:
    """States all of whose values meet the condition; only these may be forbidden."""
    feature = schema.index_of(condition.feature)
    axis = space.axes[feature]
    if (axis.codes is not None) != (condition.categories is not None):
        raise InvalidInputError(
            f"{condition} does not fit feature {schema.name_of(feature)!r}: give categories for a "
            "feature that the model splits by category, bounds for a number."
        )
    if condition.categories is not None:
        return _only_these(axis, _category_codes(condition, schema, feature))
    lower, upper = (_bound(getattr(condition, word), word, condition.feature) for word in ("lower", "upper"))
    if not lower <= upper:
        raise InvalidInputError(f"{condition} has its bounds in the wrong order.")
    is_whole, fails = feature in whole, np.zeros(axis.n_states, dtype=bool)
    if lower > -np.inf:
        below = np.ceil(lower) - 1 if is_whole else _one_below(space, lower)
        fails |= _states_between(space, axis, -np.inf, below, is_whole)
    if upper < np.inf:
        above = np.floor(upper) + 1 if is_whole else -_one_below(space, -upper)
        fails |= _states_between(space, axis, above, np.inf, is_whole)
    if axis.missing_state >= 0:
        fails[axis.missing_state] = True
    return ~fails


def _category_codes(condition: Condition, schema: InputSchema, feature: int) -> list[int]:
    known = schema.categories_of(feature)
    if not _is_list(condition.categories):
        raise InvalidInputError(
            f"The categories of {schema.name_of(feature)!r} must be a list, got {condition.categories!r}."
        )
    assert condition.categories is not None
    if known is None:
        odd = [code for code in condition.categories if not is_whole(code)]
        if odd:
            raise InvalidInputError(
                f"The model stores no categories of {schema.name_of(feature)!r}; give integer codes, not {odd!r}."
            )
        return [int(code) for code in condition.categories]
    for category in condition.categories:
        if category not in known:
            raise InvalidInputError(
                f"{schema.name_of(feature)!r} has no category {category!r}; the model knows {list(known)[:8]!r}."
            )
    return [known.index(category) for category in condition.categories]


def _only_these(axis: Axis, codes: list[int]) -> BoolArray:
    """States of a categorical axis that contain only the given codes."""
    assert axis.codes is not None
    assert axis.code_states is not None
    is_only_these = np.ones(axis.n_states, dtype=bool)
    is_only_these[axis.code_states[~np.isin(axis.codes, codes)]] = False
    is_only_these[[state for state in (axis.other_state, axis.missing_state) if state >= 0]] = False
    return is_only_these


def _one_below(space: StateSpace, bound: float) -> float:
    """The largest value below a bound that the native comparison distinguishes from it."""
    return float(neighbours(space.comparison, np.array([bound]))[0][0])


def read_domain(path: str) -> Domain:
    """A Domain from JSON with the same field names; conditions are objects.

    ``{"lower": {"age": 18}, "integer": ["age"], "never_missing": true,
    "forbidden": [[{"feature": "age", "upper": 20}, {"feature": "grandchildren", "lower": 1}]]}``
    """
    known = ", ".join(sorted(Domain.__dataclass_fields__))
    contents = read_limited(path, DOMAIN_LIMIT, "domain file", InvalidInputError)
    with reading("domain file", f"A domain is an object with {known}", InvalidInputError):
        document = dict(parse(contents))
        odd = sorted(set(document) - set(Domain.__dataclass_fields__))
        require(not odd, f"{path} says {odd!r}")
    try:
        document["forbidden"] = [
            tuple(Condition(**condition) for condition in pair) for pair in document.get("forbidden", ())
        ]
    except TypeError as error:
        raise InvalidInputError(
            f"{path}: forbidden is a list of pairs of objects with feature, lower, upper or categories ({error})."
        ) from error
    return Domain(**document)
