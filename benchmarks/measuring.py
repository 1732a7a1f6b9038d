"""Seconds and peak memory of one call in a process of its own, also after Ctrl-C.

Peak memory is what the call adds to the process (Linux: VmHWM, reset before each call).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.data import ROOT
from benchmarks.runner import ONE_THREAD

Answer = TypeVar("Answer")
_MARK = "@measured "
_STARTED = "started"
MEGABYTE = 2**20


@dataclass(frozen=True)
class Measured(Generic[Answer]):
    """A call's answer and what it took.

    Attributes
    ----------
    seconds, cpu_s : float
        By the clock, and of processors (children's too): the same on a machine that does nothing
        else.
    peak_mb : float
        Megabytes that the call added at most.
    """

    answer: Answer
    seconds: float
    cpu_s: float
    peak_mb: float


def measured(call: Callable[[], Answer]) -> Measured[Answer]:
    """Run a call and measure it."""
    _reset_peak()
    before, spent = _status("VmRSS"), sum(os.times()[:4])
    started = time.perf_counter()
    answer = call()
    seconds, spent = time.perf_counter() - started, sum(os.times()[:4]) - spent
    return Measured(answer, seconds, spent, max(0, _status("VmHWM") - before) / MEGABYTE)


def _reset_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"peak memory needs /proc/self/clear_refs (Linux): {error}") from None


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {name}.")


def say(message: Any) -> None:
    """From the child to its parent: one line."""
    os.write(1, f"\n{_MARK}{json.dumps(message)}\n".encode())


def say_started() -> None:
    """From the child: the call that may be interrupted begins now.

    A process whose parent was started in the background inherits that Ctrl-C is ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say(_STARTED)


def run_child(
    module: str, cell: dict[str, Any], *, hard_limit: float, interrupt_after: float | None = None
) -> tuple[Any, float]:
    """What ``python -m module --cell JSON`` says last, and the seconds it took after Ctrl-C.

    Parameters
    ----------
    hard_limit : float
        Seconds after which the process is killed.
    interrupt_after : float, optional
        Seconds from `say_started` to SIGINT.

    Raises
    ------
    RuntimeError
        The process died or overran without saying anything.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--cell", json.dumps(cell)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    watchdog = _killer(process, hard_limit)
    said, interrupted_at = None, time.perf_counter()
    for line in process.stdout:
        if not line.startswith(_MARK):
            continue
        message = json.loads(line.removeprefix(_MARK))
        if message != _STARTED:
            said, answered_at = message, time.perf_counter()
        elif interrupt_after is not None:
            time.sleep(interrupt_after)
            process.send_signal(signal.SIGINT)
            interrupted_at = time.perf_counter()
    process.stdout.close()
    code = process.wait()
    watchdog.cancel()
    if said is None:
        raise RuntimeError(f"the process ended with code {code} and said nothing")
    return said, answered_at - interrupted_at


def _killer(process: Any, seconds: float) -> Any:
    import threading

    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    return timer
