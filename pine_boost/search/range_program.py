"""Leaf values with few different ones below a split: what the search over leaves proposes with.

In come rows over leaves and the splits that may stay; out go leaf values that keep every row with a
margin of 1 and whose ranges below splits are small, or nothing where there are none. A split whose
leaves all agree can go. Floats propose here; integers decide later.
"""

from __future__ import annotations

import numpy as np
from ortools.linear_solver import pywraplp

from pine_boost.budget import Budget
from pine_boost.model.exact import PROGRAM_NOISE
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.search.linear_program import LinearProgram
from pine_boost.search.splits import Kept, Splits

_ROWS_PER_PASS = 60
# as in `linear_program`: the last basis stays dual feasible when rows and bounds change
_WARM = "use_dual_simplex: true use_preprocessing: false max_number_of_iterations: "
_GLOP_ITERATIONS = 10  # for every leaf
_MAX_PASSES = 100


class RangeProgram:
    """``min sum c (high - low) : A v + B f >= 1``, with high and low of the leaves below a split.

    Of ``A`` only the rows that a solution breaks take part. The first leaf of every tree is 0:
    constants are free, and a tree whose leaves agree is gone.

    Attributes
    ----------
    values : float64 (n_leaves,)
        Of the last solution.
    """

    def __init__(self, rows: LinearProgram, splits: Splits) -> None:
        self._rows, self._splits = rows, splits
        self._is_active = np.zeros(0, dtype=bool)
        self._kept: Kept = np.ones(len(splits.node), dtype=bool)
        self._cost: FloatArray = np.ones(len(splits.node))
        self.values: FloatArray = np.zeros(len(splits.leaf_node))
        self.n_solved = 0
        self._build()

    @property
    def active(self) -> IntArray:
        """The rows that took part."""
        return np.flatnonzero(self._is_active)

    def permit(self, kept: Kept) -> None:
        """Leaves below a split that is not kept must agree."""
        self._kept = kept
        infinity = self._solver.infinity()
        for constraint, may_differ in zip(self._range, kept, strict=True):
            constraint.SetUb(infinity if may_differ else 0.0)

    def ask(self, cost: FloatArray) -> None:
        """What the range below each split costs."""
        self._cost = cost
        objective = self._solver.Objective()
        for high, low, each in zip(self._high, self._low, cost, strict=True):
            objective.SetCoefficient(high, float(each))
            objective.SetCoefficient(low, -float(each))

    def solve(self, budget: Budget, *, is_certain: bool = False) -> bool:
        """Whether there are such leaf values, as far as floats can tell.

        ``is_certain``: there are; GLOP is asked again without its last basis where it finds none.
        """
        rows, is_fresh = self._rows, False
        fresh = np.zeros(len(rows.rows) - len(self._is_active), dtype=bool)
        self._is_active = np.concatenate([self._is_active, fresh])
        self.n_solved += 1
        for _ in range(_MAX_PASSES):
            budget.check()
            self._solver.SetTimeLimit(int(min(max(1000 * budget.remaining, 100), 1e9)))
            status = self._solver.Solve()
            if status != pywraplp.Solver.OPTIMAL:
                if is_fresh or (status == pywraplp.Solver.INFEASIBLE and not is_certain):
                    return False
                self._rebuild()  # GLOP can fail from an old basis; without one it seldom does
                is_fresh = True
                continue
            values = np.array([variable.solution_value() for variable in self._leaves])
            free = np.array([variable.solution_value() for variable in self._free])
            slack = rows.rows @ values + rows.free_rows @ free - rows.strict
            violated = np.flatnonzero((slack < -PROGRAM_NOISE) & ~self._is_active)
            if len(violated) == 0:
                self.values = values
                return True
            worst = np.argsort(slack[violated], kind="stable")[:_ROWS_PER_PASS]
            self._activate(violated[worst])
        return False

    def _rebuild(self) -> None:
        active = self.active
        self._build()
        self.permit(self._kept)
        self.ask(self._cost)
        self._activate(active)

    def _activate(self, indices: IntArray) -> None:
        rows, infinity = self._rows, self._solver.infinity()
        for index in indices:
            constraint = self._solver.Constraint(float(rows.strict[index]), infinity)
            for entries, variables in ((rows.rows[index], self._leaves), (rows.free_rows[index], self._free)):
                for column in np.flatnonzero(entries):
                    constraint.SetCoefficient(variables[column], float(entries[column]))
        self._is_active[indices] = True

    def _build(self) -> None:
        splits = self._splits
        solver = self._solver = pywraplp.Solver.CreateSolver("GLOP")
        most = _GLOP_ITERATIONS * (100 + len(splits.leaf_node))
        solver.SetSolverSpecificParametersAsString(f"{_WARM}{most}")
        infinity = solver.infinity()
        self._leaves = [solver.NumVar(-infinity, infinity, "") for _ in splits.leaf_node]
        for leaf in np.unique(splits.leaf_tree, return_index=True)[1]:
            self._leaves[leaf].SetBounds(0.0, 0.0)
        self._free = [solver.NumVar(-infinity, infinity, "") for _ in range(self._rows.n_free)]
        self._high = [solver.NumVar(-infinity, infinity, "") for _ in splits.node]
        self._low = [solver.NumVar(-infinity, infinity, "") for _ in splits.node]
        forest = splits.forest
        position = {int(node): split for split, node in enumerate(splits.node)}
        leaf_of = {int(node): leaf for leaf, node in enumerate(splits.leaf_node)}
        self._range: list[pywraplp.Constraint] = []
        for split, node in enumerate(splits.node):
            high, low = self._high[split], self._low[split]
            for child in (int(forest.left[node]), int(forest.right[node])):
                if child in position:
                    below = self._high[position[child]], self._low[position[child]]
                else:
                    below = self._leaves[leaf_of[child]], self._leaves[leaf_of[child]]
                for larger, smaller in ((high, below[0]), (below[1], low)):
                    row = solver.Constraint(0.0, infinity)
                    row.SetCoefficient(larger, 1.0)
                    row.SetCoefficient(smaller, -1.0)
            row = solver.Constraint(-infinity, infinity)
            row.SetCoefficient(high, 1.0)
            row.SetCoefficient(low, -1.0)
            self._range.append(row)
        for first, second in self._rows.order.tolist():
            row = solver.Constraint(0.0, infinity)
            row.SetCoefficient(self._leaves[second], 1.0)
            row.SetCoefficient(self._leaves[first], -1.0)
        solver.Objective().SetMinimization()
