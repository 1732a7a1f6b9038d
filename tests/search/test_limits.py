"""Sizes are refused from the shape of a model, and the clock is checked while tables are built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost import UnsupportedModelError, prune_booster, sweep
from pine_boost.budget import Budget, OutOfTime, StopReason
from pine_boost.model import routing
from pine_boost.proof.cpsat.encoding import encode_region
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.question import Answer
from pine_boost.proof.undecided import find_undecided
from pine_boost.search import constraints as search_rows
from pine_boost.search import single_feature_moves
from pine_boost.search.algorithm import search
from pine_boost.search.exact_farkas import _solve_exactly
from tests.support.bruteforce import small_problem
from tests.support.forests import XGBOOST
from tests.support.grids import grid_forest
from tests.support.naive import random_case
from tests.support.solver_settings import SETTINGS
from tests.support.verifying import fitted

OVER = Budget.of(-1.0)


@pytest.mark.parametrize("kind", ["prune", "sweep"])
def test_a_model_too_large_is_refused_before_any_table_is_built(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = fitted("gradient")
    monkeypatch.setattr(routing, "MASK_BYTES_LIMIT", 1000)

    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a table was built")

    place = {"prune": "pine_boost.prune", "sweep": "pine_boost.sweeping"}[kind]
    monkeypatch.setattr(f"{place}.fit_with_states", never)
    run = {"prune": prune_booster, "sweep": sweep}[kind]
    with pytest.raises(UnsupportedModelError, match=r"would take .* Use fewer or shallower trees"):
        run(model, X[:200], X[200:])


def test_the_shape_never_refuses_what_the_tables_accept() -> None:
    """The estimate from the shape is at most the true size."""
    for seed in range(6):
        problem = small_problem(seed, XGBOOST, score=None).problem
        routing.require_size(problem.forest)
        numeric = problem.forest.kind == 1
        pairs = {
            (int(f), float(t))
            for f, t in zip(problem.forest.feature[numeric], problem.forest.threshold[numeric], strict=True)
        }
        assert len(pairs) + problem.forest.n_features <= problem.masks.mask.shape[0]


def test_what_is_built_stops_when_the_time_is_over() -> None:
    small = small_problem(0, XGBOOST, leaf_grid=None)
    problem = small.problem
    tables = (problem.space, problem.region, problem.trees, problem.masks)
    with pytest.raises(OutOfTime):
        encode_region(*tables, budget=OVER)
    with pytest.raises(OutOfTime):
        small.rows().add(small.everything, OVER)
    pruned = grid_forest(problem.forest)
    proofs = Prover(problem).prove(pruned, list(problem.questions), SETTINGS[:1], OVER)
    assert {proof.answer for proof in proofs} == {Answer.UNKNOWN}
    assert find_undecided(problem, None, OVER) is None
    found = search(problem, small.fit_states, OVER)
    assert found.pruned is None
    assert found.stopped is StopReason.TIME


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_exact_multipliers_solve_their_equations_and_stop_in_time(size: int) -> None:
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


def test_rows_of_many_questions_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert portions.fit.most_at_once == 200
    assert small.search().n_kept == result.n_kept


def test_many_trees_and_states_are_summed_without_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """800 trees over 2000 states of four features once took 2 GB of tables."""
    problem = random_case(4).problem
    states = np.zeros((1, problem.space.n_features), dtype=np.int32)
    sums = []
    for most in (single_feature_moves._MOST_TABULATED, 1):
        monkeypatch.setattr(single_feature_moves, "_MOST_TABULATED", most)
        around = single_feature_moves.SingleFeatureMoves(problem)
        values = around.values()
        assert (values.tables is None) == (most == 1)
        sums.append([near.original for near in around.of(states, Budget.of(), values)])
    assert len(sums[0]) > 0
    for one, other in zip(*sums, strict=True):
        assert np.array_equal(one, other)
