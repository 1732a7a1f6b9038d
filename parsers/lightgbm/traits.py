"""The `Traits` of LightGBM.

LightGBM is imported inside the functions that need it, never for reading a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.parsers.lightgbm.document import LightgbmDocument
from pine_boost.parsers.lightgbm.read import PROBABILITY_OBJECTIVES, read_lightgbm
from pine_boost.parsers.lightgbm.write import write_document
from pine_boost.parsers.traits import Reader, Traits, index_of


def _recognises(contents: bytes) -> bool:
    return contents.startswith((b"tree\n", b"tree\r\n", b"\xef\xbb\xbftree"))


def _load(document: LightgbmDocument) -> Any:
    import lightgbm

    return lightgbm.Booster(model_str=write_document(document).decode())


def _shared_library() -> str:
    from lightgbm.basic import _LIB

    return str(_LIB._name)


def _save(native: Any) -> bytes:
    contents: bytes = _booster_of(native).model_to_string(num_iteration=-1).encode()
    return contents


def _booster_of(native: Any) -> Any:
    return getattr(native, "booster_", native)


def _predict(native: Any, X: Any, raw: bool = False) -> npt.NDArray[Any]:
    if hasattr(native, "booster_"):
        return np.asarray(native.predict(X, raw_score=raw))
    return np.asarray(native.predict(X, raw_score=raw, num_threads=1))


def _classes(model: Model, native: Any, X: Any) -> IntArray:
    predicted = _predict(native, X)
    if hasattr(native, "booster_"):
        return index_of(predicted, model.forest.classes)
    if predicted.ndim == 2:
        return np.asarray(np.argmax(predicted, axis=1))
    return (predicted > 0.5).astype(np.int64)


def _scores(model: Model, native: Any, X: Any) -> npt.NDArray[Any]:
    if model.forest.objective in PROBABILITY_OBJECTIVES:
        if hasattr(native, "predict_proba"):
            return np.asarray(native.predict_proba(X))[:, 1]
        return _predict(native, X)
    # before any link, but divided as in the prediction of a random forest; slope is 1 / rounds
    rounds = model.document.n_used_rounds if model.document.average_output else 1
    return _predict(native, X, raw=True) / rounds


def _margins(model: Model, native: Any, X: Any) -> tuple[FloatArray, float]:
    margins = np.asarray(_predict(native, X, raw=True), dtype=np.float64)
    return margins.reshape(-1, model.forest.n_outputs), 0.0


def _monotone(model: Model) -> tuple[int, ...]:
    return tuple(model.document.monotone_constraints or [0] * model.forest.n_features)


def _facts(model: Model) -> dict[str, Any]:
    document: LightgbmDocument = model.document
    line = document.objective
    if line is not None and document.average_output:
        line = line.partition(" sigmoid:")[0]  # an average over fewer rounds has a different slope
    return {
        "objective": line,
        "average": document.average_output,
        "types": [
            "categorical" if j in set(document.category_features()) else "numeric"
            for j in range(len(document.feature_names))
        ],
    }


def _column_name(name: str) -> str:
    return "_".join(name.split(" "))  # as the text stores it


TRAITS = Traits(
    title="LightGBM",
    packages=("lightgbm",),
    read=read_lightgbm,
    recognises=_recognises,
    suffixes=(".txt",),
    load=_load,
    shared_library=_shared_library,
    write=write_document,
    suffix_of=lambda _: "txt",
    save=_save,
    classes=_classes,
    scores=_scores,
    margins=_margins,
    column_name=_column_name,
    monotone=_monotone,
    facts=_facts,
    reader=Reader.LIGHTGBM,
    sums_from_zero=True,
)
