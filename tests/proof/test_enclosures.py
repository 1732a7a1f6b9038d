"""Larger regions for hard scores: they contain the region, and what they certify holds in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pine_boost.budget import Budget, Effort, OutOfEffort
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.enclosures import enclosures
from pine_boost.region.isolation_forest import enclosing as module
from pine_boost.region.isolation_forest.enclosing import cut_trees, enclosing
from pine_boost.region.score_tables import RegionTables
from pine_boost.search.algorithm import Known
from pine_boost.search.driver import search_regions
from pine_boost.search.search_state import SearchOptions
from tests.support.bruteforce import Small, all_rows, check_result, minimum_columns, small_problem
from tests.support.forests import MANNERS, random_forest, random_rows
from tests.support.scores import fit_isolation_forest

pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def _shallow_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small isolation trees are cut too."""
    monkeypatch.setattr(module, "DEPTHS", (1, 2))


def _problem(seed: int, **options: object) -> Small:
    return small_problem(seed, MANNERS[seed % 4], score="isolation-forest", leaf_grid=None, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(8))
def test_cut_trees_never_cost_more(seed: int) -> None:
    """Exactly the least of the leaves below: a cut may neither exclude nor forget a point."""
    small = _problem(seed)
    score = small.problem.region.score
    assert score is not None
    assert score.trees is not None
    whole = score.trees.cost[score.trees.trees.leaves(small.everything)]
    for depth in range(score.trees.trees.depth + 2):
        short = cut_trees(score.trees, depth)
        cut = short.cost[short.trees.leaves(small.everything)]
        assert (cut <= whole).all()
        assert short.trees.depth == min(depth, score.trees.trees.depth)
        if depth >= score.trees.trees.depth:
            assert np.array_equal(cut, whole)
        for tree in range(short.trees.n_trees):
            leaves = short.trees.leaves(small.everything)[:, tree]
            for leaf in np.unique(leaves):  # the bound is met by some state that reaches the leaf
                assert whole[leaves == leaf, tree].min() == short.cost[leaf]


@pytest.mark.parametrize("seed", range(8))
def test_enclosures_contain_the_region(seed: int) -> None:
    small = _problem(seed, with_domain=bool(seed % 2))
    problem, everything = small.problem, small.everything
    stages = enclosures(problem)
    assert len(stages) >= 2
    inside = small.inside.copy()
    for stage in reversed(stages):  # from the region outwards
        merged = stage.outward(everything)
        contains = stage.problem.region.contains(merged)
        assert (contains | ~inside).all()
        inside = contains
        leaves = problem.trees.leaves(everything)
        assert np.array_equal(stage.problem.trees.leaves(merged), leaves)
        distinct = np.unique(merged, axis=0)
        assert np.array_equal(stage.outward(stage.inward(distinct)), distinct)
        assert (stage.problem.space.n_states <= problem.space.n_states).all()
        # a state that stands for several is a real input of theirs
        back = stage.problem.space.states(problem.space.representative(everything))
        usable = ~np.isinf(problem.space.representative(everything)).any(axis=1)
        assert np.array_equal(back[usable], merged[usable])
    assert np.array_equal(inside, replace(problem.region, score=None, tau=None).contains(everything))


@pytest.mark.parametrize("score", ["chow-liu", "leaf-support", None])
def test_easy_scores_have_no_enclosures(score: str | None) -> None:
    assert enclosures(small_problem(3, MANNERS[0], score=score, leaf_grid=None).problem) == []
    assert enclosing(RegionTables(())) == []


@pytest.mark.parametrize("seed", range(6))
def test_stages_end_at_the_brute_force_minimum(seed: int) -> None:
    small = _problem(seed, n_outputs=3 if seed % 3 == 2 else 1, n_trees=6)
    result = search_regions(small.problem, small.fit_states, Budget(), SearchOptions(), Known())
    check_result(small, result)
    smallest = minimum_columns(small, all_rows(small))
    if smallest is not None:
        assert result.n_kept == result.lower_bound == smallest


def test_a_hard_region_falls_back_on_the_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the region's own proofs run out, the model of the whole domain stays, bound and all."""
    fell_back = 0
    prove = Prover.prove

    def give_up(self, *question):  # type: ignore[no-untyped-def]
        if self.problem.region.slows_cp_sat:
            raise OutOfEffort
        return prove(self, *question)

    monkeypatch.setattr(Prover, "prove", give_up)
    for seed in range(6):
        small = _problem(seed, n_trees=7)
        budget = Budget.of(None, Effort(box_limit=0))
        result = search_regions(small.problem, small.fit_states, budget, SearchOptions(), Known())
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        assert smallest is None or result.lower_bound <= smallest <= result.n_kept
        if result.pruned is not None:
            fell_back += 1
            assert all(proof.method.endswith("(whole domain)") for proof in result.proofs)
    assert fell_back > 2


def test_random_forests_of_default_size_are_cut_soundly() -> None:
    """30 isolation trees of 256 rows, as users have them: sampled rows, not all of them."""

    rng = np.random.default_rng(5)
    forest = random_forest(rng, n_trees=8, manner=MANNERS[0], categorical=[3])
    X = random_rows(rng, forest, 600)
    score, space = fit_isolation_forest(X, forest)
    states = space.states(random_rows(rng, forest, 3000))
    assert score.trees is not None
    exact = score.score(states)
    for depth in (2, 4, 6):
        cut = replace(score, trees=cut_trees(score.trees, depth)).score(states)
        assert (cut <= exact).all()
        assert (cut < exact).any()
