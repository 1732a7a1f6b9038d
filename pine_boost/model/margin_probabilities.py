"""Convert margins to probabilities in double precision, without the native rounding.

No proof depends on them; they are used to scale, serve and compare models.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

from pine_boost.model.forest import FloatArray, Forest

SEPARATE = ("multiclassova", "MultiClassOneVsAll")  # objectives of LightGBM and CatBoost with one sigmoid per class
VOTES = "SAMME"  # AdaBoost objective with votes divided by their sum


def probabilities_of(forest: Forest, margins: FloatArray, divisor: float | None = None) -> FloatArray:
    """Convert margins (n_rows, n_outputs) to probabilities; one column, class 1, for a binary margin.

    Parameters
    ----------
    forest : Forest
    margins : (n_rows, n_outputs)
    divisor : float or None
        What the native library divides a sum by: the number of trees of an average, the weight of
        all votes. None: the number of trees of ``forest``. Boosted models do not divide.
    """
    total = forest.n_trees if divisor is None else divisor
    if forest.objective == VOTES:
        if forest.n_outputs == 1:
            return np.asarray(expit(2 * margins / total))
        others = forest.n_outputs - 1
        return _softmax((forest.n_outputs * margins / total - 1) / others**2)
    if not forest.free_intercept:
        offset = forest.decision.thresholds[0] if forest.decision.thresholds else 0.0
        return np.asarray(margins / total + offset)
    if forest.n_outputs == 1 or forest.objective in SEPARATE:
        return np.asarray(expit(forest.slope * margins))
    return _softmax(forest.slope * margins)


def _softmax(scores: FloatArray) -> FloatArray:
    return np.asarray(softmax(scores, axis=1))
