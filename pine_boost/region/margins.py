"""Real margins of a model, from which `Decision.distance` says how decided it is.

In come states and the model's trees over them, or native margins; out go float64 margins.
Nothing is proved with them: they only choose which inputs a region gives up as toss-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import States, StateSpace, build_space

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


@dataclass(frozen=True)
class ServingMargin:
    """On plausible inputs at least ``distance`` from its own decision a model tells the class.

    That is the class of the original, toss-ups of the original included: whoever serves needs the
    pruned model and the score only.

    Attributes
    ----------
    pruned_digest : str
        Of the one model that this is about.
    region_digest : str
        Of score, domain and original of the region that it was proved in (`Region.tables_digest`).
    tau : int or None
        How far that region reaches; None is infinity. It holds in all with a smaller tau.
    distance : float
        In units of its margin; several classes: the gap of its two best.
    units : int
        The same in grid units, less the one that rounding the cut may take; what was proved.
    proofs : tuple of (question, method)
        Two different methods for every question.
    n_cal : int
        Calibration rows, 0 where they were not counted.
    n_inside : int
        Those of them that are plausible and at least that far from the pruned model's decision.
    """

    pruned_digest: str
    region_digest: str
    tau: int | None
    distance: float
    units: int
    proofs: tuple[tuple[str, str], ...]
    n_cal: int = 0
    n_inside: int = 0

    def require_region(self, digest: str, tau: int | None) -> None:
        """Refuse a region in which nothing was proved: other tables, or one that reaches further.

        Raises
        ------
        InvalidInputError
        """
        if digest != self.region_digest:
            raise InvalidInputError(
                "The serving margin was proved in another region: its score, its domain or its "
                "original differs. Pass the region that was saved with the certificate."
            )
        if self.tau is not None and (tau is None or tau > self.tau):
            reach = "every input" if tau is None else f"tau={tau}"
            raise InvalidInputError(
                f"The serving margin was proved up to tau={self.tau}, and this region reaches "
                f"further ({reach}). Pass the certificate's own region or one of a larger alpha, "
                "or prune again with this alpha."
            )

    def is_sure(self, forest: Forest | None, matrix: FloatArray) -> npt.NDArray[np.bool_]:
        """On which rows the pruned model is that far from its own decision."""
        if forest is None:
            raise InvalidInputError("Pass model=<the pruned model> with serving=.")
        space = build_space(forest)
        return self.is_sure_of(forest, space, space.states(matrix))

    def is_sure_of(self, forest: Forest, space: StateSpace, states: States) -> npt.NDArray[np.bool_]:
        """`is_sure` of states, in a space that tells apart what the pruned model's splits do.

        The original's does, and that of its region.
        """
        if forest_digest(forest) != self.pruned_digest:
            raise InvalidInputError(
                "This model is not the pruned one that the serving margin was proved for (its digest differs)."
            )
        margins = float_margins(forest, route(forest, space), states)
        return np.asarray(forest.decision.distance(margins) >= self.distance)
