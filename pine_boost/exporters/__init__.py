"""Write a pruned or trimmed forest as a native model of the same kind as the original.

The original object is never modified.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError, translated
from pine_boost.model.exact import PRECISION, largest_leaf
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model, PrunedForest
from pine_boost.model.trimming import Trimming, trim_pruned
from pine_boost.parsers.traits import LIBRARIES

__all__ = ["Smaller", "export", "export_trimmed"]


@dataclass(frozen=True, eq=False)
class Smaller:
    """What a writer writes: the remaining nodes of a model and their values.

    Attributes
    ----------
    trimming : Trimming
    values : float64 (n, width)
        A value for every remaining node, read at the leaves.
    shift : float64 (n_trees,)
        What ``values`` adds to the model's own leaves, by tree of the original.
    pruned : PrunedForest or None
        The grid of the values; None if the model keeps its own leaf values and native intercept.
    """

    trimming: Trimming
    values: FloatArray
    shift: FloatArray
    pruned: PrunedForest | None = None

    @property
    def intercept(self) -> FloatArray:
        """The constant of every output beside the leaves of a pruned model."""
        assert self.pruned is not None
        return np.ldexp(self.pruned.intercept_int.astype(np.float64), -self.pruned.grid)


def export(model: Model, pruned: PrunedForest) -> Any:
    """Write a pruned forest as a native model of the same kind as the original.

    Parameters
    ----------
    model : Model
        The model that `pine_boost.parsers.read_model` returned.
    pruned : PrunedForest
        Kept trees and leaf values in grid units, over the nodes of ``model.forest``.

    Returns
    -------
    object
        A new native object of ``model.kind``; if the model was read from a file or bytes, bytes in
        the same format. Its native margin is the integer sum of ``pruned`` / 2**grid, bit for bit.

    Raises
    ------
    InvalidInputError
        ``pruned`` was built from another forest, or its sums do not fit the native float type exactly.
    UnsupportedModelError
        There is no writer for this library, or the object cannot be copied.
    """
    forest = model.forest
    if pruned.forest is not forest:
        raise InvalidInputError("The pruned forest was built from another model's forest.")
    trimming = trim_pruned(pruned)
    bits = PRECISION[forest.arithmetic]
    if (largest_leaf(forest, pruned.value_int).sum(axis=0) + np.abs(pruned.intercept_int)).max() > 2**bits:
        raise InvalidInputError(
            f"Grid 2**-{pruned.grid} is too fine: the leaves can add up to more than 2**{bits} grid units, which "
            f"{np.dtype(forest.arithmetic)} does not hold exactly; use a coarser grid."
        )
    value_int = np.where(trimming.is_leaf[:, None], pruned.value_int[trimming.node], 0)
    values = np.ldexp(value_int.astype(np.float64), -pruned.grid)
    return _written(model, Smaller(trimming, values, np.zeros(forest.n_trees), pruned))


def export_trimmed(model: Model, trimming: Trimming, shift: FloatArray | None = None) -> Any:
    """Write a model without some of its nodes, with its own leaf values and no grid.

    Parameters
    ----------
    model : Model
        The model that `pine_boost.parsers.read_model` returned.
    trimming : Trimming
        A trimming of ``model.forest``. If a round has several trees, only whole rounds are dropped;
        means and votes keep all their trees.
    shift : float64 (n_trees,), optional
        A constant for every leaf of a tree, rounded to the type of the leaf. None keeps every leaf
        and the native intercept bit for bit.

    Returns
    -------
    object
        A new native object of ``model.kind``; if the model was read from a file or bytes, bytes in
        the same format. dart models of XGBoost become gbtree with the weights in the leaves.

    Raises
    ------
    InvalidInputError
        Trees of a mean are dropped, or a shift is given for them.
    UnsupportedModelError
        There is no writer for this library, or the object cannot be copied.
    """
    shift = np.zeros(model.forest.n_trees) if shift is None else shift
    values = trimming.shifted(model.forest.value[trimming.value_node], shift)
    return _written(model, Smaller(trimming, values, shift))


def _written(model: Model, smaller: Smaller) -> Any:
    """Call ``write_<library>`` of the library's module and convert its errors to ours."""
    library = model.forest.library
    if library not in LIBRARIES:
        raise UnsupportedModelError(f"No exporter for models of {library!r}; there is one for {', '.join(LIBRARIES)}.")
    write = getattr(import_module(f"pine_boost.exporters.{library}"), f"write_{library}")
    sentence = (
        f"This {model.kind} cannot be written with fewer trees or leaves ({{reason}}). Pass the plain estimator as its "
        "library fitted it, or the model as a file."
    )
    with translated(UnsupportedModelError, sentence):  # a user's own class can have any attributes
        return write(model, smaller)


def whole_rounds(forest: Forest, smaller: Smaller) -> tuple[IntArray, IntArray, FloatArray]:
    """Complete the kept rounds of a boosted model with constant trees; there is at least one round.

    Returns
    -------
    rounds : int64 (n_rounds,)
        The rounds of the original.
    place : int64 (n_rounds, n_outputs)
        The position of every tree among the kept ones, -1 for a constant.
    constant : float64 (n_rounds, n_outputs)
        Values of the constants: those of the first round carry the intercept.
    """
    kept = smaller.trimming.kept
    rounds, row = np.unique(forest.tree_round[kept].astype(np.int64), return_inverse=True)
    rounds = rounds if len(rounds) else np.zeros(1, dtype=np.int64)
    place = np.full((len(rounds), forest.n_outputs), -1)
    place[row, forest.tree_output[kept]] = np.arange(len(kept))
    constant = np.zeros(place.shape)
    if smaller.pruned is not None:
        constant[0] = smaller.intercept
    if np.any(constant[place >= 0]):
        raise InvalidInputError("intercept_int is not 0 for an output with a kept tree; fold it into the leaves.")
    return rounds, place, constant


def copy_without(native: Any, left_out: Collection[str], copied: dict[int, Any] | None = None) -> Any:
    """Return a copy of an estimator without some of its attributes; parts that cannot be copied are shared.

    ``copied`` is the memo of `copy.deepcopy`: what several objects share stays one object. Trees of
    gradient boosting share a generator of 5 kB, which would otherwise be written once per tree.
    """
    made, copied = copy.copy(native), {} if copied is None else copied
    copied[id(native)] = made
    for name, value in list(vars(made).items()):
        if name in left_out:
            del vars(made)[name]
        else:
            vars(made)[name] = copy_value(value, copied)
    return made


def copy_value(value: Any, copied: dict[int, Any] | None = None) -> Any:
    """Return a deep copy; parts that cannot be copied (files, locks, also in callbacks) are shared.

    ``copied`` is the memo of `copy.deepcopy`. Entries that a failed copy left in it are removed,
    because those objects are incomplete and other values may refer to them.
    """
    copied = {} if copied is None else copied
    n_before = len(copied)
    try:
        return copy.deepcopy(value, copied)
    except MemoryError:
        raise
    except Exception:  # an object's own __deepcopy__ or __reduce__ can raise any exception
        while len(copied) > n_before:
            copied.popitem()  # deepcopy only adds, so these are the entries of this call
        return value
