"""The `Traits` of XGBoost.

XGBoost is imported inside the functions that need it; reading a file needs it only to measure the intercept.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.parsers.traits import Reader, Traits, arrow_by_pandas, index_of
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.intercept import read_intercept, with_intercept
from pine_boost.parsers.xgboost.read import major_minor, read_xgboost
from pine_boost.parsers.xgboost.write import write_document

# The form that 3.1 and later save; the key cannot be an attribute, whose values are strings
_VECTOR_SCORE = re.compile(rb'("learner_model_param":\{"base_score":")\[([^",\]]+)((?:,\2)*)\]"')
_CONSTRAINTS = re.compile(r'"monotone_constraints"\s*:\s*"([^"]*)"')


def _recognises(contents: bytes) -> bool:
    return contents[:64].lstrip()[:1] == b"{"  # a UBJSON object starts with '{' too


def _load(document: XGBoostDocument) -> Any:
    import xgboost

    if len(set(document.base_score)) > 1 and major_minor(xgboost) < (3, 1):
        # before 3.1 a base_score per class is silently read as 0.5
        wanted = read_intercept(document)[0]
        document = with_intercept(replace(document, base_score=(0.0,)), wanted)
    contents = bytearray(write_document(document, "ubj"))
    # one thread: on a few rows, the thread pool of a busy machine costs more than it gains
    return xgboost.Booster(params={"nthread": 1}, model_file=contents)


def _shared_library() -> str:
    from xgboost.libpath import find_lib_path

    return str(find_lib_path()[0])


def _suffix_of(contents: bytes) -> str:
    return "json" if contents[:1] == b"{" and contents[1:2] in b'"\n ' else "ubj"


def _save(native: Any) -> bytes:
    booster = _booster_of(native)
    if _is_wrapper(native):
        # as the wrapper's own save_model does: the file loads into a wrapper and is read like one
        booster = booster.copy()
        kind = native._get_type() if hasattr(native, "_get_type") else native._estimator_type
        booster.set_attr(scikit_learn=json.dumps({"_estimator_type": kind}))
    # one base_score as a scalar, which every version reads; before 3.1 a vector is silently read as 0.5
    return _VECTOR_SCORE.sub(rb'\1\2"', bytes(booster.save_raw(raw_format="json")), count=1)


def _booster_of(native: Any) -> Any:
    return native.get_booster() if hasattr(native, "get_booster") else native


def _is_wrapper(native: Any) -> bool:
    return hasattr(native, "get_booster")


def _predict_booster(model: Model, booster: Any, X: Any, raw: bool) -> npt.NDArray[Any]:
    import xgboost

    is_frame = hasattr(X, "columns")
    try:
        data = xgboost.DMatrix(
            X,
            missing=model.forest.missing_value,
            feature_names=None if is_frame else (list(booster.feature_names or []) or None),
            feature_types=None if is_frame else (list(booster.feature_types or []) or None),
            enable_categorical=True,
            nthread=1,
        )
    except xgboost.core.XGBoostError as error:
        # a DMatrix rejects infinity, inplace_predict does not; both route and add in the same way
        if "inf" not in str(error):
            raise InvalidInputError(f"XGBoost refuses this table: {_first_line(error)}") from error
        kind = "margin" if raw else "value"
        return np.asarray(booster.inplace_predict(X, predict_type=kind, validate_features=False))
    return np.asarray(booster.predict(data, output_margin=raw))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].rpartition("] ")[2][:200] if lines else type(error).__name__


def _classes(model: Model, native: Any, X: Any) -> IntArray:
    forest = model.forest
    if _is_wrapper(native):
        return index_of(np.asarray(native.predict(X)), forest.classes)
    predicted = _predict_booster(model, native, X, raw=False)
    if predicted.ndim == 2 and predicted.shape[1] > 1:
        return np.asarray(np.argmax(predicted, axis=1))
    if forest.n_outputs > 1:  # multi:softmax returns the class itself
        return predicted.astype(np.int64)
    # a logistic probability is compared with 0.5; the margin of logitraw and the class of hinge with
    # the cut of the forest, which for a file saved by a wrapper is the wrapper's rule
    cut = 0.5 if forest.objective == "binary:logistic" else forest.decision.cuts[0]
    return (predicted.reshape(-1) > cut).astype(np.int64)


def _scores(model: Model, native: Any, X: Any) -> npt.NDArray[Any]:
    if model.forest.objective == "binary:logitraw":  # its predict_proba is the margin itself
        from scipy.special import expit

        return np.asarray(expit(_margins(model, native, X)[0][:, 0]))
    if not model.forest.objective.startswith("binary:"):
        return _margins(model, native, X)[0][:, 0]
    if _is_wrapper(native):
        return np.asarray(native.predict_proba(X))[:, 1]
    return _predict_booster(model, native, X, raw=False).reshape(-1)


def _margins(model: Model, native: Any, X: Any) -> tuple[FloatArray, float]:
    if _is_wrapper(native):
        margins = native.predict(X, output_margin=True)
    else:
        margins = _predict_booster(model, native, X, raw=True)
    return np.asarray(margins, dtype=np.float64).reshape(-1, model.forest.n_outputs), 0.0


def _accepted(X: Any) -> Any:
    """Convert polars and Arrow tables for versions before 3.0, which do not read them themselves."""
    import xgboost

    return X if major_minor(xgboost) >= (3, 0) else arrow_by_pandas(X)


def _monotone(model: Model) -> tuple[int, ...] | None:
    """Return the constraints of a model trained in this process; a file stores no training parameters.

    A Booster with the parameters of one that was just loaded may come from a file, too. So may one
    that names no constraint and has never evaluated a metric, as training does: its parameters may
    have been set after loading. Wrappers convert names and lists to the Booster's numbers.
    """
    if model.native is None:
        return None
    config = _booster_of(model.native).save_config()
    if _training(config) == _training(_load(model.document).save_config()):
        return None
    named = [re.findall(r"-?\d+", text) for text in _CONSTRAINTS.findall(config)]
    if not any(named) and not json.loads(config)["learner"].get("metrics"):
        return None
    directions = [0] * model.forest.n_features
    for given in named:
        directions[: len(given)] = [int(direction) for direction in given]
    return tuple(directions)


def _training(config: str) -> Any:
    """Return the parameters of tree training, including those of dart."""
    booster = json.loads(config)["learner"]["gradient_booster"]
    return booster.get("gbtree", booster).get("tree_train_param")


def _facts(model: Model) -> dict[str, Any]:
    document: XGBoostDocument = model.document
    return {
        "objective": json.loads(json.dumps(document.objective, sort_keys=True)),
        "types": list(document.feature_types),
        "n_classes": document.n_classes,
    }


TRAITS = Traits(
    title="XGBoost",
    packages=("xgboost", "xgboost-cpu"),
    read=read_xgboost,
    read_alone=partial(read_xgboost, asks_library=False),
    recognises=_recognises,
    suffixes=(".ubj",),
    load=_load,
    shared_library=_shared_library,
    write=write_document,
    suffix_of=_suffix_of,
    save=_save,
    classes=_classes,
    scores=_scores,
    margins=_margins,
    accepted=_accepted,
    monotone=_monotone,
    facts=_facts,
    reader=Reader.XGBOOST,
    weighs_trees=True,
    takes_codes=True,
    refuses_unknown_categories=True,
)
