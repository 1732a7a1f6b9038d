"""The problem in integers: what it calls decided is certain, what it leaves out is tiny."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pine_boost.model import exact
from pine_boost.model.forest import Decision, Forest
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import Tie
from pine_boost.model.states import build_space
from pine_boost.proof.problem import Problem, build_problem, questions_of
from pine_boost.region.domain import compile_domain
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states, decide, distance, exact_margins, small_problem
from tests.support.forests import MANNER_NAMES, MANNERS, SKLEARN, XGBOOST, Manner, random_forest


def _whole(forest: Forest, **options: object) -> Problem:
    space = build_space(forest)
    tables = compile_domain(None, space, schema_of(forest))
    return build_problem(forest, space, tables, **options)  # type: ignore[arg-type]


def _states(problem: Problem) -> np.ndarray:
    everything = all_states(problem.space)
    return everything[problem.region.contains(everything)]


def _classes_of_questions(problem: Problem, decided: np.ndarray) -> np.ndarray:
    """The class that a decided row claims."""
    if problem.forest.n_outputs == 1:
        return np.array([row[[q.sign > 0 for q in problem.questions]].sum() for row in decided])
    plus = np.array([q.plus for q in problem.questions])
    return np.array([plus[np.argmax(row)] for row in decided])


@pytest.mark.parametrize("leaf_grid", [None, 2, 5])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_decided_is_certain_and_the_rest_is_in_the_band(manner: Manner, n_outputs: int, leaf_grid: int | None) -> None:
    for seed in range(2):
        small = small_problem(seed, manner, n_outputs=n_outputs, score=None, leaf_grid=leaf_grid)
        problem = small.problem
        states = small.everything[small.inside]
        X = problem.space.representative(states)
        margins = exact_margins(problem.forest, X)
        certain = problem.settled(states)
        decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
        claimed = _classes_of_questions(problem, decided)
        assert np.array_equal(claimed[certain], decide(problem.forest, margins)[certain])
        # and the native float sums, in their own order, decide the same
        native = [[Fraction(x) for x in row] for row in native_margins(problem.forest, X).tolist()]
        assert np.array_equal(claimed[certain], decide(problem.forest, native)[certain])
        far = [d >= Fraction(problem.undecided) for d in distance(problem.forest, margins)]
        assert certain[np.array(far)].all()
        if leaf_grid is not None:
            assert problem.undecided == 0
            assert certain.all()  # ties included
        else:
            assert 0 < problem.undecided < 1e-4


@pytest.mark.parametrize("tie", list(Tie))
@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_ties_are_decided_by_the_rule(tie: Tie, n_outputs: int) -> None:
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 6, 2, 3, n_outputs, manner=SKLEARN, leaf_grid=0, n_thresholds=3)
    forest = replace(forest, decision=replace(forest.decision, tie=tie))
    problem = _whole(forest)
    states = _states(problem)
    X = problem.space.representative(states)
    margins = exact_margins(forest, X)
    tied = np.array([d == 0 for d in distance(forest, margins)])
    assert tied.sum() > 3
    assert problem.settled(states).all()
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    assert np.array_equal(_classes_of_questions(problem, decided), decide(forest, margins))
    # exactly the questions of the winner of a tie may be answered by a tie
    for question in problem.questions:
        first = question.plus < question.minus if n_outputs > 1 else question.sign < 0
        assert problem.strict[question.index] == (first != (tie is Tie.LOWEST))


def test_score_bands_ask_about_every_cut() -> None:
    rng = np.random.default_rng(2)
    forest = random_forest(rng, 6, 2, 3, manner=XGBOOST, n_thresholds=3)
    cuts = (-0.9, 0.1, 1.2)
    forest = replace(forest, decision=Decision(cuts, guard=1e-6, thresholds=(0.289, 0.525, 0.768)))
    problem = _whole(forest)
    assert [q.name for q in problem.questions] == [
        "above 0.289",
        "below 0.289",
        "above 0.525",
        "below 0.525",
        "above 0.768",
        "below 0.768",
    ]
    assert problem.strict.all()
    states = _states(problem)
    margins = exact_margins(forest, problem.space.representative(states))
    certain = problem.settled(states)
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    bands = decide(forest, margins)
    assert set(bands[certain]) == {0, 1, 2, 3}
    assert np.array_equal(_classes_of_questions(problem, decided)[certain], bands[certain])
    far = np.array([d >= Fraction(problem.undecided) for d in distance(forest, margins)])
    assert certain[far].all()
    assert problem.undecided > 1e-6  # the guard is part of it


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("leaf_grid", [None, 9])
def test_indifference_asks_about_delta_and_beyond(n_outputs: int, leaf_grid: int | None) -> None:
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 6, 2, 3, n_outputs, n_thresholds=3, leaf_grid=leaf_grid)
    delta = 0.375
    problem = _whole(forest, delta=delta)
    states = _states(problem)
    margins = exact_margins(forest, problem.space.representative(states))
    certain = problem.settled(states)
    far = np.array([d >= Fraction(delta) for d in distance(forest, margins)])
    # a few units of the integer scale below delta nothing is asked any more
    edge = Fraction(delta) - 8 * Fraction(2) ** -problem.scale
    near = np.array([d <= edge for d in distance(forest, margins)])
    assert far.any()
    assert near.any()
    assert certain[far].all()  # exactly delta included: nothing of the region is left out
    assert not certain[near].any()
    assert problem.undecided == 0


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_integers_stay_below_the_row_limit(magnitude: float, n_outputs: int) -> None:
    rng = np.random.default_rng(4)
    for manner in MANNERS:
        forest = random_forest(rng, 30, 4, 5, n_outputs, manner=manner)
        spread = magnitude * 10.0 ** rng.uniform(-6, 0, size=forest.value.shape)
        value = (forest.value * spread).astype(forest.arithmetic).astype(np.float64)
        forest = replace(forest, value=value, intercept=forest.intercept * magnitude)
        problem = _whole(forest)
        for question in problem.questions:
            row = question.side(problem.original_int)
            starts = problem.trees.leaf_offset[:-1]
            largest = int(np.maximum.reduceat(np.abs(row), starts).sum())
            assert largest + abs(int(problem.least[question.index])) < 2 * exact.SUM_LIMIT
        largest = float(np.abs(value).max())
        if magnitude >= 1e-6:
            assert problem.undecided < largest * 1e-3


def _bands() -> Forest:
    forest = random_forest(np.random.default_rng(0))
    decision = Decision((0.1, 0.3, 0.7), thresholds=(0.1, 0.3, 0.7))
    return replace(forest, decision=decision, classes=(0, 1, 2, 3))


def _classes() -> Forest:
    return random_forest(np.random.default_rng(0), n_outputs=4)


def test_every_boundary_has_two_questions_that_mirror_each_other() -> None:
    for forest, n_boundaries in ((_bands(), 3), (_classes(), 6)):
        questions = questions_of(forest)
        mirrors = [[other for other in questions if question.is_mirror(other)] for question in questions]
        pairs = {frozenset((own.index, mirror.index)) for own, (mirror,) in zip(questions, mirrors, strict=True)}
        assert len(pairs) == n_boundaries
        assert {len(pair) for pair in pairs} == {2}


def test_cuts_are_seen_with_the_sign_of_the_side_and_exactly() -> None:
    cuts = _bands().decision.cuts
    exact_cuts = [Fraction(cut) for cut in cuts]
    for question in questions_of(_bands()):
        beyond = question.sign * (exact_cuts[question.cut] - exact_cuts[0])
        assert question.beyond_first(exact_cuts) == beyond
        assert question.beyond_first(cuts) == question.sign * (cuts[question.cut] - cuts[0])


def test_rivals_ask_for_the_same_class_and_sides_of_cuts_have_none() -> None:
    questions = questions_of(_classes())
    for question in questions:
        rivals = [other for other in questions if other.is_rival(question)]
        assert {rival.plus for rival in rivals} == {question.plus}
        assert len({question.minus, *(rival.minus for rival in rivals)}) == 3
    bands = questions_of(_bands())
    assert not any(other.is_rival(question) for question in bands for other in bands)
