"""Format numbers without overstating them: lower bounds are rounded down, upper bounds up."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_DIGITS = 6


def exactly(number: float) -> str:
    """Return the shortest text that reads back as this float.

    Examples
    --------
    >>> exactly(1234567.0), exactly(0.3)
    ('1234567', '0.3')
    """
    return repr(float(number)).removesuffix(".0")


def rest_of(share: float) -> Decimal:
    """Return 1 minus a share, in decimals: 1 - 0.8 is 0.2 and not 0.19999999999999996."""
    return 1 - _decimal(share)


def rounded_down(number: float | Decimal, digits: int = _DIGITS) -> str:
    """Round down to ``digits`` significant digits.

    Examples
    --------
    >>> rounded_down(0.9899996, 4), rounded_down(0.95)
    ('0.9899', '0.95')
    """
    return _significant(number, digits, ROUND_FLOOR)


def rounded_up(number: float | Decimal, digits: int = _DIGITS) -> str:
    """Round up to ``digits`` significant digits.

    Examples
    --------
    >>> rounded_up(1.04495e-06, 3)
    '1.05e-06'
    """
    return _significant(number, digits, ROUND_CEILING)


def decimals_down(share: float, decimals: int = 4) -> str:
    """Round a share down to ``decimals`` decimals."""
    return str(_fixed(_decimal(share), decimals, ROUND_FLOOR))


def percent_down(share: float | Decimal, decimals: int = 2) -> str:
    """Round a share down to a percentage with ``decimals`` decimals."""
    return f"{_fixed(100 * _decimal(share), decimals, ROUND_FLOOR)}%"


def percent_up(share: float | Decimal, decimals: int = 2) -> str:
    """Round a share up to a percentage with ``decimals`` decimals."""
    return f"{_fixed(100 * _decimal(share), decimals, ROUND_CEILING)}%"


def _decimal(number: float | Decimal) -> Decimal:
    return number if isinstance(number, Decimal) else Decimal(repr(float(number)))


def _significant(number: float | Decimal, digits: int, rounding: str) -> str:
    rounded = Context(prec=digits, rounding=rounding).create_decimal(_decimal(number))
    return f"{float(rounded):.{digits}g}"


def _fixed(number: Decimal, decimals: int, rounding: str) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-decimals), rounding=rounding)
