"""The `Traits` of CatBoost.

CatBoost is imported inside the functions that need it, never for reading a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.parsers.catboost.category_hash import CODED, category_hash, category_key
from pine_boost.parsers.catboost.document import CatboostDocument, read_document
from pine_boost.parsers.catboost.read import PROBABILITY_LOSSES, SEVERAL_LOSSES, native_json, read_catboost
from pine_boost.parsers.catboost.write import write_document
from pine_boost.parsers.traits import Reader, Traits, index_of


def _recognises(contents: bytes) -> bool:
    """Whether a file is CatBoost's own binary format or its JSON."""
    if contents[:4] == b"CBM1":
        return True
    is_json = contents.lstrip()[:1] == b"{" and b'"gradient_booster"' not in contents  # a key of XGBoost's JSON
    return is_json and (b'"oblivious_trees"' in contents or b'"scale_and_bias"' in contents)


def load_as(kind: Callable[[], Any], document: CatboostDocument) -> Any:
    """Load a document into a new model of a class of CatBoost, with the training parameters it stores."""
    native = kind()
    # not from a blob: that loses the link of Poisson models (catboost#3103)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        path.write_bytes(write_document(document))
        native.load_model(str(path), format="json")
    return native


def _load(document: CatboostDocument) -> Any:
    import catboost

    return load_as(catboost.CatBoost, document)


def _shared_library() -> str:
    import catboost

    return str(catboost._catboost.__file__)


def _save(native: Any) -> bytes:
    # written here: CatBoost's own text is exact, but it reads one number in five otherwise
    return write_document(read_document(native_json(native), live=True))


def _predict(model: Model, native: Any, X: Any, kind: str) -> npt.NDArray[Any]:
    native = _twin(model.document) if _is_coded(model.document, X) else native
    return np.asarray(native.predict(X, prediction_type=kind, thread_count=1))


def _is_coded(document: CatboostDocument, X: Any) -> bool:
    """Whether the categories of a table are texts that stand for hashes (see `tables.native`)."""
    columns = [j for j, feature in enumerate(document.features) if feature.is_categorical]
    return bool(columns) and hasattr(X, "iloc") and len(X) > 0 and str(X.iloc[0, columns[0]]).startswith(CODED)


_TWINS: WeakKeyDictionary[CatboostDocument, Any] = WeakKeyDictionary()


def _twin(document: CatboostDocument) -> Any:
    """Return the same model with categories named by their hashes: the names behind the hashes are not known."""
    if document not in _TWINS:
        features = []
        for feature in document.features:
            hashes = tuple(category_hash(f"{CODED}{value}") for value in feature.hashes)
            if len({*hashes, category_hash(f"{CODED}none")}) <= len(hashes):
                raise UnsupportedModelError("Two categories of this CatBoost model cannot be told apart by name.")
            features.append(replace(feature, hashes=hashes))
        _TWINS[document] = _load(replace(document, features=tuple(features)))
    return _TWINS[document]


def _classes(model: Model, native: Any, X: Any) -> IntArray:
    predicted = _predict(model, native, X, "Class").reshape(-1)
    return index_of(np.asarray(predicted.tolist()), model.forest.classes)


def _scores(model: Model, native: Any, X: Any) -> npt.NDArray[Any]:
    if model.forest.objective in PROBABILITY_LOSSES:
        return _predict(model, native, X, "Probability")[:, 1]
    return _predict(model, native, X, "RawFormulaVal")


def _margins(model: Model, native: Any, X: Any) -> tuple[FloatArray, float]:
    margins = np.asarray(_predict(model, native, X, "RawFormulaVal"), dtype=np.float64)
    return margins.reshape(-1, model.forest.n_outputs), 0.0


def _probabilities(model: Model, native: Any, X: Any) -> FloatArray:
    if model.forest.objective not in (*PROBABILITY_LOSSES, *SEVERAL_LOSSES):
        raise UnsupportedModelError(
            f"{model.kind} with the loss {model.forest.objective!r} has no probabilities; use predict."
        )
    return np.asarray(_predict(model, native, X, "Probability"), dtype=np.float64)


def _monotone(model: Model) -> tuple[int, ...] | None:
    document: CatboostDocument = model.document
    learner = document.info["params"].get("tree_learner_options")
    given = learner.get("monotone_constraints") if isinstance(learner, dict) else None
    if not isinstance(given, dict):
        return None
    return tuple(int(given.get(str(j), 0)) for j in range(model.forest.n_features))


def _facts(model: Model) -> dict[str, Any]:
    document: CatboostDocument = model.document
    types = ["categorical" if feature.is_categorical else "numeric" for feature in document.features]
    return {"objective": document.loss, "types": types, "labels": repr(document.labels), "cut": document.cut}


TRAITS = Traits(
    title="CatBoost",
    packages=("catboost",),
    read=read_catboost,
    recognises=_recognises,
    suffixes=(".cbm",),
    load=_load,
    shared_library=_shared_library,
    write=write_document,
    suffix_of=lambda _: "json",
    save=_save,
    classes=_classes,
    scores=_scores,
    margins=_margins,
    monotone=_monotone,
    facts=_facts,
    reader=Reader.CATBOOST,
    category_key=category_key,
    probabilities=_probabilities,
    read_saved=partial(read_catboost, as_saved=True),
    sums_from_zero=True,
    keeps_whole_sets=True,
)
