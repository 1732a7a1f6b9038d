"""The value of the game for a set of units, and what excludes the set when it is not positive.

In come rows (points) and a set of units; out go the weights that keep every row as far from its
rival as possible, or the units of which at least one is needed. Rows only ever grow, so what is
excluded stays so. Floats propose here; integers decide later.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import linear_solver_pb2, pywraplp
from scipy.optimize import linprog

from pine_boost.budget import Budget, OutOfEffort
from pine_boost.model.exact import PROGRAM_NOISE, SMALLEST_VALUE
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.search.columns import Columns, Support

_LOGGER = logging.getLogger("pine_boost")
_MOST_FREE = 2.0  # columns are at most 1, weights sum to 1: a larger constant never helps
_ROWS_PER_PASS = 10
_MAX_PASSES = 200
_ACTIVE_PER_COLUMN = 16
# Bounds and rows change between programs, which leaves the last basis dual feasible; presolve
# would throw it away (both: four searches 8.8 s -> 7.1 s).
_WARM = "use_dual_simplex: true use_preprocessing: false max_number_of_iterations: "
# Both GLOP (Seeds, 300 trees) and HiGHS (JM1 40x3) have been seen not to end; what they have not
# solved by then they never do (100 columns: GLOP needs at most 290 iterations elsewhere).
_GLOP_ITERATIONS = 1000  # and ten more for every column
_HIGHS_ITERATIONS = 20_000
_HIGHS_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of a feasible set of columns, and those of the columns that are free of sign.

    ``rows @ weights + free_rows @ free >= value``.
    """

    weights: FloatArray
    free: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class Exclusion:
    """No weights on a set of units keep all rows: at least one of these units is needed.

    As floats see it: a proposal. The larger the gain of a unit, the more it helps; ``rows`` are
    those of the program that speak against the set.
    """

    units: IntArray
    gain: FloatArray
    rows: IntArray


class UnsolvedProgramError(Exception):
    """Neither GLOP nor HiGHS ends with a program; raised inside the search only."""


