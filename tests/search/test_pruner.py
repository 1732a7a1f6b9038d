"""The Pruner's cuts, bounds and supports against enumeration of all supports."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pine_boost.budget import Budget, Effort
from pine_boost.proof.bound import fewest_units, hitting_set, minimal_cuts
from pine_boost.search.pruner import Pruner
from tests.support.bruteforce import CLEAR, NOTHING, Small, all_rows, game_rows, game_value, small_problem
from tests.support.forests import MANNERS, XGBOOST

FOREVER = Budget(effort=Effort(master_effort=10.0))


def _winning(small: Small) -> list[frozenset[int]]:
    """Every winning support of at least one column; the problem must be clear."""
    rows, free, strict = game_rows(small, all_rows(small))
    winning = []
    for size in range(1, small.n_units + 1):
        for support in combinations(range(small.n_units), size):
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
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=6 * n_outputs, score=None)
    n_columns = small.n_units
    winning = _winning(small)
    smallest = min(len(support) for support in winning)
    pool = small.rows()
    pool.add(all_rows(small))
    pruner = Pruner(pool, FOREVER)
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
        proposal = hitting_set(list(pruner.cuts), n_columns, n_columns, FOREVER)
        assert isinstance(proposal, np.ndarray)
        bound = fewest_units(list(pruner.cuts), n_columns, FOREVER)
        assert bound <= smallest
        proposal = hitting_set(list(pruner.cuts), n_columns, bound, FOREVER)
        assert isinstance(proposal, np.ndarray)
        if pruner.solve(proposal) is not None:
            break
        pruner.strengthen(proposal, round_number)
    assert np.count_nonzero(proposal) == smallest
    if smallest > 1:
        assert hitting_set(list(pruner.cuts), n_columns, smallest - 1, FOREVER) is None
    for cut in pruner.cuts:
        for support in winning:
            assert support & cut, "a cut excludes a winning support"


def test_a_perturbation_ends_in_another_minimal_set_and_leaves_no_cuts() -> None:
    n_new = 0
    for seed in (7, 12, 13):  # games with several minimal sets
        small = small_problem(seed, MANNERS[seed % 4], n_trees=8, score=None)
        winning = set(_winning(small))
        pool = small.rows()
        pool.add(all_rows(small))
        pruner = Pruner(pool, FOREVER)
        weights = pruner.eliminate()
        assert weights is not None
        start = weights.weights > 0
        known = list(pruner.cuts)
        for order in range(8):
            perturbed = pruner.perturb(start, order)
            assert perturbed is not None
            support = frozenset(np.flatnonzero(perturbed).tolist())
            assert support in winning
            assert not any(support - {column} in winning for column in support)
            n_new += bool((perturbed != start).any())
        assert list(pruner.cuts) == known
    assert n_new > 4


def test_a_perturbation_of_a_losing_set_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pine_boost.search.pruner._JOINING", 1)
    small = small_problem(1, XGBOOST, score=None)
    winning = set(_winning(small))
    pool = small.rows()
    pool.add(all_rows(small))
    smallest = min(len(support) for support in winning)
    assert smallest > 2  # one that joins is not enough for a single column
    assert Pruner(pool, FOREVER).perturb(_flags(frozenset([0]), small.n_units), 0) is None


def test_repair_ends_in_a_winning_support() -> None:
    small = small_problem(1, XGBOOST, score=None)
    winning = set(_winning(small))
    pool = small.rows()
    pool.add(all_rows(small))
    pruner = Pruner(pool, FOREVER)
    support = np.zeros(small.n_units, dtype=bool)
    for _ in range(small.n_units + 1):
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
    small = small_problem(seed, XGBOOST, score=None, n_trees=8, leaf_grid=None)
    pool = small.rows()
    pool.add(small.fit_states[:6])
    pruner = Pruner(pool, FOREVER)
    n_columns = small.n_units
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
    cuts = [frozenset([0, 1]), frozenset([2, 3])]
    every = [
        frozenset(columns)
        for size in range(5)
        for columns in combinations(range(4), size)
        if all(set(columns) & cut for cut in cuts)
    ]
    assert len(every) == 9
    excluded: list[np.ndarray] = []
    found = []
    while (support := hitting_set(cuts, 4, 4, FOREVER, excluded)) is not None:
        assert isinstance(support, np.ndarray)
        found.append(frozenset(np.flatnonzero(support).tolist()))
        excluded.append(support)
    assert sorted(found, key=sorted) == sorted(every, key=sorted)
    # all sets of two columns are gone, and still the cuts alone allow two: no proof of three
    pairs = [_flags(support, 4) for support in every if len(support) == 2]
    assert hitting_set(cuts, 4, 2, FOREVER, pairs) is None
    assert hitting_set(cuts, 4, 2, FOREVER) is not None
    assert fewest_units(cuts, 4, FOREVER) == 2


def test_hitting_set_without_budget_is_no_proof() -> None:
    rng = np.random.default_rng(0)
    cuts = [frozenset(rng.choice(40, 4, replace=False).tolist()) for _ in range(300)]
    little = Budget(effort=Effort(master_effort=1e-7))
    found = hitting_set(cuts, 40, 17, little)
    assert found is not None  # the budget ran out, or a set was found; never "there is none"
    if isinstance(found, np.ndarray):
        assert all(found[sorted(cut)].any() for cut in cuts)
    assert fewest_units(cuts, 40, little) >= 1


def test_rows_are_those_of_decided_points_once() -> None:
    small = small_problem(4, XGBOOST, score="chow-liu", leaf_grid=None)
    pool = small.rows()
    states = small.everything
    n_decided = int(
        small.problem.decided(small.problem.original_margins_int(small.problem.trees.leaves(states))).any(axis=1).sum()
    )
    assert pool.add(states) == n_decided
    assert pool.add(states) == 0
    assert len(pool) == n_decided
    assert np.array_equal(pool.inside, small.problem.region.contains(pool.states))
    assert len(pool.program.rows) == pool.decided.sum()
    # every row as the reference computes it: the same set of rows, columns scaled to 1
    rows, _, _ = game_rows(small, states)
    own = pool.program.rows / pool.program.magnified[:, None] * pool.columns.scale
    own /= np.abs(own).max(axis=0)
    assert np.array_equal(np.unique(own.round(9) + 0.0, axis=0), np.unique(rows.round(9) + 0.0, axis=0))


def test_one_class_needs_one_tree() -> None:
    """Where a constant would do, one tree is kept: native libraries do not predict without."""
    small = small_problem(17, XGBOOST, score=None, leaf_grid=None)
    problem = small.problem
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(small.everything)))
    pool = small.rows()
    pool.add(small.everything[decided[:, 0]])
    pruner = Pruner(pool, FOREVER)
    for weights in (pruner.lightest(), pruner.eliminate()):
        assert weights is not None
        assert np.count_nonzero(weights.weights) == 1
        sides = pool.program.rows @ weights.weights + pool.program.free_rows @ weights.free
        assert sides.min() > 0
    assert pruner.solve(np.zeros(small.n_units, dtype=bool)) is None
    assert fewest_units(list(pruner.cuts), small.n_units, FOREVER) == 1
