"""The whole search on games small enough to enumerate: optimal, certified, and anytime."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.budget import Budget, Effort, OutOfEffort, Step
from pine_boost.model.forest import Decision
from pine_boost.proof.cpsat.settings import Setting
from pine_boost.proof.problem import build_problem
from pine_boost.search.algorithm import Known, explore, finish
from pine_boost.search.found import Found
from pine_boost.search.game import SearchOptions
from pine_boost.search.linear_program import LinearProgram, UnsolvedProgramError
from pine_boost.search.strategies import first_answers
from tests.support.bruteforce import (
    Small,
    all_rows,
    check_result,
    minimum_columns,
    only_the_solver,
    small_problem,
)
from tests.support.forests import MANNERS, XGBOOST, Manner

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
def test_optimum_is_the_brute_force_minimum(
    seed: int,
    manner: Manner,
    outputs: tuple[int, int],
    score: str | None,
    with_domain: bool,
    leaf_grid: int | None,
) -> None:
    small = small_problem(
        seed, manner, n_outputs=outputs[0], n_trees=outputs[1], score=score,
        with_domain=with_domain, leaf_grid=leaf_grid,
    )  # fmt: skip
    result = small.search()
    check_result(small, result)
    smallest = minimum_columns(small, all_rows(small))
    if smallest is not None:
        assert result.lower_bound <= smallest <= result.n_kept
        if result.stopped == "optimal":
            assert result.n_kept == smallest


@pytest.mark.slow
def test_many_small_games() -> None:
    """The same comparison on hundreds of games, votes and single trees included."""
    compared = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n_outputs, n_trees, votes = [(1, 7, False), (3, 12, False), (2, 6, True), (3, 6, True)][
            seed % 4
        ]
        small = small_problem(
            seed, MANNERS[rng.integers(4)], n_outputs=n_outputs, n_trees=n_trees, votes=votes,
            score=SCORES[rng.integers(4)], quantile=float(rng.uniform(0.05, 0.95)),
            with_domain=bool(rng.integers(2)), leaf_grid=[None, 0, 3, 10][rng.integers(4)],
        )  # fmt: skip
        result = small.search(seed=seed)
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None:
            assert result.lower_bound <= smallest <= result.n_kept
            compared += result.stopped == "optimal"
    assert compared > 300


def test_a_run_in_a_hurry_ends_at_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a hurry from the start: larger models first, all of them certified, the same end."""
    monkeypatch.setattr("pine_boost.search.game._PATIENCE", 0.0)
    monkeypatch.setattr("pine_boost.search.game._LONG", -1.0)
    n_pruned = 0
    for seed in range(8):
        n_outputs, n_trees = [(1, 7), (3, 15)][seed % 2]
        small = small_problem(
            seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=n_trees, n_fit=4, leaf_grid=None
        )
        certified: list[int] = []
        result = small.search(time_limit=600,
            callback=lambda step, sizes=certified: (
                sizes.append(step.units) if step.phase == "certified" else None
            ),
        )  # fmt: skip
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

    monkeypatch.setattr("pine_boost.search.game._PATIENCE", 0.0)
    monkeypatch.setattr("pine_boost.search.game._LONG", -1.0)
    monkeypatch.setattr("pine_boost.search.incumbent.second_proof", never)
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


def test_a_program_unsolved_at_the_deadline_is_a_matter_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_long(self: LinearProgram, support: Any, budget: Budget) -> Any:
        if budget.is_limited:
            time.sleep(budget.remaining)
        raise UnsolvedProgramError

    monkeypatch.setattr(LinearProgram, "solve", too_long)
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    assert small.search(time_limit=0.3).stopped == "time"
    assert small.search().stopped == "effort"


