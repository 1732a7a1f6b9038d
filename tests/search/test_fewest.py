"""The search for the fewest units: sets nearby find what the cuts alone would."""

from __future__ import annotations

from typing import Any

import pytest

from pine_boost.budget import Effort
from pine_boost.search import algorithm, strategies
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_state import SearchState
from pine_boost.search.strategies import Proposal, ProposalStatus
from tests.support.bruteforce import all_rows, check_result, minimum_columns, small_problem
from tests.support.forests import MANNERS


def test_perturbations_find_what_cuts_alone_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Perturbed sets from the first round on: the same minimum, no set of the cuts counts."""
    monkeypatch.setattr(strategies, "_FIRST_PERTURBATION", 0)
    monkeypatch.setattr(algorithm, "first_answers", lambda state: iter(()))
    monkeypatch.setattr(algorithm, "eliminations", lambda state: iter(()))
    weigh, perturbed = algorithm.weigh, []

    def only_perturbed(state: SearchState, proposal: Proposal) -> Any:
        if any(proposal.support is own for own in perturbed):
            return weigh(state, proposal)
        if state.pruner.solve(proposal.support) is None:
            proposal.status = ProposalStatus.EXCLUDED
        return None

    perturb = Pruner.perturb

    def noted(pruner: Pruner, support: Any, seed: int) -> Any:
        perturbed.append(perturb(pruner, support, seed))
        return perturbed[-1]

    monkeypatch.setattr(algorithm, "weigh", only_perturbed)
    monkeypatch.setattr(Pruner, "perturb", noted)
    n_pruned = 0
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], n_trees=7, n_fit=4, leaf_grid=None)
        result = small.search(effort=Effort(exact_rounds=40))
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        if smallest is not None and smallest < small.n_units:
            assert result.n_kept == smallest
            n_pruned += 1
    assert n_pruned > 2
    assert perturbed
