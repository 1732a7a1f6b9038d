"""The search can be stopped at any moment, tells what it does, and hurries where time is short."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pine_boost.budget import SECONDS, SHARES, Budget, Effort, OutOfEffort, Step
from pine_boost.search.driver import search_stages
from pine_boost.search.lp import UnsolvedProgramError
from pine_boost.search.search_state import SearchOptions
from pine_boost.search.strategies import first_answers
from pine_boost.search.weight_program import WeightProgram
from tests.support.bruteforce import all_rows, check_result, minimum_columns, small_problem
from tests.support.forests import MANNERS, XGBOOST


def test_a_run_in_a_hurry_ends_at_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a hurry from the start: larger models first, all of them certified, the same end."""
    monkeypatch.setitem(SECONDS, "late", 0.0)
    monkeypatch.setitem(SHARES, "long step", -1.0)
    n_pruned = 0
    for seed in range(8):
        n_outputs, n_trees = [(1, 7), (3, 15)][seed % 2]
        small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=n_trees, n_fit=4, leaf_grid=None)
        certified: list[int] = []
        result = small.search(
            time_limit=600,
            callback=lambda step, sizes=certified: sizes.append(step.units) if step.phase == "certified" else None,
        )
        check_result(small, result)
        assert certified == sorted(set(certified), reverse=True)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None:
            assert result.n_kept == result.lower_bound == smallest
        n_pruned += result.n_kept < small.n_units
    assert n_pruned > 3


@pytest.mark.parametrize("time_limit", [600, None])
def test_second_proofs_that_never_end_leave_the_original(
    monkeypatch: pytest.MonkeyPatch, time_limit: float | None
) -> None:
    """Nothing proved only once is claimed, and the run ends by itself, in a hurry or not."""

    def never(*question: Any) -> list[Any]:
        raise OutOfEffort

    monkeypatch.setitem(SECONDS, "late", 0.0)
    monkeypatch.setitem(SHARES, "long step", -1.0)
    monkeypatch.setattr("pine_boost.search.search_result.second_proof", never)
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    smallest = minimum_columns(small, all_rows(small))
    assert smallest is not None
    assert smallest < small.n_units
    result = small.search(time_limit=time_limit, effort=Effort(exact_rounds=20))
    assert result.pruned is None
    assert result.proofs == ()
    assert result.n_kept == small.n_units
    assert result.lower_bound <= smallest
    assert result.stopped == "effort"


def test_a_program_unsolved_at_the_deadline_is_a_matter_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(self: WeightProgram, support: Any, budget: Budget) -> Any:
        if budget.is_limited:
            time.sleep(budget.remaining)
        raise UnsolvedProgramError

    monkeypatch.setattr(WeightProgram, "solve", too_long)
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    assert small.search(time_limit=0.3).stopped == "time"
    assert small.search().stopped == "unsolved"  # nothing was asked: no answer, not CERTIFIED


