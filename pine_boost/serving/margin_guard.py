"""The margin guard: how sure a smaller model must be of itself before it may answer alone.

In come its distances to its own decision on X_val, and where it differs from the original; out
goes the smallest distance that reaches the asked fidelity. Refuses too few rows for the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.compression.fixed_sequence import allowed, require_rows
from pine_boost.model.exact import largest_leaf
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.options import require_share

_STEPS_PER_OCTAVE = 16
_OCTAVES = 24


@dataclass(frozen=True)
class MarginGuard:
    """Inputs nearer than ``distance`` to the pruned model's own decision go to the original.

    Attributes
    ----------
    distance : float
        In units of the margin; several classes: the gap between the two best.
    fidelity, confidence : float
        What was asked for.
    n_val : int
    n_differ : int
        Rows of X_val that the guard lets through and whose class differs.
    share_guarded : float
        Share of X_val that the pruned model answers.
    """

    distance: float
    fidelity: float
    confidence: float
    n_val: int
    n_differ: int
    share_guarded: float


def choose_margin(
    distance: FloatArray, differs: npt.NDArray[np.bool_], levels: FloatArray, *, fidelity: float, confidence: float
) -> MarginGuard:
    """Test descending distances, each at the full level; the last that passes is taken.

    Fixed-sequence testing: the order is fixed before X_val is seen (``levels`` come from the model
    alone), so that no correction is needed. The test is the exact binomial one on the rows that
    the guard lets through and whose class differs.

    Raises
    ------
    InvalidInputError
        Not even a model without any difference could pass with so few rows.
    """
    require_share(fidelity, "fidelity")
    require_share(confidence, "confidence")
    fidelity, confidence = float(fidelity), float(confidence)
    n_val = len(distance)
    require_rows(n_val, fidelity, confidence)
    # ascending, so that the rows at or beyond a level are a suffix
    wrong = np.sort(distance[differs])
    n_wrong = len(wrong) - np.searchsorted(wrong, levels, side="left")
    passed = n_wrong <= allowed(n_val, fidelity, confidence)
    # nothing reaches the first level, so the first test passes
    last = len(levels) - 1 if passed.all() else int(np.argmin(passed)) - 1
    chosen = float(levels[last])
    return MarginGuard(chosen, fidelity, confidence, n_val, int(n_wrong[last]), float(np.mean(distance >= chosen)))


def margin_levels(forest: Forest) -> FloatArray:
    """Descending distances from one that no input reaches down to 0, from the leaves alone."""
    reach = np.abs(forest.intercept) + largest_leaf(forest).sum(axis=0)
    cuts = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    top = 4 * (float(reach.max()) + cuts) + 1
    steps = np.arange(_STEPS_PER_OCTAVE * _OCTAVES)
    return np.concatenate([top * 2.0 ** (-steps / _STEPS_PER_OCTAVE), [0.0]])
