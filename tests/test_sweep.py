"""A sweep gives for every alpha what a single run gives, and goes from small regions to large."""

import numpy as np
import pandas
import pytest

from pine_boost import InvalidInputError, RegionError, prune_booster, sweep, sweeping
from pine_boost.native.predict import predict_classes
from pine_boost.search import driver
from pine_boost.sweeping import ALPHAS
from tests.support.native_models import cancer_boosting

GRID = (0.0, 0.1, 0.3, 0.6)


@pytest.fixture(scope="module")
def parts():
    model, X = cancer_boosting(5, 8)
    return model, X[:250], X[250:450], X[450:]


@pytest.fixture(scope="module")
def swept(parts):
    model, X_fit, X_cal, _ = parts
    return sweep(model, X_fit, X_cal, alphas=GRID)


@pytest.mark.parametrize("alpha", GRID)
def test_agrees_with_a_single_run(parts, swept, alpha):
    model, X_fit, X_cal, _ = parts
    single = prune_booster(model, X_fit, X_cal, alpha=alpha)
    assert single.search.stopped == "optimal"
    assert swept[alpha].search.stopped == "optimal"
    assert swept[alpha].certificate.units_kept == single.certificate.units_kept
    assert swept[alpha].region == single.region


def test_every_result_keeps_its_promise_natively(parts, swept):
    _, X_fit, X_cal, X_test = parts
    rows = np.vstack([X_fit, X_cal, X_test])
    for result in swept:
        inside = result.region.contains(rows)
        before, after = predict_classes(result.original, rows), predict_classes(result.pruned, rows)
        np.testing.assert_array_equal(before[inside], after[inside])
        np.testing.assert_array_equal(before[: len(X_fit)], after[: len(X_fit)])


def test_more_alpha_never_needs_more_trees(swept):
    kept = [result.certificate.units_kept for result in swept]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] < kept[0]


def test_alphas_are_searched_from_the_largest_down(parts):
    model, X_fit, X_cal, _ = parts
    told = []
    sweep(model, X_fit, X_cal, alphas=[0.3, 0.6, 0.0], callback=lambda a, step: told.append(a))
    assert list(dict.fromkeys(told)) == [0.6, 0.3, 0.0]


def test_the_rows_of_one_alpha_serve_the_next(parts):
    model, X_fit, X_cal, _ = parts
    rows = {}
    sweep(
        model,
        X_fit,
        X_cal,
        alphas=[0.3, 0.6],
        callback=lambda alpha, step: rows.setdefault(alpha, []).append(step.rows),
    )
    assert rows[0.3][0] >= rows[0.6][-1]


def test_each_alpha_ends_with_its_own_rows_cuts_and_time(parts, monkeypatch):
    """Second proofs come after all searches: none may see what a later search changed."""
    explored = []
    finished = []
    explore, finish = driver.explore, driver.finish

    def watch(*arguments):
        state = explore(*arguments)
        explored.append((state, len(state.constraints), len(state.pruner.cuts), state.constraints.program.rows.shape))
        return state

    def check(state, budget, *larger):
        if not larger:  # of a search over leaf values, which follows
            return finish(state, budget)
        own = next(entry for entry in explored if entry[0] is state)
        assert (len(state.constraints), len(state.pruner.cuts), state.constraints.program.rows.shape) == own[1:]
        finished.append(state)
        return finish(state, budget, *larger)

    monkeypatch.setattr(driver, "explore", watch)
    monkeypatch.setattr(driver, "finish", check)
    model, X_fit, X_cal, _ = parts
    sweep(model, X_fit, X_cal, alphas=[0.0, 0.1, 0.6], time_limit=300)
    assert finished == [entry[0] for entry in reversed(explored)]
    states = [entry[0] for entry in explored]
    assert len({id(state.constraints) for state in states}) == len(states) == 3
    assert len({id(state.constraints.program) for state in states}) == 3
    assert len({id(state.pruner) for state in states}) == 3
    for state in states:
        assert state.pruner.constraints is state.constraints
        assert state.pruner.budget is state.budget
        assert np.array_equal(state.constraints.inside, state.problem.region.contains(state.constraints.states))
    sizes = [entry[1] for entry in explored]
    assert sizes[0] < sizes[-1]  # later searches did add rows


def test_bounds_found_for_a_smaller_region_hold_for_the_larger(swept):
    bounds = [result.certificate.lower_bound for result in swept]
    assert bounds == sorted(bounds, reverse=True)


def test_the_table_and_the_plot(swept):
    rows = swept.table()
    assert [row["alpha"] for row in rows] == sorted(GRID)
    assert all(row["trees"] == len(swept[row["alpha"]].kept) for row in rows)
    frame = pandas.DataFrame(rows)
    assert swept.to_pandas().equals(frame)
    axes = swept.plot()
    drawn = axes.lines[0].get_xydata()
    np.testing.assert_array_equal(drawn[:, 0], [row["alpha"] for row in rows])
    np.testing.assert_array_equal(drawn[:, 1], [100 * row["removed"] for row in rows])
    assert str(swept).count("\n") == len(GRID)
    assert swept._repr_html_().count("<tr>") == len(GRID) + 1
    with pytest.raises(KeyError, match="was not swept"):
        swept[0.5]


def test_the_default_grid_leaves_out_what_indifference_has_no_room_for(parts):
    model, X_fit, X_cal, _ = parts
    swept = sweep(model, X_fit, X_cal, indifference=0.1, objective="l1")
    assert 0.0 not in swept.alphas
    assert set(swept.alphas) < set(ALPHAS)
    with pytest.raises((InvalidInputError, RegionError)):
        sweep(model, X_fit, X_cal, indifference=0.1, alphas=[0.0, 0.6])


@pytest.mark.parametrize("alphas", [[], [1.0], [-0.1], ["many"], 0.1])
def test_refuses_grids_that_are_none(parts, alphas):
    model, X_fit, X_cal, _ = parts
    with pytest.raises(InvalidInputError):
        sweep(model, X_fit, X_cal, alphas=alphas)


def test_which_alphas_have_room_for_x_cal_chooses_nothing(monkeypatch, parts):
    """The share of undecided inputs is chosen at the middle of the grid before X_cal shortens it."""
    model, X_fit, X_cal, _ = parts
    chosen = []
    settle = sweeping.choose_indifference

    def watch(forest, fitted, alpha, *others):
        chosen.append(alpha)
        return settle(forest, fitted, alpha, *others)

    monkeypatch.setattr(sweeping, "choose_indifference", watch)
    monkeypatch.setattr(sweeping, "_has_room", lambda region, alpha: alpha > 0.2)
    swept = sweep(model, X_fit, X_cal, indifference="auto", objective="l1", time_limit=20)
    assert min(swept.alphas) == 0.4
    assert chosen == [ALPHAS[len(ALPHAS) // 2]]
