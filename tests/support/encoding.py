"""Every state that the CP-SAT encoding of a region admits, by enumeration."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from pine_boost.model.forest import Forest
from pine_boost.model.routing import leaf_masks, route
from pine_boost.model.states import StateSpace
from pine_boost.proof.cpsat.encoding import encode_region
from pine_boost.region.score_tables import RegionTables


class _Collector(cp_model.CpSolverSolutionCallback):
    def __init__(self, encoding: Any) -> None:
        super().__init__()
        self.encoding = encoding
        self.found: set[tuple[int, ...]] = set()

    def on_solution_callback(self) -> None:
        self.found.add(tuple(self.encoding.states_of(self).tolist()))


def solver_members(forest: Forest, space: StateSpace, tables: RegionTables) -> set[tuple[int, ...]]:
    trees = route(forest, space)
    encoding = encode_region(space, tables, trees, leaf_masks(trees, space))
    if not encoding.feasible:
        return set()
    solver = cp_model.CpSolver()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    collector = _Collector(encoding)
    status = solver.solve(encoding.model, collector)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return collector.found
