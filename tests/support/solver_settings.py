"""Solver settings under which every proof must come out the same, and a budget without end."""

from pine_boost.budget import Budget, Effort
from pine_boost.proof.cpsat.solver import FIRST, FIRST_LP, SECOND, SECOND_LP, SolverSetting

OTHERS = (  # than those of the proofs themselves
    SolverSetting("very linear", random_seed=3, linearization_level=2),
    SolverSetting("linear, no presolve", random_seed=11, linearization_level=1, cp_model_presolve=False),
    SolverSetting("very linear, no presolve", linearization_level=2, cp_model_presolve=False),
    SolverSetting("other seed", random_seed=2**30),
    SolverSetting("other seed, no presolve", random_seed=12345, cp_model_presolve=False),
)
SETTINGS = (FIRST, SECOND, FIRST_LP, SECOND_LP, *OTHERS)

FOREVER = Budget(effort=Effort(proof_effort=1e9))
