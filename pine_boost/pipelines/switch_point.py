"""Find the exact score at which a chain of thresholds and calibrators switches from class 0 to class 1.

scikit-learn's own code evaluates the chain. A chain that never switches, or switches more than once, raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.exact import CALIBRATION_BLUR

Scores = npt.NDArray[Any]
Decide = Callable[[Scores], npt.NDArray[np.bool_]]
Value = Callable[[Scores], npt.NDArray[np.float64]]

_MOST_ASKED = 2**21


def switch_point(
    decide: Decide,
    float_type: Any,
    lowest: float,
    highest: float,
    *,
    value: Value | None = None,
    knots: Scores | None = None,
) -> float:
    """Return the largest float for which ``decide`` is False; it is True for all larger ones.

    Without ``value`` and ``knots`` the score itself is compared, which is exactly monotone.

    Parameters
    ----------
    decide : callable
        Maps scores to whether they give class 1; monotone except for rounding.
    float_type : numpy float type of the scores
    lowest, highest : float
        Range of the scores.
    value : callable, optional
        The smooth calibrated probability that ``decide`` compares: every float for which rounding
        could matter is tested.
    knots : array, optional
        Knots of a piecewise linear calibrator. Between two knots each of its float operations is
        monotone, so rounding can break the order only from one piece to the next.
    """
    ends = np.array([lowest, highest], dtype=float_type)
    is_low, is_high = decide(ends)
    if is_low or not is_high:
        raise UnsupportedModelError(
            "The threshold around this model gives every input the same class "
            f"({'1' if is_low else '0'}); there is nothing to keep."
        )
    low = _last(lambda s: ~decide(s), float_type, *_orders(ends))
    if value is not None:
        _require_one_switch(decide, value, float_type, low, _orders(ends))
    if knots is not None:
        inside = knots[(knots >= lowest) & (knots <= highest)].astype(float_type)
        beside = [_order(knot) + step for knot in inside for step in (-1, 0, 1)]
        _require_step(decide, float_type, low, np.unique(beside))
    return float(_from_order(low, float_type))


def _last(is_met: Decide, float_type: Any, low: int, high: int) -> int:
    """Return the last of the ordered floats that has a property; ``low`` has it, ``high`` does not.

    A thousand floats are evaluated per call, because scikit-learn's input checks dominate the cost.
    """
    while high - low > 1:
        asked = sorted({low + (high - low) * k // 1024 for k in range(1, 1024)} - {low, high})
        found = is_met(_from_order(np.array(asked, dtype=np.int64), float_type))
        first_false = len(asked) if found.all() else int(np.argmin(found))
        low = asked[first_false - 1] if first_false else low
        high = asked[first_false] if first_false < len(asked) else high
    return low


def _require_one_switch(decide: Decide, value: Value, float_type: Any, switch: int, ends: tuple[int, int]) -> None:
    at = float(value(_from_order(np.array([switch]), float_type))[0])
    blur = CALIBRATION_BLUR[float_type]
    lowest, highest = ends
    below, above = lowest, highest
    if value(_from_order(np.array([lowest]), float_type))[0] < at - blur:
        below = _last(lambda s: value(s) < at - blur, float_type, lowest, switch)
    if value(_from_order(np.array([highest]), float_type))[0] > at + blur:
        above = _last(lambda s: value(s) <= at + blur, float_type, switch, highest) + 1
    if above - below > _MOST_ASKED:
        raise UnsupportedModelError(
            "The calibrator is nearly flat where it changes the class, so that rounding decides "
            "over a whole range of scores; calibrate with more rows, or pass the model inside it "
            "and threshold=.",
            option="threshold",
        )
    _require_step(decide, float_type, switch, np.arange(below, above + 1, dtype=np.int64))


def _require_step(decide: Decide, float_type: Any, switch: int, asked: Any) -> None:
    answers = decide(_from_order(asked, float_type))
    if not np.array_equal(answers, asked > switch):
        raise UnsupportedModelError(
            "The calibrator switches between the classes more than once (rounding near its "
            "threshold); pass the model inside it and threshold=.",
            option="threshold",
        )


def _orders(values: Scores) -> tuple[int, int]:
    low, high = (_order(value) for value in values)
    return low, high


def _order(value: Any) -> int:
    """Return the position among all floats of its type: adjacent floats differ by one."""
    if value < 0:
        return -_order(-value)
    bits = np.int32 if value.dtype == np.float32 else np.int64
    return int(np.abs(value).view(bits))  # -0.0 is 0.0


def _from_order(order: Any, float_type: Any) -> Any:
    positions = np.asarray(order, dtype=np.int64)
    bits = np.int32 if float_type is np.float32 else np.int64
    magnitude = np.abs(positions).astype(bits).view(float_type)
    return np.where(positions < 0, -magnitude, magnitude)
