"""The proof of a lower bound as a certificate writes it down.

In comes parsed JSON; out go frozen records of whole numbers and texts. Refuses other types and
keys. Loads no solver: a scorer reads certificates, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pine_boost.json_fields import record, require
from pine_boost.model.exact import LONGEST_MULTIPLIER


@dataclass(frozen=True)
class CutRecord:
    """At least one of ``units`` is kept: the sum of ``rows``, each times its multiplier, says so.

    Multipliers are texts: other readers of JSON would round large numbers.
    """

    units: tuple[int, ...]
    rows: tuple[int, ...]
    multipliers: tuple[str, ...]


@dataclass(frozen=True)
class BoundRecord:
    """Why there is no model of this form with fewer units than the certificate's lower bound.

    Attributes
    ----------
    states : tuple of tuples of int
        The points that speak, as states of the region's features.
    questions : tuple of int
        Which side each of them must keep.
    outside : int
        How many of the points lie outside the region: rows of X_fit.
    cuts : tuple of CutRecord
    """

    states: tuple[tuple[int, ...], ...]
    questions: tuple[int, ...]
    outside: int
    cuts: tuple[CutRecord, ...]


def parse_bound(data: Mapping[str, Any] | None) -> BoundRecord | None:
    """The record in a certificate of unknown origin; raises where it is none."""
    if data is None:
        return None
    kinds = {"states": "tuple[tuple[int, ...], ...]", "questions": "tuple[int, ...]"}
    whole = record(data, {**kinds, "outside": "int", "cuts": "tuple[CutRecord, ...]"})
    kinds = {"units": "tuple[int, ...]", "rows": "tuple[int, ...]"}
    cuts = [record(cut, {**kinds, "multipliers": "tuple[str, ...]"}) for cut in whole["cuts"]]
    longest = LONGEST_MULTIPLIER // 3  # decimal digits of so many bits are fewer
    for cut in cuts:
        for text in cut["multipliers"]:
            require(text.isdecimal() and len(text) <= longest, "a multiplier is no whole number")
    states = tuple(tuple(row) for row in whole["states"])
    own = tuple(CutRecord(**cut) for cut in cuts)
    return BoundRecord(states, whole["questions"], whole["outside"], own)
