"""The search for the fewest trees: sets nearby find what the cuts alone would."""

from __future__ import annotations

from typing import Any

import pytest

from pine_boost.search.algorithm import Effort, Run, search
from pine_boost.search.pruner import Pruner
from tests.support.bruteforce import all_rows, check_result, minimum_columns, small_problem
from tests.support.forests import MANNERS


def test_shakes_find_what_cuts_alone_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shakes from the first round on: the same minimum, though no set of the cuts is tried."""
    monkeypatch.setattr("pine_boost.search.fewest._FIRST_SHAKE", 0)
    monkeypatch.setattr(Run, "certify", lambda run, propose: False)
    monkeypatch.setattr(Run, "ascend", lambda run: False)
    stands, shaken = Run.stands, []

    def only_shaken(run: Run, support: Any, **options: Any) -> bool | None:
        if not any(support is own for own in shaken):
            return stands(run, support, **options) if run.pruner.solve(support) is None else False
        return stands(run, support, **options)

    shake = Pruner.shake

    def noted(pruner: Pruner, support: Any, seed: int) -> Any:
        shaken.append(shake(pruner, support, seed))
        return shaken[-1]

    monkeypatch.setattr(Run, "stands", only_shaken)
    monkeypatch.setattr(Pruner, "shake", noted)
    n_pruned = 0
    for seed in range(6):
        problem = small_problem(seed, MANNERS[seed % 4], n_trees=7, n_fit=4, leaf_grid=None)
        result = search(problem.game, problem.fit_states, effort=Effort(exact_rounds=40))
        check_result(problem, result)
        smallest = minimum_columns(problem.game, all_rows(problem))
        if smallest is not None and smallest < problem.game.n_units:
            assert result.n_kept == smallest
            n_pruned += 1
    assert n_pruned > 2
    assert shaken
