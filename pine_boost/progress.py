"""Progress of a search: one updating line on a terminal or in a notebook, plain lines in a log.

The updating line shows the elapsed time from the first second on, also between two steps. A log
gets a line when the best model changed. Ctrl-C is acknowledged at once, even while a solver runs.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pine_boost.budget import CHOOSING, Step
from pine_boost.notebooks import CellLine, is_notebook
from pine_boost.options import plural

_LOGGER = logging.getLogger("pine_boost")

_TICK = 0.5  # seconds between two updates of the elapsed time
_SILENCE = 10.0  # seconds after which a log line is written although nothing changed
_CANDIDATES = 1.0  # seconds between two log lines about candidates, of which there are hundreds
_PATIENCE = 30.0  # seconds without a time limit after which the user is told how to stop


class Progress:
    """A callback for `prune_booster`, `sweep`, `compress_booster` and `survey`.

    As a context manager it also updates the elapsed time and acknowledges Ctrl-C.

    Parameters
    ----------
    stream : text stream, optional
        stderr by default; in a notebook the output of the cell.
    time_limit : float, optional
        The limit of the search; without one the user is told after 30 s how to stop.
    option : str
        What the time limit is called here.
    started : float, optional
        When the work began, by ``time.monotonic``; now by default.
    callback : callable, optional
        Another callback, called after this one.
    kept : str
        What Ctrl-C leaves.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        time_limit: float | None = None,
        option: str = "time_limit",
        started: float | None = None,
        callback: Callable[..., None] | None = None,
        kept: str = "the best result so far is kept, if there is one",
    ) -> None:
        self._cell = CellLine() if stream is None and is_notebook() else None
        self.stream = stream if stream is not None else sys.stderr if self._cell is None else sys.stdout
        self.is_terminal = self._cell is None and self.stream.isatty()
        self._option = option
        self._callback = callback
        self._stopping = f"Ctrl-C: stopping; {kept}"
        self._limit = time_limit
        self._started = time.monotonic() if started is None else started
        self._is_told = time_limit is not None
        self._units = 0
        self._unit = ""
        self._label = ""
        self._text = ""
        self._last: tuple[Any, ...] = ()
        self._written = 0.0
        self._width = 0
        self._lock = threading.RLock()
        self._wake: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._before = -1  # who listened to signals before

    def __enter__(self) -> Progress:
        ours, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._hears = threading.current_thread() is threading.main_thread()
        if self._hears:
            # the signal writes a byte at once; a handler would wait until the solver returns
            self._before = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
            if self._before != -1 and sys.platform == "win32":  # an event loop listens, and its socket is no file
                signal.set_wakeup_fd(self._before)
                self._hears = False
        self._thread = threading.Thread(target=self._watch, args=(ours,), daemon=True)
        self._thread.start()
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._hears:
            signal.set_wakeup_fd(self._before)
        if self._thread is not None and self._wake is not None:
            self._wake.send(b"\0")
            self._thread.join()
            self._wake.close()
        self.close()

    def __call__(self, *reported: Any) -> None:
        """Show one step; a sweep reports an alpha and a step."""
        self._show(*reported)
        if self._callback is not None:
            self._callback(*reported)

    def _show(self, *reported: Any) -> None:
        step: Step = reported[-1]
        if len(reported) == 2:
            self._label = f"alpha {reported[0]:g}: "
        with self._lock:
            if step.unit != self._unit:  # a survey counts rounds, then leaves
                self._unit, self._units = step.unit, 0
            self._units = max(self._units, step.units, step.proved_once)
            self._text = self._words(step)
            if not self._is_told and step.seconds > _PATIENCE:
                self._is_told = True
                self.note(self._how_to_stop(step))
            now = time.monotonic()
            state = (self._label, step.phase == CHOOSING, step.units, step.proved_once, step.lower_bound, step.tried)
            if self.is_terminal or self._cell is not None:
                self._draw()
            elif step.tried and any(self._last[-1:]) and now - self._written < _CANDIDATES:
                return
            elif state != self._last or now - self._written > _SILENCE:
                print(f"{self._clock()}{self._text}", file=self.stream, flush=True)
                self._written = now
            self._last = state

    def say(self, text: str) -> None:
        """Show on a terminal or in a notebook what is being done."""
        with self._lock:
            self._text = text
            self._draw()

    def note(self, text: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self.close()
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Clear the line, so that what follows begins at column 1."""
        with self._lock:
            if self.is_terminal and self._width:
                print("\r" + " " * self._width + "\r", end="", file=self.stream, flush=True)
                self._width = 0

    def _watch(self, ours: socket.socket) -> None:
        """Update the elapsed time until a zero byte arrives; other bytes are signals."""
        while True:
            if select.select([ours], [], [], _TICK)[0]:
                received = ours.recv(64)
                if self._hears and self._before != -1 and any(received):
                    os.write(self._before, received.replace(b"\0", b""))  # the event loop of a notebook
                if signal.SIGINT in received:
                    self.note(self._stopping)
                if 0 in received:
                    ours.close()
                    return
            with self._lock:
                self._draw()

    def _clock(self) -> str:
        elapsed = time.monotonic() - self._started
        return f"{elapsed:.0f} s: " if self._limit is None else f"{elapsed:.0f} of {self._limit:g} s: "

    def _draw(self) -> None:
        if not self._text:
            return
        if self._cell is not None:
            self._cell.show(f"{self._clock()}{self._text}")
        if not self.is_terminal:
            return
        text = f"{self._clock()}{self._text}"[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self._width}}", end="", file=self.stream, flush=True)
        self._width = len(text)

    def _words(self, step: Step) -> str:
        if step.tried:
            return f"{self._units} {plural(step.unit)}, trying {step.tried} (tested later)"
        if step.phase == CHOOSING:
            return f"{self._units} {plural(step.unit)}, {step.phase}"
        bound = f", at least {step.lower_bound} needed" if step.lower_bound else ""
        return f"{self._label}{self._best(step)}{bound}"

    def _best(self, step: Step) -> str:
        """The best model so far, and how often it is proved."""
        # some steps state only one number
        smallest = min(step.units, step.proved_once) if step.proved_once else step.units
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
                f"After {step.seconds:.0f} s, candidates are down to {step.tried} of {self._units} "
                f"{plural(step.unit)}. Ctrl-C stops and tests what there is; {self._option} sets a limit."
            )
        return (
            f"After {step.seconds:.0f} s: {self._words(step)}. Still looking for a smaller model. Ctrl-C stops and "
            f"keeps the best one; {self._option} sets a limit."
        )


def is_shown(verbose: bool | None) -> bool:
    """Whether progress is shown: as requested, else on a terminal and in a notebook."""
    if verbose is not None:
        return verbose
    return is_notebook() or (hasattr(sys.stderr, "isatty") and sys.stderr.isatty())


@contextmanager
def shown(
    verbose: bool | None, time_limit: float | None, callback: Callable[..., None] | None
) -> Iterator[Callable[..., None] | None]:
    """The callback of a search: the user's own, our progress, or both.

    With a user's callback, progress is shown only if ``verbose`` is True.
    """
    if not is_shown(verbose) or (callback is not None and verbose is None):
        yield callback
        return
    with Progress(time_limit=time_limit, callback=callback) as progress:
        progress.say("starting")
        yield progress


def say(callback: Callable[..., None] | None, text: str) -> None:
    """Name what is being done, if progress is shown."""
    if isinstance(callback, Progress):
        callback.say(text)


def note(callback: Callable[..., None] | None, text: str) -> None:
    """Tell the user something that stays: beside the progress, else in the log."""
    if isinstance(callback, Progress):
        callback.note(text)
    else:
        _LOGGER.warning(text)
