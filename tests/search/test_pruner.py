"""The Pruner's cuts, bounds, supports and covers against enumeration of all supports."""

from functools import cache
from itertools import combinations, groupby

import numpy as np
import pytest

from pine_boost.budget import Budget, Effort
from pine_boost.proof.bound import fewest_units, hitting_set, minimal_cuts
from pine_boost.search import algorithm, strategies
from pine_boost.search.lower_bound import small_cover
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_state import ProposalStatus, SearchState
from tests.support.bruteforce import (
    all_rows,
    check_result,
    game_rows,
    keeps_all,
    minimum_columns,
    small_problem,
    winning_supports,
)
from tests.support.forests import MANNERS, XGBOOST

FOREVER = Budget(effort=Effort(master_effort=10.0))


def _flags(support, n_columns):
    flags = np.zeros(n_columns, dtype=bool)
    flags[sorted(support)] = True
    return flags


@pytest.mark.parametrize("seed", range(8))
def test_cuts_supports_and_bounds(seed):
    n_outputs = 3 if seed % 4 == 3 else 1
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=6 * n_outputs, score=None)
    n_columns = small.n_units
    winning = list(winning_supports(small))
    smallest = min(len(support) for support in winning)
    pool = small.rows()
    pool.add(all_rows(small))
    pruner = Pruner(pool, FOREVER)
    pruner.find_essential(np.ones(n_columns, dtype=bool))
    essential = frozenset.intersection(*winning)
    assert {cut for cut in pruner.cuts if len(cut) == 1} == {frozenset([c]) for c in essential}
    for order in (None, 1, 2):
        weights = pruner.eliminate(order)
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


def test_a_perturbation_ends_in_another_minimal_set_and_leaves_no_cuts():
    n_new = 0
    for seed in (7, 12, 13):  # games with several minimal sets
        small = small_problem(seed, MANNERS[seed % 4], n_trees=8, score=None)
        winning = set(winning_supports(small))
        pool = small.rows()
        pool.add(all_rows(small))
        pruner = Pruner(pool, FOREVER)
        weights = pruner.eliminate()
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


def test_a_perturbation_of_a_losing_set_leads_nowhere(monkeypatch):
    monkeypatch.setattr("pine_boost.search.pruner._JOINING", 1)
    small = small_problem(1, XGBOOST, score=None)
    winning = set(winning_supports(small))
    pool = small.rows()
    pool.add(all_rows(small))
    smallest = min(len(support) for support in winning)
    assert smallest > 2  # one that joins is not enough for a single column
    assert Pruner(pool, FOREVER).perturb(_flags(frozenset([0]), small.n_units), 0) is None


def test_repair_ends_in_a_winning_support():
    small = small_problem(1, XGBOOST, score=None)
    winning = set(winning_supports(small))
    pool = small.rows()
    pool.add(all_rows(small))
    pruner = Pruner(pool, FOREVER)
    support = np.zeros(small.n_units, dtype=bool)
    for _ in range(small.n_units + 1):
        if frozenset(np.flatnonzero(support).tolist()) in winning:
            break
        repaired = pruner.repair(support)
        assert np.count_nonzero(repaired & ~support) == 1
        assert not np.any(support & ~repaired)
        support = repaired
    assert frozenset(np.flatnonzero(support).tolist()) in winning


@pytest.mark.parametrize("seed", range(3))
def test_repair_adds_as_many_columns_as_asked(seed):
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


def test_minimal_cuts():
    cuts = [frozenset(c) for c in ([1, 2, 3], [2, 3], [4], [4, 1], [0, 5], [2, 3])]
    assert set(minimal_cuts(cuts)) == {frozenset(c) for c in ([2, 3], [4], [0, 5])}


def test_an_excluded_set_is_left_out_alone():
    """Neither its subsets nor its supersets, only the set itself."""
    cuts = [frozenset([0, 1]), frozenset([2, 3])]
    every = [
        frozenset(columns)
        for size in range(5)
        for columns in combinations(range(4), size)
        if all(set(columns) & cut for cut in cuts)
    ]
    assert len(every) == 9
    excluded = []
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


def test_hitting_set_without_budget_is_no_proof():
    rng = np.random.default_rng(0)
    cuts = [frozenset(rng.choice(40, 4, replace=False).tolist()) for _ in range(300)]
    little = Budget(effort=Effort(master_effort=1e-7))
    found = hitting_set(cuts, 40, 17, little)
    assert found is not None  # the budget ran out, or a set was found; never "there is none"
    if isinstance(found, np.ndarray):
        assert all(found[sorted(cut)].any() for cut in cuts)
    assert fewest_units(cuts, 40, little) >= 1


def test_rows_are_those_of_decided_points_once():
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


def test_one_class_needs_one_tree():
    """Where a constant would do, one tree is kept: native libraries do not predict without."""
    small = small_problem(17, XGBOOST, score=None, leaf_grid=None)
    problem = small.problem
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(small.everything)))
    pool = small.rows()
    pool.add(small.everything[decided[:, 0]])
    pruner = Pruner(pool, FOREVER)
    for weights in (pruner.lightest(), pruner.eliminate()):
        assert np.count_nonzero(weights.weights) == 1
        sides = pool.program.rows @ weights.weights + pool.program.free_rows @ weights.free
        assert sides.min() > 0
    assert pruner.solve(np.zeros(small.n_units, dtype=bool)) is None
    assert fewest_units(list(pruner.cuts), small.n_units, FOREVER) == 1


