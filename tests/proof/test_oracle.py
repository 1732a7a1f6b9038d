"""Both methods against brute force over all states, and canaries that must never certify."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.budget import Effort
from pine_boost.errors import PineBoostError
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat import prover as prover_module
from pine_boost.proof.cpsat.encoding import leaf_sum
from pine_boost.proof.cpsat.prover import Prover, add_question, find_undecided
from pine_boost.proof.cpsat.solver import FIRST, FIRST_LP, SECOND
from pine_boost.proof.problem import Answer, Proof
from pine_boost.search.oracle import Oracle
from tests.support.bruteforce import drawn_problem, exact_margins, lost_questions, small_problem
from tests.support.forests import MANNERS, XGBOOST
from tests.support.grids import grid_forest
from tests.support.solver_settings import FOREVER, SETTINGS

SCORES = ("chow-liu", "leaf-support", "isolation-forest", None)


def _pruned(problem, rng):
    """A model near the original: slightly reweighted, one tree dropped, or on a coarse grid."""
    n_trees = problem.forest.n_trees
    kind = rng.integers(4)
    weights = np.ones(n_trees)
    if kind == 0:
        weights = rng.uniform(0.97, 1.03, n_trees)
    elif kind == 1:
        weights[rng.integers(n_trees)] = 0.0
    elif kind == 2:
        weights = rng.uniform(0.5, 1.5, n_trees)
    grid = 12 if kind < 3 else int(rng.integers(1, 5))
    return grid_forest(problem.forest, weights, grid=grid)


def _check_found(small, pruned, proof):
    """A counterexample lies in the region, is decided, and the pruned model loses it, exactly."""
    problem, question = small.problem, proof.question
    states = proof.states[None]
    assert problem.region.contains(states).all()
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    assert decided[0, question.index]
    margin = exact_margins(problem.forest, problem.space.representative(states), pruned)[0]
    several = problem.forest.n_outputs > 1
    side = margin[question.plus] - margin[question.minus] if several else question.sign * margin[0]
    assert side < 0 or (side == 0 and problem.strict[question.index])


def _agrees(small, pruned):
    """Both configurations of CP-SAT and the boxes give brute force's answers."""
    problem = small.problem
    lost = lost_questions(small, pruned)
    prover = Prover(problem)
    questions = list(problem.questions)
    proofs = [
        *prover.prove(pruned, questions, (FIRST,), FOREVER),
        *prover.prove(pruned, questions, (SECOND,), FOREVER),
        *(prove_boxes(problem, pruned, q, max_boxes=10**6, budget=FOREVER) for q in questions),
    ]
    for proof in proofs:
        expected = Answer.FOUND if lost[proof.question.index] else Answer.PROVED
        assert proof.answer is expected, (proof.method, proof.question.name)
        if expected is Answer.FOUND:
            _check_found(small, pruned, proof)
    rows = small.rows()
    rows.add(small.everything[small.inside][::7])
    for states in Oracle(problem).climb(pruned, rows, FOREVER):
        against = [q for q in questions if _loses(small, pruned, q, states)]
        assert against
        assert all(lost[q.index] for q in against)
    return int(lost.sum())


def _loses(small, pruned, question, states):
    try:
        _check_found(small, pruned, Proof(question, "climb", Answer.FOUND, 0.0, states))
    except AssertionError:
        return False
    return True


@settings(derandomize=True, deadline=None, max_examples=18)
@given(
    st.integers(0, 2**16),
    st.sampled_from(MANNERS),
    st.sampled_from([(1, False), (3, False), (2, True), (3, True)]),
    st.sampled_from(SCORES),
    st.booleans(),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([0.1, 0.5, 0.9]),
)
def test_oracle_agrees_with_brute_force(seed, manner, outputs, score, with_domain, leaf_grid, quantile):
    small = small_problem(
        seed,
        manner,
        n_outputs=outputs[0],
        votes=outputs[1],
        score=score,
        quantile=quantile,
        with_domain=with_domain,
        leaf_grid=leaf_grid,
    )
    rng = np.random.default_rng(seed)
    for _ in range(2):
        _agrees(small, _pruned(small.problem, rng))


@pytest.mark.slow
def test_oracle_agrees_with_brute_force_many_times():
    n_lost = 0
    for seed in range(400):
        small = drawn_problem(seed, [(1, 6, False), (3, 6, False), (2, 6, True), (3, 6, True)], SCORES)
        n_lost += _agrees(small, _pruned(small.problem, np.random.default_rng(seed)))
    assert n_lost > 100


