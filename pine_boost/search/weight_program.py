"""Weights that keep every known point on its side, for a given set of units, or what excludes the set.

Rows only ever grow, so a set that is excluded stays excluded.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.model.exact import PROGRAM_NOISE, SMALLEST_VALUE
from pine_boost.model.forest import BoolArray, FloatArray, IntArray
from pine_boost.search.lp import LinearProgram, RowPool, Solution, Solver, UnsolvedProgramError
from pine_boost.search.lp_columns import Columns, Support

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
    """``max t : A w + B f >= t, sum w <= 1, w >= 0``.

    If columns are leaves (``signed``), ``|w| <= 1`` replaces the last two, and for every pair in
    ``order`` the first weight may not exceed the second. Rows that need not be strict (ties that
    the pruned model wins) only require ``>= 0``. The columns ``B`` (intercepts) are free of sign
    and cost nothing.

    Attributes
    ----------
    rows : float64 (n_rows, n_columns)
    free_rows : float64 (n_rows, n_free)
    strict : bool (n_rows,)
    magnified : float64 (n_rows,)
        The factor by which each row was scaled up.
    n_solved : int
    """

    def __init__(
        self, column_unit: IntArray, n_free: int, *, signed: bool = False, order: IntArray | None = None
    ) -> None:
        self.signed = signed
        self.order = np.zeros((0, 2), dtype=np.int64) if order is None else order
        self.column_unit = column_unit
        self.n_columns, self.n_free = len(column_unit), n_free
        self._lowest = -1.0 if signed else 0.0
        # one leaf of every tree counts at a point, so that margins grow with the trees
        self._reach = float(len(np.unique(column_unit))) if signed else 1.0
        self._is_by_unit = np.array_equal(column_unit, np.arange(column_unit.max(initial=-1) + 1))
        self.rows: FloatArray = np.zeros((0, self.n_columns))
        self.free_rows: FloatArray = np.zeros((0, n_free))
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
        add_order_rows(program, self.order, kept)

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
        permitted = support[self.column_unit]
        for column in np.flatnonzero(permitted != self._permitted).tolist():
            self.lp.set_bounds(column, *((self._lowest, 1.0) if permitted[column] else (0.0, 0.0)))
        self._permitted = permitted
        self.n_solved += 1
        solution = self.lp.solve(budget, at_least=SMALLEST_VALUE, is_feasible=True)
        if solution is None:
            return self.solve_whole(support, budget)
        if solution.value < SMALLEST_VALUE:
            return self._exclude(support, solution.dual, np.array(self.lp.active, dtype=np.int64))
        return Weights(*self._split(solution.x), solution.value)

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
        kept = np.flatnonzero(support[self.column_unit])
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
        kept = np.flatnonzero(support[self.column_unit])
        weights = np.zeros(self.n_columns)
        weights[kept] = np.maximum(solution.x[: len(kept)], self._lowest)
        return Weights(weights, solution.x[len(kept) : -1], solution.value)

    def _exclude(self, support: Support, dual: FloatArray, active: IntArray) -> Exclusion:
        # the duals of ">=" rows of a maximisation are non-positive
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

    def copy(self) -> WeightProgram:
        """The same rows in a program of its own, in which the same rows take part."""
        other = WeightProgram(self.column_unit, self.n_free, signed=self.signed, order=self.order)
        other.add_rows(self.rows, self.free_rows, self.strict, self.magnified)
        other.lp.join(np.array(self.lp.active, dtype=np.int64))
        return other


def add_order_rows(program: LinearProgram, order: IntArray, kept: IntArray) -> None:
    """``second - first >= 0`` for every pair of columns, over the kept ones; others are 0."""
    place = {int(column): index for index, column in enumerate(kept)}
    for first, second in order.tolist():
        own = [(place[column], entry) for column, entry in ((second, 1.0), (first, -1.0)) if column in place]
        program.add_row([index for index, _ in own], [entry for _, entry in own], 0.0)


def build_program(columns: Columns) -> WeightProgram:
    """A program without rows for some columns."""
    signed = columns.leaf_column is not None
    return WeightProgram(columns.column_unit, columns.n_free, signed=signed, order=columns.order)
