"""How long and how hard to try: a deadline, an effort in counts, the shares of every stage, a callback, and Ctrl-C."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class StopReason(str, Enum):
    """Why long work ended; each reason equals its own word."""

    OPTIMAL = "optimal"  # nothing better exists, and that was proved
    EFFORT = "effort"  # everything that the effort allows was tried
    TIME = "time"
    MEMORY = "memory"
    INTERRUPTED = "interrupted"  # Ctrl-C
    REFUSED = "refused"  # the library cannot hold what was found
    NOT_WORTH_IT = "not worth it"  # what was found gives up undecided inputs and saves next to nothing
    UNSOLVED = "unsolved"  # no solver found weights for a first model

    def __str__(self) -> str:
        return str(self.value)


# Of several reasons the first is reported.
_IMPORTANCE = (
    *(StopReason.INTERRUPTED, StopReason.REFUSED, StopReason.NOT_WORTH_IT, StopReason.OPTIMAL),
    *(StopReason.MEMORY, StopReason.UNSOLVED, StopReason.TIME),
)


def to_report(ended: Iterable[StopReason]) -> StopReason:
    """The one reason to report of those that ended parts of the work; EFFORT without any."""
    return next((reason for reason in _IMPORTANCE if reason in ended), StopReason.EFFORT)


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What a stage found at best, and why it went no further: EFFORT if everything was tried."""

    best: Result
    why: StopReason


# The time plan. Each share is a part of the time that is left when its stage begins.
SHARES: dict[str, float] = {
    # prune_booster and sweep
    "indifference": 0.2,  # all short searches that choose the share of alpha for undecided inputs
    "search": 0.95,  # the search, if a serving margin is looked for after it
    "serving margin": 0.05,  # of one alpha of a sweep
    "sweep over units": 0.5,  # if leaf values are searched too
    "sweep searches": 0.9,  # the rest is left for second proofs
    # one search, in order
    "light trees": 0.25,  # models that drop trees of small total contribution
    "units before leaf values": 0.75,  # at most, once a model is known whose leaves can be chosen
    "units before leaves": 0.3,  # unit="leaf"
    "leaf bound": 0.25,  # lower bound for free leaf values
    "fewer leaves": 0.85,  # the rest is for leaf values near the original's
    "first shapes": 0.1,  # of the above
    "long step": 0.02,  # of the time limit: a step that makes a late search take larger ones
    "late": 0.1,  # of the time limit: from then on proved models are proved again at once
    # compress_booster and survey
    "compression path": 0.6,
    "compression test": 0.85,  # up to and including the test
    "attack": 0.5,
    "survey proofs": 0.5,
    "survey scorer": 0.2,  # with earlier exits
    "survey speeds": 0.02,
    "survey speed of the scorer": 0.5,  # measured last
    # accelerate_booster with fidelity below 1
    "exit stages": 0.8,  # at most
    "exit stages of spare time": 0.6,  # of what the test seems to leave, at most
    "exit test": 0.9,  # up to and including the test; the rest is for exits that are proved, if none pass
    # the serving margin, verify and the report
    "margin by CP-SAT": 0.5,
    "margin by boxes": 0.5,
    "verify bound": 0.25,
    "verify undecided": 0.1,
    "verify in a larger region": 0.25,
    "verify by boxes": 0.5,
    "report speeds": 0.5,
}
SECONDS: dict[str, float] = {
    "late": 20.0,  # as above, at the latest
    "after Ctrl-C": 1.0,  # for the second proof of what was found, and for all stages that are left
    "bound after stop": 0.3,
    "least": 0.01,  # of a call inside another
    "bound after deadline": 0.2,  # to count what is proved already
}

CHOOSING = "choosing how many inputs near the decision boundary to leave out"  # phase of a step before the search


class OutOfTime(Exception):
    """The deadline has passed; whoever holds the best answer so far catches it."""


class OutOfEffort(Exception):
    """A step took more than its deterministic share; caught like `OutOfTime`."""


@dataclass(frozen=True)
class Effort:
    """How hard to try, in counts instead of seconds, so that runs are reproducible.

    Attributes
    ----------
    n_walks : int
        Walks to the boundary before the first proposal, from fit rows and from all over.
    n_eliminations : int
        Orders of backward elimination that are tried.
    exact_rounds, exact_programs : int
        Rounds and linear programs of the exact search.
    passed_over : int
        Sets of columns without weights on the grid that the exact search skips.
    master_effort, proof_effort : float
        Deterministic time of CP-SAT per hitting set and per proof.
    box_limit : int
        Boxes per proof before the second proof is left to CP-SAT; 0: at once.
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
    box_limit: int = 4000
    leaf_work: float = 3e7  # a quarter of a minute of one core


@dataclass(frozen=True)
class Step:
    """What a callback receives.

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
        Compression: units of the latest candidate. Nothing is promised about it before the test on
        X_val, so ``units`` stays the original's. 0 when models are proved.
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


