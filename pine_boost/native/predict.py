"""Asking the native library: class indices and margins of the model itself, nothing of ours.

In come a parsed Model and a table; out go its native predictions as indices into
``forest.classes`` (or bands of the user's thresholds). A file is loaded from the bytes that were
re-serialised from a checked document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pine_boost.errors import InvalidInputError, MissingDependencyError, PineBoostError, UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.parsers.native_classes import band_of
from pine_boost.parsers.traits import traits_of
from pine_boost.tables.columns import model_columns
from pine_boost.tables.schema import schema_of

Answer = TypeVar("Answer")
_WRITTEN: WeakKeyDictionary[Model, bytes] = WeakKeyDictionary()  # a large model takes seconds to write


def load_native(model: Model) -> Any:
    """The live object of a parsed model; a file is loaded from its checked contents."""
    if model.native is not None:
        return model.native
    library = model.forest.library
    try:
        return traits_of(library).load(model.document)
    except PineBoostError:
        raise
    except ImportError as error:
        raise MissingDependencyError(
            f"Predicting natively needs {library}; install it with pip install {library}."
        ) from error
    except Exception as error:  # LightGBM's own error is nothing more special
        # for example a parameter of a LightGBM text that only its own loader looks at
        raise UnsupportedModelError(
            f"{library} itself refuses this file: {str(error).strip()[:300]}. Save the model again."
        ) from error


def original_bytes(model: Model) -> bytes:
    """The checked contents of a model that came as a file, in the same format."""
    if model not in _WRITTEN:
        _WRITTEN[model] = traits_of(model.forest.library).write(model.document)
    return _WRITTEN[model]


def predict_classes(model: Model, X: Any) -> IntArray:
    """Class index (or score band) of every row by the native ``predict`` of the model's kind.

    The user's thresholds are compared with probabilities of class 1 for classifiers, and with
    raw margins, before any link, for everything else.
    """
    traits, thresholds = traits_of(model.forest.library), model.forest.decision.thresholds
    if thresholds:
        return band_of(ask_native(traits.scores, model, X), thresholds)
    return ask_native(traits.classes, model, X)


def predict_margins(model: Model, X: Any) -> tuple[FloatArray, float]:
    """Native margins, (n_rows, n_outputs), and how far the way back to them may have rounded.

    Boosted models return them as such: the bound is 0. The mean of a forest and the votes of
    AdaBoost are what is left after a division; multiplied back they are the sum that the IR
    holds, up to the bound.
    """
    return ask_native(traits_of(model.forest.library).margins, model, X)


def ask_native(question: Callable[[Model, Any, Any], Answer], model: Model, X: Any) -> Answer:
    """Ask the native model about a table; what it raises is an error of ours."""
    native, traits = load_native(model), traits_of(model.forest.library)
    X = model_columns(X, schema_of(model.forest))
    try:
        return question(model, native, traits.accepted(X))
    except (PineBoostError, ImportError, MemoryError):
        raise
    except Exception as error:  # each library has its own errors, some only ValueError
        reason = str(error).strip().partition("\n")[0][:300]
        raise InvalidInputError(
            f"{traits.title}'s own predict refuses this table ({type(error).__name__}: {reason}). "
            "Pass it as the library takes it, for example as a float64 matrix."
        ) from error
