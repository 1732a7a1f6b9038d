"""The game in integers: what it calls decided is certain, what it leaves out is tiny."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pine_boost.model import exact
from pine_boost.model.forest import Decision, Forest, Tie
from pine_boost.model.reference import native_margins
from pine_boost.model.states import build_space
from pine_boost.proof.problem import Game, build_game, settled
from pine_boost.region.domain import compile_domain
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states, decide, distance, exact_margins, small_problem
from tests.support.forests import MANNERS, SKLEARN, XGBOOST, Manner, random_forest

MANNER_NAMES = ["xgboost", "lightgbm", "sklearn", "histogram"]


def _whole(forest: Forest, **options: object) -> Game:
    space = build_space(forest)
    tables = compile_domain(None, space, schema_of(forest))
    return build_game(forest, space, tables, **options)  # type: ignore[arg-type]


def _states(game: Game) -> np.ndarray:
    everything = all_states(game.space)
    return everything[game.region.contains(everything)]


def _classes_of_questions(game: Game, decided: np.ndarray) -> np.ndarray:
    """The class that a decided row claims."""
    if game.forest.n_outputs == 1:
        return np.array([row[[q.sign > 0 for q in game.questions]].sum() for row in decided])
    plus = np.array([q.plus for q in game.questions])
    return np.array([plus[np.argmax(row)] for row in decided])


@pytest.mark.parametrize("leaf_grid", [None, 2, 5])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_decided_is_certain_and_the_rest_is_in_the_band(
    manner: Manner, n_outputs: int, leaf_grid: int | None
) -> None:
    for seed in range(2):
        problem = small_problem(seed, manner, n_outputs=n_outputs, score=None, leaf_grid=leaf_grid)
        game = problem.game
        states = problem.everything[problem.inside]
        X = game.space.representative(states)
        margins = exact_margins(game.forest, X)
        certain = settled(game, states)
        decided = game.decided(game.original_margins_int(game.trees.leaves(states)))
        claimed = _classes_of_questions(game, decided)
        assert np.array_equal(claimed[certain], decide(game.forest, margins)[certain])
        # and the native float sums, in their own order, decide the same
        native = [[Fraction(x) for x in row] for row in native_margins(game.forest, X).tolist()]
        assert np.array_equal(claimed[certain], decide(game.forest, native)[certain])
        far = [d >= Fraction(game.undecided) for d in distance(game.forest, margins)]
        assert certain[np.array(far)].all()
        if leaf_grid is not None:
            assert game.undecided == 0
            assert certain.all()  # ties included
        else:
            assert 0 < game.undecided < 1e-4


@pytest.mark.parametrize("tie", list(Tie))
@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_ties_are_decided_by_the_rule(tie: Tie, n_outputs: int) -> None:
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 6, 2, 3, n_outputs, manner=SKLEARN, leaf_grid=0, n_thresholds=3)
    forest = replace(forest, decision=replace(forest.decision, tie=tie))
    game = _whole(forest)
    states = _states(game)
    X = game.space.representative(states)
    margins = exact_margins(forest, X)
    tied = np.array([d == 0 for d in distance(forest, margins)])
    assert tied.sum() > 3
    assert settled(game, states).all()
    decided = game.decided(game.original_margins_int(game.trees.leaves(states)))
    assert np.array_equal(_classes_of_questions(game, decided), decide(forest, margins))
    # exactly the questions of the winner of a tie may be answered by a tie
    for question in game.questions:
        first = question.plus < question.minus if n_outputs > 1 else question.sign < 0
        assert game.strict[question.index] == (first != (tie is Tie.LOWEST))


def test_score_bands_ask_about_every_cut() -> None:
    rng = np.random.default_rng(2)
    forest = random_forest(rng, 6, 2, 3, manner=XGBOOST, n_thresholds=3)
    cuts = (-0.9, 0.1, 1.2)
    forest = replace(forest, decision=Decision(cuts, guard=1e-6, thresholds=(0.289, 0.525, 0.768)))
    game = _whole(forest)
    assert [q.name for q in game.questions] == [
        "above 0.289", "below 0.289", "above 0.525", "below 0.525", "above 0.768", "below 0.768",
    ]  # fmt: skip
    assert game.strict.all()
    states = _states(game)
    margins = exact_margins(forest, game.space.representative(states))
    certain = settled(game, states)
    decided = game.decided(game.original_margins_int(game.trees.leaves(states)))
    bands = decide(forest, margins)
    assert set(bands[certain]) == {0, 1, 2, 3}
    assert np.array_equal(_classes_of_questions(game, decided)[certain], bands[certain])
    far = np.array([d >= Fraction(game.undecided) for d in distance(forest, margins)])
    assert certain[far].all()
    assert game.undecided > 1e-6  # the guard is part of it


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("leaf_grid", [None, 9])
def test_indifference_asks_about_delta_and_beyond(n_outputs: int, leaf_grid: int | None) -> None:
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 6, 2, 3, n_outputs, n_thresholds=3, leaf_grid=leaf_grid)
    delta = 0.375
    game = _whole(forest, delta=delta)
    states = _states(game)
    margins = exact_margins(forest, game.space.representative(states))
    certain = settled(game, states)
    far = np.array([d >= Fraction(delta) for d in distance(forest, margins)])
    # a few units of the integer scale below delta nothing is asked any more
    edge = Fraction(delta) - 8 * Fraction(2) ** -game.scale
    near = np.array([d <= edge for d in distance(forest, margins)])
    assert far.any()
    assert near.any()
    assert certain[far].all()  # exactly delta included: nothing of the region is left out
    assert not certain[near].any()
    assert game.undecided == 0


def test_units() -> None:
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 9, 2, 3, 3)
    assert _whole(forest).unit.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert _whole(forest).n_units == 3
    assert _whole(forest, unit="tree").n_units == 9
    with pytest.raises(ValueError, match="accepted are 'round' and 'tree'"):
        _whole(forest, unit="leaf")


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_integers_stay_below_the_row_limit(magnitude: float, n_outputs: int) -> None:
    rng = np.random.default_rng(4)
    for manner in MANNERS:
        forest = random_forest(rng, 30, 4, 5, n_outputs, manner=manner)
        spread = magnitude * 10.0 ** rng.uniform(-6, 0, size=forest.value.shape)
        value = (forest.value * spread).astype(forest.arithmetic).astype(np.float64)
        forest = replace(forest, value=value, intercept=forest.intercept * magnitude)
        game = _whole(forest)
        for question in game.questions:
            row = game.side_int(game.original_int, question)
            assert np.abs(row).sum() + abs(int(game.least[question.index])) < exact.ROW_LIMIT
        largest = float(np.abs(value).max())
        if magnitude >= 1e-6:
            assert game.undecided < largest * 1e-3
