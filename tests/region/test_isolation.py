"""The isolation forest of default size (30 trees, 256 samples): numpy and the solver agree."""

from dataclasses import replace

import numpy as np
import pytest

from pine_boost.region.domain import compile_domain
from pine_boost.region.membership import compile_membership
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states
from tests.support.encoding import all_solutions, encode
from tests.support.forests import MANNER_NAMES, MANNERS, random_forest, random_rows
from tests.support.scores import fit_isolation_forest


def _encode(forest, space, region):
    encoding = encode(forest, space, region)
    assert encoding.feasible
    return encoding


def _only(encoding, space, rows):
    """Restrict a model to some rows of states: one Boolean each, which fixes all features."""
    choice = [encoding.model.new_bool_var("") for _ in rows]
    encoding.model.add_exactly_one(choice)
    for literal, row in zip(choice, rows, strict=True):
        for feature, state in enumerate(row):
            here = np.arange(space.axes[feature].n_states) == state
            encoding.model.add_implication(literal, encoding.features[feature].in_set(here))


def _as_set(rows):
    return {tuple(row) for row in rows.tolist()}


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_every_state_of_a_small_space(manner):
    """Two columns of few values: the whole space is enumerated on both sides."""
    rng = np.random.default_rng(4)
    forest = random_forest(rng, 3, 2, 2, manner=manner, categorical=(1,), n_categories=3)
    X = np.stack([rng.integers(0, 3, 600), rng.integers(0, 3, 600)], axis=1).astype(float)
    X[rng.random(600) < 0.1, 0] = np.nan
    score, space = fit_isolation_forest(X, forest)
    assert score.trees.trees.n_trees == 30
    tables = compile_domain(None, space, schema_of(forest))
    everything = all_states(space)
    everything = everything[tables.permits(everything)]
    scores = score.score(everything)
    levels = np.unique(scores)
    # between two levels nothing changes; on a level the states of this very score come in
    for tau in (int(levels[len(levels) // 3]), int(levels[-2]), int(levels[-1])):
        region = replace(tables, score=score, tau=tau)
        inside = region.contains(everything)
        assert np.array_equal(inside, scores <= tau)
        assert np.any(scores == tau)
        assert all_solutions(_encode(forest, space, region)) == _as_set(everything[inside])


@pytest.mark.parametrize(
    "manner",
    [
        pytest.param(manner, id=name, marks=[] if name == "xgboost" else [pytest.mark.slow])
        for manner, name in zip(MANNERS, MANNER_NAMES, strict=True)
    ],
)
def test_states_on_both_sides_of_tau(manner):
    """A space far too large to enumerate: several hundred states, many of them next to tau."""
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 6, 3, 4, manner=manner, categorical=(1,))
    X = random_rows(rng, forest, 800)
    score, space = fit_isolation_forest(X, forest)
    assert score.trees.trees.n_trees == 30
    assert score.trees.trees.n_leaves > 30 * 30  # default size, not a toy
    states = space.states(X)
    tau = int(np.sort(score.score(states))[int(0.8 * len(X))])
    tables = compile_domain(None, space, schema_of(forest))
    region = replace(tables, score=score, tau=tau)
    rows = _probes(rng, space, region, states, tau)
    scores = score.score(rows)
    inside = region.contains(rows)
    assert np.array_equal(inside, scores <= tau)
    assert np.count_nonzero(scores == tau) >= 1
    assert np.count_nonzero(np.abs(scores - tau) <= 500) >= 20  # within 0.05 of a step of a path
    assert min(np.count_nonzero(inside), np.count_nonzero(~inside)) >= 60
    encoding = _encode(forest, space, region)
    _only(encoding, space, rows)
    assert all_solutions(encoding) == _as_set(rows[inside])
    # the scorer's compiled form reads the same rows from real inputs
    compiled = compile_membership(space, region, score)
    real = space.representative(rows)
    assert np.array_equal(compiled.contains(real), inside)
    assert np.array_equal(compiled.score(real), scores)


def _probes(rng, space, region, states, tau):
    """Rows of the data, changes of one feature, and arbitrary rows; the nearest to tau first."""
    changed = np.repeat(states, 20, axis=0)
    feature = rng.integers(space.n_features, size=len(changed))
    changed[np.arange(len(changed)), feature] = rng.integers(space.n_states[feature])
    anything = rng.integers(space.n_states, size=(400, space.n_features))
    rows = np.unique(np.concatenate([states, changed, anything]).astype(np.int32), axis=0)
    rows = rows[region.permits(rows)]
    nearest = np.argsort(np.abs(region.score.score(rows) - tau), kind="stable")[:120]
    others = rng.choice(len(rows), 200, replace=False)
    return rows[np.unique(np.concatenate([nearest, others]))]


@pytest.mark.parametrize("offset", [-1, 0])
def test_a_state_exactly_at_tau_one_by_one(offset):
    """Each row alone, tau its own score or one unit less: feasible, then infeasible."""
    rng = np.random.default_rng(6)
    forest = random_forest(rng, 6, 3, 2, manner=MANNERS[0])
    X = random_rows(rng, forest, 400)
    score, space = fit_isolation_forest(X, forest)
    tables = compile_domain(None, space, schema_of(forest))
    states = space.states(X)
    scores = score.score(states)
    for row in np.argsort(scores)[[5, 395]]:
        region = replace(tables, score=score, tau=int(scores[row]) + offset)
        encoding = _encode(forest, space, region)
        _only(encoding, space, states[row : row + 1])
        expected = _as_set(states[row : row + 1]) if offset == 0 else set()
        assert all_solutions(encoding) == expected
        assert bool(region.contains(states[row : row + 1])[0]) == (offset == 0)
