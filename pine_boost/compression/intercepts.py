"""Where the decision lies after a refit: the intercepts with which fewest rows change their class.

In come the sums of the pulls after the least squares; out go intercepts, moved where rows are won
by it. Least squares cannot see this: a group of equal rows at a tiny distance from the decision
ends as near on the other side at no loss worth mentioning, and changes its class as a whole.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pine_boost.compression.least_squares_rows import Pulls
from pine_boost.model.exact import NARROW_GAP, SUM_OF_WEIGHTS_NOISE
from pine_boost.model.forest import FloatArray

# Standard deviations: a shift that wins less than that among the rows it changes follows chance.
# With any gain taken, noisy data (JM1) change up to a fourth more of fresh rows at some sizes.
_SURE = 3.0


def shift_intercepts(
    pulls: Pulls, signs: npt.NDArray[np.int8], intercept: FloatArray, sums: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intercepts and sums, each output in turn at its best place; ``signs`` of the pulls in it.

    Of two outputs only the difference decides, so that one of them stays.
    """
    intercept, sums = intercept.copy(), sums.copy()
    for output in range(len(signs) if len(signs) > 2 else 1):
        own = np.flatnonzero(signs[output])
        sign = signs[output][own].astype(np.float64)
        shift = best_shift(sums[own], sign, pulls.weight[own])
        intercept[output] += shift
        sums[own] += sign * shift
    return intercept, sums


def best_shift(sums: FloatArray, sign: FloatArray, weight: FloatArray) -> float:
    """The ``shift`` with least weight on ``sums + sign * shift < 0``, 0.0 if it wins by chance.

    It lies in the middle of a gap between rows; of several as good, the one nearest to 0.

    Examples
    --------
    >>> import numpy as np
    >>> from pine_boost.compression.intercepts import best_shift
    >>> sums, sign = np.repeat([2.0, -0.5, 1.5], 20), np.repeat([1.0, 1.0, -1.0], 20)
    >>> best_shift(sums, sign, np.ones(60))
    1.0
    """
    turns_at = -sums * sign
    order = np.argsort(turns_at, kind="stable")
    at = turns_at[order]
    upward = np.where(sign > 0, weight, 0.0)[order]
    downward = np.where(sign < 0, weight, 0.0)[order]
    # between rows k and k + 1 lie shifts too small for the later ones that need one upward, and too
    # large for the earlier ones that bear none
    lost = (upward.sum() - np.cumsum(upward) + np.cumsum(downward))[:-1]
    wide = np.flatnonzero(np.diff(at) > NARROW_GAP * np.abs(at).max(initial=0.0))
    if len(wide) == 0:
        return 0.0
    least = float(lost[wide].min())
    middles = (at[:-1] + at[1:])[wide[lost[wide] <= least + SUM_OF_WEIGHTS_NOISE]] / 2
    shift = float(middles[np.argmin(np.abs(middles))])
    won = float(weight[sums < 0].sum()) - least
    crossed = (sums < 0) != (sums + sign * shift < 0)
    chance = _SURE * float(np.sqrt((weight[crossed] ** 2).sum()))
    return shift if won > chance + SUM_OF_WEIGHTS_NOISE else 0.0
