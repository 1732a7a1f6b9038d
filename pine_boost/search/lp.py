"""The linear program behind every proposal: rows join when a solution breaks them, each solve starts warm.

GLOP solves programs that are solved again and again, HiGHS those that are solved once. Floats only
propose; integers decide later.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import linear_solver_pb2, pywraplp
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, vstack

from pine_boost.budget import Budget, OutOfEffort
from pine_boost.model.exact import PROGRAM_NOISE, SMALLEST_VALUE
from pine_boost.model.forest import BoolArray, FloatArray, IntArray
from pine_boost.search.lp_columns import Columns, Support

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


@dataclass(eq=False)
class LinearProgram:
    """Minimise or maximise ``cost @ x`` subject to bounds, fixed rows and the rows of a pool.

    Parameters
    ----------
    cost, lower, upper : float64 (n_variables,)
    pool : Pool
        May grow between solves.
    maximize : bool
    solver : Solver
    size : int
        Columns that count for the iteration limit and for ``work``.
    most_iterations : int, optional
    rows_per_pass, most_passes : int
        How many broken rows join at a time, and how often.
    most_active : int, optional
        Beyond so many rows only the tightest half stays.

    Attributes
    ----------
    active : list of int
        The rows of the pool that take part.
    work : float
        Iterations times rows and columns so far; `OutOfEffort` is raised beyond ``most_work``.
    """

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    pool: Pool
    maximize: bool = False
    solver: Solver = Solver.WARM_GLOP
    size: int = 0
    most_iterations: int | None = None
    rows_per_pass: int = 10
    most_passes: int = 200
    most_active: int | None = None
    active: list[int] = field(default_factory=list, init=False)
    work: float = field(default=0.0, init=False)
    most_work: float = field(default=math.inf, init=False)
    _fixed: list[_Row] = field(default_factory=list, init=False)
    _is_active: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool), init=False)
    _glop: Any = field(default=None, init=False)  # built when it is needed, and after every reset

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
        self.lower[column], self.upper[column] = lower, upper
        if self._glop is not None:
            self._variables[column].SetBounds(lower, upper)

    def set_cost(self, cost: FloatArray) -> None:
        """Change the objective."""
        self.cost = cost
        if self._glop is not None:
            objective = self._glop.Objective()
            for variable, entry in zip(self._variables, cost.tolist(), strict=True):
                objective.SetCoefficient(variable, entry)

    def join(self, indices: IntArray) -> None:
        """Let rows of the pool take part that do not yet."""
        self._match_pool()
        indices = indices[~self._is_active[indices]]
        if self._glop is not None:
            self._constrain_active(indices)
        self.active += indices.tolist()
        self._is_active[indices] = True
        if self.solver is Solver.HIGHS:  # it builds the program from its rows each time, in their order
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
        is_highs = self.solver is Solver.HIGHS
        may_retry = not is_highs
        for _ in range(self.most_passes):
            budget.check()
            if self.work > self.most_work:
                raise OutOfEffort
            solution, is_infeasible = self._run_highs(budget) if is_highs else self._run_glop(budget)
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
            broken = np.flatnonzero((slack < -PROGRAM_NOISE) & ~self._is_active)
            if len(broken) == 0:
                self._keep_tightest(slack)
                return solution
            self.join(broken[np.argsort(slack[broken], kind="stable")[: self.rows_per_pass]])
        return None

    def _match_pool(self) -> None:
        """The pool may have grown."""
        fresh = np.zeros(len(self.pool) - len(self._is_active), dtype=bool)
        if len(fresh):
            self._is_active = np.concatenate([self._is_active, fresh])

    def _keep_tightest(self, slack: FloatArray) -> None:
        if self.most_active is None or len(self.active) <= self.most_active:
            return
        active = np.array(self.active, dtype=np.int64)
        self.reset(active[np.argsort(slack[active], kind="stable")[: self.most_active // 2]])

    def _run_glop(self, budget: Budget) -> tuple[Solution | None, bool]:
        """Solve with the rows that take part; the solution, or whether there is provably none."""
        if self._glop is None:
            self._build()
        self._glop.SetTimeLimit(int(min(max(1000 * budget.remaining, 100), 1e9)))
        status = self._glop.Solve()
        self.work += self._glop.iterations() * (self.size + len(self.active))
        if status != pywraplp.Solver.OPTIMAL:
            return None, status == pywraplp.Solver.INFEASIBLE
        response = linear_solver_pb2.MPSolutionResponse()
        self._glop.FillSolutionResponseProto(response)
        x = np.array(response.variable_value)
        dual = np.array(response.dual_value)[len(self._fixed) :]
        return Solution(x, float(self.cost @ x), dual), False

    def _build(self) -> None:
        self._glop = pywraplp.Solver.CreateSolver("GLOP")
        most = self.most_iterations or _GLOP_ITERATIONS + 10 * self.size
        self._glop.SetSolverSpecificParametersAsString(f"{self.solver.value} max_number_of_iterations: {most}")
        bounds = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        self._variables = [self._glop.NumVar(low, high, "") for low, high in bounds]
        self.set_cost(self.cost)
        self._glop.Objective().SetOptimizationDirection(self.maximize)
        self._constraints = [self._constrain(row.low, row.high, row.columns, row.entries) for row in self._fixed]
        self._constrain_active(np.array(self.active, dtype=np.int64))

    def _constrain(self, low: float, high: float, columns: Iterable[int], entries: Iterable[float]) -> Any:
        constraint = self._glop.Constraint(low, high)
        for column, entry in zip(columns, entries, strict=False):
            if entry:
                constraint.SetCoefficient(self._variables[column], entry)
        return constraint

    def _constrain_active(self, indices: IntArray) -> None:
        lines, at_least = self.pool.lines(indices)
        for line, low in zip(lines.tolist(), at_least.tolist(), strict=True):
            self._constrain(low, math.inf, range(len(line)), line)

    def _run_highs(self, budget: Budget) -> tuple[Solution | None, bool]:
        lines, low = self.pool.lines(np.array(self.active, dtype=np.int64))
        # every row as a lower bound, those of the pool first
        fixed = [(row.columns, row.entries, row.low) for row in self._fixed if row.low > -math.inf]
        fixed += [
            (row.columns, [-entry for entry in row.entries], -row.high) for row in self._fixed if row.high < math.inf
        ]
        rows: Any = csr_matrix(lines)
        rows.resize((rows.shape[0], len(self.cost)))  # a pool need not reach all variables
        if fixed:
            columns, entries, bounds = zip(*fixed, strict=True)
            starts = np.concatenate([[0], np.cumsum([len(own) for own in columns])])
            matrix = (np.concatenate(entries), np.concatenate(columns).astype(np.int64), starts)
            rows = vstack([rows, csr_matrix(matrix, shape=(len(fixed), len(self.cost)))])
            low = np.concatenate([low, bounds])
        result = linprog(
            -self.cost if self.maximize else self.cost,
            A_ub=-rows,
            b_ub=-low,
            bounds=np.column_stack([self.lower, self.upper]),
            method="highs",
            options={"maxiter": _HIGHS_ITERATIONS, "time_limit": min(_HIGHS_SECONDS, max(0.1, budget.remaining))},
        )
        self.work += result.nit * (self.size + len(self.active))
        if not result.success:
            return None, result.status == 2
        dual = np.asarray(result.ineqlin.marginals[: len(self.active)])
        return Solution(result.x, float(self.cost @ result.x), dual), False


_LOGGER = logging.getLogger("pine_boost")
_MOST_FREE = 2.0  # columns are at most 1, weights sum to 1: a larger constant never helps
_ROWS_PER_PASS = 10
_ACTIVE_PER_COLUMN = 16


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of columns, and of the columns that are free of sign.

    ``rows @ weights + free_rows @ free >= value``.
    """

    weights: FloatArray
    free: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class Exclusion:
    """No weights on a set of units keep all rows: at least one of ``units`` is needed.

    This is what floats say, so only a proposal. The larger the gain of a unit, the more it helps;
    ``rows`` are the rows with a positive multiplier.
    """

    units: IntArray
    gain: FloatArray
    rows: IntArray


