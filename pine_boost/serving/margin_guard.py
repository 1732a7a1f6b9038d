"""Choose the margin guard: the distance from its own decision at which a smaller model may answer alone.

The smallest distance that reaches the target fidelity on X_val is taken. Too few rows for the target raise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.compression.fixed_sequence import allowed, require_rows
from pine_boost.model.exact import largest_leaf
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.options import require_share

_STEPS_PER_OCTAVE = 16
_OCTAVES = 24


@dataclass(frozen=True)
class MarginGuard:
    """Inputs closer than ``distance`` to the pruned model's own decision boundary go to the original.

    Attributes
    ----------
    distance : float
        In units of the margin; for several classes, the gap between the two largest margins.
    fidelity, confidence : float
        The targets.
    n_val : int
    n_differ : int
        Rows of X_val that the pruned model answers with a different class.
    share_guarded : float
        Share of X_val that the pruned model answers.
    """

    distance: f.Size
    fidelity: f.Share
    confidence: f.Share
    n_val: f.Positive
    n_differ: f.Count
    share_guarded: f.Part


def choose_margin(
    distance: FloatArray, differs: npt.NDArray[np.bool_], levels: FloatArray, *, fidelity: float, confidence: float
) -> MarginGuard:
    """Test descending distances, each at the full level, and take the last one that passes.

    Fixed-sequence testing: the order is fixed before X_val is seen (``levels`` come from the model
    alone), so no correction is needed. The test is the exact binomial test on the rows that
    the pruned model answers with a different class.

    Raises
    ------
    InvalidInputError
        With so few rows, not even a model without any difference could pass.
    """
    require_share(fidelity, "fidelity")
    require_share(confidence, "confidence")
    fidelity, confidence = float(fidelity), float(confidence)
    n_val = len(distance)
    require_rows(n_val, fidelity, confidence)
    # ascending, so the rows at or beyond a level are a suffix
    wrong = np.sort(distance[differs])
    n_wrong = len(wrong) - np.searchsorted(wrong, levels, side="left")
    passed = n_wrong <= allowed(n_val, fidelity, confidence)
    # no input reaches the first level, so the first test passes
    last = len(levels) - 1 if passed.all() else int(np.argmin(passed)) - 1
    chosen = float(levels[last])
    return MarginGuard(chosen, fidelity, confidence, n_val, int(n_wrong[last]), float(np.mean(distance >= chosen)))


def margin_levels(forest: Forest) -> FloatArray:
    """Return descending distances from one that no input reaches down to 0, computed from the leaves alone."""
    reach = np.abs(forest.intercept) + largest_leaf(forest).sum(axis=0)
    cuts = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    top = 4 * (float(reach.max()) + cuts) + 1
    steps = np.arange(_STEPS_PER_OCTAVE * _OCTAVES)
    return np.concatenate([top * 2.0 ** (-steps / _STEPS_PER_OCTAVE), [0.0]])
