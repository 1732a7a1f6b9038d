"""Every state row that the CP-SAT encoding of a region admits, by enumeration."""

from ortools.sat.python import cp_model

from pine_boost.model.forest import Forest
from pine_boost.model.routing import route
from pine_boost.model.states import StateSpace
from pine_boost.proof.cpsat.encoding import Encoding, encode_region
from pine_boost.region.score_tables import RegionTables


class _Collector(cp_model.CpSolverSolutionCallback):
    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding
        self.found: set[tuple[int, ...]] = set()

    def on_solution_callback(self) -> None:
        self.found.add(tuple(self.encoding.states_of(self).tolist()))


def encode(forest: Forest, space: StateSpace, tables: RegionTables) -> Encoding:
    trees = route(forest, space)
    return encode_region(space, tables, trees)


def all_solutions(encoding: Encoding) -> set[tuple[int, ...]]:
    if not encoding.feasible:
        return set()
    solver = cp_model.CpSolver()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.linearization_level = 0  # no relaxation: solutions are only listed
    collector = _Collector(encoding)
    status = solver.solve(encoding.model, collector)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return collector.found


def solver_members(forest: Forest, space: StateSpace, tables: RegionTables) -> set[tuple[int, ...]]:
    return all_solutions(encode(forest, space, tables))
