"""How long and how hard to try: a deadline, an effort in counts, and who is told of the progress.

In comes what the caller grants; out goes one frozen Budget that is handed down, never assigned
into. Parts of it are Budgets themselves. Knows nothing of what is done with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum


class StopReason(str, Enum):
    """Why long work ended; compares equal to its own word."""

    OPTIMAL = "optimal"  # nothing better exists, and that was proved
    EFFORT = "effort"  # everything was tried that the effort allows
    TIME = "time"
    MEMORY = "memory"
    INTERRUPTED = "interrupted"  # Ctrl-C
    REFUSED = "refused"  # the library cannot hold what was found
    UNSOLVED = "unsolved"  # no solver ended with the weights before anything was asked

    def __str__(self) -> str:
        return str(self.value)


class OutOfTime(Exception):
    """The deadline has passed; caught where the best answer so far is kept."""


class OutOfEffort(Exception):
    """A step took more than its deterministic share; caught like `OutOfTime`."""


@dataclass(frozen=True)
class Effort:
    """How hard to try, in counts and not in seconds, so that runs repeat exactly.

    Attributes
    ----------
    n_walks : int
        Walks to the boundary before the first proposal, from fit rows and from all over.
    n_eliminations : int
        Orders of backward elimination that are tried.
    exact_rounds, exact_programs : int
        Rounds and linear programs of the exact search.
    passed_over : int
        Sets of columns without weights on the grid that the exact search leaves aside.
    master_effort, proof_effort : float
        Deterministic time of CP-SAT per hitting set and per proof.
    box_limit : int
        Boxes per proof before the second proof is asked of CP-SAT instead; 0: at once.
    leaf_work : float
        Iterations of the linear programs over leaf values, times their rows and columns; without a
        time limit.
    """

    n_walks: int = 400
    n_eliminations: int = 3
    exact_rounds: int = 400
    exact_programs: int = 8000
    passed_over: int = 40
    master_effort: float = 2.0
    proof_effort: float = 100.0
    box_limit: int = 3000
    leaf_work: float = 3e7  # a quarter of a minute of one core


@dataclass(frozen=True)
class Step:
    """What a callback is told.

    Attributes
    ----------
    step : int
        Counts from 1.
    phase : str
        What is being done.
    trees : int
        Trees of the best model that is proved twice, at worst the original's.
    rows : int
        Points that the model must keep so far.
    seconds : float
        Since the work began.
    unit : str
        What ``units``, ``proved_once`` and ``lower_bound`` count, for example ``"round"``.
    units : int
        Units of the best model that is proved twice.
    proved_once : int
        Units of the smallest model that is proved at least once.
    lower_bound : int
        No smaller model is possible, as far as that is proved.
    tried : int
        Compression: units of the candidate that was just looked at; nothing is promised of it
        before the test on X_val, so ``units`` stays the original's. 0 where models are proved.
    """

    step: int
    phase: str
    trees: int
    rows: int
    seconds: float
    unit: str = "tree"
    units: int = 0
    proved_once: int = 0
    lower_bound: int = 0
    tried: int = 0


@dataclass(frozen=True)
class Budget:
    """What a piece of work may take, and whom it tells of its steps.

    Attributes
    ----------
    deadline : float
        In terms of ``time.monotonic``; infinity without a limit.
    effort : Effort
    callback : callable or None
        Called with a `Step`.
    started : float
        When this piece of work began.
    began : float
        When the whole work began that this is a part of: parts keep it, steps are dated by it.
    """

    deadline: float = math.inf
    effort: Effort = Effort()
    callback: Callable[[Step], None] | None = None
    started: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(
        cls,
        time_limit: float | None = None,
        effort: Effort | None = None,
        callback: Callable[[Step], None] | None = None,
    ) -> Budget:
        """A budget that begins now; ``time_limit`` in seconds, None for no limit."""
        started = time.monotonic()
        deadline = math.inf if time_limit is None else started + time_limit
        return cls(deadline, effort or Effort(), callback, started, started)

    @property
    def is_limited(self) -> bool:
        """Whether there is a time limit at all; without one, runs repeat exactly."""
        return self.deadline < math.inf

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, never below 0; infinity without a limit."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def elapsed(self) -> float:
        """Seconds since this piece of work began."""
        return time.monotonic() - self.started

    @property
    def clock(self) -> float:
        """Seconds since the whole work began that this is a part of."""
        return time.monotonic() - self.began

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self.deadline

    def check(self) -> None:
        """Raise `OutOfTime` once the deadline has passed."""
        if self.is_over:
            raise OutOfTime

    def share(self, part: float) -> Budget:
        """A part of the time that is left, as a budget of its own that begins now."""
        return self.within(part * self.remaining)

    def within(self, seconds: float) -> Budget:
        """At most so many seconds from now, and never beyond this budget's own deadline."""
        now = time.monotonic()
        return replace(self, deadline=min(self.deadline, now + seconds), started=now)

    def until(self, part: float) -> Budget:
        """The same work with less time: a part of what is left, counted from the old beginning."""
        return replace(self, deadline=min(self.deadline, time.monotonic() + part * self.remaining))

    def after(self, seconds: float) -> Budget:
        """The same time, for work that goes on and has taken so many seconds already."""
        return replace(self, began=time.monotonic() - seconds)

    def with_effort(self, effort: Effort) -> Budget:
        """The same time, another effort."""
        return replace(self, effort=effort)

    def report_progress(self, step: Step) -> None:
        """Call the callback, if there is one."""
        if self.callback is not None:
            self.callback(step)