class LinearProgram:
    """The lazily grown linear program ``max t : A w + B f >= t, sum w <= 1, w >= 0``.

    Of ``signed`` columns (leaves) it is ``|w| <= 1`` instead of the last two, and of every pair in
    ``order`` the first weight may not exceed the second.

    Rows that need not be strict (ties that the pruned model wins) ask for ``>= 0`` only. The
    columns ``B`` (intercepts) are free of sign and cost.
    """

    def __init__(
        self, column_unit: IntArray, n_free: int, *, signed: bool = False, order: IntArray | None = None
    ) -> None:
        self.signed = signed
        self.order = np.zeros((0, 2), dtype=np.int64) if order is None else order
        self._lowest = -1.0 if signed else 0.0
        # one leaf of every tree counts at a point, so that margins grow with the trees
        self._reach = float(len(np.unique(column_unit))) if signed else 1.0
        self.column_unit = column_unit
        self._is_by_unit = np.array_equal(column_unit, np.arange(column_unit.max(initial=-1) + 1))
        self.n_columns = len(column_unit)
        self.n_free = n_free
        self.rows: FloatArray = np.zeros((0, self.n_columns))
        self.free_rows: FloatArray = np.zeros((0, n_free))
        self.strict: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.magnified: FloatArray = np.zeros(0)
        self.n_solved = 0
        self.work = 0.0  # iterations times rows and columns
        self._most_work = math.inf
        self._active: list[int] = []
        self._permitted: npt.NDArray[np.bool_] = np.ones(self.n_columns, dtype=bool)
        self._is_active: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._build()

    def add_rows(
        self, rows: FloatArray, free_rows: FloatArray, strict: npt.ArrayLike, magnified: npt.ArrayLike = 1.0
    ) -> None:
        """Append rows; they join the program when a solution violates them.

        ``magnified`` is by how much each row was scaled up, for `widest`.
        """
        magnified = np.broadcast_to(np.ravel(magnified), len(rows))
        strict = np.broadcast_to(strict, len(rows))
        grown = (
            np.vstack([self.rows, rows]),
            np.vstack([self.free_rows, free_rows]),
            np.concatenate([self.strict, strict]),
            np.concatenate([self.magnified, magnified]),
            np.concatenate([self._is_active, np.zeros(len(rows), dtype=bool)]),
        )
        # all or none: memory may end before
        self.rows, self.free_rows, self.strict, self.magnified, self._is_active = grown

    def begin_with(self, indices: IntArray) -> None:
        """Rows that are likely to matter join at once."""
        self._activate(indices[~self._is_active[indices]])

    def allow(self, work: float) -> None:
        """`OutOfEffort` is raised once so much more work was done."""
        self._most_work = self.work + work

    def solve(self, support: Support, budget: Budget) -> Weights | Exclusion:
        """Best weights on the units in ``support``, or what excludes it."""
        self._permit(support)
        self.n_solved += 1
        is_fresh = False
        for _ in range(_MAX_PASSES):
            budget.check()
            if self.work > self._most_work:
                raise OutOfEffort
            milliseconds = 1000 * budget.remaining
            self._solver.SetTimeLimit(int(min(max(milliseconds, 100), 1e9)))
            status = self._solver.Solve()
            self.work += self._solver.iterations() * (self.n_columns + len(self._active))
            if status != pywraplp.Solver.OPTIMAL:
                budget.check()  # it may have ended for want of time
                if is_fresh:
                    return self._solve_once_more(support, budget)
                # GLOP can end ABNORMAL from an old basis; without one it seldom does
                self._rebuild(np.array(self._active, dtype=np.int64))
                self._permit(support)
                is_fresh = True
                continue
            value = float(self._value.solution_value())
            solution = linear_solver_pb2.MPSolutionResponse()
            self._solver.FillSolutionResponseProto(solution)
            if value < SMALLEST_VALUE:
                active = np.array(self._active, dtype=np.int64)
                dual = np.array(solution.dual_value)
                return self._exclude(support, dual[len(dual) - len(active) :], active)
            found = np.array(solution.variable_value)
            free = found[self.n_columns : self.n_columns + self.n_free]
            weights = np.maximum(found[: self.n_columns], self._lowest) * self._permitted
            slack = self.rows @ weights + self.free_rows @ free - value * self.strict
            violated = np.flatnonzero((slack < -PROGRAM_NOISE) & ~self._is_active)
            if len(violated) == 0:
                self._forget(slack)
                return Weights(weights, free, value)
            worst = violated[np.argsort(slack[violated], kind="stable")[:_ROWS_PER_PASS]]
            self._activate(worst)
        return self._solve_once_more(support, budget)

    def widest(self, support: Support, budget: Budget) -> Weights | None:
        """Weights with the widest absolute margin: what survives rounding best.

        On every row where the set allows it, else on those rows that a tie would lose.
        """
        for rows in (np.ones(len(self.rows), dtype=bool), self.strict):
            try:
                result = self._whole_program(support, rows * self.magnified, budget)
            except UnsolvedProgramError:
                return None
            if -result.fun > SMALLEST_VALUE:
                return self._weights(support, result)
        return None

    def _exclude(self, support: Support, dual: FloatArray, active: IntArray) -> Exclusion:
        # pywraplp gives the duals of ">=" rows of a maximisation as non-positive numbers
        weight = np.abs(dual)
        gain = weight @ self.rows.take(active, axis=0)
        if self.signed:  # a column that the rows do not cancel helps with one sign or the other
            gain = np.abs(gain)
        largest = max(float(np.abs(gain).max(initial=0.0)), 1.0)
        of_units = gain
        if not self._is_by_unit:
            of_units = np.full(len(support), -np.inf)
            np.maximum.at(of_units, self.column_unit, gain)
        needed = np.flatnonzero((of_units > PROGRAM_NOISE * largest) & ~support)
        return Exclusion(needed, of_units[needed], active[weight > 0])

    def _solve_once_more(self, support: Support, budget: Budget) -> Weights | Exclusion:
        """GLOP does not end with this one: the whole program by HiGHS, and a fresh GLOP after."""
        _LOGGER.debug("linear program left to HiGHS after an abnormal end of GLOP")
        self._build()
        result = self._whole_program(support, self.strict.astype(np.float64), budget)
        value = float(-result.fun)
        if value < SMALLEST_VALUE:
            dual = np.asarray(result.ineqlin.marginals[: len(self.rows)])
            return self._exclude(support, dual, np.arange(len(self.rows)))
        return self._weights(support, result)

    def _weights(self, support: Support, result: Any) -> Weights:
        """The solution of a whole program."""
        kept = np.flatnonzero(support[self.column_unit])
        weights = np.zeros(self.n_columns)
        weights[kept] = np.maximum(result.x[: len(kept)], self._lowest)
        return Weights(weights, np.asarray(result.x[len(kept) : -1]), float(-result.fun))

    def _whole_program(self, support: Support, width: FloatArray, budget: Budget) -> Any:
        """All rows at once by HiGHS: ``max t : rows @ w + free_rows @ f >= width * t``."""
        kept = np.flatnonzero(support[self.column_unit])
        n_kept = len(kept)
        rows = np.hstack([-self.rows[:, kept], -self.free_rows, width[:, None]])
        together = np.concatenate([np.full(n_kept, 1.0 - self.signed), np.zeros(self.n_free + 1)])
        most_free = _MOST_FREE * self._reach
        seconds = min(_HIGHS_SECONDS, max(0.1, budget.remaining))
        result = linprog(
            np.concatenate([np.zeros(n_kept + self.n_free), [-1.0]]),
            A_ub=np.vstack([rows, self.order_rows(kept, self.n_free + 1), together]),
            b_ub=np.concatenate([np.zeros(len(rows) + len(self.order)), [1.0]]),
            bounds=[(self._lowest, 1)] * n_kept + [(-most_free, most_free)] * self.n_free + [(0, self._reach)],
            method="highs",
            options={"maxiter": _HIGHS_ITERATIONS, "time_limit": seconds},
        )
        self.work += result.nit * (n_kept + len(rows))
        if not result.success:
            raise UnsolvedProgramError(f"HiGHS did not solve the weights: {result.message}")
        return result

    def order_rows(self, kept: IntArray, n_others: int) -> FloatArray:
        """``first - second <= 0`` for every pair, over the kept columns and others after them."""
        rows = np.zeros((len(self.order), self.n_columns + n_others))
        pairs = np.arange(len(self.order))
        rows[pairs, self.order[:, 0]], rows[pairs, self.order[:, 1]] = 1.0, -1.0
        return rows[:, np.concatenate([kept, self.n_columns + np.arange(n_others)])]

    def _forget(self, slack: FloatArray) -> None:
        """Keep only the rows near their bound once too many have joined."""
        most = _ACTIVE_PER_COLUMN * self.n_columns + _ROWS_PER_PASS
        if len(self._active) <= most:
            return
        active = np.array(self._active, dtype=np.int64)
        self._rebuild(active[np.argsort(slack[active], kind="stable")[: most // 2]])

    def _rebuild(self, active: IntArray) -> None:
        self._build()
        self._activate(active)

    def _permit(self, support: Support) -> None:
        permitted = support[self.column_unit]
        for column in np.flatnonzero(permitted != self._permitted):
            bounds = (self._lowest, 1.0) if permitted[column] else (0.0, 0.0)
            self._columns[column].SetBounds(*bounds)
        self._permitted = permitted

    def _activate(self, indices: IntArray) -> None:
        infinity = self._solver.infinity()
        variables = [*self._columns, *self._free, self._value]
        lines = np.column_stack([self.rows[indices], self.free_rows[indices], -1.0 * self.strict[indices]])
        for line in lines.tolist():
            add = self._solver.Constraint(0.0, infinity).SetCoefficient
            for variable, entry in zip(variables, line, strict=True):
                if entry:
                    add(variable, entry)
        self._active += indices.tolist()
        self._is_active[indices] = True

    def _build(self) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        most = _GLOP_ITERATIONS + 10 * self.n_columns
        self._solver.SetSolverSpecificParametersAsString(f"{_WARM}{most}")
        lowest, most_free = self._lowest, _MOST_FREE * self._reach
        self._columns = [self._solver.NumVar(lowest, 1.0, "") for _ in range(self.n_columns)]
        self._free = [self._solver.NumVar(-most_free, most_free, "") for _ in range(self.n_free)]
        self._value = self._solver.NumVar(0.0, self._reach, "")
        self._solver.Objective().SetCoefficient(self._value, 1.0)
        self._solver.Objective().SetMaximization()
        if not self.signed:
            budget = self._solver.Constraint(-self._solver.infinity(), 1.0)
            for column in self._columns:
                budget.SetCoefficient(column, 1.0)
        for first, second in self.order.tolist():
            ordered = self._solver.Constraint(0.0, self._solver.infinity())
            ordered.SetCoefficient(self._columns[second], 1.0)
            ordered.SetCoefficient(self._columns[first], -1.0)
        self._permitted = np.ones(self.n_columns, dtype=bool)
        self._active = []
        self._is_active[:] = False

    def copy(self) -> LinearProgram:
        """The same rows in a program of its own; those that mattered last join at once."""
        other = LinearProgram(self.column_unit, self.n_free, signed=self.signed, order=self.order)
        other.add_rows(self.rows, self.free_rows, self.strict, self.magnified)
        other._activate(np.array(self._active, dtype=np.int64))
        return other


def build_program(columns: Columns) -> LinearProgram:
    """A program without rows for some columns."""
    signed = columns.leaf_column is not None
    return LinearProgram(columns.column_unit, columns.n_free, signed=signed, order=columns.order)
