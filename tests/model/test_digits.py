"""No number in a sentence is stronger than the number that was shown."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from pine_boost.model.digits import decimals_down, exactly, percent_down, percent_up, rest_of, rounded_down, rounded_up


def drawn() -> list[float]:
    rng = np.random.default_rng(0)
    return [float(x) for x in 10 ** rng.uniform(-12, 12, size=500)] + [0.1, 0.3, 1 / 3, 1e-300]


@pytest.mark.parametrize("digits", [2, 3, 4, 6])
def test_significant_digits_lie_on_the_weaker_side(digits: int) -> None:
    for number in drawn():
        low, high = rounded_down(number, digits), rounded_up(number, digits)
        assert Decimal(low) <= Decimal(repr(number)) <= Decimal(high)
        assert float(high) <= float(low) * (1 + 10.0 ** (2 - digits))


def test_percentages_and_decimals_lie_on_the_weaker_side() -> None:
    for share in np.random.default_rng(1).random(500):
        exact = Decimal(repr(float(share)))
        assert Decimal(decimals_down(share)) <= exact < Decimal(decimals_down(share)) + Decimal("1e-4")
        assert Decimal(percent_down(share)[:-1]) <= 100 * exact <= Decimal(percent_up(share)[:-1])
    assert percent_down(rest_of(4e-5)) == "99.99%"
    assert percent_up(1.0) == percent_down(1.0) == "100.00%"


def test_numbers_of_few_digits_stay_as_they_are() -> None:
    for words in ("0", "0.1", "0.95", "0.99", "0.007", "12", "1e-05"):
        number = float(words)
        assert rounded_down(number) == rounded_up(number) == exactly(number) == words


def test_the_very_number_reads_back() -> None:
    for number in drawn():
        assert float(exactly(number)) == number
    assert exactly(np.float64(1234567.0)) == "1234567"


def test_the_rest_of_a_share_is_decimal() -> None:
    assert str(rest_of(0.8)) == "0.2"
    assert rounded_down(rest_of(0.1000004)) == "0.899999"