@pytest.mark.parametrize("score", SCORES)
def test_both_answers_occur(score):
    """The comparison above is not one-sided: the drawn models win and lose questions."""
    n_lost, n_asked = 0, 0
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], score=score, with_domain=seed % 2 == 0)
        pruned = _pruned(small.problem, np.random.default_rng(seed))
        n_lost += _agrees(small, pruned)
        n_asked += len(small.problem.questions)
    assert 1 < n_lost < n_asked


def test_settings_take_turns_until_one_has_an_answer(monkeypatch):
    """Turns too short for anything grow until there is an answer, the one that is always given."""
    answers = set()
    for seed in range(6):
        small = small_problem(seed, MANNERS[seed % 4], leaf_grid=None)
        pruned = _pruned(small.problem, np.random.default_rng(seed))
        prover = Prover(small.problem)
        questions = list(small.problem.questions)
        alone = prover.prove(pruned, questions, (FIRST,), FOREVER)
        little = FOREVER.with_effort(Effort(proof_effort=1e-9))
        with monkeypatch.context() as patch:
            patch.setattr(prover_module, "_FIRST_TURN", 1e-9)
            turns = prover.prove(pruned, questions, (FIRST, FIRST_LP), FOREVER)
            short = prover.prove(pruned, questions, (FIRST, FIRST_LP), little)
        assert [proof.answer for proof in turns] == [proof.answer for proof in alone]
        assert {proof.method for proof in turns} <= {FIRST.name, FIRST_LP.name}
        answers |= {proof.answer for proof in turns} | {proof.answer for proof in short}
    assert answers == set(Answer)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_rows_of_the_solver_stay_in_its_safe_range(n_outputs):
    """No enforced linear row, and coefficients and bounds of every row sum to less than 2**31."""
    checked = 0
    for seed, score in enumerate((*SCORES, *SCORES)):
        leaf_grid = None if seed < 4 else 6
        small = small_problem(
            seed, MANNERS[seed % 4], n_outputs=n_outputs, score=score, leaf_grid=leaf_grid, with_domain=True
        )
        problem = small.problem
        pruned = _pruned(problem, np.random.default_rng(seed))
        encoding = Prover(problem).encoding(FOREVER)
        for question, exactly in product(problem.questions, (False, True)):
            model = encoding.model.clone()
            add_question(model, encoding, problem, pruned, question, exactly=exactly)
            for constraint in model.proto.constraints:
                if not constraint.has_linear():
                    continue
                assert len(constraint.enforcement_literal) == 0
                size = sum(abs(c) for c in constraint.linear.coeffs)
                bounds = [b for b in constraint.linear.domain if abs(b) < 2**62]
                assert size + max(map(abs, bounds), default=0) < 2**31
                checked += 1
    assert checked > 16


def test_a_row_beyond_the_safe_range_raises():
    small = small_problem(0, XGBOOST, score=None)
    problem = small.problem
    values = problem.questions[0].side(problem.original_int)
    encoding = Prover(problem).encoding(FOREVER)
    leaf_sum(encoding, values)
    with pytest.raises(PineBoostError, match="safe range"):
        leaf_sum(encoding, values * 2**28)


def test_threads_give_the_same_proofs():
    small = small_problem(3, XGBOOST, n_outputs=3, n_trees=9)
    pruned = _pruned(small.problem, np.random.default_rng(1))
    questions = list(small.problem.questions)
    alone = Prover(small.problem, 1).prove(pruned, questions, (FIRST,), FOREVER)
    shared = Prover(small.problem, 2).prove(pruned, questions, (FIRST,), FOREVER)
    for a, b in zip(alone, shared, strict=True):
        assert (a.question, a.answer) == (b.question, b.answer)
        assert (a.states is None) == (b.states is None)
        assert a.states is None or np.array_equal(a.states, b.states)


def test_empty_region_is_proved_at_once():
    small = small_problem(2, XGBOOST, score="chow-liu")
    region = replace(small.problem.region, tau=-1)
    assert not region.contains(small.everything).any()
    problem = replace(small.problem, region=region)
    pruned = _pruned(problem, np.random.default_rng(0))
    for setting in SETTINGS[:2]:
        proofs = Prover(problem).prove(pruned, list(problem.questions), (setting,), FOREVER)
        assert all(proof.answer is Answer.PROVED for proof in proofs)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_undecided_inputs_by_enumeration(n_outputs):

    answers = set()
    for seed in range(8):
        small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, leaf_grid=None)
        problem = small.problem
        if seed % 2:  # widen the band until some inputs fall into it
            least = problem.least + int(np.abs(problem.original_int).max())
            problem = replace(problem, least=least)
        states = small.everything[small.inside]
        expected = bool((~problem.settled(states)).any())
        assert find_undecided(problem) is expected
        answers.add(expected)
    assert answers == {True, False}
