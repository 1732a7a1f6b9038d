"""Sets of columns whose weights do not survive the grid: passed over, and no bound made of them."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from pine_boost.budget import Effort
from pine_boost.search import strategies
from pine_boost.search.search_state import SearchState
from tests.support.bruteforce import CLEAR, Small, game_rows, game_value, keeps_all, small_problem
from tests.support.forests import MANNERS


def _smallest(small: Small) -> list[frozenset[int]]:
    """Every winning set of the smallest size."""
    states = np.concatenate([small.everything[small.inside], small.fit_states])
    rows, free, strict = game_rows(small, np.unique(states, axis=0))
    for size in range(1, small.n_units + 1):
        found = [
            frozenset(support)
            for support in combinations(range(small.n_units), size)
            if game_value(rows[:, support], free, strict) > CLEAR
        ]
        if found:
            return found
    return []


@cache
def _problems(n_smallest: int) -> list[tuple[Small, list[frozenset[int]]]]:
    """Games with at least so many smallest sets, which are smaller than the original."""
    found = []
    for seed in range(60):
        small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None, n_trees=7, n_fit=4, quantile=0.3)
        smallest = _smallest(small)
        if len(smallest) >= n_smallest and len(smallest[0]) < small.n_units - 1:
            found.append((small, smallest))
        if len(found) == 4:
            break
    assert len(found) == 4
    return found


def _forbid(monkeypatch: Any, forbidden: set[frozenset[int]]) -> list[frozenset[int]]:
    """The grid refuses these sets; returns the list of those that were tried in vain."""
    tried: list[frozenset[int]] = []
    on_grid = SearchState.on_grid

    def refuse(self: SearchState, weights: Any) -> Any:
        support = frozenset(np.flatnonzero(weights.weights).tolist())
        if support in forbidden:
            tried.append(support)
            return None
        return on_grid(self, weights)

    monkeypatch.setattr(SearchState, "on_grid", refuse)
    return tried


def test_another_smallest_set_is_found(monkeypatch: Any) -> None:
    n_refused = 0
    for small, smallest in _problems(2):
        for forbidden in smallest[:2]:
            with monkeypatch.context() as patch:
                tried = _forbid(patch, {forbidden})
                result = small.search()
            assert result.stopped == "optimal"
            assert result.n_kept == result.lower_bound == len(smallest[0])
            assert result.pruned is not None
            assert frozenset(small.tree_unit[result.pruned.kept].tolist()) in smallest
            assert keeps_all(small, result.pruned)
            n_refused += bool(tried)
    assert n_refused > 0


def test_what_cannot_be_written_proves_no_bound(monkeypatch: Any) -> None:
    """All smallest sets are refused: more columns are kept, but never called the fewest."""
    n_smaller = 0
    for small, smallest in _problems(1):
        with monkeypatch.context() as patch:
            tried = _forbid(patch, set(smallest))
            result = small.search()
        assert set(tried) == set(smallest)
        assert result.n_kept > len(smallest[0])
        assert result.lower_bound <= len(smallest[0])
        assert result.stopped == "effort"
        if result.pruned is not None:
            assert keeps_all(small, result.pruned)
            n_smaller += 1
    assert n_smaller > 0


@pytest.mark.parametrize("most", [0, 3])
def test_not_forever(most: int, monkeypatch: Any) -> None:
    """Where nothing can be written the exact search ends after a fixed number of tries."""
    small, smallest = _problems(1)[0]
    lengths: list[int] = []
    smaller_set = strategies._smaller_set

    def count(state: Any, passed_over: Any, seed: int) -> Any:
        lengths.append(len(passed_over))
        return smaller_set(state, passed_over, seed)

    monkeypatch.setattr(strategies, "_smaller_set", count)
    monkeypatch.setattr(SearchState, "on_grid", lambda self, weights: None)
    result = small.search(effort=Effort(passed_over=most))
    assert max(lengths) == most
    assert result.pruned is None
    assert result.n_kept == small.n_units
    assert result.lower_bound <= len(smallest[0])
    assert result.stopped == "effort"
