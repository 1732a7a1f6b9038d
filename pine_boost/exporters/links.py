"""What a library does with the sum of the leaves, in Treelite's words.

In comes a Model; out goes the postprocessor that makes probabilities, rates or values of its
margin, and whether the margin is a mean. Refuses libraries without a reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.exact import largest_leaf
from pine_boost.model.forest import Model

_XGBOOST = {
    "binary:logistic": "sigmoid",
    "reg:logistic": "sigmoid",
    "binary:hinge": "hinge",
    "count:poisson": "exponential",
    "reg:gamma": "exponential",
    "reg:tweedie": "exponential",
    "survival:cox": "exponential",
    "survival:aft": "exponential",
}
_LIGHTGBM = {
    "poisson": "exponential",
    "gamma": "exponential",
    "tweedie": "exponential",
    "cross_entropy_lambda": "logarithm_one_plus_exp",
}
_HISTOGRAM = {"poisson": "exponential", "gamma": "exponential"}


@dataclass(frozen=True)
class Link:
    """What follows the sum: a postprocessor of Treelite and whether the sum is a mean."""

    name: str
    slope: float = 1.0
    average: bool = False


def find_link(model: Model) -> Link:
    """The link of a model's own ``predict`` or ``predict_proba``."""
    forest = model.forest
    identity = "identity_multiclass" if forest.n_outputs > 1 else "identity"
    finders = {"xgboost": _xgboost_link, "lightgbm": _lightgbm_link, "sklearn": _sklearn_link}
    if forest.library not in finders:
        raise UnsupportedModelError(
            f"Models of {forest.library!r} have no Treelite form here; accepted are {', '.join(finders)}."
        )
    return finders[forest.library](model, identity)


def vote_link(model: Model) -> Link | None:
    """The softmax behind AdaBoost's votes for several classes, which Treelite has no slope for.

    scikit-learn takes softmax(d / (K - 1)) with d = (K v - W) / ((K - 1) W) for v votes of W.
    """
    forest = model.forest
    if getattr(model.document, "family", "") != "votes" or forest.n_outputs == 1:
        return None
    largest = largest_leaf(forest).max(axis=1)
    n_classes = forest.n_outputs
    return Link("softmax", slope=float(n_classes / ((n_classes - 1) ** 2 * largest.sum())))


def _xgboost_link(model: Model, identity: str) -> Link:
    if model.forest.objective.startswith("multi:"):
        return Link("softmax")
    return Link(_XGBOOST.get(model.forest.objective, identity))


def _lightgbm_link(model: Model, identity: str) -> Link:
    line = str(model.document.objective or "")
    found = re.search(r"\bsigmoid:(\S+)", line)
    slope = float(found.group(1)) if found else 1.0
    name, *options = line.split(" ")
    # boosting=rf: predict(raw_score=True) is the sum, the probability that of the mean
    average = bool(model.document.average_output)
    rounds = int(model.forest.tree_round.max()) + 1
    if name in ("binary", "cross_entropy", "multiclassova"):
        postprocessor = "multiclass_ova" if name == "multiclassova" else "sigmoid"
        return Link(postprocessor, slope / rounds if average else slope)
    if name == "multiclass":
        return Link("softmax", average=average)
    if "sqrt" in options:
        return Link("signed_square", average=average)
    return Link(_LIGHTGBM.get(name, identity), average=average)


def _sklearn_link(model: Model, identity: str) -> Link:
    forest, family = model.forest, model.document.family
    multi = forest.n_outputs > 1
    if family == "average":
        return Link(identity, average=True)
    if family == "votes":
        if multi:
            return Link(identity)
        weight = largest_leaf(forest)[:, 0].sum()
        return Link("sigmoid", slope=float(2 / weight))
    if not model.kind.endswith("Classifier"):
        return Link(_HISTOGRAM.get(forest.objective, identity) if family == "histogram" else identity)
    if multi:
        return Link("softmax")
    # Treelite's own importer forgets the 2 of the exponential loss
    return Link("sigmoid", slope=2.0 if forest.objective == "exponential" else 1.0)
