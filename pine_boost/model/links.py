"""What the libraries make of margins, by objective, and probabilities in double precision, without native rounding.

No proof depends on them; they are used to scale, serve, convert and compare models.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from pine_boost.model.forest import FloatArray, Forest

VOTES = "SAMME"  # AdaBoost objective with votes divided by their sum


class Output(Enum):
    """What a library returns instead of the margin."""

    VALUE = "the margin itself, or a value whose link is not known"
    LOGIT = "the margin itself, whose sigmoid is a probability"
    SIGMOID = "its sigmoid"
    SOFTMAX = "the softmax of all margins"
    SEPARATE = "one sigmoid per class"
    EXPONENTIAL = "its exponential"
    SOFTPLUS = "log(1 + exp(margin))"
    STEP = "whether it is above 0"
    MEAN = "its share of the trees"
    VOTES = "a softmax of the shares of the votes"


OUTPUTS = {
    **dict.fromkeys(("binary:logistic", "reg:logistic", "binary", "cross_entropy"), Output.SIGMOID),
    **dict.fromkeys(("Logloss", "CrossEntropy", "log_loss", "deviance", "exponential"), Output.SIGMOID),
    **dict.fromkeys(("multi:softprob", "multi:softmax", "multiclass", "MultiClass"), Output.SOFTMAX),
    **dict.fromkeys(("multiclassova", "MultiClassOneVsAll"), Output.SEPARATE),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), Output.EXPONENTIAL),
    **dict.fromkeys(("survival:cox", "survival:aft", "poisson", "gamma", "tweedie"), Output.EXPONENTIAL),
    "binary:logitraw": Output.LOGIT,
    "binary:hinge": Output.STEP,
    "cross_entropy_lambda": Output.SOFTPLUS,
    VOTES: Output.VOTES,
}
# reg:logistic and cross_entropy_lambda are values for their libraries
_PROBABILITY_THRESHOLDS = (
    *("binary:logistic", "binary:logitraw", "binary", "cross_entropy", "Logloss", "CrossEntropy"),
    *("log_loss", "deviance", "exponential"),
)
_CRITERIA = ("gini", "entropy", "log_loss")  # of trees that classify


def output_of(forest: Forest) -> Output:
    """Return what the library makes of a forest's margins, by its objective."""
    if not forest.free_intercept and forest.objective != VOTES:
        return Output.MEAN
    found = OUTPUTS.get(forest.objective, Output.VALUE)
    return Output.SOFTMAX if found is Output.SIGMOID and forest.n_outputs > 1 else found


def has_probabilities(forest: Forest) -> bool:
    """Whether margins become probabilities, as they do except for regressors and rankers."""
    of_classes = (Output.SIGMOID, Output.LOGIT, Output.STEP, Output.VOTES)
    return forest.n_outputs > 1 or output_of(forest) in of_classes or forest.objective in _CRITERIA


def compares_probabilities(forest: Forest) -> bool:
    """Whether the user's thresholds are probabilities of class 1, as for classifiers, and not raw values."""
    return forest.n_outputs == 1 and forest.objective in (*_PROBABILITY_THRESHOLDS, *_CRITERIA)


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
    from scipy.special import expit, softmax

    total, output = forest.n_trees if divisor is None else divisor, output_of(forest)
    if output is Output.VOTES:
        if forest.n_outputs == 1:
            return np.asarray(expit(2 * margins / total))
        others = forest.n_outputs - 1
        return np.asarray(softmax((forest.n_outputs * margins / total - 1) / others**2, axis=1))
    if output is Output.MEAN:
        offset = forest.decision.thresholds[0] if forest.decision.thresholds else 0.0
        return np.asarray(margins / total + offset)
    if forest.n_outputs == 1 or output is Output.SEPARATE:
        return np.asarray(expit(forest.slope * margins))
    return np.asarray(softmax(forest.slope * margins, axis=1))
