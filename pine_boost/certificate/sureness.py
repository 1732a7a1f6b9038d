"""How sure of its class a model is at a distance from its decision, where its link says it.

In come a parsed model and a distance in units of its margin; out goes a probability, rounded up, or
0 where the model's objective gives none. A sentence with it is weaker than one with the distance.
"""

from __future__ import annotations

import math

from pine_boost.model.exact import LINK_ERROR
from pine_boost.model.forest import Forest

_DIGITS = 10_000
_LINKED = ("binary:logistic", "binary", "multi:softprob", "multi:softmax", "multiclass")


def sureness_of(forest: Forest, delta: float | None) -> float:
    """The smallest p of four digits such that p : 1 - p sure means at least delta away.

    Against any other single class: with several classes the odds of the two best. 0 where there is
    no delta, the user has thresholds of their own, the objective has no plain link, or so far away
    that a library cannot tell its probabilities from 1: its float32 says 1.0 from 16.7 on.
    """
    objective = forest.objective.split(" ")[0]
    if delta is None or forest.decision.thresholds or objective not in _LINKED:
        return 0.0
    farthest = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    odds = math.exp(-forest.slope * (delta + farthest))
    sure = 1 / (1 + odds) + LINK_ERROR
    return 0.0 if sure > 1 else math.ceil(sure * _DIGITS) / _DIGITS


def words_of(sureness: float) -> str:
    """The probability as odds."""
    return f"{sureness:.4g} : {1 - sureness:.4g}"
