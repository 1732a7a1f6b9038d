"""Read CatBoost models (CatBoost, its classifiers, regressors and rankers, .json files, bytes) into the tree IR.

Files are parsed without CatBoost. Its binary format (.cbm) is refused, because only its own loader reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError, translated
from pine_boost.files import MODEL_LIMIT, read_limited
from pine_boost.model.exact import UNIT_ROUNDOFF
from pine_boost.model.forest import Decision, Forest, Model
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.parsers.catboost.document import REMEDY, CatboostDocument, no_features_of, read_document
from pine_boost.parsers.decisions import class_labels, find_decision, logit_cut
from pine_boost.parsers.traits import SAVED_KIND, class_of

PROBABILITY_LOSSES = ("Logloss", "CrossEntropy")
SEVERAL_LOSSES = ("MultiClass", "MultiClassOneVsAll")
_KINDS = ("CatBoostClassifier", "CatBoostRegressor", "CatBoostRanker", "CatBoost")
_LARGEST_SUM = 1e300  # far from overflow
_UNIT = UNIT_ROUNDOFF[np.float64]


def read_catboost(
    model: Any, *, threshold: float | Sequence[float] | None = None, decision: str = "class", as_saved: bool = False
) -> Model:
    """Read a CatBoost model exactly.

    Parameters
    ----------
    model : catboost.CatBoost, CatBoostClassifier, CatBoostRegressor, CatBoostRanker, or the bytes of a file
        Files are JSON, as ``model.save_model(path, format="json")`` writes it.
    threshold : float, sequence of float or None
        None is CatBoost's own decision: raw value above 0 (or above the logit of the model's own
        probability threshold), or the largest one. Otherwise probabilities for Logloss and
        CrossEntropy; for losses without classes a raw value.
    decision : {"class", "value"}
        ``"value"`` reads losses without classes without a threshold, as their raw value.
    as_saved : bool
        Read a file that CatBoost wrote as the live model that it was saved from; CatBoost loads it an ulp off.

    Returns
    -------
    Model
        ``native_margins`` of its forest is ``predict(prediction_type="RawFormulaVal")`` bit for bit.

    Raises
    ------
    MalformedModelError
        The file is damaged; no native loader has seen it.
    UnsupportedModelError
        CTR, text or embedding features, a binary file, a loss without classes and no threshold.
    InvalidInputError
        Not fitted, or a threshold that does not fit.

    Examples
    --------
    >>> import catboost, numpy as np
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> model = catboost.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False, thread_count=1)
    >>> read_catboost(model.fit(X, X[:, 0] > 20)).forest.n_trees
    3
    """
    if isinstance(model, bytes):
        if model[:4] == b"CBM1":
            raise UnsupportedModelError(
                f"This is CatBoost's binary format, which only its own loader reads, and that loader does not check "
                f"damaged files. Load it with CatBoost and pass the model, or its JSON. {REMEDY}."
            )
        document, native = read_document(model, live=as_saved), None
        kind = SAVED_KIND if as_saved else "catboost file"
    else:
        name, native = class_of(model, "catboost", _KINDS, " Or pass a .json path, or its bytes."), model
        if not model.is_fitted():
            raise InvalidInputError(f"This {name} is not fitted; call fit first.")
        kind = f"catboost.{name}"
        document = read_document(native_json(model), live=True)
    forest = _build_forest(document, threshold, decision == "value")
    return Model(forest, kind, native, document)


def native_json(model: Any) -> bytes:
    """Return the JSON that CatBoost writes of a live model; its texts are exact, but its own parser rounds them."""
    for kind in ("text", "embedding"):
        if indices := getattr(model, f"get_{kind}_feature_indices")():
            raise no_features_of(kind, [model.feature_names_[index] for index in indices])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        with translated(UnsupportedModelError, "CatBoost cannot write this model as JSON ({reason})."):
            model.save_model(str(path), format="json")
        return read_limited(path, MODEL_LIMIT, "model file")


def _build_forest(document: CatboostDocument, given: Any, values: bool) -> Forest:
    categorical = np.array([feature.is_categorical for feature in document.features])
    if categorical.any() and not any(feature.hashes for feature in document.features):
        raise UnsupportedModelError(
            "No tree of this CatBoost model uses its categorical features; retrain without them."
        )
    n_outputs, trees = len(document.bias), document.trees
    is_leaf = trees.is_leaf
    owner, within = document.split_tables()
    borders, edge = np.concatenate([feature.borders for feature in document.features]), np.zeros(len(owner))
    # x > border is true and goes right: the others are those below the next float32
    with np.errstate(over="ignore"):  # the border of missing values is the largest float32
        edge[: len(borders)] = np.nextafter(borders, np.float32(np.inf))
    nan_left = np.array([not (feature.has_nans and feature.treatment == "AsTrue") for feature in document.features])
    # at leaves -1, which takes the last entry and is not read
    feature, threshold = np.append(owner, 0)[trees["split"]], np.append(edge, 0.0)[trees["split"]]
    is_category = ~is_leaf & categorical[feature]
    value = trees["value"] * document.scale
    if not (np.all(np.isfinite(value)) and np.all((value == 0) == (trees["value"] == 0))):
        raise MalformedModelError(f"The leaf values of the CatBoost model exceed float64 when scaled. {REMEDY}.")
    with np.errstate(over="ignore"):
        largest = trees.largest(value).sum(axis=0) + np.abs(document.bias)
    if not np.all(largest < _LARGEST_SUM):
        raise MalformedModelError(
            f"The leaf values of the CatBoost model add up to {largest.max():.3g}; sums below {_LARGEST_SUM:g} are "
            f"accepted. {REMEDY}."
        )
    decision = _decide(document, given, values)
    names = tuple(feature.name for feature in document.features)
    return trees.forest(
        feature,
        threshold,
        value,
        is_category,
        default_left=nan_left[feature],
        # one category goes right, all others left, missing ones (unknown to the model) too
        category_offset=np.concatenate([[0], np.cumsum(is_category)]),
        category=within[trees["split"][is_category]].astype(np.int32),
        intercept=document.bias,
        intercept_last=True,
        comparison=Comparison.FLOAT32_LESS,
        category_rule=CategoryRule.KNOWN,
        feature_categories=tuple(f.hashes if f.is_categorical else None for f in document.features)
        if categorical.any()
        else (),
        # the bias is added after the trees: u times the largest sum
        slack=float(largest.max()) * _UNIT * (1 + 2.0**-10) if np.any(document.bias) else 0.0,
        decision=decision,
        n_outputs=n_outputs,
        classes=_classes(document, decision),
        n_features=len(names),
        library="catboost",
        objective=document.loss,
        feature_names=None if names in (("",) * len(names), tuple(map(str, range(len(names))))) else names,
    )


def _decide(document: CatboostDocument, threshold: Any, values: bool) -> Decision:
    """Return the decision of the native ``predict`` with ``prediction_type="Class"``: it compares raw values."""
    loss, n_outputs = document.loss, len(document.bias)
    if n_outputs > 1 and loss not in SEVERAL_LOSSES:
        raise UnsupportedModelError(
            f"The CatBoost loss {loss[:60]!r} with {n_outputs} outputs has no class decision; "
            f"{' and '.join(SEVERAL_LOSSES)} are supported."
        )
    is_probability = loss in PROBABILITY_LOSSES and n_outputs == 1
    own = Decision(()) if n_outputs > 1 else Decision((0.0,)) if is_probability else None
    if is_probability and document.cut not in (None, 0.5):
        cut, guard = logit_cut(document.cut or 0.5)
        own = Decision((cut,), guard=guard)
    return find_decision(
        threshold,
        own,
        f"The CatBoost loss {loss[:60]!r}",
        n_outputs=n_outputs,
        is_probability=is_probability,
        cut=logit_cut if is_probability else lambda given: (given, 0.0),
        values=values,
        scale="raw value",
    )


def _classes(document: CatboostDocument, decision: Decision) -> tuple[Any, ...]:
    n_outputs, labels = len(document.bias), document.labels
    is_native = document.loss in (*PROBABILITY_LOSSES, *SEVERAL_LOSSES)
    fits = labels is not None and len(labels) == max(n_outputs, len(decision.cuts) + 1)
    return class_labels(decision, n_outputs, labels if is_native and fits else None)