def test_perturbations_find_what_cuts_alone_would(monkeypatch):
    """Perturbed sets from the first round on: the same minimum, no set of the cuts counts."""
    monkeypatch.setattr(strategies, "_FIRST_PERTURBATION", 0)
    monkeypatch.setattr(algorithm, "first_answers", lambda state: iter(()))
    monkeypatch.setattr(algorithm, "eliminations", lambda state: iter(()))
    weigh, perturbed = algorithm.weigh, []

    def only_perturbed(state, proposal):
        if any(proposal.support is own for own in perturbed):
            return weigh(state, proposal)
        if state.pruner.solve(proposal.support) is None:
            proposal.status = ProposalStatus.EXCLUDED
        return None

    perturb = Pruner.perturb

    def noted(pruner, support, seed):
        perturbed.append(perturb(pruner, support, seed))
        return perturbed[-1]

    monkeypatch.setattr(algorithm, "weigh", only_perturbed)
    monkeypatch.setattr(Pruner, "perturb", noted)
    n_pruned = 0
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], n_trees=7, n_fit=4, leaf_grid=None)
        result = small.search(effort=Effort(exact_rounds=40))
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None and smallest < small.n_units:
            assert result.n_kept == smallest
            n_pruned += 1
    assert n_pruned > 2
    assert perturbed


@pytest.mark.parametrize("seed", range(20))
def test_a_cover_meets_every_cut_and_is_as_large_as_allowed(seed):
    random = np.random.default_rng(seed)
    n_units = 12
    cuts = [frozenset(random.permutation(n_units)[: random.integers(1, 5)].tolist()) for _ in range(9)]
    for most in range(1, n_units):
        cover = small_cover(cuts, n_units, most, seed)
        if cover is None:
            continue
        kept = frozenset(np.flatnonzero(cover).tolist())
        assert len(kept) == most
        assert all(cut & kept for cut in cuts)
        assert hitting_set(cuts, n_units, most, Budget()) is not None
    everything = small_cover(cuts, n_units, n_units, seed)
    assert everything.all()


def test_an_excluded_cover_is_not_given_again():
    cuts = [frozenset([0, 1])]
    first = small_cover(cuts, 2, 1, 0)
    assert first is not None
    both = [np.array([True, False]), np.array([False, True])]
    assert small_cover(cuts, 2, 1, 0, both) is None


def _set(*units):
    return np.isin(np.arange(4), units)


def test_a_set_that_misses_a_cut_loses():
    rows = small_problem(0, MANNERS[0], n_trees=4).rows()
    assert not Pruner(rows, FOREVER).misses_a_cut(_set(0))
    pruner = Pruner(rows, FOREVER)
    pruner.cuts[frozenset([1, 2])] = np.zeros(0, dtype=np.int64)
    assert pruner.misses_a_cut(_set(0, 3))
    assert not pruner.misses_a_cut(_set(0, 2))


def _smallest(small):
    """Every winning set of the smallest size."""
    _, smallest = next(groupby(winning_supports(small), len))
    return list(smallest)


@cache
def _problems(n_smallest):
    """Games with at least so many smallest sets, which are smaller than the original."""
    found = []
    for seed in range(60):
        small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None, n_trees=7, n_fit=4, quantile=0.3)
        smallest = _smallest(small)
        if len(smallest) >= n_smallest and len(smallest[0]) < small.n_units - 1:
            found.append((small, smallest))
        if len(found) == 4:
            break
    assert len(found) == 4
    return found


def _forbid(monkeypatch, forbidden):
    """The grid refuses these sets; returns the list of those that were tried in vain."""
    tried = []
    on_grid = SearchState.on_grid

    def refuse(self, columns, weights, scale=None):
        support = frozenset(np.flatnonzero(weights.weights).tolist())
        if support in forbidden:
            tried.append(support)
            return None
        return on_grid(self, columns, weights, scale)

    monkeypatch.setattr(SearchState, "on_grid", refuse)
    return tried


def test_another_smallest_set_is_found(monkeypatch):
    n_refused = 0
    for small, smallest in _problems(2):
        for forbidden in smallest[:2]:
            with monkeypatch.context() as patch:
                tried = _forbid(patch, {forbidden})
                result = small.search()
            assert result.stopped == "optimal"
            assert result.n_kept == result.lower_bound == len(smallest[0])
            assert frozenset(small.tree_unit[result.pruned.kept].tolist()) in smallest
            assert keeps_all(small, result.pruned)
            n_refused += bool(tried)
    assert n_refused > 0


def test_what_cannot_be_written_proves_no_bound(monkeypatch):
    """All smallest sets are refused: more columns are kept, but never called the fewest."""
    n_smaller = 0
    for small, smallest in _problems(1):
        with monkeypatch.context() as patch:
            tried = _forbid(patch, set(smallest))
            result = small.search()
        assert set(tried) == set(smallest)
        assert result.n_kept > len(smallest[0])
        assert result.lower_bound <= len(smallest[0])
        assert result.stopped == "effort"
        if result.pruned is not None:
            assert keeps_all(small, result.pruned)
            n_smaller += 1
    assert n_smaller > 0


@pytest.mark.parametrize("most", [0, 3])
def test_not_forever(most, monkeypatch):
    """Where nothing can be written the exact search ends after a fixed number of tries."""
    small, smallest = _problems(1)[0]
    lengths = []
    smaller_set = strategies._smaller_set

    def count(state, passed_over, seed):
        lengths.append(len(passed_over))
        return smaller_set(state, passed_over, seed)

    monkeypatch.setattr(strategies, "_smaller_set", count)
    monkeypatch.setattr(SearchState, "on_grid", lambda *_, **__: None)
    result = small.search(effort=Effort(passed_over=most))
    assert max(lengths) == most
    assert result.pruned is None
    assert result.n_kept == small.n_units
    assert result.lower_bound <= len(smallest[0])
    assert result.stopped == "effort"
