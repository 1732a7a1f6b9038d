"""The sentences of `accelerate_booster`."""

from __future__ import annotations

from pine_boost.certificate.compression_claim import by_thresholds
from pine_boost.model.digits import rounded_up
from pine_boost.model.exact import certain_distance
from pine_boost.model.forest import Forest


def proved_claim(forest: Forest, *, is_unordered: bool, tolerance: float | None = None) -> str:
    """What a proved scorer claims; ``is_unordered``: the library adds trees in no fixed order."""
    if tolerance is not None:
        return (
            f"On every input that the library accepts, the scorer's raw value is within {rounded_up(tolerance)} "
            "of the model's."
        )
    if not forest.decides:
        return "On every input that the library accepts, the scorer's value is that of the model's own predict."
    thresholds = by_thresholds(forest.decision.thresholds)
    claim = (
        f"On every input that the library accepts, the scorer gives the class{thresholds} that the model's own "
        "predict gives."
    )
    if is_unordered:
        claim += (
            " scikit-learn adds trees in no fixed order with n_jobs above 1; where two classes are within "
            f"{rounded_up(max(certain_distance(forest), 5e-324))} of each other (in summed shares), the class is "
            "that of n_jobs=1."
        )
    return claim
