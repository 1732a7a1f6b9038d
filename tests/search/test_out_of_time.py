"""Whatever part of a search the clock ends: nothing smaller is then no answer but want of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pine_boost import prune_booster, sweep
from pine_boost.budget import Budget, OutOfTime, StopReason
from pine_boost.search import driver, leaf_values, search_state
from pine_boost.search.algorithm import Known, finish, run
from pine_boost.search.collapsing import search_collapsed
from pine_boost.search.leaf_values import search_leaves
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchOptions, build_state
from tests.support.bruteforce import small_problem
from tests.support.forests import XGBOOST

ensemble = pytest.importorskip("sklearn.ensemble")

NOTHING = SearchResult(None, (), 9)


@pytest.fixture(scope="module")
def data() -> Any:
    """A model whose every tree is needed."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    model = ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, learning_rate=1.0)
    return model.fit(X, y), X


def test_leaf_values_that_the_clock_ended_are_no_answer(data: Any, monkeypatch: Any) -> None:
    model, X = data
    whole = prune_booster(model, X[:250], X[250:], alpha=0.1)
    assert (whole.status, whole.search.stopped) == ("CERTIFIED", "optimal")

    def late(*_: Any) -> Any:
        raise OutOfTime

    for step in ("_missed_least", "prove_bound", "perturb"):
        monkeypatch.setattr(leaf_values, step, late)
    results = [prune_booster(model, X[:250], X[250:], alpha=0.1)]
    results += sweep(model, X[:250], X[250:], alphas=[0.1, 0.2])
    for result in results:
        assert (result.status, result.search.stopped) == ("NOT_CERTIFIED", "time")
        assert result.certificate.trees_after == 3
        assert "time limit ran out" in result.certificate.reason
    # whole trees alone were searched to their end
    tree = prune_booster(model, X[:250], X[250:], alpha=0.1, reweight="tree")
    assert (tree.status, tree.search.stopped) == ("CERTIFIED", "optimal")


def test_leaf_values_for_which_no_time_is_left() -> None:
    small = small_problem(0, XGBOOST, score=None)
    parts = (small.problem, small.fit_states, NOTHING, Budget.of(-1.0), SearchOptions())
    for go_on in (search_leaves, search_collapsed):
        assert go_on(*parts).stopped is StopReason.TIME


def test_a_strategy_that_ends_by_itself_when_the_time_is_over() -> None:
    small = small_problem(0, XGBOOST, score=None)
    for seconds, stopped in ((-1.0, StopReason.TIME), (600.0, StopReason.EFFORT)):
        budget = Budget.of(seconds)
        state = build_state(small.problem, small.fit_states, budget, SearchOptions())
        run(state, iter(()))
        assert finish(state, Budget.of()).stopped is stopped


def test_a_larger_region_that_the_clock_ended_leaves_no_hope_but_no_answer(monkeypatch: Any) -> None:
    class Stage:
        name, problem = "larger", None

        @staticmethod
        def outward(states: Any) -> Any:
            return states

    hopeless = []

    def search(problem: Any, states: Any, budget: Any, options: Any, known: Known, *_: Any) -> Any:
        hopeless.append(known.is_hopeless)
        is_stage = problem is None
        return NOTHING.with_ends(StopReason.TIME, StopReason.EFFORT) if is_stage else NOTHING

    monkeypatch.setattr(driver, "search", search)
    monkeypatch.setattr(driver, "enclosures", lambda _: [Stage(), Stage()])
    small = small_problem(0, XGBOOST, score=None)
    found = driver.search_regions(small.problem, small.fit_states, Budget.of(), SearchOptions(), Known())
    assert hopeless == [False, False, True]
    assert found.stopped is StopReason.TIME


@pytest.mark.parametrize("stopped", list(StopReason))
def test_the_clock_takes_nothing_back_that_was_proved(stopped: StopReason) -> None:
    pruned: Any = object()
    result = replace(NOTHING, lower_bound=9) if stopped is StopReason.OPTIMAL else NOTHING.with_ends(stopped)
    assert result.stopped is stopped
    late = result.with_ends(StopReason.TIME)
    is_open = stopped in (StopReason.EFFORT, StopReason.OPTIMAL)
    assert late.stopped is (StopReason.TIME if is_open else stopped)
    smaller = replace(late, pruned=pruned).stopped
    assert smaller is (StopReason.TIME if stopped is StopReason.EFFORT else stopped)
    # a later search over leaf values that proved its own answer leaves nothing open
    fewest = replace(NOTHING, lower_bound=9)
    assert StopReason.TIME not in late.followed_by(fewest).ended
    assert (StopReason.TIME in NOTHING.followed_by(late).ended) is (stopped is not StopReason.OPTIMAL)


def test_a_search_over_leaves_that_cannot_be_prepared_in_time_keeps_what_was_found(monkeypatch: Any) -> None:
    """The rows of X_fit are routed under the clock; when it rang, the certified model was lost."""
    small = small_problem(1, XGBOOST, n_trees=9, score="chow-liu")
    found = small.search()
    assert found.pruned is not None
    rows = search_state.distinct_fit_rows

    def late(problem: Any, states: Any, n_columns: int = 0, check: Any = None) -> Any:
        if check is not None:
            raise OutOfTime
        return rows(problem, states, n_columns)

    monkeypatch.setattr(search_state, "distinct_fit_rows", late)
    after = search_leaves(small.problem, small.fit_states, found, Budget.of(), SearchOptions(reweight="leaf"))
    assert after.pruned is not None
    assert after.n_kept <= found.n_kept
