"""The search can be stopped at any moment, refuses what is too large, and says when time was short."""

import time
from dataclasses import replace

import numpy as np
import pytest

from pine_boost import UnsupportedModelError, prune_booster, sweep
from pine_boost.budget import SECONDS, SHARES, Budget, Effort, OutOfEffort, OutOfTime, StopReason
from pine_boost.model import routing
from pine_boost.proof.bound import Bound
from pine_boost.proof.cpsat.encoding import encode_region
from pine_boost.proof.cpsat.prover import Prover, find_undecided
from pine_boost.proof.problem import Answer
from pine_boost.search import constraints as search_rows
from pine_boost.search import driver, leaf_values, local_search, search_state
from pine_boost.search.algorithm import Known, finish, run, search
from pine_boost.search.driver import search_leaves, search_stages
from pine_boost.search.lower_bound import _solve_exactly
from pine_boost.search.lp import UnsolvedProgramError, WeightProgram
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import build_state
from pine_boost.search.strategies import first_answers
from tests.support.bruteforce import all_rows, check_result, minimum_columns, small_problem
from tests.support.forests import MANNERS, XGBOOST
from tests.support.grids import grid_forest
from tests.support.naive import random_case
from tests.support.solver_settings import SETTINGS
from tests.support.verifying import boosted_products, fitted


def test_a_run_in_a_hurry_ends_at_the_same_minimum(monkeypatch):
    """In a hurry from the start: larger models first, all of them certified, the same end."""
    monkeypatch.setitem(SECONDS, "late", 0.0)
    monkeypatch.setitem(SHARES, "long step", -1.0)
    n_pruned = 0
    for seed in range(8):
        n_outputs, n_trees = [(1, 7), (3, 15)][seed % 2]
        small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=n_trees, n_fit=4, leaf_grid=None)
        certified = []
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
def test_second_proofs_that_never_end_leave_the_original(monkeypatch, time_limit):
    """Nothing proved only once is claimed, and the run ends by itself, in a hurry or not."""

    def never(*question):
        raise OutOfEffort

    monkeypatch.setitem(SECONDS, "late", 0.0)
    monkeypatch.setitem(SHARES, "long step", -1.0)
    monkeypatch.setattr("pine_boost.search.search_result.second_proof", never)
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    smallest = minimum_columns(small, all_rows(small))
    assert smallest < small.n_units
    result = small.search(time_limit=time_limit, effort=Effort(exact_rounds=20))
    assert result.pruned is None
    assert result.proofs == ()
    assert result.n_kept == small.n_units
    assert result.lower_bound <= smallest
    assert result.stopped == "effort"


def test_a_program_unsolved_at_the_deadline_is_a_matter_of_time(monkeypatch):
    def too_long(self, support, budget):
        if budget.is_limited:
            time.sleep(budget.remaining)
        raise UnsolvedProgramError

    monkeypatch.setattr(WeightProgram, "solve", too_long)
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    assert small.search(time_limit=0.3).stopped == "time"
    assert small.search().stopped == "unsolved"  # nothing was asked: no answer, not CERTIFIED


def test_an_ascent_in_a_hurry_takes_longer_steps(monkeypatch):
    """Refused each time, it comes near the original in a few steps, and never as far."""
    small = small_problem(3, XGBOOST, n_trees=40, score=None)
    sizes = {}
    monkeypatch.setitem(SECONDS, "late", 0.0)
    monkeypatch.setitem(SHARES, "long step", -1.0)
    for limit in (600.0, None):
        state = small.state(limit)
        state.constraints.add_nearest_fit_rows()
        tried = sizes[limit] = [proposal.size for proposal in first_answers(state)]
        assert tried[-1] == small.n_units - 1
    hurried, patient = sizes[600.0], sizes[None]
    assert patient == list(range(patient[0], small.n_units))
    assert hurried[0] == patient[0]
    assert hurried[1] - hurried[0] == 2
    assert len(hurried) < len(patient) / 3


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_interrupted_at_any_step(n_outputs):
    small = small_problem(17, XGBOOST, n_outputs=n_outputs, n_trees=8 * n_outputs, leaf_grid=None, score="chow-liu")
    phases = []
    full = small.search(callback=lambda step: phases.append(step.phase))
    assert full.pruned is not None
    assert {"walks", "rows", "climb", "certified", "exact"} <= set(phases)
    sizes = set()
    for stop_at in range(1, len(phases) + 1):

        def interrupt(step, last=stop_at):
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
def test_out_of_time(time_limit):
    for seed in range(2):
        small = small_problem(seed, XGBOOST, n_outputs=3, n_trees=21, leaf_grid=None)
        result = small.search(time_limit=time_limit)
        check_result(small, result)
        if time_limit < 1e-6:
            assert result.pruned is None
            assert result.stopped == "time"


def test_steps_are_told_in_order():
    small = small_problem(17, XGBOOST, leaf_grid=None)
    steps = []
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
    assert steps[-1].trees == len(result.pruned.kept)


