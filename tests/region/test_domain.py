"""Domain knowledge over states: exactly the states that hold a permitted value, by brute force."""

from itertools import product

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.reference import cast_value
from pine_boost.model.rules import Comparison, MissingRule
from pine_boost.model.states import build_space
from pine_boost.region.domain import Condition, Domain, compile_domain
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states
from tests.support.forests import LIGHTGBM, MANNER_NAMES, MANNERS, XGBOOST, random_forest
from tests.support.grids import feature_edges


def _values(rng, forest, feature):
    """Values of every kind, NaN left out, as the model sees them."""
    values = np.concatenate([feature_edges(forest, feature), np.arange(-12, 13), rng.normal(size=4000) * 4])
    values = cast_value(forest.comparison, values[np.isfinite(values)])
    if forest.library == "lightgbm":
        values = np.where(np.abs(values) <= LIGHTGBM_ZERO, 0.0, values)
    return np.unique(values)


def _compiled(forest, **knowledge):
    space = build_space(forest)
    return space, compile_domain(Domain(**knowledge), space, schema_of(forest))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("whole", [False, True])
def test_a_state_is_allowed_iff_it_holds_a_permitted_value(manner, seed, whole):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 8, 3, 2, manner=manner, n_thresholds=10)
    low, high = np.sort(rng.integers(-3, 4, size=2)).astype(float)
    space, tables = _compiled(forest, lower={0: low}, upper={0: high}, integer=[0] if whole else [], never_missing=[0])
    axis = space.axes[0]
    values = _values(rng, forest, 0)
    permitted = (values >= low) & (values <= high)
    if whole:
        permitted &= values == np.floor(values)
    expected = np.zeros(axis.n_states, dtype=bool)
    expected[space.axis_states(axis, values[permitted])] = True
    # never excluded although it holds a permitted value: this one breaks a proof
    assert not np.any(expected & ~tables.allowed[0])
    if axis.zero_state < 0 or whole:  # beside zero-as-missing one state too many is accepted
        assert np.array_equal(tables.allowed[0], expected)


def test_missing_is_allowed_unless_excluded():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 8, 3, 2)
    space, tables = _compiled(forest, lower={0: 0.0}, never_missing=[1])
    assert tables.allowed[0][space.axes[0].missing_state]
    assert not tables.allowed[1][space.axes[1].missing_state]
    _, everywhere = _compiled(forest, never_missing=True)
    assert not everywhere.allowed[0][space.axes[0].missing_state]


def test_missing_that_reads_as_zero_keeps_its_interval():
    rng = np.random.default_rng(1)
    forest = random_forest(rng, 8, 3, 1, manner=LIGHTGBM, missing_rules=[MissingRule.NAN_IS_ZERO], n_thresholds=8)
    space, tables = _compiled(forest, lower={0: 100.0})
    zero = space.axes[0].missing_state
    assert zero < space.axes[0].n_intervals
    assert tables.allowed[0][zero]
    _, present = _compiled(forest, lower={0: 100.0}, never_missing=True)
    assert not present.allowed[0][zero]


def test_unreachable_states_are_never_allowed():
    rng = np.random.default_rng(2)
    forest = random_forest(rng, 3, 1, 1, comparison=Comparison.FLOAT32_VALUE_LESS_EQUAL)
    low = float(np.float32(0.3))
    space = build_space(forest, [np.array([low + 1e-10, low + 2e-10])])
    tables = compile_domain(None, space, schema_of(forest))
    assert not space.axes[0].reachable.all()
    assert np.array_equal(tables.allowed[0], space.axes[0].reachable)


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["one_hot", "ordinal"])
def test_groups_permit_exactly_what_their_values_reach(manner, seed, kind):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 10, 3, 3, manner=manner)
    space, tables = _compiled(forest, **{kind: [(0, 1, 2)], "never_missing": True})
    codes = [
        code
        for code in product([0.0, 1.0], repeat=3)
        if (sum(code) == 1 if kind == "one_hot" else list(code) == sorted(code, reverse=True))
    ]
    reached = {tuple(row) for row in space.states(np.array(codes)).tolist()}
    everything = all_states(space)
    permitted = {tuple(row) for row in everything[tables.permits(everything)].tolist()}
    assert reached <= permitted
    separated = all(len(set(space.states(np.array([[0.0] * 3, [1.0] * 3]))[:, j].tolist())) == 2 for j in range(3))
    if separated:
        assert permitted == reached


