"""The whole search on problems small enough to enumerate: optimal, certified, repeatable, never fooled by a canary."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.budget import Budget
from pine_boost.search.algorithm import Known, explore, finish, prove_lower_bound
from tests.support.bruteforce import all_rows, check_result, drawn_problem, minimum_columns, small_problem, with_bands
from tests.support.forests import MANNERS, XGBOOST

SCORES = ("chow-liu", "leaf-support", "isolation-forest", None)


@settings(derandomize=True, deadline=None, max_examples=16)
@given(
    st.integers(0, 2**16),
    st.sampled_from(MANNERS),
    st.sampled_from([(1, 6), (1, 7), (3, 12), (3, 15)]),
    st.sampled_from(SCORES),
    st.booleans(),
    st.sampled_from([None, 3, 8]),
)
def test_optimum_is_the_brute_force_minimum(seed, manner, outputs, score, with_domain, leaf_grid):
    small = small_problem(
        seed,
        manner,
        n_outputs=outputs[0],
        n_trees=outputs[1],
        score=score,
        with_domain=with_domain,
        leaf_grid=leaf_grid,
    )
    result = small.search()
    check_result(small, result)
    smallest = minimum_columns(small, all_rows(small))
    if smallest is not None:
        assert result.lower_bound <= smallest <= result.n_kept
        if result.stopped == "optimal":
            assert result.n_kept == smallest


@pytest.mark.slow
def test_many_small_games():
    """The same comparison on hundreds of games, votes and single trees included."""
    compared = 0
    for seed in range(400):
        small = drawn_problem(seed, [(1, 7, False), (3, 12, False), (2, 6, True), (3, 6, True)], SCORES)
        result = small.search(random_state=seed)
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None:
            assert result.lower_bound <= smallest <= result.n_kept
            compared += result.stopped == "optimal"
    assert compared > 300


@pytest.mark.parametrize("unit", ["round", "tree"])
@pytest.mark.parametrize("score", SCORES)
def test_small_games_are_solved_to_the_end(score, unit):
    """Without ties to keep, every small problem ends optimal, and some are really pruned."""
    n_pruned = 0
    for seed in range(4):
        n_outputs = 3 if unit == "tree" else 1
        small = small_problem(
            seed, MANNERS[seed], n_outputs=n_outputs, n_trees=6, score=score, unit=unit, leaf_grid=None
        )
        result = small.search()
        check_result(small, result)
        assert result.stopped == "optimal"
        smallest = minimum_columns(small, all_rows(small))
        assert smallest in (None, result.n_kept)
        n_pruned += result.n_kept < small.n_units
    assert n_pruned > 0


@pytest.mark.parametrize("votes", [False, True])
def test_ties_are_kept(votes):
    """Coarse leaves tie everywhere; the pruned model gives the same winner of every tie."""
    n_pruned = 0
    for seed in range(6):
        small = small_problem(
            seed,
            MANNERS[seed % 4],
            n_outputs=2 if votes else 1,
            votes=votes,
            n_trees=7,
            leaf_grid=0,
            score=SCORES[seed % 4],
        )
        result = small.search()
        check_result(small, result)
        # weights in whole ratios keep ties without rounding, so nothing stops the exact search
        assert result.stopped == "optimal"
        assert minimum_columns(small, all_rows(small)) in (None, result.n_kept)
        n_pruned += result.pruned is not None
    assert n_pruned > 0


def test_one_class_keeps_one_tree():
    """A region and fit rows of one class: one tree is enough, and needed to predict natively."""
    small = small_problem(17, XGBOOST, score=None, leaf_grid=None)
    problem = small.problem
    margins = problem.original_margins_int(problem.trees.leaves(small.everything))
    above = small.everything[problem.decided(margins)[:, 0]]
    one = [np.arange(n) == state for n, state in zip(problem.space.n_states, above[0], strict=True)]
    region = replace(problem.region, allowed=tuple(one))
    narrow = replace(
        small, problem=replace(problem, region=region), inside=region.contains(small.everything), fit_states=above[:5]
    )
    assert narrow.inside.sum() == 1
    for objective in ("l0", "l1"):
        result = narrow.search(objective=objective)
        check_result(narrow, result)
        assert result.pruned is not None
        assert (result.n_kept, result.lower_bound, result.stopped) == (1, 1, "optimal")


def test_l1_is_certified_too():
    for seed in range(4):
        small = small_problem(seed, MANNERS[seed], score=SCORES[seed], leaf_grid=None, n_trees=9)
        result = small.search(objective="l1")
        check_result(small, result)
        exact = small.search()
        assert exact.n_kept <= result.n_kept


@pytest.mark.parametrize("seed", range(4))
def test_a_larger_region_never_needs_fewer_trees(seed):
    """Smaller alpha, larger tau; the last one is the whole space (alpha = 0)."""
    small = small_problem(seed, MANNERS[seed], score=SCORES[seed % 3], leaf_grid=None, n_trees=8, n_fit=6)
    problem = small.problem
    scores = np.sort(problem.region.score.score(small.everything))
    taus = [int(scores[int(share * (len(scores) - 1))]) for share in (0.02, 0.2, 0.5, 0.9)]
    sizes = []
    start = None
    for tau in [*taus, None]:
        score = problem.region.score if tau is not None else None
        region = replace(problem.region, tau=tau, score=score)
        larger = replace(problem, region=region)
        current = replace(small, problem=larger, inside=region.contains(small.everything))
        result = current.search()
        check_result(current, result)
        assert result.stopped == "optimal"
        # going on from the smaller region gives the same size
        known = Known(start=start)
        state = explore(replace(small.task(), problem=larger), Budget(), known)
        prove_lower_bound(state)
        continued = finish(state, Budget())
        check_result(current, continued)
        assert continued.n_kept == result.n_kept
        start = state
        sizes.append(result.n_kept)
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("cuts", [(-0.85,), (1.2,), (-0.7, 0.9), (-1.0, 0.05, 1.1)])
def test_thresholds_and_score_bands(cuts):
    n_pruned = 0
    for seed in range(4):
        small = with_bands(small_problem(seed, XGBOOST, leaf_grid=None), cuts)
        result = small.search()
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None and result.stopped == "optimal":
            assert result.n_kept == smallest
        n_pruned += result.pruned is not None
    assert n_pruned > 0


def _comparable(result):
    pruned = result.pruned
    model = None
    if pruned is not None:
        model = (
            pruned.kept.tobytes(),
            pruned.value_int.tobytes(),
            pruned.grid,
            pruned.intercept_int.tobytes(),
            pruned.weights.tobytes(),
        )
    proofs = [(p.question, p.method, p.answer) for p in result.proofs]
    return (model, proofs, result.n_kept, result.lower_bound, result.rounds, result.rows, result.stopped)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_same_seed_same_result_for_any_number_of_jobs(n_outputs):
    small = small_problem(5, XGBOOST, n_outputs=n_outputs, n_trees=9, leaf_grid=None)
    first = small.search(random_state=3)
    again = small.search(random_state=3)
    parallel = small.search(random_state=3, n_jobs=2)
    assert _comparable(first) == _comparable(again) == _comparable(parallel)
    other = small.search(random_state=4)
    assert other.n_kept == first.n_kept  # both optimal
