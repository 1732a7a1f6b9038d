"""The Pruner's cuts, bounds and supports against enumeration of all supports."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pine_boost.search.pruner import Pruner, minimal_cuts
from pine_boost.search.rows import RowPool
from tests.support.bruteforce import (
    CLEAR,
    NOTHING,
    Problem,
    all_rows,
    game_rows,
    game_value,
    small_problem,
)
from tests.support.forests import MANNERS, XGBOOST


def _winning(problem: Problem) -> list[frozenset[int]]:
    """Every winning support of at least one column; the game must be clear."""
    rows, free, strict = game_rows(problem.game, all_rows(problem))
    winning = []
    for size in range(1, problem.game.n_units + 1):
        for support in combinations(range(problem.game.n_units), size):
            value = game_value(rows[:, support], free, strict)
            assert not NOTHING < value < CLEAR
            if value > CLEAR:
                winning.append(frozenset(support))
    return winning


def _flags(support: frozenset[int], n_columns: int) -> np.ndarray:
    flags = np.zeros(n_columns, dtype=bool)
    flags[sorted(support)] = True
    return flags


@pytest.mark.parametrize("seed", range(8))
def test_cuts_supports_and_bounds(seed: int) -> None:
    n_outputs = 3 if seed % 4 == 3 else 1
    problem = small_problem(
        seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=6 * n_outputs, score=None
    )
    n_columns = problem.game.n_units
    winning = _winning(problem)
    smallest = min(len(support) for support in winning)
    pool = RowPool(problem.game)
    pool.add(all_rows(problem))
    pruner = Pruner(pool)
    pruner.find_essential(np.ones(n_columns, dtype=bool))
    essential = frozenset.intersection(*winning)
    assert {cut for cut in pruner.cuts if len(cut) == 1} == {frozenset([c]) for c in essential}
    for order in (None, 1, 2):
        weights = pruner.eliminate(order)
        assert weights is not None
        support = frozenset(np.flatnonzero(weights.weights).tolist())
        assert support in winning
        for column in support:  # minimal: nothing can be left out
            assert support - {column} not in winning
    # the exact loop on fixed rows: hitting sets and cuts in turns
    for round_number in range(200):
        proposal = pruner.hitting_set(n_columns, 10.0, 10.0)
        assert isinstance(proposal, np.ndarray)
        bound = pruner.lower_bound(10.0, 10.0)
        assert bound <= smallest
        proposal = pruner.hitting_set(bound, 10.0, 10.0)
        assert isinstance(proposal, np.ndarray)
        if pruner.solve(proposal) is not None:
            break
        pruner.strengthen(proposal, round_number)
    assert np.count_nonzero(proposal) == smallest
    if smallest > 1:
        assert pruner.hitting_set(smallest - 1, 10.0, 10.0) is None
    for cut in pruner.cuts:
        for support in winning:
            assert support & cut, "a cut excludes a winning support"


def test_a_shake_ends_in_another_minimal_set_and_leaves_no_cuts() -> None:
    n_new = 0
    for seed in (7, 12, 13):  # games with several minimal sets
        problem = small_problem(seed, MANNERS[seed % 4], n_trees=8, score=None)
        winning = set(_winning(problem))
        pool = RowPool(problem.game)
        pool.add(all_rows(problem))
        pruner = Pruner(pool)
        weights = pruner.eliminate()
        assert weights is not None
        start = weights.weights > 0
        known = list(pruner.cuts)
        for shake in range(8):
            shaken = pruner.shake(start, shake)
            assert shaken is not None
            support = frozenset(np.flatnonzero(shaken).tolist())
            assert support in winning
            assert not any(support - {column} in winning for column in support)
            n_new += bool((shaken != start).any())
        assert pruner.cuts == known
    assert n_new > 4


def test_a_shake_of_a_losing_set_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pine_boost.search.pruner._JOINING", 1)
    problem = small_problem(1, XGBOOST, score=None)
    winning = set(_winning(problem))
    pool = RowPool(problem.game)
    pool.add(all_rows(problem))
    smallest = min(len(support) for support in winning)
    assert smallest > 2  # one that joins is not enough for a single column
    assert Pruner(pool).shake(_flags(frozenset([0]), problem.game.n_units), 0) is None


def test_repair_ends_in_a_winning_support() -> None:
    problem = small_problem(1, XGBOOST, score=None)
    winning = set(_winning(problem))
    pool = RowPool(problem.game)
    pool.add(all_rows(problem))
    pruner = Pruner(pool)
    support = np.zeros(problem.game.n_units, dtype=bool)
    for _ in range(problem.game.n_units + 1):
        if frozenset(np.flatnonzero(support).tolist()) in winning:
            break
        repaired = pruner.repair(support)
        assert repaired is not None
        assert np.count_nonzero(repaired & ~support) == 1
        assert not np.any(support & ~repaired)
        support = repaired
    assert frozenset(np.flatnonzero(support).tolist()) in winning


@pytest.mark.parametrize("seed", range(3))
def test_repair_adds_as_many_columns_as_asked(seed: int) -> None:
    """Those of a cut where the support is excluded, any where it is not; None when all are kept."""
    problem = small_problem(seed, XGBOOST, score=None, n_trees=8, leaf_grid=None)
    pool = RowPool(problem.game)
    pool.add(problem.fit_states[:6])
    pruner = Pruner(pool)
    n_columns = problem.game.n_units
    excluded = winning = 0
    for size in range(n_columns):
        support = np.arange(n_columns) < size
        for n_more in (1, 2, n_columns):
            wins = pruner.solve(support) is not None
            repaired = pruner.repair(support, n_more)
            assert repaired is not None
            assert not np.any(support & ~repaired)
            new = set(np.flatnonzero(repaired & ~support).tolist())
            if wins:
                winning += 1
                assert len(new) == min(n_more, n_columns - size)
            elif size:
                excluded += 1
                kept = set(np.flatnonzero(support).tolist())
                assert 1 <= len(new) <= n_more
                assert any(new <= cut for cut in pruner.cuts if not cut & kept)
    assert pruner.repair(np.ones(n_columns, dtype=bool)) is None
    assert winning > 2
    assert excluded > 2


def test_minimal_cuts() -> None:
    cuts = [frozenset(c) for c in ([1, 2, 3], [2, 3], [4], [4, 1], [0, 5], [2, 3])]
    assert set(minimal_cuts(cuts)) == {frozenset(c) for c in ([2, 3], [4], [0, 5])}


def test_an_excluded_set_is_left_out_alone() -> None:
    """Neither its subsets nor its supersets, only the set itself."""
    problem = small_problem(0, XGBOOST, score=None)
    pruner = Pruner(RowPool(problem.game))
    pruner.n_columns = 4
    pruner.cuts = [frozenset([0, 1]), frozenset([2, 3])]
    every = [
        frozenset(columns)
        for size in range(5)
        for columns in combinations(range(4), size)
        if all(set(columns) & cut for cut in pruner.cuts)
    ]
    assert len(every) == 9
    excluded: list[np.ndarray] = []
    found = []
    while (support := pruner.hitting_set(4, 10.0, 10.0, excluded)) is not None:
        assert isinstance(support, np.ndarray)
        found.append(frozenset(np.flatnonzero(support).tolist()))
        excluded.append(support)
    assert sorted(found, key=sorted) == sorted(every, key=sorted)
    # all sets of two columns are gone, and still the cuts alone allow two: no proof of three
    pairs = [_flags(support, 4) for support in every if len(support) == 2]
    assert pruner.hitting_set(2, 10.0, 10.0, pairs) is None
    assert pruner.hitting_set(2, 10.0, 10.0) is not None
    assert pruner.lower_bound(10.0, 10.0) == 2


def test_hitting_set_without_budget_is_no_proof() -> None:
    problem = small_problem(0, XGBOOST, score=None)
    pruner = Pruner(RowPool(problem.game))
    rng = np.random.default_rng(0)
    pruner.n_columns = 40
    pruner.cuts = [frozenset(rng.choice(40, 4, replace=False).tolist()) for _ in range(300)]
    found = pruner.hitting_set(17, 10.0, 1e-7)
    assert found is not None  # the budget ran out, or a set was found; never "there is none"
    if isinstance(found, np.ndarray):
        assert all(found[sorted(cut)].any() for cut in pruner.cuts)
    assert pruner.lower_bound(10.0, 1e-7) >= 1


def test_rows_are_those_of_decided_points_once() -> None:
    problem = small_problem(4, XGBOOST, score="chow-liu", leaf_grid=None)
    pool = RowPool(problem.game)
    states = problem.everything
    n_decided = int(
        problem.game.decided(problem.game.original_margins_int(problem.game.trees.leaves(states)))
        .any(axis=1)
        .sum()
    )
    assert pool.add(states) == n_decided
    assert pool.add(states) == 0
    assert len(pool) == n_decided
    assert np.array_equal(pool.inside, problem.game.region.contains(pool.states))
    assert len(pool.program.rows) == pool.decided.sum()
    # every row as the reference computes it: the same set of rows, columns scaled to 1
    rows, _, _ = game_rows(problem.game, states)
    own = pool.program.rows * pool.column_scale
    own /= np.abs(own).max(axis=0)
    assert np.array_equal(
        np.unique(own.round(9) + 0.0, axis=0), np.unique(rows.round(9) + 0.0, axis=0)
    )


def test_one_class_needs_one_tree() -> None:
    """Where a constant would do, one tree is kept: native libraries do not predict without."""
    problem = small_problem(17, XGBOOST, score=None, leaf_grid=None)
    game = problem.game
    decided = game.decided(game.original_margins_int(game.trees.leaves(problem.everything)))
    pool = RowPool(game)
    pool.add(problem.everything[decided[:, 0]])
    pruner = Pruner(pool)
    for weights in (pruner.lightest(), pruner.eliminate()):
        assert weights is not None
        assert np.count_nonzero(weights.weights) == 1
        sides = pool.program.rows @ weights.weights + pool.program.free_rows @ weights.free
        assert sides.min() > 0
    assert pruner.solve(np.zeros(game.n_units, dtype=bool)) is None
    assert pruner.lower_bound(1.0, 1.0) == 1
