"""Fewer leaves: proved like any other model, never more than before, counted truly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.budget import Budget, Effort, Step, StopReason
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import leaf_count, trim_pruned
from pine_boost.search import collapsing
from pine_boost.search.collapsing import search_collapsed
from pine_boost.search.constraints import distinct_fit_rows
from pine_boost.search.driver import search_stages
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchOptions
from pine_boost.search.shapes import Collapser
from tests.support.bruteforce import Small, check_proofs, keeps_all, small_problem
from tests.support.forests import LIGHTGBM, MANNERS, Manner

OPTIONS = SearchOptions(unit="leaf", reweight="leaf")


def _both(small: Small, budget: Budget | None = None) -> tuple[SearchResult, SearchResult]:
    """What the search over trees finds, and where fewer leaves lead from there."""
    small = replace(small, unit="tree")
    before = small.search()
    parts = (small.problem, small.fit_states, before, budget or Budget.of(), OPTIONS)
    return before, search_collapsed(*parts)


def _check(small: Small, result: SearchResult) -> None:
    """What holds of every result that counts leaves, whenever the search stopped."""
    forest = small.problem.forest
    assert result.lower_bound == 1
    assert result.bound is None
    assert result.stopped is not StopReason.OPTIMAL
    if result.pruned is None:
        assert result.n_kept == forest.n_leaves
        return
    assert keeps_all(small, result.pruned)
    check_proofs(small, result.proofs)
    trimming = trim_pruned(result.pruned)  # refuses leaves that disagree below a collapsed node
    assert result.n_kept == trimming.n_leaves == leaf_count(result.pruned) <= forest.n_leaves
    sizes = [moment.units for moment in result.history if moment.proofs == 2]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == result.n_kept


@settings(derandomize=True, deadline=None, max_examples=10)
@given(
    st.integers(0, 2**16),
    st.sampled_from(MANNERS),
    st.sampled_from([(1, 5), (3, 9)]),
    st.sampled_from(["chow-liu", "leaf-support", None]),
)
def test_every_answer_keeps_every_decided_row(
    seed: int, manner: Manner, outputs: tuple[int, int], score: str | None
) -> None:
    small = small_problem(seed, manner, n_outputs=outputs[0], n_trees=outputs[1], score=score)
    before, after = _both(small)
    _check(small, after)
    whole = small.problem.forest.n_leaves if before.pruned is None else leaf_count(before.pruned)
    assert after.n_kept <= whole
    assert after.reweight == ("leaf" if after.n_kept < whole else "tree")


def test_subtrees_become_leaves() -> None:
    """Somewhere a kept tree has lost a part, and the original below it is one value."""
    n_collapsed = 0
    for seed in range(3):
        small = small_problem(seed, MANNERS[seed], n_outputs=3, n_trees=9, score="chow-liu")
        _, after = _both(small)
        _check(small, after)
        assert after.pruned is not None
        assert after.pruned.is_leaf is not None
        inner = small.problem.forest.kind != SplitKind.LEAF
        of_kept = np.isin(small.problem.forest.node_tree, after.pruned.kept)
        n_collapsed += np.count_nonzero(after.pruned.is_leaf & inner & of_kept)
    assert n_collapsed > 0


def test_batches_find_fewer_leaves_where_no_shape_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapsing, "_FIRST_SHAPES", 0)
    monkeypatch.setattr(collapsing, "_REFUTATIONS", 0)
    n_fewer = 0
    for seed in range(3):
        small = small_problem(seed, MANNERS[seed], n_outputs=3, n_trees=9, score="chow-liu")
        before, after = _both(small)
        _check(small, after)
        whole = small.problem.forest.n_leaves
        n_fewer += (whole if before.pruned is None else leaf_count(before.pruned)) - after.n_kept
        assert _both(small)[1].n_kept == after.n_kept
    assert n_fewer > 0


def test_rows_of_many_columns_are_fewer_at_once() -> None:
    small = small_problem(0, MANNERS[0], n_outputs=3, n_trees=9, score=None)
    few = distinct_fit_rows(small.problem, small.fit_states, 10**6)
    assert few.most_at_once < distinct_fit_rows(small.problem, small.fit_states).most_at_once


def test_the_whole_search_counts_leaves_at_every_step() -> None:
    small = small_problem(1, MANNERS[1], n_outputs=3, n_trees=9, score="chow-liu")
    steps: list[Step] = []
    budget = Budget.of(callback=steps.append)
    found = search_stages(small.problem, small.fit_states, budget, OPTIONS)
    _check(small, found)
    assert {step.unit for step in steps} == {"leaf"}
    assert {step.lower_bound for step in steps} == {1}
    assert steps[0].units == small.problem.forest.n_leaves
    assert steps[-1].units == found.n_kept


def test_a_model_of_a_larger_region_is_taken_over() -> None:
    small = small_problem(1, LIGHTGBM, n_outputs=3, n_trees=12, score="chow-liu", quantile=0.3)
    whole = replace(small.problem.region, score=None, tau=None)
    larger = replace(small, problem=replace(small.problem, region=whole))
    outer = search_stages(larger.problem, larger.fit_states, Budget.of(), OPTIONS)
    assert outer.pruned is not None
    original = SearchResult(None, (), small.n_units)
    parts = (small.problem, small.fit_states, original, Budget.of(1e-9), OPTIONS)
    found = search_collapsed(*parts, larger=outer)
    assert found.pruned is outer.pruned
    assert found.n_kept == outer.n_kept
    assert found.reweight == outer.reweight


def test_what_was_found_stays_when_the_budget_is_over_or_the_leaves_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = small_problem(3, MANNERS[3], n_outputs=3, n_trees=12, score=None)
    before, after = _both(small, Budget.of(1e-9))
    assert after.pruned is before.pruned
    monkeypatch.setattr(collapsing, "MOST_LEAF_COLUMNS", 3)
    before, after = _both(small)
    assert after.pruned is before.pruned
    monkeypatch.undo()
    before, after = _both(small, Budget.of(effort=Effort(proof_effort=0.0, box_limit=0)))
    if after.pruned is not None:
        assert keeps_all(small, after.pruned)


def test_ctrl_c_keeps_the_certified_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    small = small_problem(3, MANNERS[3], n_outputs=3, n_trees=12, score=None)
    monkeypatch.setattr(Collapser, "shrink", interrupt)
    before, after = _both(small)
    assert after.stopped is StopReason.INTERRUPTED
    assert after.pruned is before.pruned
