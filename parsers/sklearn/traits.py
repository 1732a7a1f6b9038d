"""The `Traits` of scikit-learn.

It has no file format that can be checked: estimators are saved as pickles, which are never loaded here.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.exact import UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.parsers import pickled
from pine_boost.parsers.sklearn.read import read_sklearn
from pine_boost.parsers.traits import Reader, Traits, index_of

_UNIT = UNIT_ROUNDOFF[np.float64]


def _no_file(document: Any) -> NoReturn:
    raise UnsupportedModelError("A scikit-learn estimator has no file format of its own; pass the live estimator.")


def _no_library() -> NoReturn:
    raise ImportError("scikit-learn has no library that a file could be loaded with")


def _classes(model: Model, native: Any, X: Any) -> IntArray:
    return index_of(np.asarray(native.predict(X)), model.forest.classes)


def _scores(model: Model, native: Any, X: Any) -> npt.NDArray[Any]:
    if hasattr(native, "predict_proba"):
        return np.asarray(native.predict_proba(X))[:, 1]
    if model.document.family == "average":
        return np.asarray(native.predict(X))
    return _margins(model, native, X)[0][:, 0]


def _margins(model: Model, native: Any, X: Any) -> tuple[FloatArray, float]:
    family = model.document.family
    if family == "average":
        return _sums_of_mean(model, native, X)
    if family == "votes":
        return _sums_of_votes(native, X)
    if hasattr(native, "decision_function"):
        margins = native.decision_function(X)
    elif family == "histogram":
        margins = native._raw_predict(X)  # predict applies the exponential of Poisson and gamma
    else:
        margins = native.predict(X)
    return np.asarray(margins, dtype=np.float64).reshape(-1, model.forest.n_outputs), 0.0


def _sums_of_mean(model: Model, native: Any, X: Any) -> tuple[FloatArray, float]:
    n_trees = len(native.estimators_) if hasattr(native, "estimators_") else 1
    mean = native.predict_proba(X) if hasattr(native, "predict_proba") else native.predict(X)
    mean = np.asarray(mean, dtype=np.float64).reshape(len(mean), -1)
    thresholds = model.forest.decision.thresholds
    if n_trees == 1 and not thresholds:
        return mean, 0.0
    threshold = thresholds[0] if thresholds else 0.0
    if thresholds:
        mean = mean[:, -1:]
    # fl(S / n), n * (p - t): three roundings, each within u of n (|p| + |t|)
    largest = n_trees * (float(np.abs(mean).max(initial=0.0)) + abs(threshold))
    return n_trees * (mean - threshold), 4 * _UNIT * largest


def _sums_of_votes(native: Any, X: Any) -> tuple[FloatArray, float]:
    """Return the votes per class; for two classes, votes for minus votes against (SAMME)."""
    decision = np.asarray(native.decision_function(X), dtype=np.float64)
    total = float(native.estimator_weights_.sum())
    blur = 8 * _UNIT * total
    if decision.ndim == 1:
        return (decision * (total / 2))[:, None], blur
    n_classes = decision.shape[1]
    # w for a vote, fl(-w / (K - 1)) against, n additions: (n + 2) u W, plus the multiplication back
    blur += (len(native.estimators_) + 2) * _UNIT * total
    return (decision * total * (n_classes - 1) + total) / n_classes, blur


def _monotone(model: Model) -> tuple[int, ...]:
    given = getattr(model.native, "monotonic_cst", None)
    if isinstance(given, dict):
        given = [given.get(name, 0) for name in model.native.feature_names_in_]
    return tuple([0] * model.forest.n_features if given is None else map(int, given))


def _facts(model: Model) -> dict[str, Any]:
    return {"wrapper": {"class": model.kind, "family": model.document.family}}


TRAITS = Traits(
    title="scikit-learn",
    packages=("scikit-learn",),
    read=read_sklearn,
    recognises=lambda _: False,  # its models are pickles, which `read_model` loads itself
    suffixes=(),
    load=_no_file,
    shared_library=_no_library,
    write=_no_file,
    suffix_of=lambda _: "pkl",
    save=pickled,
    classes=_classes,
    scores=_scores,
    margins=_margins,
    monotone=_monotone,
    facts=_facts,
    reader=Reader.TREES,
    keeps_whole_sets=True,
)
