"""How sure of its class a model is at a distance from its decision, where its link says it.

In come a parsed model and a distance in units of its margin; out goes a probability, rounded up, or
0 where the model's objective gives none. A sentence with it is weaker than one with the distance.
"""

from __future__ import annotations

import math

from pine_boost.model.forest import Forest

_DIGITS = 10_000
_NATIVE = 1e-6  # what a library's float32 sigmoid or softmax may be off, with room to spare
_LINKED = ("binary:logistic", "binary", "multi:softprob", "multi:softmax", "multiclass")


def sureness_of(forest: Forest, delta: float | None) -> float:
    """The smallest p of four digits such that p : 1 - p sure means at least delta away.

    Against any other single class: with several classes the odds of the two best. 0 where there is
    no delta, the user has thresholds of their own, or the objective has no plain link.
    """
    objective = forest.objective.split(" ")[0]
    if delta is None or forest.decision.thresholds or objective not in _LINKED:
        return 0.0
    farthest = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    odds = math.exp(-forest.slope * (delta + farthest))
    return min(1.0, math.ceil((1 / (1 + odds) + _NATIVE) * _DIGITS) / _DIGITS)


def words_of(sureness: float) -> str:
    """The probability as odds."""
    return f"{sureness:.4g} : {1 - sureness:.4g}"
