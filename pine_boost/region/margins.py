"""Real margins of a model, from which `Decision.distance` says how decided it is.

In come states and the model's trees over them, or native margins; out go float64 margins.
Nothing is proved with them: they only choose which inputs a region gives up as toss-ups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.routing import StateTrees

_RAW_SCORES = "raw scores before sigmoid or softmax (output_margin=True, raw_score=True), one row for each row of X"


def float_margins(forest: Forest, trees: StateTrees, states: npt.NDArray[Any]) -> FloatArray:
    """Margins in float64 (n_rows, n_outputs): intercept first, then the trees in order.

    They differ from the native margin by at most `exact.summation_band`.
    """
    is_leaf = trees.leaf_of_node >= 0
    value = np.empty((trees.n_leaves, forest.n_outputs))
    value[trees.leaf_of_node[is_leaf]] = forest.leaf_vectors()[is_leaf]
    reached = trees.leaves(states)
    margins = np.tile(forest.intercept.astype(np.float64), (len(states), 1))
    for tree in range(trees.n_trees):
        margins += value[reached[:, tree]]
    return margins


def read_margins(margins: npt.ArrayLike, n_rows: int, n_outputs: int) -> FloatArray:
    """Check the native margins that a user passes, (n_rows,) or (n_rows, n_outputs)."""
    try:
        read = np.asarray(margins, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"margins is no array of numbers ({error}); pass the {_RAW_SCORES}.") from error
    if read.ndim == 1 and n_outputs == 1:
        read = read[:, None]
    if read.shape != (n_rows, n_outputs):
        raise InvalidInputError(f"margins has shape {read.shape}, expected ({n_rows}, {n_outputs}): {_RAW_SCORES}.")
    missing = np.isnan(read).any(axis=1)
    if missing.any():
        raise InvalidInputError(
            f"margins has no number in row {int(np.argmax(missing))}; a margin of every row is needed: {_RAW_SCORES}."
        )
    return read
