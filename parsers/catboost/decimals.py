"""Numbers in CatBoost's JSON: the double that its parser makes of a text, and a text for every double.

CatBoost parses JSON with rapidjson in its fast mode, which is off by an ulp for one text in five (measured for 1.2.10,
`tests/parsers/test_catboost.py`). What a file means is therefore what this parser reads, not the nearest double.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from pine_boost.json_fields import require

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,4}))?")
_EXACT = 2**53 - 1  # digits are added to an integer up to here, then to a double
_DIGITS = 17  # later digits after the point are ignored
_LARGEST_INTEGER = 2**64 - 1
_LONGEST = 400  # digits before the point of a double


def as_loaded(text: str) -> float:
    """Return the double that CatBoost reads from a number of its JSON; for `json.loads` as ``parse_float``."""
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    require(match is not None, f"the number {text[:40]} is not one that CatBoost writes")
    assert match is not None
    sign, whole, fraction, exponent = match.groups()
    significand, power = _significand(whole, fraction or ""), int(exponent or 0)
    value = _scaled(significand[0], power - significand[1])
    require(math.isfinite(value), f"the number {text[:40]} is beyond float64")
    return -value if sign else value


def _significand(whole: str, fraction: str) -> tuple[float, int]:
    """Return the digits as a double, rounded as rapidjson rounds them, and how many of them are decimals."""
    integer, n_read = 0, 0
    while n_read < len(whole) and integer * 10 + int(whole[n_read]) <= _LARGEST_INTEGER:
        integer = integer * 10 + int(whole[n_read])
        n_read += 1
    number, significant = float(integer), max(n_read - 1, 0)
    for digit in whole[n_read:]:
        number = number * 10.0 + int(digit)
    n_decimals = 0
    if n_read == len(whole):
        while n_decimals < len(fraction) and integer <= _EXACT:
            integer = integer * 10 + int(fraction[n_decimals])
            n_decimals += 1
            significant += integer != 0
        number = float(integer)
    for digit in fraction[n_decimals:]:
        if significant < _DIGITS:
            number = number * 10.0 + int(digit)
            n_decimals += 1
            significant += number > 0
    return number, n_decimals


def _scaled(number: float, power: int) -> float:
    """Return ``number * 10**power``, in one or two operations as rapidjson does it."""
    if power < -308:
        return 0.0 if power < -616 else number / 1e308 / float(f"1e{-power - 308}")
    if power < 0:
        return number / float(f"1e{-power}")
    return number * float(f"1e{power}") if power <= 308 else (math.inf if number else 0.0)


def text_of(value: float) -> str | None:
    """Return a text from which CatBoost reads exactly this double; None for about one double in 50 000."""
    text = repr(value)
    if _reads(text, value):
        return text
    # the same digits with more of them before the point: each length rounds differently
    sign, exact = "-" if value < 0 else "", Fraction(abs(value))
    first = 15 - math.floor(math.log10(abs(value)))
    for power in range(first, first + 40):
        nearest = round(exact * Fraction(10) ** power)
        step = max(1, int(math.ulp(float(nearest))) // 4)
        for number in range(nearest - 12 * step, nearest + 13 * step, step):
            text = f"{sign}{number}.0e{-power}"
            if _reads(text, value):
                return text
    return None


def _reads(text: str, value: float) -> bool:
    # the sign of zero counts: CatBoost reads -0.0 as such
    return (loaded := as_loaded(text)) == value and math.copysign(1, loaded) == math.copysign(1, value)
