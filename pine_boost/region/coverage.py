"""How much of a table lies in a region.

In come numbers of rows; out goes their share with an exact interval. Needs at least one row.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Coverage:
    """Share of rows in a region, with an exact (Clopper-Pearson) interval for its true value."""

    n_rows: int
    n_inside: int
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, n_rows: int, n_inside: int, confidence: float = 0.95) -> Coverage:
        """The coverage of so many rows, so many of them inside."""
        from scipy.stats import binomtest

        interval = binomtest(n_inside, n_rows).proportion_ci(confidence, method="exact")
        return cls(n_rows, n_inside, float(interval.low), float(interval.high), confidence)

    @property
    def share(self) -> float:
        """Observed share."""
        return self.n_inside / self.n_rows
