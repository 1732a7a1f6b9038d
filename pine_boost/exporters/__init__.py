"""Exporters: from a pruned forest on its dyadic grid to a native model of the kind that came in.

In come the parsed `Model` and a `PrunedForest` of its forest; out goes a new native object (or
the bytes of a file). The original is never modified; a kind without a writer is refused.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.forest import Model, PrunedForest

__all__ = ["export"]

_WRITERS = {"xgboost": "write_xgboost", "lightgbm": "write_lightgbm", "sklearn": "write_sklearn"}


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
        There is no writer for this library.
    """
    if pruned.forest is not model.forest:
        raise InvalidInputError("The pruned forest was built from another model's forest.")
    library = model.forest.library
    if library not in _WRITERS:
        raise UnsupportedModelError(
            f"No exporter for models of {library!r}; there is one for {', '.join(_WRITERS)}."
        )
    module = import_module(f"pine_boost.exporters.{library}")
    return getattr(module, _WRITERS[library])(model, pruned)