def test_a_missing_member_counts_as_off():
    rng = np.random.default_rng(7)
    forest = random_forest(rng, 30, 3, 2)
    space, tables = _compiled(forest, one_hot=[(0, 1)])
    rows = np.array([[1.0, np.nan], [np.nan, 1.0], [np.nan, np.nan], [1.0, 0.0]])
    assert tables.permits(space.states(rows)).tolist() == [True, True, False, True]


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_forbidden_pairs_never_exclude_a_permitted_input(manner, seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 10, 3, 2, manner=manner, n_thresholds=8)
    space, tables = _compiled(forest, forbidden=[(Condition(0, lower=0.0, upper=2.0), Condition(1, upper=-0.5))])
    X = np.stack([rng.permutation(_values(rng, forest, j))[:2000] for j in (0, 1)], axis=1)
    X = np.vstack([X, [[np.nan, -1.0], [1.0, np.nan], [0.0, -0.5]]])
    forbidden = (X[:, 0] >= 0) & (X[:, 0] <= 2) & (X[:, 1] <= -0.5)
    excluded = ~tables.permits(space.states(X))
    assert not np.any(excluded & ~forbidden)


def test_forbidden_pairs_use_whole_numbers():
    # the only threshold lies between 17 and 18; "at least 18" is exactly its right side
    forest = _stump_pair(17.5)
    pair = (Condition(0, lower=18), Condition(1, lower=1))
    rows = np.array([[18.0, 1.0], [17.0, 1.0], [18.0, 0.0]])
    for whole, expected in (([0, 1], [False, True, True]), ([], [True, True, True])):
        space, tables = _compiled(forest, forbidden=[pair], integer=whole, never_missing=True)
        assert tables.permits(space.states(rows)).tolist() == expected


def test_forbidden_categories():
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 30, 3, 2, manner=XGBOOST, categorical=(0,), n_thresholds=2)
    lowest = float(build_space(forest).axes[1].edges[0])
    pair = (Condition(0, categories=[2]), Condition(1, lower=lowest))
    space, tables = _compiled(forest, forbidden=[pair])
    states = space.states(np.array([[2.0, 1e9], [3.0, 1e9], [2.0, -1e9], [np.nan, 1e9]]))
    alone = np.sum(space.axes[0].code_states == states[0, 0]) == 1
    assert alone
    assert tables.permits(states).tolist() == [False, True, True, True]
    with pytest.raises(InvalidInputError, match="give categories"):
        _compiled(forest, forbidden=[(Condition(0, lower=1), Condition(1))])


@pytest.mark.parametrize(
    ("knowledge", "message"),
    [
        ({"lower": {0: 0.2}, "upper": {0: 0.8}, "integer": [0], "never_missing": True}, "no value"),
        ({"ordinal": [(0, 0)]}, "at least two different"),
        ({"forbidden": [(Condition(0), Condition(0))]}, "twice"),
        ({"forbidden": [(0, 1)]}, "two Conditions"),
        ({"forbidden": [(Condition(0, 2, 1), Condition(1))]}, "wrong order"),
    ],
)
def test_contradictions_are_refused(knowledge, message):
    forest = _stump_pair(0.5)
    with pytest.raises(InvalidInputError, match=message):
        _compiled(forest, **knowledge)


def _stump_pair(threshold):
    """Two features, each split once: at the threshold and at one half."""
    from dataclasses import replace

    rng = np.random.default_rng(0)
    forest = random_forest(rng, 2, 1, 2)
    feature = np.array([0, -1, -1, 1, -1, -1], dtype=np.int32)
    return replace(
        forest, feature=feature, threshold=np.array([threshold, 0, 0, 0.5, 0, 0]), missing=np.zeros(6, dtype=np.uint8)
    )