@pytest.mark.parametrize(("unit", "reweight"), [("tree", "leaf"), ("leaf", "leaf")])
@pytest.mark.parametrize("time_limit", [600, None])
def test_one_clock_for_whole_trees_and_leaves(unit, reweight, time_limit):
    """Whatever part of the time a strategy gets, its steps are dated by the whole search."""
    small = small_problem(0, XGBOOST, n_trees=7, n_fit=4, leaf_grid=None, quantile=0.3)
    steps = []
    budget = Budget.of(time_limit, callback=steps.append)
    result = search_stages(small.task(unit=unit, reweight=reweight), budget)
    assert "leaves" in {step.phase for step in steps}
    told = [step.seconds for step in steps]
    proved = [moment.seconds for moment in result.history]
    assert told == sorted(told)
    assert proved == sorted(proved)
    assert max(told + proved) <= result.seconds <= budget.elapsed


def test_a_step_counts_trees_and_units_apart():
    """Rounds of three trees: one number counts trees, the others what they say they count."""
    small = small_problem(2, XGBOOST, n_outputs=3, n_trees=12, leaf_grid=None)
    steps = []
    small.search(callback=steps.append)
    assert {step.unit for step in steps} == {"round"}
    assert all(step.trees == 3 * step.units for step in steps)
    assert steps[0].trees == 12


def test_the_history_tells_when_which_size_was_proved():
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


OVER = Budget.of(-1.0)


@pytest.mark.parametrize("kind", ["prune", "sweep"])
def test_a_model_too_large_is_refused_before_any_table_is_built(kind, monkeypatch):
    model, X = fitted("gradient")
    monkeypatch.setattr(routing, "MASK_BYTES_LIMIT", 1000)

    def never(*arguments, **options):
        raise AssertionError("a table was built")

    place = {"prune": "pine_boost.prune", "sweep": "pine_boost.sweeping"}[kind]
    monkeypatch.setattr(f"{place}.fit_with_states", never)
    run = {"prune": prune_booster, "sweep": sweep}[kind]
    with pytest.raises(UnsupportedModelError, match=r"would take .* Use fewer or shallower trees"):
        run(model, X[:200], X[200:])


def test_the_shape_never_refuses_what_the_tables_accept():
    """The estimate from the shape is at most the true size."""
    for seed in range(6):
        problem = small_problem(seed, XGBOOST, score=None).problem
        routing.require_size(problem.forest)
        numeric = problem.forest.kind == 1
        pairs = {
            (int(f), float(t))
            for f, t in zip(problem.forest.feature[numeric], problem.forest.threshold[numeric], strict=True)
        }
        assert len(pairs) + problem.forest.n_features <= problem.trees.masks.mask.shape[0]


def test_what_is_built_stops_when_the_time_is_over():
    small = small_problem(0, XGBOOST, leaf_grid=None)
    problem = small.problem
    tables = (problem.space, problem.region, problem.trees)
    with pytest.raises(OutOfTime):
        encode_region(*tables, budget=OVER)
    with pytest.raises(OutOfTime):
        small.rows().add(small.everything, OVER)
    pruned = grid_forest(problem.forest)
    proofs = Prover(problem).prove(pruned, list(problem.questions), SETTINGS[:1], OVER)
    assert {proof.answer for proof in proofs} == {Answer.UNKNOWN}
    assert find_undecided(problem, None, OVER) is None
    found = search(replace(small.task(), problem=problem), OVER)
    assert found.pruned is None
    assert found.stopped is StopReason.TIME


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_exact_multipliers_solve_their_equations_and_stop_in_time(size):
    rng = np.random.default_rng(size)
    matrix = rng.integers(-(2**40), 2**40, (size, size)).astype(object)
    matrix[0, 0] = 0 if size > 1 else 3  # a pivot that has to be looked for
    right = rng.integers(-(2**40), 2**40, size).astype(object)
    solved = _solve_exactly(matrix, right, Budget())
    assert solved is not None
    assert all(a == b for a, b in zip(matrix @ np.array(solved), right, strict=True))
    matrix[-1] = matrix[0] * 7 if size > 1 else 0
    assert _solve_exactly(matrix, right, Budget()) is None
    with pytest.raises(OutOfTime):
        _solve_exactly(np.eye(size, dtype=object), right, OVER)


def test_rows_of_many_questions_come_in_portions(monkeypatch):
    """Fewer at once, the same rows in the end, and the same model."""
    small = small_problem(5, XGBOOST, n_outputs=3, n_trees=12, leaf_grid=None)
    whole, result = small.rows(), small.search()
    whole.add(small.everything)
    monkeypatch.setattr(search_rows, "MOST_CELLS", 600)
    portions = small.rows()
    assert portions.add(small.everything) == len(whole)
    assert np.array_equal(portions.states, whole.states)
    once, apart = (
        np.unique((own.program.rows / own.program.magnified[:, None]).round(9), axis=0) for own in (whole, portions)
    )
    assert np.array_equal(once, apart)
    assert portions.most_at_once == 200
    assert small.search().n_kept == result.n_kept


