"""CP-SAT that leaves Ctrl-C alone, and threads that Ctrl-C ends.

In come solvers and models; out come statuses. CP-SAT's own catching of SIGINT leaves the default
handler behind: the next Ctrl-C then kills the whole Python process. Here Python keeps the signal.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from ortools.sat.python import cp_model

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_ROOM = 2**24  # bytes that CP-SAT needs at the very least; where there are fewer it crashes
_PATIENCE = 0.05  # seconds between two requests to stop; the first may come before the solve


class Stop:
    """Solvers that run in threads, and the wish that they end: state shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._solvers: list[cp_model.CpSolver] = []
        self._asked = False

    def solve(self, solver: cp_model.CpSolver, model: cp_model.CpModel) -> Any:
        """Solve, unless everything is to end; returns CP-SAT's status."""
        solver.parameters.catch_sigint_signal = False
        with self._lock:
            if self._asked:
                return cp_model.UNKNOWN
            self._solvers.append(solver)
        try:
            np.empty(_ROOM, dtype=np.uint8)  # reserved and given back: MemoryError, no crash
            return solver.solve(model)
        finally:
            with self._lock:
                self._solvers.remove(solver)

    def ask(self) -> None:
        """End what runs, and let nothing new begin."""
        with self._lock:
            self._asked = True
            for solver in self._solvers:
                solver.stop_search()


def solve_each(ask: Callable[[Stop, _Item], _Answer], items: Sequence[_Item], n_jobs: int = 1) -> list[_Answer]:
    """Call ``ask(stop, item)`` for every item, in threads; Ctrl-C ends them and is raised.

    The main thread only waits: inside CP-SAT it would not hear of the signal before the end.
    """
    stop = Stop()
    if n_jobs == 1 and threading.current_thread() is not threading.main_thread():
        return [ask(stop, item) for item in items]
    with ThreadPoolExecutor(n_jobs) as pool:
        futures = [pool.submit(ask, stop, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            while not all(future.done() for future in futures):
                stop.ask()
                wait(futures, _PATIENCE)
            raise


def solve(solver: cp_model.CpSolver, model: cp_model.CpModel) -> Any:
    """Solve one model; Ctrl-C ends it and is raised."""
    return solve_each(lambda stop, _: stop.solve(solver, model), [None])[0]


@contextmanager
def finishing() -> Iterator[None]:
    """For the short work after a search: the first Ctrl-C is let pass, the second is raised.

    Whoever presses Ctrl-C wants the search to end and its result, not to lose both.
    """
    is_main = threading.current_thread() is threading.main_thread()
    previous = signal.getsignal(signal.SIGINT) if is_main else None
    if previous is not signal.default_int_handler:  # the program has plans of its own
        yield
        return
    presses = 0

    def note(number: int, frame: Any) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
