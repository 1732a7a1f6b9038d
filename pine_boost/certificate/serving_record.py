"""The margin that serving can see, as a certificate writes it down.

In comes parsed JSON; out goes a ServingMargin. Refuses other types and keys, and numbers that do
not fit one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pine_boost.json_fields import record, require
from pine_boost.region.margins import ServingMargin


def parse_serving(data: Mapping[str, Any] | None) -> ServingMargin | None:
    """The record in a certificate of unknown origin; raises where it is none."""
    if data is None:
        return None
    kinds = {
        "pruned_digest": "str",
        "region_digest": "str",
        "tau": "int | None",
        "distance": "float",
        "units": "int",
        "proofs": "tuple[tuple[str, ...], ...]",
        "n_cal": "int",
        "n_inside": "int",
    }
    require(
        {"region_digest", "tau"} <= set(data),
        "the serving margin does not say in which region it was proved (an unreleased version wrote it; prune again)",
    )
    read = record(data, kinds)
    require(read["distance"] >= 0 and read["units"] >= 0, "a serving margin below 0")
    require(0 <= read["n_inside"] <= read["n_cal"], "more rows inside than there are")
    proofs = tuple(tuple(proof) for proof in read["proofs"])
    require(all(len(proof) == 2 for proof in proofs), "a proof is no pair of question and method")
    return ServingMargin(**{**read, "proofs": proofs})
