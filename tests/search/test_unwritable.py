"""Sets of columns whose weights do not survive the grid: passed over, and no bound made of them."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from pine_boost.search import run
from pine_boost.search.algorithm import Effort, search
from tests.support.bruteforce import CLEAR, Problem, game_rows, game_value, keeps_all, small_problem
from tests.support.forests import MANNERS


def _smallest(problem: Problem) -> list[frozenset[int]]:
    """Every winning set of the smallest size."""
    states = np.concatenate([problem.everything[problem.inside], problem.fit_states])
    rows, free, strict = game_rows(problem.game, np.unique(states, axis=0))
    for size in range(1, problem.game.n_units + 1):
        found = [
            frozenset(support)
            for support in combinations(range(problem.game.n_units), size)
            if game_value(rows[:, support], free, strict) > CLEAR
        ]
        if found:
            return found
    return []


@cache
def _problems(n_smallest: int) -> list[tuple[Problem, list[frozenset[int]]]]:
    """Games with at least so many smallest sets, which are smaller than the original."""
    found = []
    for seed in range(60):
        problem = small_problem(
            seed, MANNERS[seed % 4], leaf_grid=None, n_trees=7, n_fit=4, quantile=0.3
        )
        smallest = _smallest(problem)
        if len(smallest) >= n_smallest and len(smallest[0]) < problem.game.n_units - 1:
            found.append((problem, smallest))
        if len(found) == 4:
            break
    assert len(found) == 4
    return found


def _forbid(monkeypatch: Any, forbidden: set[frozenset[int]]) -> list[frozenset[int]]:
    """The grid refuses these sets; returns the list of those that were tried in vain."""
    tried: list[frozenset[int]] = []
    write = run.Run.write

    def refuse(self: run.Run, weights: Any) -> Any:
        if weights is not None:
            support = frozenset(np.flatnonzero(weights.weights).tolist())
            if support in forbidden:
                tried.append(support)
                return None
        return write(self, weights)

    monkeypatch.setattr(run.Run, "write", refuse)
    return tried


def test_another_smallest_set_is_found(monkeypatch: Any) -> None:
    n_refused = 0
    for problem, smallest in _problems(2):
        for forbidden in smallest[:2]:
            with monkeypatch.context() as patch:
                tried = _forbid(patch, {forbidden})
                result = search(problem.game, problem.fit_states)
            assert result.stopped == "optimal"
            assert result.n_kept == result.lower_bound == len(smallest[0])
            assert result.pruned is not None
            assert frozenset(problem.game.unit[result.pruned.kept].tolist()) in smallest
            assert keeps_all(problem, result.pruned)
            n_refused += bool(tried)
    assert n_refused > 0


def test_what_cannot_be_written_proves_no_bound(monkeypatch: Any) -> None:
    """All smallest sets are refused: more columns are kept, but never called the fewest."""
    n_smaller = 0
    for problem, smallest in _problems(1):
        with monkeypatch.context() as patch:
            tried = _forbid(patch, set(smallest))
            result = search(problem.game, problem.fit_states)
        assert set(tried) == set(smallest)
        assert result.n_kept > len(smallest[0])
        assert result.lower_bound <= len(smallest[0])
        assert result.stopped == "effort"
        if result.pruned is not None:
            assert keeps_all(problem, result.pruned)
            n_smaller += 1
    assert n_smaller > 0


@pytest.mark.parametrize("most", [0, 3])
def test_not_forever(most: int, monkeypatch: Any) -> None:
    """Where nothing can be written the exact search ends after a fixed number of tries."""
    problem, smallest = _problems(1)[0]
    lengths: list[int] = []
    hitting_set = run.Pruner.hitting_set

    def count(self: Any, n_columns: int, *limits: Any) -> Any:
        lengths.append(len(limits[2]))
        return hitting_set(self, n_columns, *limits)

    monkeypatch.setattr(run.Pruner, "hitting_set", count)
    monkeypatch.setattr(run.Run, "write", lambda self, weights: None)
    result = search(problem.game, problem.fit_states, effort=Effort(passed_over=most))
    assert max(lengths) == most
    assert result.pruned is None
    assert result.n_kept == problem.game.n_units
    assert result.lower_bound <= len(smallest[0])
    assert result.stopped == "effort"
