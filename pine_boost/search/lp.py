"""The linear program behind every proposal: rows join when a solution breaks them, each solve starts warm.

GLOP solves programs that are solved again and again, HiGHS those that are solved once. Floats only
propose; integers decide later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from ortools.linear_solver import linear_solver_pb2, pywraplp
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, vstack

from pine_boost.budget import Budget, OutOfEffort
from pine_boost.model.exact import PROGRAM_NOISE
from pine_boost.model.forest import BoolArray, FloatArray, IntArray

# Both GLOP (Seeds, 300 trees) and HiGHS (JM1 40x3) have been seen not to terminate. What they have
# not solved within these limits they never solve (100 columns: GLOP needs at most 290 iterations).
_GLOP_ITERATIONS = 1000  # plus ten for every column
_HIGHS_ITERATIONS = 20_000
_HIGHS_SECONDS = 10.0


class Solver(Enum):
    """Who solves a program, with its parameters."""

    # Bounds and rows change between solves, which leaves the last basis dual feasible; presolve
    # would discard it (both: four searches 8.8 s -> 7.1 s).
    WARM_GLOP = "use_dual_simplex: true use_preprocessing: false"
    GLOP = "use_preprocessing: false"
    HIGHS = "highs"


class UnsolvedProgramError(Exception):
    """Neither GLOP nor HiGHS solves a program; raised inside the search only."""


class Pool(Protocol):
    """Rows that take part in a program once a solution breaks them."""

    def __len__(self) -> int: ...

    def lines(self, indices: IntArray) -> tuple[Any, FloatArray]:
        """Entries of some rows over the first variables, dense or sparse, and their lower bounds."""
        ...

    def slack(self, x: FloatArray) -> FloatArray:
        """How far a solution exceeds the lower bound of every row."""
        ...


@dataclass(frozen=True, eq=False)
class RowPool:
    """A pool of given rows: ``rows @ x >= at_least``, over the first variables."""

    rows: Any  # an array, or a sparse matrix
    at_least: FloatArray

    def __len__(self) -> int:
        return len(self.at_least)

    def lines(self, indices: IntArray) -> tuple[Any, FloatArray]:
        """Entries and lower bounds of some rows."""
        return self.rows[indices], self.at_least[indices]

    def slack(self, x: FloatArray) -> FloatArray:
        """How far a solution exceeds the lower bound of every row."""
        return np.asarray(self.rows @ x[: self.rows.shape[1]] - self.at_least)


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimal solution; ``dual`` belongs to the rows of the pool that take part, in their order."""

    x: FloatArray
    value: float
    dual: FloatArray


@dataclass(eq=False)
class _Row:
    """A row that always takes part."""

    columns: list[int]
    entries: list[float]
    low: float
    high: float

    @property
    def is_unbounded(self) -> bool:
        return self.low == -math.inf and self.high == math.inf


