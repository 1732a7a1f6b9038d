"""The softmax of CatBoost, whose exponential is a table of powers of 2 and a polynomial, not that of the C library.

Bit for bit what CatBoost computes on x86-64 with AVX2. On other processors CatBoost calls another exponential; there
the probabilities differ by at most 4e-15 of their size.
"""

from __future__ import annotations

import numpy as np

from pine_boost.model.forest import FloatArray

_STEPS = 2048  # of the table, between 1 and 2
_PER_UNIT = _STEPS / np.log(2.0)
_POWERS = np.array([2.0 ** (step / _STEPS) for step in range(_STEPS)])  # exp2 of numpy is an ulp off in places
_ROUND = 3.0 * 2.0**51  # a number of this size has no digits behind the point, so that adding it rounds
_CUBIC, _SQUARE = 0.16666666685227835064, 3.0000000027955394
_LEAST = -708.39641853226408  # what is below counts as this in a register, and as minus infinity behind the last one
_LANES = 4  # numbers in a register


def catboost_softmax(margins: FloatArray) -> FloatArray:
    """Probabilities from margins, (n_rows, n_classes)."""
    shifted = margins - margins.max(axis=1, keepdims=True)
    found = _exp(np.maximum(shifted, _LEAST))
    behind = margins.shape[1] // _LANES * _LANES
    found[:, behind:][shifted[:, behind:] <= _LEAST] = 0.0
    total = found[:, 0].copy()  # numpy may add in another order
    for column in found.T[1:]:
        total += column
    return np.asarray(found / total[:, None])


def _exp(x: FloatArray) -> FloatArray:
    step = (x * _PER_UNIT + _ROUND) - _ROUND
    rest = step * (1 / _PER_UNIT) - x
    whole, part = np.divmod(step.astype(np.int64), _STEPS)
    polynomial = (_SQUARE - rest) * (rest * rest) * _CUBIC - rest + 1.0
    return np.asarray(polynomial * np.ldexp(_POWERS[part], whole))
