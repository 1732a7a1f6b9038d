"""The margin that serving can see, against a list of all inputs."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from pine_boost.budget import Budget, Effort
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.problem import Answer, restated
from pine_boost.proof.standalone_margin import broken_until, find_margin, serving_problem
from pine_boost.proof.two_proofs import first_proof, second_proof
from tests.support.bruteforce import check_proofs, decide, exact_margins, small_problem
from tests.support.forests import MANNERS

CASES = [(seed, n_outputs) for n_outputs in (1, 3) for seed in range(4)]


@cache
def pruned_small(seed, n_outputs):
    small = small_problem(
        seed, MANNERS[seed % len(MANNERS)], n_outputs=n_outputs, n_trees=9, delta=0.7, quantile=0.8, unit="tree"
    )
    found = small.search(effort=Effort(n_walks=20, n_eliminations=1, exact_rounds=1))
    assert found.pruned is not None, "draw another seed: nothing was removed here"
    return small, found.pruned


def surest_mistake(small, pruned, *, unsettled):
    """The largest margin of the pruned model over the class that the original gives, on its way.

    By exact fractions over every input of the region; where rounding decides the original's class,
    any class counts as its class, if such inputs are asked for.
    """
    problem = small.problem
    forest = problem.forest
    states = small.everything[small.inside]
    settled = restated(problem, problem.region, 0.0).settled(states)
    X = problem.space.representative(states)
    before = decide(forest, exact_margins(forest, X))
    margins = exact_margins(forest, X, pruned)
    after = decide(forest, margins)
    worst = Fraction(-1)
    for row, margin in enumerate(margins):
        rivals = [int(before[row])]
        if not settled[row]:
            rivals = list(range(max(2, forest.n_outputs))) if unsettled else []
        for rival in rivals:
            if rival == after[row]:
                continue
            if forest.n_outputs == 1:
                worst = max(worst, abs(margin[0] - Fraction(forest.decision.cuts[0])))
            else:
                worst = max(worst, margin[after[row]] - margin[rival])
    return worst


@pytest.mark.parametrize(("seed", "n_outputs"), CASES)
def test_the_margin_holds_on_every_input_and_is_nearly_the_smallest(seed, n_outputs):
    small, pruned = pruned_small(seed, n_outputs)
    margin = find_margin(small.problem, pruned, small.fit_states, Budget.of())
    worst = surest_mistake(small, pruned, unsettled=True) * 2**pruned.grid
    assert surest_mistake(small, pruned, unsettled=False) * 2**pruned.grid < margin.units
    assert margin.units <= 1.04 * max(worst, 1) + 2
    check_proofs(small, margin.proofs)


@pytest.mark.parametrize(("seed", "n_outputs"), CASES)
def test_one_unit_less_than_what_an_input_breaks_is_never_proved(seed, n_outputs):
    small, pruned = pruned_small(seed, n_outputs)
    inside = small.everything[small.inside]
    broken = broken_until(serving_problem(small.problem, 0), pruned, inside)
    if broken < 0:
        return
    asked = serving_problem(small.problem, broken)
    prover = Prover(asked)
    found = first_proof(prover, pruned, Budget.of())
    assert any(proof.answer is Answer.FOUND for proof in found)
    again = second_proof(prover, pruned, Budget.of())
    assert any(proof.answer is Answer.FOUND for proof in again)
    boxes = [prove_boxes(asked, pruned, question, max_boxes=10**6, budget=Budget.of()) for question in asked.questions]
    assert any(proof.answer is Answer.FOUND for proof in boxes)
    beyond = replace(asked, permitted=broken + 1)
    assert all(p.answer is Answer.PROVED for p in first_proof(Prover(beyond), pruned, Budget.of()))


def test_the_cases_have_something_to_break():
    mistakes = [surest_mistake(*pruned_small(*case), unsettled=False) for case in CASES]
    assert sum(mistake > 0 for mistake in mistakes) >= 4


def test_no_time_is_no_margin():
    small, pruned = pruned_small(0, 1)
    assert find_margin(small.problem, pruned, small.fit_states, Budget.of(1e-9)) is None
