"""Probabilities of margins, in double precision and without the native rounding.

They decide nothing that is proved; how a model is scaled, served and compared depends on them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

from pine_boost.model.forest import FloatArray, Forest

SEPARATE = "multiclassova"  # the objective with a sigmoid for every class, LightGBM
VOTES = "SAMME"  # that with votes divided by their sum, AdaBoost


def probabilities_of(forest: Forest, margins: FloatArray, divisor: float | None = None) -> FloatArray:
    """Probabilities of margins (n_rows, n_outputs); one column, class 1, for a binary margin.

    Parameters
    ----------
    forest : Forest
    margins : (n_rows, n_outputs)
    divisor : float or None
        What the native library divides a sum by: the trees of an average, the weight of all votes.
        None: the trees of ``forest``. Boosted models divide by nothing.
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
    if forest.n_outputs == 1 or forest.objective == SEPARATE:
        return np.asarray(expit(forest.slope * margins))
    return _softmax(forest.slope * margins)


def _softmax(scores: FloatArray) -> FloatArray:
    return np.asarray(softmax(scores, axis=1))