class CtrlC:
    """Whether Ctrl-C was pressed during a call, and until when the rest of the call may go on then."""

    deadline = math.inf


@dataclass(frozen=True)
class Budget:
    """What a piece of work may take, and who is called after its steps.

    After Ctrl-C it is shorter, and so are all budgets of the same call.

    Attributes
    ----------
    deadline : float
        In terms of ``time.monotonic``; infinity without a limit. Ctrl-C may end it earlier.
    effort : Effort
    callback : callable or None
        Called with a `Step`.
    started : float
        When this piece of work began.
    began : float
        When the whole work began; parts keep it, and steps are dated by it.
    ctrl_c : CtrlC
        Shared by all budgets of a call.
    """

    deadline: float = math.inf
    effort: Effort = Effort()
    callback: Callable[[Step], None] | None = None
    started: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.monotonic)
    ctrl_c: CtrlC = field(default_factory=CtrlC, repr=False, compare=False)

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
        """Whether there is a time limit; without one, runs are reproducible."""
        return self._end < math.inf

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.ctrl_c.deadline < math.inf

    @property
    def _end(self) -> float:
        return min(self.deadline, self.ctrl_c.deadline)

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, never below 0; infinity without a limit."""
        return max(0.0, self._end - time.monotonic())

    @property
    def elapsed(self) -> float:
        """Seconds since this piece of work began."""
        return time.monotonic() - self.started

    @property
    def clock(self) -> float:
        """Seconds since the whole work began."""
        return time.monotonic() - self.began

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Raise `OutOfTime` once the deadline has passed."""
        if self.is_over:
            raise OutOfTime

    def share(self, part: float) -> Budget:
        """A part of the time that is left, as a budget of its own that begins now."""
        return self.within(part * self.remaining)

    def part(self, stage: str) -> Budget:
        """The share of a stage in the time plan; without a time limit, everything."""
        return self.share(SHARES[stage]) if self.is_limited else self

    def within(self, seconds: float) -> Budget:
        """At most so many seconds from now, and never beyond this budget's own deadline."""
        now = time.monotonic()
        return replace(self, deadline=min(self._end, now + seconds), started=now)

    def until(self, part: float) -> Budget:
        """The same work with less time: a part of what is left, counted from the old beginning."""
        return replace(self, deadline=min(self.deadline, time.monotonic() + part * self.remaining))

    def after(self, seconds: float) -> Budget:
        """The same time, for work that goes on and has taken so many seconds already."""
        return replace(self, began=time.monotonic() - seconds)

    def interrupt(self) -> None:
        """Leave a second to the whole call, as Ctrl-C was pressed."""
        if not self.is_interrupted:
            self.ctrl_c.deadline = time.monotonic() + SECONDS["after Ctrl-C"]

    def run(self, stage: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Run a stage that ends early with its best when time is over; after Ctrl-C once more, with what is left then.

        A second Ctrl-C is raised.
        """
        try:
            return stage(*given, **named)
        except KeyboardInterrupt:
            if self.is_interrupted:
                raise
            self.interrupt()
            return stage(*given, **named)

    def with_effort(self, effort: Effort) -> Budget:
        """The same time, another effort."""
        return replace(self, effort=effort)

    def time_limit(self) -> float | None:
        """What is left for a call of its own, which cannot have no time at all; None without a limit."""
        return max(self.remaining, SECONDS["least"]) if self.is_limited else None

    def report_progress(self, step: Step) -> None:
        """Call the callback, if there is one."""
        if self.callback is not None:
            self.callback(step)


class _Presses(list[int]):
    """A handler that notes every Ctrl-C and raises those after the first ``n_ignored``."""

    n_ignored = 0

    def __call__(self, number: int, frame: Any) -> None:
        self.append(number)
        if len(self) > self.n_ignored:
            raise KeyboardInterrupt


@contextmanager
def finishing(ignored: int = 1) -> Iterator[list[int]]:
    """For the short work after a search: ignore the first Ctrl-C, raise the next; the list has every one.

    A user who presses Ctrl-C wants the search to end and to keep its result. One inside another decides while it lasts.
    Nothing changes where the program has a handler of its own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    previous = signal.getsignal(signal.SIGINT) if is_main else None
    presses = previous if isinstance(previous, _Presses) else _Presses()
    if presses is not previous and previous is not signal.default_int_handler:
        yield presses
        return
    before, presses.n_ignored = presses.n_ignored, len(presses) + ignored
    signal.signal(signal.SIGINT, presses)
    try:
        yield presses
    finally:
        presses.n_ignored = before
        signal.signal(signal.SIGINT, previous)
