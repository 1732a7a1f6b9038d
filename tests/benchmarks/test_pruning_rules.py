"""The rules that the figure compares with: cases worked by hand, and rounds that are the model's."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from benchmarks import data
from benchmarks.cells import train
from benchmarks.pruning_rules import RULES, Members, ambiguity_losses, rounds_of
from pine_boost.parsers import read_model


def with_margins(margins, y=None):
    """Two classes; all rows of class 1 unless told."""
    margins = np.array(margins, dtype=float)
    y = np.ones(margins.shape[1], dtype=int) if y is None else np.array(y)
    return Members(np.stack([-margins, margins], axis=2), y)


def kept_by(rule, members, n_kept):
    return RULES[rule](members, n_kept).tolist()


def test_error_ambiguity():
    members = with_margins([[0.0], [2.0]])
    # the mean is 1, so both lie 1 away; two classes give each term twice
    sure = exp(-2) / (1 + exp(-2)) ** 2
    expected = [2 * log(2) - 0.25, 2 * log(1 + exp(-2)) - sure]
    assert ambiguity_losses(members) == pytest.approx(expected)
    assert kept_by("error_ambiguity", members, 1) == [1]


def test_reduced_error():
    members = with_margins([[-1, -1, 1, 1], [1, 1, 1, -1], [-0.5, -0.5, -0.5, 2]])
    # member 1 errs once; with 0 the sums are 0 0 2 0 (a tie is class 0), with 2 all are right
    assert kept_by("reduced_error", members, 2) == [1, 2]


def test_an_intercept_counts_in_the_decisions_of_a_sub_ensemble():
    scores = with_margins([[1, 1, -1], [0.1, 0.1, 0.1], [-0.5, -0.5, 1.5]]).scores
    members = Members(scores, np.ones(3, dtype=int))
    helped = Members(scores, np.ones(3, dtype=int), np.array([-0.95, 0.95]))
    # 1 is right everywhere, then 2 (sums -0.4 -0.4 1.6) or 0 (1.1 1.1 -0.9)
    assert kept_by("reduced_error", members, 2) == [1, 0]
    assert helped.decide([0, 1]).tolist() == [1, 1, 1]
    assert members.decide([0, 1]).tolist() == [1, 1, 0]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_keeps_as_many_as_asked_each_once(rule):
    random = np.random.default_rng(0)
    members = Members(random.normal(size=(8, 40, 3)), random.integers(0, 3, 40))
    for n_kept in range(1, 9):
        kept = kept_by(rule, members, n_kept)
        assert len(set(kept)) == len(kept) == n_kept
        assert set(kept) <= set(range(8))
    twins = Members(np.repeat(members.scores[:2], 4, axis=0), members.y)
    assert len(set(kept_by(rule, twins, 5))) == 5


@pytest.mark.parametrize("name", ["Toy", "Flowers"])
def test_all_rounds_are_the_model_and_the_first_ones_its_slice(folder, name):
    parts = data.split(data.load(name, folder), 0)
    native = train("xgboost", 12, 2, 0, parts.X_fit, parts.y_fit)
    forest = read_model(native).forest
    rounds = rounds_of(forest, parts.X_test)
    assert np.array_equal(rounds.predict(np.arange(12)), native.predict(parts.X_test))
    members = rounds_of(forest, parts.X_fit).members(parts.y_fit)
    assert np.array_equal(members.decide(list(range(12))), native.predict(parts.X_fit))
    margin = native.get_booster()[:5].inplace_predict(parts.X_test, predict_type="margin")
    expected = (margin > 0) if name == "Toy" else np.argmax(margin, axis=1)
    assert np.array_equal(rounds.predict(np.arange(5)), expected)
