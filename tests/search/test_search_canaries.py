"""The last input that tells two supports apart: no setting of the solver may miss it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pine_boost.proof.cpsat.solver import SolverSetting
from tests.support.bruteforce import (
    Small,
    all_rows,
    check_result,
    minimum_columns,
    only_the_solver,
    score_levels,
    small_problem,
)
from tests.support.forests import MANNERS

SETTINGS = (
    SolverSetting("linear", linearization_level=1),
    SolverSetting("very linear", random_seed=3, linearization_level=2),
    SolverSetting("linear, no presolve", random_seed=11, linearization_level=1, cp_model_presolve=False),
    SolverSetting("very linear, no presolve", linearization_level=2, cp_model_presolve=False),
    SolverSetting("other seed", random_seed=2**30),
    SolverSetting("other seed, no presolve", random_seed=12345, cp_model_presolve=False),
)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_search_never_certifies_a_canary(setting: SolverSetting, monkeypatch: Any) -> None:
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
_KNOWN = (2, 6, 10, 12)  # the first seeds that have one; the others are tried if these have none


def _canaries() -> list[tuple[Small, int]]:
    """Games whose minimum grows when tau takes in one more input; that input is the canary."""
    if _CANARIES:
        return _CANARIES
    for seed in dict.fromkeys([*_KNOWN, *range(30)]):
        small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None, n_fit=3, n_trees=5)
        problem = small.problem
        values, counts = score_levels(small)
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
