"""The test of compress_booster: exact bounds, and a promise that is broken as rarely as it says."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from pine_boost.compression.fixed_sequence import (
    FixedSequence,
    Target,
    _changes_at_most,
    allowances,
    allowed,
    fewest_rows,
    highest_fidelity,
    lower_bound,
)
from pine_boost.compression.fixed_sequence import Tested as Counted
from pine_boost.compression.path import Candidate
from pine_boost.compression.validation import choose, thinned, undominated
from pine_boost.errors import InvalidInputError
from pine_boost.model.shape import Shape


@pytest.mark.parametrize("n_rows", [1, 20, 299, 5000])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_bound_is_the_exact_one_sided_interval(n_rows, confidence):
    for n_changed in {0, 1, n_rows // 10, n_rows - 1, n_rows}:
        test = binomtest(n_rows - n_changed, n_rows, alternative="greater")
        expected = test.proportion_ci(confidence, method="exact").low
        assert lower_bound(n_changed, n_rows, confidence) == pytest.approx(expected, abs=1e-12)


def test_299_rows_carry_99_percent_and_298_do_not():
    assert fewest_rows(0.99, 0.95) == 299
    Target(299, 0.95, 0.99).require_rows()
    with pytest.raises(InvalidInputError, match=r"at least 299.*fidelity=0\.9899 at most"):
        Target(298, 0.95, 0.99).require_rows()
    assert highest_fidelity(298, 0.95) < 0.99
    Target(298, 0.95, highest_fidelity(298, 0.95)).require_rows()


@pytest.mark.parametrize("n_rows", [299, 1000, 5210])
def test_allowed_is_the_largest_count_that_reaches_the_target(n_rows):
    most = allowed(n_rows, 0.99, 0.95)
    # at the true share 0.99 so few changed rows come with probability 0.05 at most, one more not
    assert binom.cdf(most, n_rows, 0.01) <= 0.05 < binom.cdf(most + 1, n_rows, 0.01)


def _verdicts(counts, tests):
    """Whether each count is accepted, as far as the sequence goes."""
    sequence, verdicts = FixedSequence(tests), []
    for count in counts:
        if sequence.is_over:
            break
        verdicts.append(sequence.judge(Counted(count, 0.0, False)).accepted)
    return verdicts


def test_testing_goes_on_once_with_a_stricter_test():
    first, second = allowances(1000, 0.99, 0.95)
    assert second < 4 <= first
    tests = Target(1000, 0.95, 0.99).tests()
    # 4 is too many after a failure, and what comes after the second failure is never looked at
    assert _verdicts([0, 4, 60, 4, 0], tests) == [True, True, False, False]
    assert _verdicts([0, 60, 0, second, 60, 0], tests) == [True, False, True, True, False]
    assert _verdicts([60, 0], tests[:1]) == [False]


def test_counts_and_limits_of_numpy_are_tested_like_those_of_python():
    for of_count in (int, np.int64, np.int32):
        for of_limit in (int, np.int64):
            verdicts = _verdicts(map(of_count, (0, 50)), [_changes_at_most(of_limit(1))])
            assert verdicts == [True, False]
            assert all(type(verdict) is bool for verdict in verdicts)


def _shape(n_leaves):
    return Shape(np.arange(n_leaves), np.zeros((n_leaves, 1)), np.zeros(1))


def _candidate(n_leaves, estimate):
    return Candidate(_shape(n_leaves), n_leaves, estimate)


# Cells of equal probability. A candidate of k leaves changes changed[k] cells, so the true fidelity
# of all is known. "plateau": every size is just below the target, all change the same cells.
# "apart": every size is just below the target, and each changes cells of its own: after a failure
# the next candidate is a fresh chance to be wrong, the worst case for a sequence that goes on.
CELLS = 1000
CHANGED = {
    "falling": np.rint(np.geomspace(40, 1, 40)).astype(int),
    "plateau": np.full(40, 51),
    "apart": np.full(19, 51),
}


@pytest.mark.parametrize("world", CHANGED)
@pytest.mark.parametrize(("n_fit", "n_val"), [(20, 59), (500, 59), (20, 600), (500, 600)])
def test_the_promise_is_broken_at_most_as_often_as_stated(world, n_fit, n_val):
    fidelity, confidence, n_draws = 0.95, 0.95, 2000
    random = np.random.default_rng([len(world), n_fit, n_val])
    changed = CHANGED[world]
    first = 51 * np.arange(len(changed)) if world == "apart" else np.zeros(len(changed), dtype=int)
    target = Target(n_val, confidence, fidelity)
    share, tests = max(target.aim(), 1 / n_fit), target.tests()

    @cache  # few rows to fit have few different estimates: what is drawn again is chosen once
    def chosen(estimates):
        found = [_candidate(i + 2, estimate) for i, estimate in enumerate(estimates)]
        return [candidate.shape.n_leaves - 2 for candidate in choose(found, share)]

    broken = accepted = 0
    for _ in range(n_draws):
        fit, val = (np.bincount(random.integers(0, CELLS, n), minlength=CELLS) for n in (n_fit, n_val))
        seen, counts = (np.concatenate([[0], np.cumsum(rows)]) for rows in (fit, val))
        # sizes and order come from the fit rows alone
        chain = chosen(tuple((seen[first + changed] - seen[first]) / n_fit))
        changes = [int(counts[first[i] + changed[i]] - counts[first[i]]) for i in chain]
        verdicts = _verdicts(changes, tests)
        accepted += any(verdicts)
        broken += any(
            verdict and changed[i] / CELLS > 1 - fidelity for i, verdict in zip(chain, verdicts, strict=False)
        )
    # three standard deviations of a count of 2000 draws above the stated rate
    rate = 1 - confidence
    assert broken <= n_draws * rate + 3 * np.sqrt(n_draws * rate * (1 - rate))
    if world == "falling":
        assert accepted > n_draws / 5  # a test that accepts nothing would be easy to keep
    elif n_val == 59:
        assert broken > 0.02 * n_draws  # the worst case comes close to the stated rate


@pytest.mark.parametrize("n_rows", [299, 736, 1105, 2864, 6156])
def test_two_tests_share_one_level(n_rows):
    first, *second = allowances(n_rows, 0.99, 0.95)
    assert first == allowed(n_rows, 0.99, 0.95)
    levels = binom.cdf([first, *second], n_rows, 0.01)
    assert levels.sum() <= 0.05
    next_one = second[0] + 1 if second else 0
    assert levels[0] + binom.cdf(next_one, n_rows, 0.01) > 0.05  # no row more fits
    assert all(0 <= most <= first for most in second)


def test_a_sample_that_allows_no_change_still_tests_smaller_shapes():
    assert allowed(110, 0.9731, 0.95) == 0
    share = Target(110, 0.95, 0.9731).aim()
    found = [_candidate(100, 0.001), _candidate(50, 0.003), _candidate(10, 0.004)]
    chain = [candidate.cost for candidate in choose(found, share)]
    assert chain[0] == 100
    assert chain[-1] == 10


def test_candidates_are_ordered_by_size_and_no_smaller_one_is_as_good():
    sizes = {100: 0.0005, 90: 0.001, 80: 0.02, 70: 0.001, 50: 0.004, 40: 0.5}
    found = [_candidate(size, estimate) for size, estimate in sizes.items()]
    chain = [candidate.cost for candidate in choose(found, 0.01)]
    assert chain == sorted(chain, reverse=True)
    assert 80 not in chain
    assert 90 not in chain
    assert 40 not in chain  # hopeless
    assert chain[-1] == 50


def test_estimates_far_below_the_allowed_share_still_make_steps():
    """A forest that knows its rows by heart: all estimates are tiny, none says that 40 is safe."""
    estimates = {97: 0.0, 90: 0.0, 80: 0.00001, 60: 0.000004, 40: 0.00002}
    found = [_candidate(size, estimate) for size, estimate in estimates.items()]
    assert [candidate.cost for candidate in choose(found, 0.005)] == [97, 90, 60, 40]
    assert [candidate.cost for candidate in undominated(found)] == [90, 60, 40]


@pytest.mark.parametrize("n_most", [4, 9, 50])
def test_short_time_thins_a_chain_and_keeps_its_largest(n_most):
    chain = [_candidate(size, 0.001) for size in range(100, 10, -10)]
    some = thinned(chain, n_most, 0.01)
    assert len(some) == min(n_most, len(chain))
    assert some[0] is chain[0]
    assert some[-1] is chain[-1]
    sizes = [candidate.cost for candidate in some]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("n_most", "expected"), [(1, [80]), (2, [80, 60]), (3, [80, 70, 60]), (4, [100, 80, 60, 40])])
def test_one_to_three_tests_begin_where_few_rows_change(n_most, expected):
    """Ten rows in a thousand may change; the largest would be a waste of the only test."""
    estimates = {100: 0.0001, 90: 0.001, 80: 0.002, 70: 0.005, 60: 0.009, 50: 0.02, 40: 0.05}
    chain = [_candidate(size, estimate) for size, estimate in estimates.items()]
    assert [candidate.cost for candidate in thinned(chain, n_most, 0.01)] == expected


@pytest.mark.parametrize("allowed_share", [0.0, 0.00005])
def test_where_nothing_is_expected_to_pass_the_largest_is_tested(allowed_share):
    chain = [_candidate(100, 0.01), _candidate(50, 0.02)]
    assert thinned(chain, 1, allowed_share) == chain[:1]
