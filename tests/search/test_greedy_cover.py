"""Covers without a solver, against the exact hitting set; and sets whose outcome is known."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.budget import Budget
from pine_boost.proof.bound import hitting_set
from pine_boost.search.greedy_cover import small_cover
from pine_boost.search.lp_columns import Support
from pine_boost.search.pruner import LpCache
from pine_boost.search.weight_program import WeightProgram, Weights


@pytest.mark.parametrize("seed", range(20))
def test_a_cover_meets_every_cut_and_is_as_large_as_allowed(seed: int) -> None:
    random = np.random.default_rng(seed)
    n_units = 12
    cuts = [frozenset(random.permutation(n_units)[: random.integers(1, 5)].tolist()) for _ in range(9)]
    for most in range(1, n_units):
        cover = small_cover(cuts, n_units, most, seed)
        if cover is None:
            continue
        kept = frozenset(np.flatnonzero(cover).tolist())
        assert len(kept) == most
        assert all(cut & kept for cut in cuts)
        assert hitting_set(cuts, n_units, most, Budget()) is not None
    everything = small_cover(cuts, n_units, n_units, seed)
    assert everything is not None
    assert everything.all()


def test_an_excluded_cover_is_not_given_again() -> None:
    cuts = [frozenset([0, 1])]
    first = small_cover(cuts, 2, 1, 0)
    assert first is not None
    both = [np.array([True, False]), np.array([False, True])]
    assert small_cover(cuts, 2, 1, 0, both) is None


def _set(*units: int) -> Support:
    return np.isin(np.arange(4), units)


def test_winners_are_checked_against_rows_that_joined_later() -> None:
    program = WeightProgram(np.arange(4), 0)
    program.add_rows(np.array([[1.0, 0.0, 0.0, 0.0]]), np.zeros((1, 0)), True)
    known = LpCache(program)
    weights = Weights(np.array([0.5, 0.5, 0.0, 0.0]), np.zeros(0), 0.5)
    known.add_winner(_set(0, 1), weights)
    assert known.wins(_set(0, 1, 2))
    assert not known.wins(_set(0, 2))
    program.add_rows(np.array([[0.0, 1.0, 0.0, 0.0]]), np.zeros((1, 0)), True)
    assert known.wins(_set(0, 1))
    program.add_rows(np.array([[1.0, -1.0, 0.0, 0.0]]), np.zeros((1, 0)), True)
    assert not known.wins(_set(0, 1, 2, 3))


def test_a_set_that_misses_a_cut_loses() -> None:
    known = LpCache(WeightProgram(np.arange(4), 0))
    assert not known.loses(_set(0))
    known.add_cut([1, 2])
    assert known.loses(_set(0, 3))
    assert not known.loses(_set(0, 2))
