"""Progress of a search on stderr: a bar on a terminal, plain lines in a log or notebook.

In come the steps of a search; out goes text. Draws at most ten times a second and writes a log
line only when something changed, about untested candidates at most one a second. Says after half a
minute without a time limit how to stop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pine_boost.budget import Step
from pine_boost.options import plural

_WIDTH = 20
_SILENCE = 10.0  # seconds after which a log line is written although nothing changed
_CANDIDATES = 1.0  # seconds between two log lines about candidates, of which there are hundreds
_PATIENCE = 30.0  # seconds without a limit after which a user is told how to stop


class Progress:
    """A callback for `prune_booster`, `sweep`, `compress_booster` and `survey`.

    Parameters
    ----------
    stream : text stream, optional
        stderr without it.
    time_limit : float, optional
        The limit of the search; without one the user is told after 30 s how to stop.
    option : str
        What a time limit is called here.
    """

    def __init__(
        self, stream: TextIO | None = None, time_limit: float | None = None, option: str = "time_limit"
    ) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.is_terminal = self.stream.isatty()
        self._option = option
        self._patient = time_limit is not None
        self._units = 0
        self._unit = ""
        self._label = ""
        self._last: tuple[Any, ...] = ()
        self._drawn = 0.0
        self._width = 0

    def __call__(self, step: Step) -> None:
        """Tell of one step."""
        if step.unit != self._unit:  # a survey counts rounds, then leaves
            self._unit, self._units = step.unit, 0
        self._units = max(self._units, step.units, step.proved_once)
        if not self._patient and step.seconds > _PATIENCE:
            self._patient = True
            self.note(self._how_to_stop(step))
        now = time.monotonic()
        state = (self._label, step.units, step.proved_once, step.lower_bound, step.tried)
        if self.is_terminal:
            if state != self._last or now - self._drawn > 0.1:
                self._draw(step)
                self._drawn = now
        elif step.tried and any(self._last[-1:]) and now - self._drawn < _CANDIDATES:
            return
        elif state != self._last or now - self._drawn > _SILENCE:
            print(self._line(step), file=self.stream, flush=True)
            self._drawn = now
        self._last = state

    def of_alpha(self, alpha: float, step: Step) -> None:
        """Tell of one step of a sweep."""
        self._label = f"alpha {alpha:g}: "
        self(step)

    def note(self, text: str) -> None:
        """One line that stays."""
        self.close()
        print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Clear the bar."""
        if self.is_terminal and self._width:
            print("\r" + " " * self._width + "\r", end="", file=self.stream, flush=True)
            self._width = 0

    def _line(self, step: Step) -> str:
        if step.tried:
            return (
                f"{self._units} {plural(step.unit)}, looking at a candidate of {step.tried} "
                f"({step.phase}; tested later), {step.rows} rows, {step.seconds:.1f} s"
            )
        bound = f", at least {step.lower_bound}" if step.lower_bound else ""
        return f"{self._label}{self._best(step)}{bound}, {step.phase}, {step.rows} rows, {step.seconds:.1f} s"

    def _best(self, step: Step) -> str:
        """The best model so far, and how often it is proved."""
        smallest = _smallest(step)
        if smallest == self._units:
            return f"{self._units} {plural(step.unit)}, nothing smaller proved yet"
        best = f"{self._units} -> {smallest} {plural(step.unit)}"
        if smallest == step.units:
            return best
        twice = f", {step.units} twice" if step.units < self._units else ""
        return f"{best} (proved once{twice})"

    def _how_to_stop(self, step: Step) -> str:
        if step.tried:
            return (
                f"after {step.seconds:.0f} s the path has come to {step.tried} of {self._units} "
                f"{plural(step.unit)}. Ctrl-C ends it and tests what there is; {self._option} sets "
                "a limit."
            )
        certified = "nothing smaller than the original"
        smallest = _smallest(step)
        if smallest < self._units:
            certified = f"{smallest} of {self._units} {plural(step.unit)}"
            certified += " (proved once)" if smallest < step.units else ""
        bound = f", and at least {step.lower_bound} are needed" if step.lower_bound else ""
        return (
            f"{self._label}after {step.seconds:.0f} s {certified} is reached{bound}; still looking "
            f"for fewer ({step.phase}). Ctrl-C stops and keeps what was reached; {self._option} "
            "sets a limit."
        )

    def _draw(self, step: Step) -> None:
        # full when the best model meets the lower bound: then nothing is left to find
        open_share = (_smallest(step) - step.lower_bound) / max(self._units - 1, 1)
        done = round(_WIDTH * (1 - open_share))
        bar = f"[{'#' * done}{'.' * (_WIDTH - done)}] "
        text = f"{'' if step.tried else bar}{self._line(step)}"
        padding = " " * max(self._width - len(text), 0)
        self._width = len(text)
        print(f"\r{text}{padding}", end="", file=self.stream, flush=True)


def _smallest(step: Step) -> int:
    """Units of the smallest model that is proved at all; some steps name only one number."""
    return min(step.units, step.proved_once) if step.proved_once else step.units


def is_shown(verbose: bool | None) -> bool:
    """Whether progress is shown: as asked, else on a terminal and in a notebook."""
    if verbose is not None:
        return verbose
    return "ipykernel" in sys.modules or (hasattr(sys.stderr, "isatty") and sys.stderr.isatty())


@contextmanager
def shown(
    verbose: bool | None, time_limit: float | None, callback: Callable[..., None] | None
) -> Iterator[Callable[..., None] | None]:
    """The callback of a search: the user's own, our progress, or both.

    A user's callback stands alone unless ``verbose`` is True.
    """
    if not is_shown(verbose) or (callback is not None and verbose is None):
        yield callback
        return
    progress = Progress(time_limit=time_limit)

    def report_progress(*told: Any) -> None:  # a Step, or an alpha and a Step
        if len(told) == 2:
            progress.of_alpha(*told)
        else:
            progress(*told)
        if callback is not None:
            callback(*told)

    try:
        yield report_progress
    finally:
        progress.close()