def test_an_ascent_in_a_hurry_takes_longer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused each time, it comes near the original in a few steps, and never as far."""
    small = small_problem(3, XGBOOST, n_trees=40, score=None)
    sizes: dict[float | None, list[int]] = {}
    monkeypatch.setattr("pine_boost.search.game._PATIENCE", 0.0)
    monkeypatch.setattr("pine_boost.search.game._LONG", -1.0)
    for limit in (600.0, None):
        game = small.game(limit)
        game.rows.add(game.rows.fit.nearest())
        tried = sizes[limit] = [proposal.size for proposal in first_answers(game)]
        assert tried[-1] == small.n_units - 1
    hurried, patient = sizes[600.0], sizes[None]
    assert patient == list(range(patient[0], small.n_units))
    assert hurried[0] == patient[0]
    assert hurried[1] - hurried[0] == 2
    assert len(hurried) < len(patient) / 3


@pytest.mark.parametrize("unit", ["round", "tree"])
@pytest.mark.parametrize("score", SCORES)
def test_small_games_are_solved_to_the_end(score: str | None, unit: str) -> None:
    """Without ties to keep, every small problem ends optimal, and some are really pruned."""
    n_pruned = 0
    for seed in range(4):
        n_outputs = 3 if unit == "tree" else 1
        small = small_problem(
            seed, MANNERS[seed], n_outputs=n_outputs, n_trees=6, score=score, unit=unit,
            leaf_grid=None,
        )  # fmt: skip
        result = small.search()
        check_result(small, result)
        assert result.stopped == "optimal"
        smallest = minimum_columns(small, all_rows(small))
        assert smallest in (None, result.n_kept)
        n_pruned += result.n_kept < small.n_units
    assert n_pruned > 0


@pytest.mark.parametrize("votes", [False, True])
def test_ties_are_kept(votes: bool) -> None:
    """Coarse leaves tie everywhere; the pruned model gives the same winner of every tie."""
    n_pruned = 0
    for seed in range(6):
        small = small_problem(
            seed, MANNERS[seed % 4], n_outputs=2 if votes else 1, votes=votes, n_trees=7,
            leaf_grid=0, score=SCORES[seed % 4],
        )  # fmt: skip
        result = small.search()
        check_result(small, result)
        # weights in whole ratios keep ties without rounding, so nothing stops the exact search
        assert result.stopped == "optimal"
        assert minimum_columns(small, all_rows(small)) in (None, result.n_kept)
        n_pruned += result.pruned is not None
    assert n_pruned > 0


def test_one_class_keeps_one_tree() -> None:
    """A region and fit rows of one class: one tree is enough, and needed to predict natively."""
    small = small_problem(17, XGBOOST, score=None, leaf_grid=None)
    problem = small.problem
    margins = problem.original_margins_int(problem.trees.leaves(small.everything))
    above = small.everything[problem.decided(margins)[:, 0]]
    one = [np.arange(n) == state for n, state in zip(problem.space.n_states, above[0], strict=True)]
    region = replace(problem.region, allowed=tuple(one))
    narrow = replace(
        small,
        problem=replace(problem, region=region),
        inside=region.contains(small.everything),
        fit_states=above[:5],
    )
    assert narrow.inside.sum() == 1
    for objective in ("l0", "l1"):
        result = narrow.search(objective=objective)
        check_result(narrow, result)
        assert result.pruned is not None
        assert (result.n_kept, result.lower_bound, result.stopped) == (1, 1, "optimal")


def test_l1_is_certified_too() -> None:
    for seed in range(4):
        small = small_problem(seed, MANNERS[seed], score=SCORES[seed], leaf_grid=None, n_trees=9)
        result = small.search(objective="l1")
        check_result(small, result)
        exact = small.search()
        assert exact.n_kept <= result.n_kept


@pytest.mark.parametrize("seed", range(4))
def test_a_larger_region_never_needs_fewer_trees(seed: int) -> None:
    """Smaller alpha, larger tau; the last one is the whole space (alpha = 0)."""
    small = small_problem(
        seed, MANNERS[seed], score=SCORES[seed % 3], leaf_grid=None, n_trees=8, n_fit=6
    )
    problem = small.problem
    assert problem.region.score is not None
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
        explored = explore(larger, small.fit_states, Budget(), SearchOptions(), known)
        continued = finish(explored, Budget())
        check_result(current, continued)
        assert continued.n_kept == result.n_kept
        start = explored.start()
        sizes.append(result.n_kept)
    assert sizes == sorted(sizes)


def _bands(seed: int, cuts: tuple[float, ...]) -> Small:
    small = small_problem(seed, XGBOOST, score="chow-liu", leaf_grid=None, n_trees=6)
    thresholds = tuple(float(1 / (1 + np.exp(-cut))) for cut in cuts)
    decision = Decision(cuts, guard=1e-5, thresholds=thresholds)
    forest = replace(small.problem.forest, decision=decision)
    problem = build_problem(forest, small.problem.space, small.problem.region)
    return replace(small, problem=problem)


@pytest.mark.parametrize("cuts", [(-0.85,), (1.2,), (-0.7, 0.9), (-1.0, 0.05, 1.1)])
def test_thresholds_and_score_bands(cuts: tuple[float, ...]) -> None:
    n_pruned = 0
    for seed in range(4):
        small = _bands(seed, cuts)
        result = small.search()
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None and result.stopped == "optimal":
            assert result.n_kept == smallest
        n_pruned += result.pruned is not None
    assert n_pruned > 0


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_interrupted_at_any_step(n_outputs: int) -> None:
    small = small_problem(
        17, XGBOOST, n_outputs=n_outputs, n_trees=8 * n_outputs, leaf_grid=None, score="chow-liu"
    )
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


def _comparable(result: Found) -> tuple[Any, ...]:
    pruned = result.pruned
    model = None
    if pruned is not None:
        model = (
            pruned.kept.tobytes(), pruned.value_int.tobytes(), pruned.grid,
            pruned.intercept_int.tobytes(), pruned.weights.tobytes(),
        )  # fmt: skip
    proofs = [(p.question, p.method, p.answer) for p in result.proofs]
    return (
        model, proofs, result.n_kept, result.lower_bound, result.rounds, result.rows,
        result.stopped,
    )  # fmt: skip


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_same_seed_same_result_for_any_number_of_jobs(n_outputs: int) -> None:
    small = small_problem(5, XGBOOST, n_outputs=n_outputs, n_trees=9, leaf_grid=None)
    first = small.search(seed=3)
    again = small.search(seed=3)
    parallel = small.search(seed=3, n_jobs=2)
    assert _comparable(first) == _comparable(again) == _comparable(parallel)
    other = small.search(seed=4)
    assert other.n_kept == first.n_kept  # both optimal


SETTINGS = (
    Setting("linear", linearization_level=1),
    Setting("very linear", random_seed=3, linearization_level=2),
    Setting("linear, no presolve", random_seed=11, linearization_level=1, cp_model_presolve=False),
    Setting("very linear, no presolve", linearization_level=2, cp_model_presolve=False),
    Setting("other seed", random_seed=2**30),
    Setting("other seed, no presolve", random_seed=12345, cp_model_presolve=False),
)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_search_never_certifies_a_canary(setting: Setting, monkeypatch: Any) -> None:
    """The last input that distinguishes two supports lies exactly on the region's edge.

    The optimum with that input is larger than without it, so a solver that misses it would
    certify a smaller model; walks and climbs are switched off, so that only the solver can see it.
    """
    only_the_solver(monkeypatch, setting)
    n_canaries = 0
    for small, with_it in _canaries():
        result = small.search()
        check_result(small, result)
        assert result.n_kept >= with_it
        n_canaries += 1
    assert n_canaries >= 3


_CANARIES: list[tuple[Small, int]] = []


def _canaries() -> list[tuple[Small, int]]:
    """Games whose minimum grows when tau takes in one more input; that input is the canary."""
    if _CANARIES:
        return _CANARIES
    for seed in range(30):
        small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None, n_fit=3, n_trees=5)
        problem = small.problem
        assert problem.region.score is not None
        scores = problem.region.score.score(small.everything)
        values, counts = np.unique(
            scores[problem.region.permits(small.everything)], return_counts=True
        )
        before = None
        for tau, count in zip(values.tolist(), counts.tolist(), strict=True):
            region = replace(problem.region, tau=int(tau))
            inside = region.contains(small.everything)
            current = replace(small, problem=replace(problem, region=region), inside=inside)
            size = minimum_columns(current, all_rows(current))
            if None not in (before, size) and count == 1 and size > before:  # type: ignore[operator]
                _CANARIES.append((current, size))  # type: ignore[arg-type]
                break
            before = size
            if len(_CANARIES) >= 4 or tau > values[len(values) // 3]:
                break
        if len(_CANARIES) >= 4:
            break
    return _CANARIES