def test_an_ascent_in_a_hurry_takes_longer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused each time, it comes near the original in a few steps, and never as far."""
    small = small_problem(3, XGBOOST, n_trees=40, score=None)
    sizes: dict[float | None, list[int]] = {}
    monkeypatch.setitem(SECONDS, "late", 0.0)
    monkeypatch.setitem(SHARES, "long step", -1.0)
    for limit in (600.0, None):
        state = small.state(limit)
        state.constraints.add(state.constraints.fit.nearest())
        tried = sizes[limit] = [proposal.size for proposal in first_answers(state)]
        assert tried[-1] == small.n_units - 1
    hurried, patient = sizes[600.0], sizes[None]
    assert patient == list(range(patient[0], small.n_units))
    assert hurried[0] == patient[0]
    assert hurried[1] - hurried[0] == 2
    assert len(hurried) < len(patient) / 3


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_interrupted_at_any_step(n_outputs: int) -> None:
    small = small_problem(17, XGBOOST, n_outputs=n_outputs, n_trees=8 * n_outputs, leaf_grid=None, score="chow-liu")
    phases: list[str] = []
    full = small.search(callback=lambda step: phases.append(step.phase))
    assert full.pruned is not None
    assert {"walks", "rows", "climb", "certified", "exact"} <= set(phases)
    sizes = set()
    for stop_at in range(1, len(phases) + 1):

        def interrupt(step: Step, last: int = stop_at) -> None:
            if step.step == last:
                raise KeyboardInterrupt

        result = small.search(callback=interrupt)
        check_result(small, result)
        assert result.stopped in ("interrupted", "optimal")
        if result.stopped == "optimal":
            assert result.n_kept == full.n_kept
        sizes.add(result.n_kept)
        if phases[stop_at - 1] == "walks":
            assert result.pruned is None
    assert {small.n_units, full.n_kept} <= sizes


@pytest.mark.parametrize("time_limit", [1e-9, 1e-3, 0.01, 0.03, 0.1])
def test_out_of_time(time_limit: float) -> None:
    for seed in range(2):
        small = small_problem(seed, XGBOOST, n_outputs=3, n_trees=21, leaf_grid=None)
        result = small.search(time_limit=time_limit)
        check_result(small, result)
        if time_limit < 1e-6:
            assert result.pruned is None
            assert result.stopped == "time"


def test_steps_are_told_in_order() -> None:
    small = small_problem(17, XGBOOST, leaf_grid=None)
    steps: list[Step] = []
    result = small.search(callback=steps.append)
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    for before, after in zip(steps, steps[1:]):  # noqa: B905, RUF007 - neighbours
        assert after.trees <= before.trees
        assert after.units <= before.units
        assert after.proved_once <= before.proved_once <= before.units
        assert after.rows >= before.rows
        assert after.seconds >= before.seconds
        assert after.lower_bound <= after.units
    assert steps[-1].units == result.n_kept
    assert result.pruned is not None
    assert steps[-1].trees == len(result.pruned.kept)


@pytest.mark.parametrize(("unit", "reweight"), [("tree", "leaf"), ("leaf", "leaf")])
@pytest.mark.parametrize("time_limit", [600, None])
def test_one_clock_for_whole_trees_and_leaves(unit: str, reweight: str, time_limit: float | None) -> None:
    """Whatever part of the time a strategy gets, its steps are dated by the whole search."""
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    steps: list[Step] = []
    budget = Budget.of(time_limit, callback=steps.append)
    options = SearchOptions(unit=unit, reweight=reweight)
    result = search_stages(small.problem, small.fit_states, budget, options)
    assert "leaves" in {step.phase for step in steps}
    told = [step.seconds for step in steps]
    proved = [moment.seconds for moment in result.history]
    assert told == sorted(told)
    assert proved == sorted(proved)
    assert max(told + proved) <= result.seconds <= budget.elapsed


def test_a_step_counts_trees_and_units_apart() -> None:
    """Rounds of three trees: one number counts trees, the others what they say they count."""
    small = small_problem(2, XGBOOST, n_outputs=3, n_trees=12, leaf_grid=None)
    steps: list[Step] = []
    small.search(callback=steps.append)
    assert {step.unit for step in steps} == {"round"}
    assert all(step.trees == 3 * step.units for step in steps)
    assert steps[0].trees == 12


def test_the_history_tells_when_which_size_was_proved() -> None:
    n_long = 0
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None, n_trees=7)
        result = small.search()
        if result.pruned is None:
            continue
        seconds = [moment.seconds for moment in result.history]
        assert seconds == sorted(seconds)
        assert {moment.proofs for moment in result.history} == {1, 2}
        for proofs in (1, 2):
            sizes = [moment.units for moment in result.history if moment.proofs == proofs]
            assert sizes == sorted(sizes, reverse=True)
        twice = [moment for moment in result.history if moment.proofs == 2]
        assert twice[-1].units == result.n_kept
        assert twice[-1].lower_bound == result.lower_bound
        n_long += len(result.history) > 2
    assert n_long > 0
