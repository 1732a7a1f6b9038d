"""The options of `compress_booster`, checked once.

In comes what a user wrote; out goes a frozen CompressOptions. Refuses values that mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pine_boost.errors import InvalidInputError
from pine_boost.options import (
    is_real,
    require_callback,
    require_flag,
    require_one_of,
    require_seconds,
    require_seed,
    require_share,
)

UNITS = ("leaf", "tree")


@dataclass(frozen=True)
class CompressOptions:
    """What a user may choose; attributes are the parameters of `compress_booster`."""

    fidelity: float = 0.99
    confidence: float = 0.95
    tolerance: float | None = None
    unit: str = "leaf"
    threshold: float | Sequence[float] | None = None
    time_limit: float | None = None
    random_state: int = 0
    callback: Callable[..., None] | None = None
    allow_overlap: bool = False
    segments: Any = None

    def __post_init__(self) -> None:
        require_share(self.fidelity, "fidelity")
        require_share(self.confidence, "confidence")
        require_one_of(self.unit, "unit", UNITS)
        require_seconds(self.time_limit)
        require_seed(self.random_state)
        require_callback(self.callback)
        require_flag(self.allow_overlap, "allow_overlap")
        if self.tolerance is not None and not (is_real(self.tolerance) and 0 < self.tolerance < float("inf")):
            raise InvalidInputError(f"tolerance={self.tolerance!r}: a finite number above 0, or None.")