class LinearProgram:
    """Minimise or maximise ``cost @ x`` subject to bounds, fixed rows and the rows of a pool.

    Parameters
    ----------
    cost, lower, upper : float64 (n_variables,)
    pool : Pool
        May grow between solves.
    maximize : bool
    solver : Solver
    size : int, optional
        Columns that count for the iteration limit and for ``work``; all by default.
    most_iterations : int, optional
    rows_per_pass, most_passes : int
        How many broken rows join at a time, and how often.
    most_active : int, optional
        Beyond so many rows only the tightest half stays.
    noise : float
        A row is broken if it falls short by more than this.

    Attributes
    ----------
    active : list of int
        The rows of the pool that take part.
    work : float
        Iterations times rows and columns so far; `OutOfEffort` is raised beyond ``most_work``.
    """

    def __init__(
        self,
        cost: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        pool: Pool,
        *,
        maximize: bool = False,
        solver: Solver = Solver.WARM_GLOP,
        size: int | None = None,
        most_iterations: int | None = None,
        rows_per_pass: int = 10,
        most_passes: int = 200,
        most_active: int | None = None,
        noise: float = PROGRAM_NOISE,
    ) -> None:
        self.pool = pool
        self.active: list[int] = []
        self.work, self.most_work = 0.0, math.inf
        self._cost, self._lower, self._upper = cost, lower, upper
        self._maximize, self._solver = maximize, solver
        self._size = len(cost) if size is None else size
        self._most_iterations = most_iterations
        self._rows_per_pass, self._most_passes = rows_per_pass, most_passes
        self._most_active, self._noise = most_active, noise
        self._fixed: list[_Row] = []
        self._is_active: BoolArray = np.zeros(0, dtype=bool)
        self._glop: Any = None  # built when it is needed, and after every reset

    def add_row(self, columns: Sequence[int], entries: Sequence[float], low: float, high: float = math.inf) -> int:
        """Add a row that always takes part, before the first solve; returns its number."""
        self._fixed.append(_Row(list(columns), list(entries), low, high))
        return len(self._fixed) - 1

    def set_upper(self, row: int, high: float) -> None:
        """Change the upper bound of a fixed row."""
        self._fixed[row].high = high
        if self._glop is not None:
            self._constraints[row].SetUb(high)

    def set_bounds(self, column: int, lower: float, upper: float) -> None:
        """Change the bounds of a variable."""
        self._lower[column], self._upper[column] = lower, upper
        if self._glop is not None:
            self._variables[column].SetBounds(lower, upper)

    def set_cost(self, cost: FloatArray) -> None:
        """Change the objective."""
        self._cost = cost
        if self._glop is not None:
            objective = self._glop.Objective()
            for variable, entry in zip(self._variables, cost.tolist(), strict=True):
                objective.SetCoefficient(variable, entry)

    def join(self, indices: IntArray) -> None:
        """Let rows of the pool take part that do not yet."""
        self._match_pool()
        indices = indices[~self._is_active[indices]]
        if self._glop is not None:
            lines, at_least = self.pool.lines(indices)
            for line, low in zip(lines.tolist(), at_least.tolist(), strict=True):
                set_entry = self._glop.Constraint(low, math.inf).SetCoefficient
                for variable, entry in zip(self._variables, line, strict=False):
                    if entry:
                        set_entry(variable, entry)
        self.active += indices.tolist()
        self._is_active[indices] = True
        if self._solver is Solver.HIGHS:  # it builds the program from its rows each time, in their order
            self.active.sort()

    def reset(self, active: IntArray) -> None:
        """Forget the basis, and all rows of the pool but these."""
        self._glop = None
        self.active = []
        self._is_active[:] = False
        self.join(active)

    def solve(self, budget: Budget, *, at_least: float = -math.inf, is_feasible: bool = False) -> Solution | None:
        """The optimum over all rows, or None if there is none or the solver fails.

        A maximum is final as soon as it is below ``at_least``: more rows only lower it.
        ``is_feasible`` says that a solution exists, so that GLOP is asked once more without its last
        basis if it reports none.
        """
        self._match_pool()
        may_retry = self._solver is not Solver.HIGHS
        for _ in range(self._most_passes):
            budget.check()
            if self.work > self.most_work:
                raise OutOfEffort
            solution, is_infeasible = self._run(budget)
            if solution is None:
                budget.check()  # the solver may have run out of time
                if not may_retry or (is_infeasible and not is_feasible):
                    return None
                # GLOP can end ABNORMAL from an old basis; without one it seldom does
                self.reset(np.array(self.active, dtype=np.int64))
                may_retry = False
                continue
            if solution.value < at_least:
                return solution
            slack = self.pool.slack(solution.x)
            broken = np.flatnonzero((slack < -self._noise) & ~self._is_active)
            if len(broken) == 0:
                self._keep_tightest(slack)
                return solution
            self.join(broken[np.argsort(slack[broken], kind="stable")[: self._rows_per_pass]])
        return None

    def _match_pool(self) -> None:
        """The pool may have grown."""
        fresh = np.zeros(len(self.pool) - len(self._is_active), dtype=bool)
        if len(fresh):
            self._is_active = np.concatenate([self._is_active, fresh])

    def _keep_tightest(self, slack: FloatArray) -> None:
        if self._most_active is None or len(self.active) <= self._most_active:
            return
        active = np.array(self.active, dtype=np.int64)
        self.reset(active[np.argsort(slack[active], kind="stable")[: self._most_active // 2]])

    def _run(self, budget: Budget) -> tuple[Solution | None, bool]:
        """Solve with the rows that take part; the solution, or whether there is provably none."""
        run = self._run_highs if self._solver is Solver.HIGHS else self._run_glop
        return run(budget)

    def _run_glop(self, budget: Budget) -> tuple[Solution | None, bool]:
        if self._glop is None:
            self._build()
        self._glop.SetTimeLimit(int(min(max(1000 * budget.remaining, 100), 1e9)))
        status = self._glop.Solve()
        self.work += self._glop.iterations() * (self._size + len(self.active))
        if status != pywraplp.Solver.OPTIMAL:
            return None, status == pywraplp.Solver.INFEASIBLE
        response = linear_solver_pb2.MPSolutionResponse()
        self._glop.FillSolutionResponseProto(response)
        x = np.array(response.variable_value)
        dual = np.array(response.dual_value)[len(self._fixed) :]
        return Solution(x, float(self._cost @ x), dual), False

    def _build(self) -> None:
        """Load the whole program as one message: a call per entry would take longer."""
        model = linear_solver_pb2.MPModelProto(maximize=self._maximize)
        for low, high, cost in zip(self._lower.tolist(), self._upper.tolist(), self._cost.tolist(), strict=True):
            model.variable.add(lower_bound=low, upper_bound=high, objective_coefficient=cost)
        for row in self._fixed:
            high = 0.0 if row.is_unbounded else row.high  # rows without a bound would be left out
            model.constraint.add(lower_bound=row.low, upper_bound=high, var_index=row.columns, coefficient=row.entries)
        lines, at_least = self.pool.lines(np.array(self.active, dtype=np.int64))
        for line, low in zip(lines.tolist(), at_least.tolist(), strict=True):
            own = [index for index, entry in enumerate(line) if entry]
            model.constraint.add(
                lower_bound=low, upper_bound=math.inf, var_index=own, coefficient=[line[index] for index in own]
            )
        self._glop = pywraplp.Solver.CreateSolver("GLOP")
        most = self._most_iterations or _GLOP_ITERATIONS + 10 * self._size
        self._glop.SetSolverSpecificParametersAsString(f"{self._solver.value} max_number_of_iterations: {most}")
        self._glop.LoadModelFromProto(model)
        self._variables, self._constraints = self._glop.variables(), self._glop.constraints()
        for row, constraint in zip(self._fixed, self._constraints, strict=False):
            if row.is_unbounded:
                constraint.SetUb(math.inf)

    def _run_highs(self, budget: Budget) -> tuple[Solution | None, bool]:
        lines, low = self.pool.lines(np.array(self.active, dtype=np.int64))
        # every row as a lower bound, those of the pool first
        fixed = [(row.columns, row.entries, row.low) for row in self._fixed if row.low > -math.inf]
        fixed += [
            (row.columns, [-entry for entry in row.entries], -row.high) for row in self._fixed if row.high < math.inf
        ]
        rows: Any = csr_matrix(lines)
        rows.resize((rows.shape[0], len(self._cost)))  # a pool need not reach all variables
        if fixed:
            columns, entries, bounds = zip(*fixed, strict=True)
            starts = np.concatenate([[0], np.cumsum([len(own) for own in columns])])
            matrix = (np.concatenate(entries), np.concatenate(columns).astype(np.int64), starts)
            rows = vstack([rows, csr_matrix(matrix, shape=(len(fixed), len(self._cost)))])
            low = np.concatenate([low, bounds])
        result = linprog(
            -self._cost if self._maximize else self._cost,
            A_ub=-rows,
            b_ub=-low,
            bounds=np.column_stack([self._lower, self._upper]),
            method="highs",
            options={"maxiter": _HIGHS_ITERATIONS, "time_limit": min(_HIGHS_SECONDS, max(0.1, budget.remaining))},
        )
        self.work += result.nit * (self._size + len(self.active))
        if not result.success:
            return None, result.status == 2
        dual = np.asarray(result.ineqlin.marginals[: len(self.active)])
        return Solution(result.x, float(self._cost @ result.x), dual), False
