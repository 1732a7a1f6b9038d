"""Exporters: from a pruned forest on its dyadic grid to a native model of the kind that came in.

In come the parsed `Model` and a `PrunedForest` of its forest; out goes a new native object (or
the bytes of a file). The original is never modified; a kind without a writer is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.model.forest import FloatArray, Model, PrunedForest
from pine_boost.model.trimming import Trimming

__all__ = ["export", "export_trimmed"]

# library -> (module, function) that writes leaves on a grid, or leaves as they are
_WRITERS = {
    "xgboost": ("xgboost", "write_xgboost"),
    "lightgbm": ("lightgbm", "write_lightgbm"),
    "sklearn": ("sklearn", "write_sklearn"),
}
_TRIMMERS = {
    "xgboost": ("xgboost", "trim_xgboost"),
    "lightgbm": ("lightgbm", "trim_lightgbm"),
    "sklearn": ("own_values", "trim_sklearn"),
}


def export(model: Model, pruned: PrunedForest) -> Any:
    """Write a pruned forest as a native model of the same kind as the original.

    Parameters
    ----------
    model : Model
        What `pine_boost.parsers.read_model` returned.
    pruned : PrunedForest
        Kept trees and leaf values in grid units, over the nodes of ``model.forest``.

    Returns
    -------
    object
        A new native object of ``model.kind``; bytes in the same format where a file or bytes
        came in. Its native margin is the integer sum of ``pruned`` / 2**grid, bit for bit.

    Raises
    ------
    InvalidInputError
        ``pruned`` was built from another forest.
    UnsupportedModelError
        There is no writer for this library, or the object cannot be copied.
    """
    if pruned.forest is not model.forest:
        raise InvalidInputError("The pruned forest was built from another model's forest.")
    return _written(_WRITERS, model, pruned)


def export_trimmed(model: Model, trimming: Trimming, shift: FloatArray | None = None) -> Any:
    """Write a model with nodes left out and the leaf values it has, on no grid.

    Parameters
    ----------
    model : Model
        What `pine_boost.parsers.read_model` returned.
    trimming : Trimming
        Of the nodes of ``model.forest``. Whole rounds are kept where a round has several trees;
        means and votes keep all their trees.
    shift : float64 (n_trees,), optional
        A constant for every leaf of a tree, rounded to the type of the leaf. None: every leaf
        is bit for bit what it was, and so is the native intercept.

    Returns
    -------
    object
        A new native object of ``model.kind``; bytes in the same format where a file or bytes
        came in. dart models of XGBoost become gbtree with the weights in the leaves.

    Raises
    ------
    InvalidInputError
        Trees of a mean are left out, or a shift is asked for them.
    UnsupportedModelError
        There is no writer for this library, or the object cannot be copied.
    """
    if shift is None:
        shift = np.zeros(model.forest.n_trees)
    return _written(_TRIMMERS, model, trimming, shift)


def _written(table: Mapping[str, tuple[str, str]], model: Model, *arguments: Any) -> Any:
    """What the writer of the library makes; what it raises is an error of ours."""
    library = model.forest.library
    if library not in table:
        raise UnsupportedModelError(f"No exporter for models of {library!r}; there is one for {', '.join(table)}.")
    module, name = table[library]
    write = getattr(import_module(f"pine_boost.exporters.{module}"), name)
    try:
        return write(model, *arguments)
    except (PineBoostError, ImportError, MemoryError):
        raise
    except Exception as error:  # the object may be a user's own, and its attributes anything
        reason = " ".join(str(error).split())[:300]
        raise UnsupportedModelError(
            f"This {model.kind} cannot be written with fewer trees or leaves "
            f"({type(error).__name__}: {reason}). Pass the plain estimator as its library fitted "
            "it, or the model as a file."
        ) from error
