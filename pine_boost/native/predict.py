"""Predict classes, margins and probabilities natively with a parsed model, in chunks if a table is large.

A model read from a file is loaded from bytes that were written again from its checked document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, UnsupportedModelError, needing, translated
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.model.links import Output, output_of, probabilities_of
from pine_boost.parsers.traits import band_of, traits_of
from pine_boost.tables.native import as_table, row_count, take_rows
from pine_boost.tables.rows import BatchRows, DaskRows, is_large, open_rows
from pine_boost.tables.schema import InputSchema, model_columns, schema_of

Answer = TypeVar("Answer")
# writing a large model and loading it take seconds
_WRITTEN: WeakKeyDictionary[Model, bytes] = WeakKeyDictionary()
_LOADED: WeakKeyDictionary[Model, Any] = WeakKeyDictionary()
_NEEDS = "Predicting natively needs"


def load_native(model: Model) -> Any:
    """Return the live object of a parsed model; a file is loaded from its checked contents."""
    if model.native is not None:
        return model.native
    if model in _LOADED:
        return _LOADED[model]
    library = model.forest.library
    refused = f"{library} itself refuses this file: {{reason}}. Save the model again."
    # for example a parameter in a LightGBM text that only its own loader checks
    with needing(f"{_NEEDS} {library}", library), translated(UnsupportedModelError, refused):
        return _LOADED.setdefault(model, traits_of(library).load(model.document))


def require_library(model: Model) -> None:
    """Raise, before any search, if the training library of a model from a file is not installed."""
    library = model.forest.library
    with needing(f"{_NEEDS} {library}", library):
        if model.native is None and find_spec(library) is None:
            raise ImportError(library)


def original_bytes(model: Model) -> bytes:
    """Return the checked contents of a model that was read from a file, in the same format."""
    if model not in _WRITTEN:
        _WRITTEN[model] = traits_of(model.forest.library).write(model.document)
    return _WRITTEN[model]


def model_file(native: Any, library: str) -> tuple[str, bytes]:
    """Return the name and contents of the file of a native model; bytes are used unchanged."""
    traits = traits_of(library)
    contents = bytes(native) if isinstance(native, (bytes, bytearray)) else traits.save(native)
    return f"model.{traits.suffix_of(contents)}", contents


def predict_classes(model: Model, X: Any) -> IntArray:
    """Predict the class index (or score band) of every row with the native ``predict`` of the model's kind.

    The user's thresholds are compared with probabilities of class 1 for classifiers, and with
    raw margins, before any link, for everything else.
    """
    traits, thresholds = traits_of(model.forest.library), model.forest.decision.thresholds
    if thresholds:
        return band_of(ask_native(traits.scores, model, X), thresholds)
    return ask_native(traits.classes, model, X)


def predict_margins(model: Model, X: Any) -> tuple[FloatArray, float]:
    """Return native margins, (n_rows, n_outputs), and a bound on the rounding in recovering them.

    Boosted models return margins directly, so the bound is 0. Forests return a mean and AdaBoost
    votes after a division; multiplied back, these equal the sum in the Forest up to the bound.
    """
    return ask_native(traits_of(model.forest.library).margins, model, X)


def ask_native(question: Callable[[Model, Any, Any], Answer], model: Model, X: Any) -> Answer:
    """Call a prediction function of `Traits` on a table and convert the library's errors to ours."""
    native, traits = load_native(model), traits_of(model.forest.library)
    X = model_columns(X, schema_of(model.forest))
    sentence = (
        f"{traits.title}'s own predict refuses this table ({{reason}}). Pass it as the library takes it, for example "
        "as a float64 matrix."
    )
    with translated(InvalidInputError, sentence):
        return question(model, native, traits.accepted(X))


CHUNK_CELLS = 2_000_000  # rows x trees predicted between two checks of the time
_FEWEST_ROWS = 500
Ask = Callable[[Model, Any], npt.NDArray[Any]]


def asked_in_chunks(ask: Ask, model: Model, X: Any, check: Callable[[], None] | None = None) -> npt.NDArray[Any]:
    """Return the result of ``ask`` (a module-level function, so that workers can import it) for all rows.

    ``check`` (such as `Budget.check`) is called before every chunk of a table in memory and may raise.
    """
    if is_large(X):
        X = open_rows(X, schema_of(model.forest))
    model = replace(model, native=load_native(model))  # once, not for every chunk
    if not isinstance(X, (BatchRows, DaskRows)):
        n_rows, n_most = row_count(X), max(_FEWEST_ROWS, CHUNK_CELLS // model.forest.n_trees)
        if check is None or n_rows <= n_most:
            return ask(model, X)
        parts = []
        for start in range(0, n_rows, n_most):
            check()
            parts.append(np.asarray(ask(model, take_rows(X, np.arange(start, min(start + n_most, n_rows))))))
        return np.concatenate(parts)
    chunks = list(X.map_values(partial(_ask_matrix, ask, model, schema_of(model.forest))))
    return np.concatenate(chunks) if chunks else np.zeros(0)


def _ask_matrix(ask: Ask, model: Model, schema: InputSchema, matrix: FloatArray) -> Any:
    return np.asarray(ask(model, as_table(matrix, schema)))


def predict_probabilities(model: Model, X: Any) -> FloatArray:
    """Return ``predict_proba``, or what a booster's ``predict`` returns, one column per class."""
    traits = traits_of(model.forest.library)
    if traits.probabilities is not None:
        return ask_native(traits.probabilities, model, X)
    if hasattr(model.native, "predict_proba"):
        return ask_native(lambda _, native, rows: np.asarray(native.predict_proba(rows)), model, X)
    return linked_probabilities(model, predict_margins(model, X)[0])


def linked_probabilities(model: Model, margins: FloatArray) -> FloatArray:
    """Convert margins to probabilities, one column per class; raise if the model has none."""
    # others depend on more than the sums (votes, one sigmoid per class), or are no probabilities
    if output_of(model.forest) not in (Output.SIGMOID, Output.SOFTMAX, Output.LOGIT, Output.MEAN):
        objective = model.forest.objective
        raise UnsupportedModelError(f"{model.kind} with objective {objective!r} has no probabilities; use predict.")
    found = probabilities_of(model.forest, margins)
    return found if found.shape[1] > 1 else np.concatenate([1.0 - found, found], axis=1)