class WeightProgram:
    """``max t : A w + B f >= t, sum w <= 1, w >= 0`` for some columns, at first without rows.

    If columns are leaves (``signed``), ``|w| <= 1`` replaces the last two, and for every pair in
    their order the first weight may not exceed the second. Rows that need not be strict (ties that
    the pruned model wins) only require ``>= 0``. The columns ``B`` (intercepts) are free of sign
    and cost nothing.

    Attributes
    ----------
    columns : Columns
    rows : float64 (n_rows, n_columns)
    free_rows : float64 (n_rows, n_free)
    strict : bool (n_rows,)
    magnified : float64 (n_rows,)
        The factor by which each row was scaled up.
    n_solved : int
    """

    def __init__(self, columns: Columns) -> None:
        self.columns, self.signed = columns, columns.leaf_column is not None
        self.n_columns, self.n_free = columns.n_columns, columns.n_free
        self._lowest = -1.0 if self.signed else 0.0
        # one leaf of every tree counts at a point, so that margins grow with the trees
        self._reach = float(len(np.unique(columns.column_unit))) if self.signed else 1.0
        self.rows: FloatArray = np.zeros((0, self.n_columns))
        self.free_rows: FloatArray = np.zeros((0, self.n_free))
        self.strict: BoolArray = np.zeros(0, dtype=bool)
        self.magnified: FloatArray = np.zeros(0)
        self.n_solved = 0
        self._permitted: BoolArray = np.ones(self.n_columns, dtype=bool)
        self.lp = LinearProgram(
            *self._objective(self.n_columns),
            pool=self,
            maximize=True,
            size=self.n_columns,
            rows_per_pass=_ROWS_PER_PASS,
            most_active=_ACTIVE_PER_COLUMN * self.n_columns + _ROWS_PER_PASS,
        )
        self._add_fixed_rows(self.lp, np.arange(self.n_columns))

    def _objective(self, n_columns: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cost and bounds of some columns, the free columns and the value."""
        most_free = np.full(self.n_free, _MOST_FREE * self._reach)
        cost = np.zeros(n_columns + self.n_free + 1)
        cost[-1] = 1.0
        lower = np.concatenate([np.full(n_columns, self._lowest), -most_free, [0.0]])
        return cost, lower, np.concatenate([np.ones(n_columns), most_free, [self._reach]])

    def _add_fixed_rows(self, program: LinearProgram, kept: IntArray) -> None:
        """What holds between the weights of the kept columns."""
        if not self.signed:
            program.add_row(range(len(kept)), [1.0] * len(kept), -math.inf, 1.0)
        add_order_rows(program, self.columns.order, kept)

    def add_rows(
        self, rows: FloatArray, free_rows: FloatArray, strict: npt.ArrayLike, magnified: npt.ArrayLike = 1.0
    ) -> None:
        """Append rows; they join the program when a solution violates them."""
        grown = (
            np.vstack([self.rows, rows]),
            np.vstack([self.free_rows, free_rows]),
            np.concatenate([self.strict, np.broadcast_to(strict, len(rows))]),
            np.concatenate([self.magnified, np.broadcast_to(np.ravel(magnified), len(rows))]),
        )
        self.rows, self.free_rows, self.strict, self.magnified = grown  # all or none: memory may end before

    def __len__(self) -> int:
        return len(self.rows)

    def lines(self, indices: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows of the linear program."""
        lines = np.column_stack([self.rows[indices], self.free_rows[indices], -1.0 * self.strict[indices]])
        return lines, np.zeros(len(indices))

    def slack(self, x: FloatArray) -> FloatArray:
        """How far a solution exceeds what every row requires."""
        weights, free = self._split(x)
        return np.asarray(self.sides(weights, free) - x[-1] * self.strict)

    def sides(self, weights: FloatArray, free: FloatArray) -> FloatArray:
        """The margin of every row."""
        return np.asarray(self.rows @ weights + self.free_rows @ free)

    def _split(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights = np.maximum(x[: self.n_columns], self._lowest) * self._permitted
        return weights, x[self.n_columns : self.n_columns + self.n_free]

    def allow(self, work: float) -> None:
        """Raise `OutOfEffort` once this much more work has been done."""
        self.lp.most_work = self.lp.work + work

    def solve(self, support: Support, budget: Budget) -> Weights | Exclusion:
        """The best weights on the units in ``support``, or what excludes it."""
        permitted = support[self.columns.column_unit]
        for column in np.flatnonzero(permitted != self._permitted).tolist():
            self.lp.set_bounds(column, *((self._lowest, 1.0) if permitted[column] else (0.0, 0.0)))
        self._permitted = permitted
        self.n_solved += 1
        solution = self.lp.solve(budget, at_least=SMALLEST_VALUE, is_feasible=True)
        if solution is None:
            return self.solve_whole(support, budget)
        if solution.value < SMALLEST_VALUE:
            return self._exclude(support, solution.dual, np.array(self.lp.active, dtype=np.int64))
        return self._with_a_column(Weights(*self._split(solution.x), solution.value), support)

    def solve_whole(self, support: Support, budget: Budget) -> Weights | Exclusion:
        """The same by HiGHS with all rows at once, for what GLOP does not solve; GLOP starts afresh."""
        _LOGGER.debug("linear program left to HiGHS after an abnormal end of GLOP")
        self.lp.reset(np.zeros(0, dtype=np.int64))
        solution = self._whole_program(support, self.strict.astype(np.float64), budget)
        if solution.value < SMALLEST_VALUE:
            return self._exclude(support, solution.dual, np.arange(len(self.rows)))
        return self._weights(support, solution)

    def widest(self, support: Support, budget: Budget) -> Weights | None:
        """Weights with the widest absolute margin, which survive rounding best.

        The margin counts on every row if the set allows it, otherwise only on rows where a tie
        would lose.
        """
        for rows in (np.ones(len(self.rows), dtype=bool), self.strict):
            try:
                solution = self._whole_program(support, rows * self.magnified, budget)
            except UnsolvedProgramError:
                return None
            if solution.value > SMALLEST_VALUE:
                return self._weights(support, solution)
        return None

    def _whole_program(self, support: Support, width: FloatArray, budget: Budget) -> Solution:
        """All rows at once by HiGHS: ``max t : rows @ w + free_rows @ f >= width * t``."""
        kept = np.flatnonzero(support[self.columns.column_unit])
        pool = RowPool(np.hstack([self.rows[:, kept], self.free_rows, -width[:, None]]), np.zeros(len(self.rows)))
        program = LinearProgram(*self._objective(len(kept)), pool, maximize=True, solver=Solver.HIGHS, size=len(kept))
        self._add_fixed_rows(program, kept)
        program.join(np.arange(len(pool)))
        solution = program.solve(budget)
        self.lp.work += program.work
        if solution is None:
            raise UnsolvedProgramError("HiGHS did not solve the program of the weights.")
        return solution

    def _weights(self, support: Support, solution: Solution) -> Weights:
        """The solution of a program of the kept columns only."""
        kept = np.flatnonzero(support[self.columns.column_unit])
        weights = np.zeros(self.n_columns)
        weights[kept] = np.maximum(solution.x[: len(kept)], self._lowest)
        return self._with_a_column(Weights(weights, solution.x[len(kept) : -1], solution.value), support)

    def _with_a_column(self, found: Weights, support: Support) -> Weights:
        """The same if it has a column; no native library predicts without a tree, even if constants are enough."""
        if found.weights.any() or not support.any():
            return found
        light = np.zeros(self.n_columns)
        light[np.argmax(support[self.columns.column_unit])] = found.value / 8  # entries of a row are at most 2
        return Weights(light, found.free, found.value)

    def _exclude(self, support: Support, dual: FloatArray, active: IntArray) -> Exclusion:
        # the duals of ">=" rows of a maximisation are non-positive
        weight = np.abs(dual)
        gain = weight @ self.rows.take(active, axis=0)
        if self.signed:  # a column that the rows do not cancel helps with one sign or the other
            gain = np.abs(gain)
        largest = max(float(np.abs(gain).max(initial=0.0)), 1.0)
        of_units = np.full(len(support), -np.inf)
        np.maximum.at(of_units, self.columns.column_unit, gain)
        needed = np.flatnonzero((of_units > PROGRAM_NOISE * largest) & ~support)
        return Exclusion(needed, of_units[needed], active[weight > 0])

    def copy(self) -> WeightProgram:
        """The same rows in a program of its own, in which the same rows take part."""
        other = WeightProgram(self.columns)
        other.add_rows(self.rows, self.free_rows, self.strict, self.magnified)
        other.lp.join(np.array(self.lp.active, dtype=np.int64))
        return other


def add_order_rows(program: LinearProgram, order: IntArray, kept: IntArray) -> None:
    """``second - first >= 0`` for every pair of columns, over the kept ones; others are 0."""
    place = {int(column): index for index, column in enumerate(kept)}
    for first, second in order.tolist():
        own = [(place[column], entry) for column, entry in ((second, 1.0), (first, -1.0)) if column in place]
        program.add_row([index for index, _ in own], [entry for _, entry in own], 0.0)
