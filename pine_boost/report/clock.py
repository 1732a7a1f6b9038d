"""The time of a report: how much is left, who is told what is being done, and what it took.

In come seconds and a function to tell; out go the parts of the work with their durations. Ends
nothing by force: each part looks at what is left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """One report's time.

    Parameters
    ----------
    seconds : float, optional
        What the report may take; parts that find no time left are not done, and the page says so.
    tell : callable, optional
        Called with what is being done.
    """

    def __init__(
        self, seconds: float | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.spent: dict[str, float] = {}
        self._tell = tell

    @property
    def left(self) -> float:
        """Seconds that are left, never below 0."""
        return max(self.deadline - time.monotonic(), 0.0)

    def share(self, part: float) -> float:
        """The moment at which a part of what is left is spent."""
        return math.inf if self.deadline == math.inf else time.monotonic() + part * self.left

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Tell of a part of the work and measure it."""
        if self._tell is not None:
            self._tell(f"report: {name}")
        started = time.monotonic()
        try:
            yield
        finally:
            self.spent[name] = time.monotonic() - started