@pytest.mark.parametrize("n_cells", [local_search._CELLS, 1])
def test_moves_change_one_feature_to_every_state(n_cells, monkeypatch):
    """All at once or row by row: 800 trees over 2000 states of four features once took 2 GB of tables."""
    problem = random_case(4).problem
    states = np.stack([problem.space.n_states - 1, np.zeros(problem.space.n_features)]).astype(np.int32)
    monkeypatch.setattr(local_search, "_CELLS", n_cells)
    moves = local_search.Moves(problem)
    batches = list(moves.batches(states))
    assert np.array_equal(np.concatenate(batches), states)
    assert len(batches) == (2 if n_cells == 1 else 1)
    expected = [
        (feature, state)
        for feature, allowed in enumerate(problem.region.allowed)
        for state in range(problem.space.n_states[feature])
        if allowed.sum() > 1
    ]
    assert expected
    for rows in batches:
        parts = list(moves.of(rows, Budget.of()))
        assert all(len(changed) == 1 for *_, changed in parts) == (n_cells == 1)
        changed = np.concatenate([part for *_, part in parts]).reshape(len(rows), len(expected), -1)
        for number, (feature, state) in enumerate(expected):
            own = rows.copy()
            own[:, feature] = state
            assert np.array_equal(changed[:, number], own)
            margins = problem.original_margins_int(problem.trees.leaves(changed[:, number]))
            assert np.array_equal(margins, problem.original_margins_int(problem.trees.leaves(own)))


NOTHING = SearchResult(None, (), 9)


@pytest.fixture(scope="module")
def data():
    """A model whose every tree is needed."""
    return boosted_products(3, learning_rate=1.0)


def test_leaf_values_that_the_clock_ended_are_no_answer(data, monkeypatch):
    model, X = data
    whole = prune_booster(model, X[:250], X[250:], alpha=0.1)
    assert (whole.status, whole.search.stopped) == ("CERTIFIED", "optimal")

    def late(*_):
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


def test_leaf_values_for_which_no_time_is_left():
    small = small_problem(0, XGBOOST, score=None)
    for unit in ("round", "leaf"):
        assert search_leaves(small.task(unit=unit), NOTHING, Budget.of(-1.0)).stopped is StopReason.TIME


def test_a_strategy_that_ends_by_itself_when_the_time_is_over():
    small = small_problem(0, XGBOOST, score=None)
    for seconds, stopped in ((-1.0, StopReason.TIME), (600.0, StopReason.EFFORT)):
        budget = Budget.of(seconds)
        state = build_state(small.task(), budget)
        run(state, iter(()))
        assert finish(state, Budget.of()).stopped is stopped


def test_a_larger_region_that_the_clock_ended_leaves_no_hope_but_no_answer(monkeypatch):
    class Stage:
        name, problem = "larger", None

        @staticmethod
        def outward(states):
            return states

    hopeless = []

    def search(task, budget, known):
        hopeless.append(known.is_hopeless)
        is_stage = task.problem is None
        return NOTHING.with_ends(StopReason.TIME, StopReason.EFFORT) if is_stage else NOTHING

    monkeypatch.setattr(driver, "search", search)
    monkeypatch.setattr(driver, "enclosures", lambda _: [Stage(), Stage()])
    small = small_problem(0, XGBOOST, score=None)
    found = driver.search_regions(small.task(), Budget.of(), Known())
    assert hopeless == [False, False, True]
    assert found.stopped is StopReason.TIME


@pytest.mark.parametrize("stopped", list(StopReason))
def test_the_clock_takes_nothing_back_that_was_proved(stopped):
    pruned = object()
    fewest = replace(NOTHING, bound=Bound(9, np.zeros((0, 1), np.int32), np.zeros(0, np.int64), ()))
    result = fewest if stopped is StopReason.OPTIMAL else NOTHING.with_ends(stopped)
    assert result.stopped is stopped
    late = result.with_ends(StopReason.TIME)
    is_open = stopped in (StopReason.EFFORT, StopReason.OPTIMAL)
    assert late.stopped is (StopReason.TIME if is_open else stopped)
    smaller = replace(late, pruned=pruned).stopped
    assert smaller is (StopReason.TIME if stopped is StopReason.EFFORT else stopped)
    # a later search over leaf values that proved its own answer leaves nothing open
    assert StopReason.TIME not in late.followed_by(fewest).ended
    assert (StopReason.TIME in NOTHING.followed_by(late).ended) is (stopped is not StopReason.OPTIMAL)


def test_a_search_over_leaves_that_cannot_be_prepared_in_time_keeps_what_was_found(monkeypatch):
    """The rows of X_fit are routed under the clock; when it rang, the certified model was lost."""
    small = small_problem(1, XGBOOST, n_trees=9, score="chow-liu")
    found = small.search()
    assert found.pruned is not None
    rows = search_state.distinct_fit_rows

    def late(problem, states, check=None):
        if check is not None:
            raise OutOfTime
        return rows(problem, states)

    monkeypatch.setattr(search_state, "distinct_fit_rows", late)
    after = search_leaves(small.task(reweight="leaf"), found, Budget.of())
    assert after.pruned is not None
    assert after.n_kept <= found.n_kept
