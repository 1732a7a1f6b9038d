"""Split conformal calibration: exact ranks, infinite thresholds, the trap of indifference."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError, RegionError
from pine_boost.region.conformal import (
    calibrate,
    conformal_rank,
    indifference_delta,
    largest_indifference,
    require_room,
    smallest_alpha,
)


def test_rank_is_the_exact_ceiling_of_the_written_decimal():
    float_accidents = 0
    for n in range(1, 200):
        for hundredths in range(1, 100):
            alpha = hundredths / 100
            exact = -((-(n + 1) * (100 - hundredths)) // 100)
            assert conformal_rank(n, alpha) == exact
            float_accidents += math.ceil((n + 1) * (1 - alpha)) != exact
    assert float_accidents > 0  # the float formula is indeed wrong somewhere


def test_tau_is_the_kth_smallest_score():
    scores = np.array([50, 10, 40, 20, 30, 90, 80, 70, 60])
    assert calibrate(scores, 0.1) == 90
    assert calibrate(scores, 0.2) == 80
    assert calibrate(scores, 0.5) == 50
    assert calibrate(scores, 0.95) == 10
    assert calibrate(scores, Fraction(1, 5)) == 80


def test_tau_falls_with_alpha():
    scores = np.random.default_rng(0).integers(0, 1000, size=137)
    taus = [calibrate(scores, alpha) for alpha in np.arange(1, 100) / 100]
    assert all(a is not None and b is not None and a >= b for a, b in pairwise(taus))


def test_too_few_rows_warn_and_name_the_smallest_alpha():
    with pytest.warns(UserWarning, match=r"smallest alpha that 9 rows support is 0\.1;.*99 rows"):
        assert calibrate(np.arange(9), 0.01) is None
    assert calibrate(np.arange(9), smallest_alpha(9)) == 8
    assert calibrate(np.arange(99), 0.01) == 98


def test_alpha_zero_is_the_whole_space_without_a_warning():
    assert calibrate(np.arange(9), 0) is None
    assert calibrate(np.arange(9), 0.0) is None


@pytest.mark.parametrize("alpha", [-0.1, 1, 1.0, 2, float("nan"), "0.1", None, True])
def test_other_levels_are_refused(alpha):
    with pytest.raises(InvalidInputError, match="alpha must be a number in"):
        calibrate(np.arange(9), alpha)


def test_float_scores_and_empty_sets_are_refused():
    with pytest.raises(InvalidInputError, match="integers"):
        calibrate(np.arange(9) / 2, 0.2)
    with pytest.raises(InvalidInputError, match="no calibration rows"):
        calibrate(np.zeros(0, dtype=np.int64), 0.2)


def test_rows_outside_count_as_infinite():
    scores = np.arange(18)
    assert calibrate(scores, 0.2, n_outside=1) == 15  # 16th of 19
    assert calibrate(scores[:16], 0.2, n_outside=3) == 15
    with pytest.raises(RegionError, match="4 of 19 calibration rows lie outside"):
        calibrate(scores[:15], 0.2, n_outside=4)
    # infinite because of too few rows, while one lies outside: no guarantee either
    with pytest.raises(RegionError, match="no guarantee"):
        calibrate(scores[:8], 0.01, n_outside=1)


def test_delta_is_a_quantile_of_the_distances_on_fit():
    distance = np.arange(1, 101) / 10
    delta = indifference_delta(distance, 0.1)
    assert delta == 1.1
    assert np.mean(distance < delta) <= 0.1
    assert indifference_delta(distance, 0.0) is None
    assert indifference_delta(np.zeros(10), 0.3) is None
    with pytest.raises(InvalidInputError, match="indifference must be"):
        indifference_delta(distance, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_refusal_names_the_largest_indifference_that_fits(seed):
    rng = np.random.default_rng(seed)
    fit, cal = rng.exponential(size=400), rng.exponential(size=int(rng.integers(20, 200)))
    alpha = float(rng.choice([0.05, 0.1, 0.2]))
    room = len(cal) - conformal_rank(len(cal), alpha)

    def fits(indifference):
        delta = indifference_delta(fit, indifference)
        if delta is None:
            return True
        try:
            require_room(fit, cal, alpha=alpha, indifference=indifference, delta=delta)
        except RegionError:
            return False
        return True

    largest = largest_indifference(fit, cal, room)
    assert fits(largest)
    assert not fits(round(largest + 2 / 400, 6))
    delta = indifference_delta(fit, 0.6)
    assert delta is not None
    named = f"largest indifference that fits is {largest:.4f}" if largest else "None above 0 fits: use indifference=0"
    with pytest.raises(RegionError, match=named):
        require_room(fit, cal, alpha=alpha, indifference=0.6, delta=delta)


def test_a_region_past_the_trap_would_not_cover():
    # 30 % undecided, alpha 10 %: whatever tau is, about 70 % can lie inside
    rng = np.random.default_rng(0)
    inside = rng.random(10_000) >= 0.3
    with pytest.raises(RegionError):
        calibrate(np.zeros(int(inside.sum()), dtype=np.int64), 0.1, n_outside=int((~inside).sum()))
    assert inside.mean() < 0.9
