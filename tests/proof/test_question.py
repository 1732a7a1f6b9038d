"""What a question says of itself, against its fields."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from pine_boost.model.forest import Decision, Forest
from pine_boost.proof.question import questions_of
from tests.support.forests import random_forest


def _bands() -> Forest:
    forest = random_forest(np.random.default_rng(0))
    decision = Decision((0.1, 0.3, 0.7), thresholds=(0.1, 0.3, 0.7))
    return replace(forest, decision=decision, classes=(0, 1, 2, 3))


def _classes() -> Forest:
    return random_forest(np.random.default_rng(0), n_outputs=4)


def test_every_boundary_has_one_question_that_is_first_of_its_mirrors() -> None:
    for forest, n_boundaries in ((_bands(), 3), (_classes(), 6)):
        questions = questions_of(forest)
        first = [question for question in questions if question.is_first_of_mirrors]
        assert len(first) == n_boundaries
        for question in first:
            (mirror,) = (other for other in questions if question.is_mirror(other))
            assert not mirror.is_first_of_mirrors
            assert mirror.index > question.index


def test_cuts_are_seen_with_the_sign_of_the_side_and_exactly() -> None:
    cuts = _bands().decision.cuts
    exact_cuts = [Fraction(cut) for cut in cuts]
    cuts_int = np.array([2**62 + 1, -3, 7])
    for question in questions_of(_bands()):
        assert question.cut_int(cuts_int) == question.sign * int(cuts_int[question.cut])
        beyond = question.sign * (exact_cuts[question.cut] - exact_cuts[0])
        assert question.beyond_first(exact_cuts) == beyond
        assert question.beyond_first(cuts) == question.sign * (cuts[question.cut] - cuts[0])
        assert question.asks_above == (question.sign > 0)
    for question in questions_of(_classes()):
        assert question.cut_int(np.zeros(0, dtype=np.int64)) == 0
        assert not question.asks_above


def test_rivals_ask_for_the_same_class_and_sides_of_cuts_have_none() -> None:
    questions = questions_of(_classes())
    for question in questions:
        rivals = [other for other in questions if other.is_rival(question)]
        assert {rival.plus for rival in rivals} == {question.plus}
        assert len({question.minus, *(rival.minus for rival in rivals)}) == 3
        assert [question.asks_for(index) for index in range(4)].index(True) == question.plus
    bands = questions_of(_bands())
    assert not any(other.is_rival(question) for question in bands for other in bands)
    assert not any(question.asks_for(0) for question in bands)
