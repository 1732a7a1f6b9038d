"""Walking tree ensembles in C, with a numpy twin that gives the same numbers bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pine_boost.kernels.compiled import CompiledTrees
from pine_boost.kernels.flat_forest import REFUSED, ExitPlan, FlatForest, Int32Array, NativeSum, TableSums
from pine_boost.kernels.library import load

if TYPE_CHECKING:
    from pine_boost.kernels.numpy_twin import NumpyTrees

    Trees = CompiledTrees | NumpyTrees

__all__ = ["REFUSED", "ExitPlan", "FlatForest", "NativeSum", "TableSums", "bind", "leaves", "name"]


def name() -> str:
    """Which kernel runs here: ``"C"`` or ``"numpy"``."""
    return "numpy" if load() is None else "C"


def bind(
    flat: FlatForest, native: NativeSum | None = None, plan: ExitPlan | None = None, sums: TableSums | None = None
) -> Trees:
    """The kernel of a forest; margins need ``native``, classes need ``plan`` too, membership needs ``sums``."""
    library = load()
    if library is None:
        from pine_boost.kernels.numpy_twin import NumpyTrees

        return NumpyTrees(flat, native, plan, sums)
    return CompiledTrees(library, flat, native, plan, sums)


def leaves(flat: FlatForest, X: npt.NDArray[Any]) -> Int32Array:
    """Leaf number of every row in every tree, (n_rows, n_trees).

    ``X`` is a float matrix with categories as codes and NaN for missing (see `tables.to_matrix`).
    """
    return bind(flat).leaves(X)
