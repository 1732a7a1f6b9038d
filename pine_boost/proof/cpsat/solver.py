"""CP-SAT: its settings, the meaning of its statuses, and solving in threads that Ctrl-C can end.

One worker per solver, so that runs repeat exactly. CP-SAT's own handling of SIGINT leaves the default handler behind,
so that the next Ctrl-C kills the Python process; here Python keeps the signal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from ortools.sat.python import cp_model

from pine_boost.budget import Budget
from pine_boost.errors import PineBoostError
from pine_boost.proof.problem import Answer

STATUS_MAP = {
    cp_model.OPTIMAL: Answer.FOUND,
    cp_model.FEASIBLE: Answer.FOUND,
    cp_model.INFEASIBLE: Answer.PROVED,
    cp_model.UNKNOWN: Answer.UNKNOWN,
}
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_ROOM = 2**24  # bytes that CP-SAT needs at least; with fewer it crashes
_PATIENCE = 0.05  # seconds between two requests to stop; the first may come before the solve
_SHORTEST = 0.01  # seconds; 0 would mean no limit
_LONGEST = 1e8  # seconds; effectively no limit


@dataclass(frozen=True)
class SolverSetting:
    """A configuration of CP-SAT; one worker, so that runs repeat exactly."""

    name: str
    random_seed: int = 0
    # no LP: on easy models it costs 3 to 30 times as much (Spambase 30x2: 0.3 s at level 0, 1.2 s at level 1)
    linearization_level: int = 0
    cp_model_presolve: bool = True


# Without presolve small proofs take a quarter of the time (Pima 30x2: 0.01 s instead of 0.04 s). Most wrong
# answers of CP-SAT came from its presolve, so the two proofs differ in it.
FIRST = SolverSetting("cp-sat-no-presolve", random_seed=7919, cp_model_presolve=False)
SECOND = SolverSetting("cp-sat")
# The LP costs time in easy proofs and saves it in hard ones (JM1 40x3: 53 s without, 0.02 s with it), so the
# settings with and without it take turns.
FIRST_LP = SolverSetting("cp-sat-lp-no-presolve", random_seed=7919, linearization_level=1, cp_model_presolve=False)
SECOND_LP = SolverSetting("cp-sat-lp", linearization_level=1)


def configured(setting: SolverSetting, budget: Budget, effort: float) -> cp_model.CpSolver:
    """A solver with one worker; ``effort`` is CP-SAT's deterministic time."""
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = setting.random_seed
    parameters.linearization_level = setting.linearization_level
    parameters.cp_model_presolve = setting.cp_model_presolve
    parameters.max_time_in_seconds = max(_SHORTEST, min(budget.remaining, _LONGEST))
    parameters.max_deterministic_time = effort
    return solver


def answer_of(status: cp_model.CpSolverStatus) -> Answer:
    """The answer that a status means; an unmapped status raises."""
    if status not in STATUS_MAP:
        raise PineBoostError(
            f"Internal error: CP-SAT ended with status {status}, which proves nothing. Please report this."
        )
    return STATUS_MAP[status]


class Stop:
    """The solvers running in threads, and whether they are asked to stop; shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._solvers: list[cp_model.CpSolver] = []
        self._asked = False

    def solve(self, solver: cp_model.CpSolver, model: cp_model.CpModel) -> Any:
        """Solve unless stopped; return CP-SAT's status."""
        solver.parameters.catch_sigint_signal = False
        with self._lock:
            if self._asked:
                return cp_model.UNKNOWN
            self._solvers.append(solver)
        try:
            np.empty(_ROOM, dtype=np.uint8)  # allocated and freed: raises MemoryError instead of a crash
            return solver.solve(model)
        finally:
            with self._lock:
                self._solvers.remove(solver)

    def ask(self) -> None:
        """Stop the running solvers and let no new one start."""
        with self._lock:
            self._asked = True
            for solver in self._solvers:
                solver.stop_search()


def solve_each(ask: Callable[[Stop, _Item], _Answer], items: Sequence[_Item], n_jobs: int = 1) -> list[_Answer]:
    """Call ``ask(stop, item)`` for every item, in threads; Ctrl-C ends them and is raised.

    The main thread only waits: inside CP-SAT it would not receive the signal before the solve ends.
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
