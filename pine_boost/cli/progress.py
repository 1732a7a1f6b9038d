"""Progress of a search on stderr: a bar on a terminal, plain lines in a log.

In come the steps of a search; out goes text. Draws at most ten times a second and writes a log
line only when something changed.
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from pine_boost.budget import Step

_WIDTH = 20
_SILENCE = 10.0  # seconds after which a log line is written although nothing changed


class Progress:
    """A callback for `prune_booster` and `sweep`."""

    def __init__(self, stream: TextIO | None = None, unit: str = "round") -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.is_terminal = self.stream.isatty()
        self.unit = unit
        self._units = 0
        self._label = ""
        self._last: tuple[Any, ...] = ()
        self._drawn = 0.0
        self._width = 0

    def __call__(self, step: Step) -> None:
        """Tell of one step."""
        self._units = max(self._units, step.units)
        now = time.monotonic()
        state = (self._label, step.units, step.lower_bound)
        if self.is_terminal:
            if state != self._last or now - self._drawn > 0.1:
                self._draw(step)
                self._drawn = now
        elif state != self._last or now - self._drawn > _SILENCE:
            print(self._line(step), file=self.stream, flush=True)
            self._drawn = now
        self._last = state

    def of_alpha(self, alpha: float, step: Step) -> None:
        """Tell of one step of a sweep."""
        self._label = f"alpha {alpha:g}: "
        self(step)

    def close(self) -> None:
        """Clear the bar."""
        if self.is_terminal and self._width:
            print("\r" + " " * self._width + "\r", end="", file=self.stream, flush=True)

    def _line(self, step: Step) -> str:
        bound = f", at least {step.lower_bound}" if step.lower_bound else ""
        return (
            f"{self._label}{self._units} -> {step.units} {_plural(step.unit)}{bound}, "
            f"{step.phase}, {step.rows} rows, {step.seconds:.1f} s"
        )

    def _draw(self, step: Step) -> None:
        # full when the best model meets the lower bound: then nothing is left to find
        open_share = (step.units - step.lower_bound) / max(self._units - 1, 1)
        done = round(_WIDTH * (1 - open_share))
        text = f"[{'#' * done}{'.' * (_WIDTH - done)}] {self._line(step)}"
        padding = " " * max(self._width - len(text), 0)
        self._width = len(text)
        print(f"\r{text}{padding}", end="", file=self.stream, flush=True)


def _plural(unit: str) -> str:
    return "leaves" if unit == "leaf" else f"{unit}s"
