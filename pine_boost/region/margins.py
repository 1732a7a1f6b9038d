"""Margins in float64, how far a model is from its decision, and the serving margin of a pruned model.

Nothing is proved here. Distances choose which inputs a region leaves out as undecided; a `ServingMargin` records
what was proved about one model in one region.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError
from pine_boost.kernels.leaf_tables import sum_leaves
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import ROW_LIMIT
from pine_boost.model.forest import BoolArray, FloatArray, Forest
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import States, StateSpace

_RAW_SCORES = "raw scores before sigmoid or softmax (output_margin=True, raw_score=True), one row for each row of X"


def float_margins(forest: Forest, trees: StateTrees, states: npt.NDArray[Any]) -> FloatArray:
    """Margins in float64, (n_rows, n_outputs): the intercept, then the trees in order.

    They differ from the native margins by at most `exact.summation_band`.
    """
    value = forest.value[trees.subtrees.leaf_node]
    return sum_leaves(trees.leaves(states), value, forest.tree_output, forest.intercept)


def read_margins(margins: npt.ArrayLike, n_rows: int, n_outputs: int) -> FloatArray:
    """Native margins from a user as float64 (n_rows, n_outputs); raise if they do not fit."""
    try:
        read = np.asarray(margins, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"margins must be an array of numbers ({error}); pass the {_RAW_SCORES}.") from error
    if read.ndim == 1 and n_outputs == 1:
        read = read[:, None]
    if read.shape != (n_rows, n_outputs):
        raise InvalidInputError(f"margins has shape {read.shape}, expected ({n_rows}, {n_outputs}): {_RAW_SCORES}.")
    missing = np.isnan(read).any(axis=1)
    if missing.any():
        raise InvalidInputError(
            f"margins has a NaN in row {int(np.argmax(missing))}; every row needs a margin: {_RAW_SCORES}."
        )
    return read


@dataclass(frozen=True)
class ServingMargin:
    """At least ``distance`` from its own decision, a pruned model gives the original's class.

    This holds on every plausible input, including those on which the original is undecided, so serving
    needs only the pruned model and the score.

    Attributes
    ----------
    pruned_digest : str
        Digest of the pruned model.
    region_digest : str
        `Region.tables_digest` of the region in which it was proved: score, domain and original.
    tau : int or None
        Threshold of that region; None is infinity. The claim also holds for every smaller tau.
    distance : float
        In units of the margin; for several classes the gap between the two best.
    units : int
        The proved distance in grid units, without the unit that rounding the cut may take.
    proofs : tuple of (question, method)
        Two different methods per question.
    n_cal : int
        Calibration rows; 0 if they were not counted.
    n_inside : int
        Calibration rows that are plausible and at least ``distance`` from the pruned model's decision.
    """

    pruned_digest: f.Digest
    region_digest: f.Digest
    tau: int | None
    distance: f.Size
    units: Annotated[int, f.integer(0, ROW_LIMIT)]
    proofs: tuple[tuple[str, str], ...]
    n_cal: f.Count = 0
    n_inside: f.Count = 0

    def require_region(self, digest: str, tau: int | None) -> None:
        """Raise InvalidInputError unless the margin was proved in this region or in one that contains it."""
        if digest != self.region_digest:
            raise InvalidInputError(
                "The serving margin was proved in another region: its score, its domain or its "
                "original differs. Pass the region that was saved with the certificate."
            )
        if self.tau is not None and (tau is None or tau > self.tau):
            reach = "every input" if tau is None else f"tau={tau}"
            raise InvalidInputError(
                f"The serving margin was proved up to tau={self.tau}, and this region is "
                f"larger ({reach}). Pass the certificate's own region or one of a larger alpha, "
                "or prune again with this alpha."
            )

    def is_sure(self, forest: Forest | None, space: StateSpace, states: States) -> BoolArray:
        """Whether the pruned model is at least ``distance`` from its own decision, row by row.

        ``space`` must contain every split of the pruned model; the spaces of the original and of its region do.
        """
        if forest is None:
            raise InvalidInputError("Pass model=<the pruned model> with serving=.")
        if forest_digest(forest) != self.pruned_digest:
            raise InvalidInputError(
                "This model is not the pruned one that the serving margin was proved for (its digest differs)."
            )
        margins = float_margins(forest, route(forest, space), states)
        return np.asarray(forest.decision.distance(margins) >= self.distance)
