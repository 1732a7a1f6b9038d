"""Probabilities as the native library gives them, or as they follow from native margins.

In come a parsed Model whose native object is loaded and a user's table; out go float64 columns, one
per class. Refuses models whose objective has no probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, Model
from pine_boost.model.margin_probabilities import SEPARATE, probabilities_of
from pine_boost.native.predict import ask_native, predict_margins


def predict_probabilities(model: Model, X: Any) -> FloatArray:
    """``predict_proba``, or what a booster's ``predict`` returns, one column per class."""
    if hasattr(model.native, "predict_proba"):
        return ask_native(_own_probabilities, model, X)
    return linked_probabilities(model, predict_margins(model, X)[0])


def _own_probabilities(_: Model, native: Any, X: Any) -> FloatArray:
    return np.asarray(native.predict_proba(X))


def has_plain_link(model: Model) -> bool:
    """Whether probabilities are sigmoid, softmax or mean of the sums, and of nothing else."""
    family = str(getattr(model.document, "family", ""))
    objective = model.forest.objective.split(" ")[0]
    return family != "votes" and objective not in (SEPARATE, "binary:hinge")


def _require_probabilities(model: Model) -> None:
    objective = model.forest.objective
    is_booster = not str(getattr(model.document, "family", ""))
    if is_booster and not objective.startswith(("binary", "multi", "cross_entropy")):
        raise UnsupportedModelError(f"{model.kind} with objective {objective!r} has no probabilities; use predict.")
    if not has_plain_link(model):
        raise UnsupportedModelError(f"{model.kind} with objective {objective!r} has none to give.")


def linked_probabilities(model: Model, margins: FloatArray) -> FloatArray:
    """Probabilities of margins, one column per class; refused where a model has none."""
    _require_probabilities(model)
    found = probabilities_of(model.forest, margins)
    return found if found.shape[1] > 1 else np.concatenate([1.0 - found, found], axis=1)
