"""Settings of CP-SAT, and what its statuses mean: once, for every use of the solver.

In come a setting and a budget; out goes a configured solver with one worker, so that runs repeat
exactly. A status that is not in the map raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from pine_boost.budget import Budget
from pine_boost.errors import PineBoostError
from pine_boost.proof.verdict import Answer

STATUS_MAP = {
    cp_model.OPTIMAL: Answer.FOUND,
    cp_model.FEASIBLE: Answer.FOUND,
    cp_model.INFEASIBLE: Answer.PROVED,
    cp_model.UNKNOWN: Answer.UNKNOWN,
}
_SHORTEST = 0.01  # seconds: 0 would mean no limit
_LONGEST = 1e8  # seconds: what the solver takes for no limit


@dataclass(frozen=True)
class Setting:
    """A configuration of CP-SAT; one worker, so that runs repeat exactly."""

    name: str
    random_seed: int = 0
    # No LP: on these models it costs 3-30x (Spambase 30x2: proofs 0.3 s at level 0, 1.2 s at 1)
    linearization_level: int = 0
    cp_model_presolve: bool = True


# Without presolve small proofs take a quarter of the time (Pima 30x2: 0.01 s against 0.04 s). Most
# wrong answers of CP-SAT came from its presolve: the two proofs differ in it.
FIRST = Setting("cp-sat-no-presolve", random_seed=7919, cp_model_presolve=False)
SECOND = Setting("cp-sat")
# The LP costs where proofs are easy and saves where they are hard (JM1 40x3: 53 s without, 0.02 s
# with it), most of all with trees of the score's own: the two take turns.
FIRST_LP = Setting("cp-sat-lp-no-presolve", random_seed=7919, linearization_level=1, cp_model_presolve=False)
SECOND_LP = Setting("cp-sat-lp", linearization_level=1)


def configured(setting: Setting, budget: Budget, effort: float) -> cp_model.CpSolver:
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
    """What a status says of "there is a solution"."""
    if status not in STATUS_MAP:
        raise PineBoostError(
            f"Internal error: CP-SAT ended with status {status}, which proves nothing. Please report this."
        )
    return STATUS_MAP[status]
