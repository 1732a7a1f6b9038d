"""The one thing about a compression that is proved for every input: how far from the decision a class can change.

It is reported beside the statistic and is not part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pine_boost.certificate.tree_matching import require_same_reading
from pine_boost.errors import CertificateMismatch
from pine_boost.model.forest import Forest
from pine_boost.proof.class_distance import ClassDistance, class_distance

_DIGITS = 6  # significant ones that are kept, rounded up


@dataclass(frozen=True)
class ProvedDistance:
    """Beyond ``distance`` from the original's decision no input changes its class.

    Attributes
    ----------
    distance : float
        Rounded up.
    largest : float
        From the decision the original is nowhere farther, as far as its leaves tell.
    compared : tuple of int
        The original's tree for each tree of the smaller model that splits.
    """

    distance: float
    largest: float
    compared: tuple[int, ...]


def prove_distance(original: Forest, smaller: Forest, compared: Sequence[int]) -> ProvedDistance | None:
    """The proved distance; None where nothing is proved, or only what is true of any model."""
    found = exact_distance(original, smaller, compared)
    if found is None:
        return None
    rounded = ClassDistance(rounded_up(found.distance), rounded_up(found.largest))
    if not rounded.says_something:
        return None
    return ProvedDistance(float(rounded.distance), float(rounded.largest), tuple(compared))


def exact_distance(original: Forest, smaller: Forest, compared: Sequence[int]) -> ClassDistance | None:
    """The exact distance; None too for models that do not read inputs alike."""
    try:
        require_same_reading(original, smaller)
    except CertificateMismatch:
        return None
    if len(original.decision.cuts) != len(smaller.decision.cuts):
        return None
    return class_distance(original, smaller, compared)


def rounded_up(number: Fraction) -> Fraction:
    """A float of few digits that is no smaller, as a fraction."""
    if number <= 0:
        return Fraction(0)
    step = Fraction(10) ** (math.floor(math.log10(number)) - _DIGITS + 1)
    n_steps = math.ceil(number / step)
    rounded = float(n_steps * step)
    return Fraction(rounded if rounded >= number else float((n_steps + 1) * step))
