"""The fifteen pruning rules, each on a case worked by hand."""

from __future__ import annotations

from itertools import combinations
from math import exp, log

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks.pruning_rules import DEPARTURES, RULES, Members, library
from benchmarks.pruning_rules.pairs import least_sum, likeness, shared_errors
from benchmarks.pruning_rules.ranking import agreement, ambiguity_losses, contributions, margin_diversities


def with_margins(margins, y=None):
    """Two classes; all rows of class 1 unless told."""
    margins = np.array(margins, dtype=float)
    y = np.ones(margins.shape[1], dtype=int) if y is None else np.array(y)
    return Members(np.stack([-margins, margins], axis=2), y)


def with_votes(votes, y=None):
    return with_margins(2.0 * np.array(votes) - 1, y)


def kept_by(rule, members, n_kept):
    return RULES[rule](members, n_kept).tolist()


def test_individual_error():
    members = with_votes([[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]], [1, 1, 0, 0])
    assert members.errors.tolist() == [0.25, 0.0, 0.5]
    assert kept_by("individual_error", members, 2) == [1, 0]


def test_individual_contribution():
    # row 0: votes 1 1 0, row 1: votes 1 0 0
    members = with_votes([[1, 1], [1, 0], [0, 0]])
    # right in the majority: second = 1; right in the minority: 2 * 2 - 1; wrong: right - own - most
    assert contributions(members).tolist() == [1 + 3, 1 + (1 - 2 - 2), (2 - 1 - 2) + (1 - 2 - 2)]
    assert kept_by("individual_contribution", members, 2) == [0, 1]


def test_individual_margin_diversity():
    # row 0: all right, margin and share are 1; row 1: one of three, both are 1/3
    members = with_votes([[1, 0], [1, 1], [1, 0]])
    assert margin_diversities(members) == pytest.approx([0, log(3), 0])
    assert kept_by("individual_margin_diversity", members, 2) == [1, 0]


def test_individual_kappa_statistic():
    members = with_votes([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    kappa = agreement(members)
    # 0 and 2 never agree, by chance they would half the time; 3 votes for one class only
    assert (kappa[0, 1], kappa[0, 2], kappa[0, 3]) == (1.0, -1.0, 0.0)
    assert kept_by("individual_kappa_statistic", members, 2) == [0, 2]
    assert kept_by("individual_kappa_statistic", members, 3) == [0, 2, 1]


def test_reference_vector():
    members = with_votes([[1, 1, 0], [1, 1, 0], [1, 0, 1]])
    # mean (1, 1/3, -1/3), so the reference is (2, 8, 14) / 11 and the products are -4, -4, 8 / 11
    assert kept_by("reference_vector", members, 2) == [2, 0]


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


def test_complementariness():
    members = with_votes([[1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0]])
    # 0 begins, wrong on the last row, which 1 and 2 get right; the earlier one is taken
    assert kept_by("complementariness", members, 2) == [0, 1]
    swapped = with_votes([[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
    assert kept_by("complementariness", swapped, 2) == [0, 2]


def test_margin_distance():
    members = with_votes([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    # with 1 the mean signature is (2, 2, -2) / 3, with 2 it is 0 everywhere: nearer to 0.075
    assert kept_by("margin_distance", members, 2) == [0, 2]


def test_drep():
    members = with_margins([[1, 1, 1, -1], [2, 2, -0.5, 2], [-5, -5, -5, 2], [-0.1, -0.1, 0.1, 2], [1, 1, 1, -1]])
    # 0 begins and says 1 1 1 0; same votes: 2, 0, 1, 4 of 4. Two candidates: 2 and 3.
    # With 2 three rows are wrong, with 3 none (nor with 1, which is too much like 0).
    assert kept_by("drep", members, 2) == [0, 3]
    assert kept_by("reduced_error", members, 2) == [0, 1]


def test_combined_error():
    members = with_votes([[0, 1, 1, 1], [0, 1, 1, 1], [1, 0, 0, 1]])
    # 0 and 1 share their only error, 2 shares none
    assert shared_errors(members).tolist() == [[0.25, 1, 0], [1, 0.25, 0], [0, 0, 0.5]]
    assert kept_by("combined_error", members, 2) == [0, 2]


def test_combined():
    members = with_votes([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    # alike: 0, 1, 1, 1 and half the rows wrong together; opposite: -1, -1, -1, -1 and none
    assert likeness(members)[0] == pytest.approx([0, 3.5 / 5, -4 / 5])
    assert kept_by("combined", members, 2) == [0, 2]


def test_largest_mean_distance():
    # wrong rows 012, 01, 2, 23: distances 0.5 (0, 1), 0.75 (0, 2), (0, 3), (2, 3), else 1
    members = with_votes([[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 0, 0]])
    # groups {0, 1} and {2, 3}; 1 is 1 away from the other group, 0 only 0.75
    assert kept_by("largest_mean_distance", members, 2) == [1, 2]


def test_cluster_accuracy():
    members = with_margins([[0.1, -0.1], [0.1, 0.1], [-9, 9], [-9, 9.1], [9, 9]])
    # groups {0, 1}, {2, 3}, {4}: 1 errs less than 0; 2 and 3 err alike
    assert kept_by("cluster_accuracy", members, 3) == [1, 2, 4]


def test_cluster_centroids():
    members = with_margins([[0, 0], [1, 0], [2.2, 0], [100, 100]])
    # the centre of the first three is 1.07
    assert kept_by("cluster_centroids", members, 2) == [1, 3]


@pytest.mark.parametrize("seed", range(5))
def test_swaps_find_the_least_sum_that_trying_all_finds(seed):
    random = np.random.default_rng(seed)
    costs = random.normal(size=(9, 9))
    costs += costs.T
    for n_kept in range(1, 10):
        sums = {chosen: costs[np.ix_(chosen, chosen)].sum() for chosen in combinations(range(9), n_kept)}
        assert least_sum(costs, n_kept).tolist() == list(min(sums, key=sums.__getitem__))


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


def test_what_the_library_does_instead():
    # 0 is always right, 1 right on half of the rows, 2 nearly always wrong
    members = with_votes([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    worst_first = {
        "individual_margin_diversity": [2],
        "reference_vector": [2],
        "margin_distance": [1],  # accuracy nearest to 56 %
    }
    for rule, kept in worst_first.items():
        assert DEPARTURES[rule](members, 1).tolist() == kept
    many = with_votes(np.eye(8, dtype=int))
    assert len(library.combined(many, 3)) == library.DEFAULT_SIZE
    assert len(library.combined_error(many, 7)) == library.DEFAULT_SIZE
    # two groups {0, 1}, {2, 3}: the best of the second is its second, which becomes "member 1"
    apart = with_margins([[9, 9], [9, 9.1], [-9, -9], [-9, 0.1]])
    assert sorted(library.cluster_accuracy(apart, 2).tolist()) == [0, 1]
    assert kept_by("cluster_accuracy", apart, 2) == [0, 3]
