"""Boxes against the naive enumerator and against CP-SAT, on random small games of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes import branch_and_bound as boxes
from pine_boost.proof.boxes.branch_and_bound import BoxSearch, prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import FIRST
from pine_boost.proof.question import Answer
from tests.support.naive import Case, broken_rows, in_region, random_case, random_pruned
from tests.support.solver_settings import FOREVER

pytest.importorskip("sklearn")  # isolation forests
KINDS = ("same", "reweighted", "planted")


def _agrees(case: Case, pruned: PrunedForest) -> int:
    """Boxes say what the enumeration says, on every question; returns how many were broken."""
    broken = broken_rows(case, pruned)
    for question in case.problem.questions:
        proof = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
        column = broken[:, question.index]
        if not column.any():
            assert proof.answer is Answer.PROVED
            assert proof.covered == 1.0
            continue
        assert proof.answer is Answer.FOUND
        row = np.flatnonzero((case.rows == proof.states).all(axis=1))
        assert len(row) == 1
        assert column[row].all()
    return int(broken.any(axis=0).sum())


@pytest.mark.parametrize("block", range(8))
def test_boxes_agree_with_enumeration(block: int) -> None:
    n_broken = n_questions = 0
    for seed in range(block * 40, block * 40 + 40):
        case = random_case(seed)
        rng = np.random.default_rng(seed)
        pruned = random_pruned(rng, case.problem, KINDS[seed % 5 % 3])
        n_broken += _agrees(case, pruned)
        n_questions += len(case.problem.questions)
    assert 0.05 * n_questions < n_broken < 0.95 * n_questions  # both answers were put to the test


def test_boxes_and_solver_agree() -> None:
    for seed in range(0, 600, 17):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, KINDS[seed % 3])
        questions = list(case.problem.questions)
        solver = Prover(case.problem).prove(pruned, questions, (FIRST,), FOREVER)
        for question, other in zip(questions, solver, strict=True):
            own = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
            assert own.answer is other.answer


def _larger(seed: int = 3) -> tuple[Case, PrunedForest]:
    """A case whose proof needs more than one box."""
    while True:
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        search = BoxSearch(case.problem, pruned, case.problem.questions[0])
        answer, _, _ = search.run(search.tables.whole(), 10**6, FOREVER)
        if answer is Answer.PROVED and search.n_boxes > 40:
            return case, pruned
        seed += 1


def test_out_of_boxes_is_unknown_and_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    case, pruned = _larger()
    monkeypatch.setattr(boxes, "_BATCH", 4)
    question = case.problem.questions[0]
    shares = []
    for most in (1, 10, 20, 30):
        proof = prove_boxes(case.problem, pruned, question, max_boxes=most, budget=FOREVER)
        assert proof.answer is Answer.UNKNOWN
        assert proof.states is None
        assert proof.covered is not None
        shares.append(proof.covered)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] < 1
    late = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=Budget.of(-1.0))
    assert late.answer is Answer.UNKNOWN
    assert late.covered == 0.0


def test_parts_of_the_region_can_be_searched_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    case, pruned = _larger()
    monkeypatch.setattr(boxes, "_BATCH", 4)
    search = BoxSearch(case.problem, pruned, case.problem.questions[0])
    answer, _, left = search.run(search.tables.whole(), 12, FOREVER)
    assert answer is Answer.UNKNOWN
    for part in left:
        other = BoxSearch(case.problem, pruned, case.problem.questions[0])
        again = other.tables.boxes(part.low, part.high)
        assert np.array_equal(again.mask, part.mask)
        assert np.array_equal(again.bound, part.bound)
        assert other.run([again], 10**6, FOREVER)[0] is Answer.PROVED


def test_the_batch_size_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1, 200, 13):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        for question in case.problem.questions[:2]:
            answers = []
            for batch in (1, 7, 512):
                monkeypatch.setattr(boxes, "_BATCH", batch)
                proof = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
                answers.append(proof.answer)
            assert len(set(answers)) == 1


def test_the_same_call_gives_the_same_states() -> None:
    for seed in range(60):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "planted")
        question = case.problem.questions[0]
        twice = [prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER).states for _ in range(2)]
        assert (twice[0] is None) == (twice[1] is None)
        assert twice[0] is None or np.array_equal(twice[0], twice[1])


@pytest.mark.parametrize("seed", range(25))
def test_no_bound_lies_below_a_point_of_its_box(seed: int) -> None:
    """Every sum over every box is at least the largest sum over its points."""
    case = random_case(seed * 7)
    rng = np.random.default_rng(seed)
    problem = case.problem
    pruned = random_pruned(rng, problem, "reweighted")
    search = BoxSearch(problem, pruned, problem.questions[0])
    if search.tables.shared.is_empty:
        return
    low = rng.integers(0, search.tables.lengths[:, None], (len(search.tables.lengths), 30)).astype(np.int32)
    high = rng.integers(low, search.tables.lengths[:, None]).astype(np.int32)
    bound = search.tables.boxes(low, high).bound
    cheapest = search.tables.region.cheapest(low, high)
    for k in range(30):
        inside = np.ones(len(case.rows), dtype=bool)
        for j, order in enumerate(search.tables.order):
            inside &= np.isin(case.rows[:, j], order[low[j, k] : high[j, k] + 1])
        points = case.rows[inside]
        position = np.stack(
            [np.argsort(o)[np.searchsorted(np.sort(o), points[:, j])] for j, o in enumerate(search.tables.order)]
        ).astype(np.int32)
        exact = search.tables.boxes(position, position)
        assert np.all(exact.bound.max(axis=1) <= bound[:, k])
        assert search.tables.region.cheapest(position, position).min() >= cheapest[k]


def test_large_numbers_are_rounded_up_and_stay_sound() -> None:
    """Leaves near the limit of the solver's rows; a sum is shifted, and must not lose a point."""
    for seed in range(40):
        case = random_case(seed)
        problem = case.problem
        pruned = random_pruned(np.random.default_rng(seed), problem, "reweighted", grid=24)
        broken = broken_rows(case, pruned)
        for question in problem.questions:
            proof = prove_boxes(problem, pruned, question, max_boxes=10**6, budget=FOREVER)
            found = proof.answer is Answer.FOUND
            assert found == broken[:, question.index].any()


def test_costs_too_large_for_32_bits_keep_every_point() -> None:
    """A user's own score may be huge; its sum is shifted, and the room must not shrink by that."""
    n_found = 0
    for seed in range(24, 600, 12):
        case = random_case(seed)
        score, tau = case.problem.region.score, case.problem.region.tau
        if score is None or score.trees is None or tau is None:
            continue
        trees = replace(score.trees, cost=score.trees.cost * 2**15 + 1)
        unary = tuple(cost + np.arange(len(cost)) * 2**20 for cost in score.unary)
        own = replace(score, trees=trees, unary=unary)
        tables = replace(case.problem.region, score=own, tau=tau * 2**15 + trees.trees.n_trees)
        case = replace(case, problem=replace(case.problem, region=tables))
        case = replace(case, inside=in_region(tables, case.rows))
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        n_found += _agrees(case, pruned)
    assert n_found > 10


def test_an_empty_region_is_proved_at_once() -> None:
    case = random_case(0)
    nothing = tuple(np.zeros_like(states) for states in case.problem.region.allowed)
    problem = replace(case.problem, region=replace(case.problem.region, allowed=nothing))
    pruned = random_pruned(np.random.default_rng(0), problem, "planted")
    for question in problem.questions:
        proof = prove_boxes(problem, pruned, question, max_boxes=1, budget=FOREVER)
        assert proof.answer is Answer.PROVED
