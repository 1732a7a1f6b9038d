"""Canaries and needles: one input breaks a candidate; no method under any setting certifies it."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from pine_boost.budget import Budget
from pine_boost.model.forest import PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import SECOND, SolverSetting
from pine_boost.proof.problem import Answer, Problem, Question, build_problem
from pine_boost.region.domain import compile_domain
from pine_boost.region.score_tables import PairTable, ScoreTables
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import (
    all_rows,
    check_result,
    decide,
    exact_margins,
    minimum_columns,
    only_the_solver,
    score_levels,
    small_problem,
    with_bands,
)
from tests.support.forests import MANNERS, random_forest
from tests.support.grids import grid_forest, integer_margins
from tests.support.solver_settings import FOREVER, SETTINGS

SCORES = ("chow-liu", "leaf-support", "isolation-forest")
LINEAR = SolverSetting("linear", linearization_level=1)
CUTS = (-0.8, 0.1, 0.9)
KINDS = ("two classes", "classes", "bands")


@dataclass(frozen=True, eq=False)
class Canary:
    """A candidate that exactly one state row of the region speaks against."""

    problem: Problem
    pruned: PrunedForest
    state: np.ndarray
    lost: tuple[Question, ...]


def _two_classes(seed):
    return small_problem(seed, MANNERS[seed % 4], score=SCORES[seed % 3], with_domain=seed % 5 == 0)


def _three_classes(seed):
    votes = seed % 3 == 2
    return small_problem(
        seed,
        MANNERS[seed % 4],
        n_outputs=3,
        votes=votes,
        n_trees=6 if votes else 9,
        score=SCORES[seed // 4 % 3],
        with_domain=seed % 5 == 0,
        leaf_grid=[None, 3][seed // 2 % 2],
    )


def _bands(seed):
    small = small_problem(
        seed, MANNERS[seed % 4], score=SCORES[seed // 4 % 3], with_domain=seed % 5 == 0, leaf_grid=None
    )
    return with_bands(small, CUTS)


def _candidate(problem, seed):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.9, 1.1, problem.forest.n_trees)
    if seed % 2:
        weights[rng.integers(len(weights))] = 0.0
    return grid_forest(problem.forest, weights, grid=12)


def _plant(small, pruned):
    """End the region exactly at the most plausible input that the candidate loses."""
    problem = small.problem
    states = small.everything[problem.region.permits(small.everything)]
    reachable = [axis.reachable[states[:, j]] for j, axis in enumerate(problem.space.axes)]
    states = states[np.all(reachable, axis=0)]
    X = problem.space.representative(states)
    margins = integer_margins(pruned, X)
    sides = np.stack([question.side(margins) for question in problem.questions], axis=1)
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    lost = decided & (sides < problem.needed_sides(pruned.grid))
    bad = np.flatnonzero(lost.any(axis=1))
    if len(bad) == 0 or problem.region.score is None:
        return None
    scores = problem.region.score.score(states[bad])
    if np.count_nonzero(scores == scores.min()) > 1:
        return None
    chosen = bad[int(np.argmin(scores))]
    region = replace(problem.region, tau=int(scores.min()))
    # no matter of distances: the two models really decide differently there, by exact fractions
    before, after = (
        decide(problem.forest, exact_margins(problem.forest, X[chosen : chosen + 1], model))[0]
        for model in (None, pruned)
    )
    if before == after:
        return None
    questions = tuple(problem.questions[index] for index in np.flatnonzero(lost[chosen]))
    return Canary(replace(problem, region=region), pruned, states[chosen], questions)


def _collect(make, wanted, n_seeds):
    """One canary for each question by name, and the first ones with NaN and with a category."""
    found = {}
    for seed in range(n_seeds):
        small = make(seed)
        canary = _plant(small, _candidate(small.problem, seed))
        if canary is None:
            continue
        row = canary.problem.space.representative(canary.state[None])[0]
        for question in canary.lost:
            found.setdefault(question.name, canary)
        if np.isnan(row).any():
            found.setdefault("missing", canary)
        if row[1] >= 0:
            found.setdefault("category", canary)
        if len(found) >= wanted:
            return found
    return found


@cache
def _canaries(kind):
    if kind == "two classes":
        planted = {seed: _plant(own := _two_classes(seed), _candidate(own.problem, seed)) for seed in range(40)}
        return {seed: canary for seed, canary in planted.items() if canary is not None}
    if kind == "classes":
        return _collect(_three_classes, wanted=6 + 2, n_seeds=300)
    return _collect(_bands, wanted=2 * len(CUTS) + 2, n_seeds=300)


def test_there_is_a_canary_for_every_question():
    pairs = {f"class {a} over {b}" for a in range(3) for b in range(3) if a != b}
    assert set(_canaries("classes")) == pairs | {"missing", "category"}
    bands = _canaries("bands")
    problem = bands["missing"].problem
    assert set(bands) == {question.name for question in problem.questions} | {"missing", "category"}
    assert len(problem.questions) == 6
    assert len(_canaries("two classes")) >= 8


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
@pytest.mark.parametrize("kind", KINDS)
def test_no_setting_of_the_solver_misses_a_canary(kind, setting):
    for name, canary in _canaries(kind).items():
        oracle = Prover(canary.problem)
        proofs = oracle.prove(canary.pruned, list(canary.problem.questions), (setting,), FOREVER)
        for proof in proofs:
            if proof.question in canary.lost:
                assert proof.answer is Answer.FOUND, (name, proof.question.name)
                assert proof.states is not None
                assert np.array_equal(proof.states, canary.state)
            else:
                assert proof.answer is Answer.PROVED, (name, proof.question.name)


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_do_not_miss_a_canary(kind):
    for name, canary in _canaries(kind).items():
        for question in canary.problem.questions:
            proof = prove_boxes(canary.problem, canary.pruned, question, max_boxes=10**6, budget=FOREVER)
            expected = Answer.FOUND if question in canary.lost else Answer.PROVED
            assert proof.answer is expected, (name, question.name)
            if proof.states is not None:
                assert np.array_equal(proof.states, canary.state)


@pytest.mark.parametrize("setting", SETTINGS[:3], ids=lambda s: s.name)
@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_of_the_score_less_and_nothing_is_left(kind, setting):
    """The canary is the only reason: the next smaller region is proved by every method."""
    for canary in _canaries(kind).values():
        region = replace(canary.problem.region, tau=canary.problem.region.tau - 1)
        problem = replace(canary.problem, region=region)
        proofs = Prover(problem).prove(canary.pruned, list(problem.questions), (setting,), FOREVER)
        assert all(proof.answer is Answer.PROVED for proof in proofs)


# the first seeds that have one; the others are tried if these have none
_KNOWN = {"two classes": (2, 6, 10, 12), "classes": (1, 11, 14), "bands": ()}


@cache
def _last_inputs(kind):
    """Games that need more columns as soon as tau takes in one more input; that input is the canary."""
    found = []
    size = {"n_trees": 5} if kind == "two classes" else {"n_outputs": 3, "n_trees": 12}
    for seed in dict.fromkeys([*_KNOWN[kind], *range(60)]):
        if kind == "bands":
            small = replace(own := _bands(seed), fit_states=own.fit_states[:3])
        else:
            small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None, n_fit=3, **size)
        problem = small.problem
        values, counts = score_levels(small)
        before = None
        for tau, count in zip(values[:12].tolist(), counts.tolist(), strict=False):
            region = replace(problem.region, tau=int(tau))
            inside = region.contains(small.everything)
            current = replace(small, problem=replace(problem, region=region), inside=inside)
            fewest = minimum_columns(current, all_rows(current))
            if None not in (before, fewest) and count == 1 and fewest > before:
                found.append((current, fewest))
                break
            before = fewest
        if len(found) == 3:
            return found
    return found


@pytest.mark.parametrize("setting", [LINEAR, *SETTINGS[2:]], ids=lambda s: s.name)
@pytest.mark.parametrize("kind", KINDS)
def test_no_search_certifies_without_the_last_input(kind, setting, monkeypatch):
    """A solver that misses it would certify a smaller model; walks and climbs, which could see it, are off."""
    only_the_solver(monkeypatch, setting)
    assert len(_last_inputs(kind)) == 3
    for small, fewest in _last_inputs(kind):
        result = small.search()
        check_result(small, result)
        assert result.n_kept >= fewest


def _needle(n_features, magnitude, *, scored):
    """One input out of 2**n_features is class 1; the pruned model has forgotten it.

    Tree j is a stump on feature j worth +-w_j; only all features on the right reach the cut. The
    leaves fill the solver's safe range, where or-tools#5293 gave wrong answers.
    """
    rng = np.random.default_rng(n_features)
    base = random_forest(rng, n_features, 1, n_features, n_thresholds=1, leaf_probability=0.0)
    weight = magnitude * rng.integers(900, 1100, n_features) / 1024
    value, feature = base.value.copy(), base.feature.copy()
    for tree in range(n_features):
        root = int(base.tree_offset[tree])
        feature[root] = tree
        value[base.left[root]], value[base.right[root]] = -weight[tree], weight[tree]
    forest = replace(
        base,
        value=value.astype(np.float32).astype(np.float64),
        feature=feature,
        threshold=np.where(base.kind == SplitKind.NUMERIC, 0.5, 0.0),
        intercept=np.array([-(weight.sum() - weight.min())]).astype(np.float32).astype(np.float64),
        accepts_missing=False,
    )
    space = build_space(forest)
    region = compile_domain(None, space, schema_of(forest))
    if scored:
        region = _chain_score(region, n_features)
    problem = build_problem(forest, space, region)
    pruned = grid_forest(forest)
    value_int = pruned.value_int.copy()
    leaves = forest.kind == SplitKind.LEAF
    first = leaves & (forest.node_tree == 0)
    lowered = int(np.ceil(2 * weight.min() * 2**pruned.grid))
    value_int[first] -= lowered
    return problem, replace(pruned, value_int=value_int)


def _chain_score(region, n_features):
    """A chain of pair costs whose sum at all ones is exactly tau; most other inputs cost more."""
    bins = tuple(np.array([0, 1]) for _ in range(n_features))
    unary = tuple(np.array([900, 1000]) for _ in range(n_features))
    cost = np.array([[0, 7000], [7000, 10]])
    pairs = tuple(PairTable(j, j + 1, cost) for j in range(n_features - 1))
    score = ScoreTables(bins, unary, pairs)
    tau = int(score.score(np.ones((1, n_features), dtype=np.int32))[0])
    return replace(region, score=score, tau=tau)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
@pytest.mark.parametrize("scored", [False, True])
def test_needle_is_found_under_every_setting(setting, scored):
    for n_features, magnitude in ((8, 1.0), (20, 1.0), (24, 1e-3)):
        problem, pruned = _needle(n_features, magnitude, scored=scored)
        proofs = Prover(problem).prove(pruned, list(problem.questions), (setting,), FOREVER)
        answers = {proof.question.sign: proof for proof in proofs}
        assert answers[1].answer is Answer.FOUND
        assert answers[1].states.tolist() == [1] * n_features
        assert answers[-1].answer is Answer.PROVED
        # the forgotten input restored, there is nothing to find
        whole = grid_forest(problem.forest)
        proofs = Prover(problem).prove(whole, list(problem.questions), (setting,), FOREVER)
        assert all(proof.answer is Answer.PROVED for proof in proofs)


def test_no_time_is_no_proof():
    problem, pruned = _needle(24, 1.0, scored=True)
    proofs = Prover(problem).prove(pruned, list(problem.questions), (SECOND,), Budget.of(-1.0))
    lost = {1: True, -1: False}
    for proof in proofs:
        if lost[proof.question.sign]:
            assert proof.answer is not Answer.PROVED
        else:
            assert proof.answer is not Answer.FOUND
    proof = prove_boxes(problem, pruned, problem.questions[0], max_boxes=1, budget=FOREVER)
    assert proof.answer is not Answer.PROVED
