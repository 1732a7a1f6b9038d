"""The Pruner: which trees to keep, given the rows known so far.

In come the rows of the game; out go small sets of columns on which the game is still won, and a
lower bound on the size of any such set. Cuts are kept for the whole run: rows only ever grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from pine_boost.model.forest import IntArray
from pine_boost.proof.cpsat.solving import solve
from pine_boost.search.rows import RowPool
from pine_boost.search.weights import Cut, Weights

Support = npt.NDArray[np.bool_]
_JOINING = 6  # columns that a shake adds
_MANY_CUTS = 200  # fewer are soon covered, and the LP of all cuts would take longer
_TRIED = 8  # columns that a repair tries, those of the largest gain


class Pruner:
    """Proposes supports; holds the cuts.

    Attributes
    ----------
    cuts : list of frozenset of int
        At least one column of each is kept by every pruned model that keeps all rows.
    """

    def __init__(self, pool: RowPool) -> None:
        self.pool = pool
        self.n_columns = pool.game.n_units
        # No native library predicts without a tree, even where a constant would do.
        self.cuts: list[frozenset[int]] = [frozenset(range(self.n_columns))]
        self._known: set[frozenset[int]] = set(self.cuts)
        self.before_program: Callable[[], None] = _go_on  # a run checks its time here

    def solve(self, support: Support, *, records: bool = True) -> Weights | None:
        """Weights on a support, or None after recording the cut that excludes it."""
        if not support.any():
            return None
        result = self._solve(support)
        if isinstance(result, Weights):
            return result if result.weights.any() else _with_one_column(result, support)
        if records:
            self._record(result)
        return None

    def _solve(self, support: Support) -> Weights | Cut:
        self.before_program()
        return self.pool.program.solve(support)

    def lightest(self) -> Weights | None:
        """The L1 answer: the sparse vertex of the linear program over all columns."""
        return self.solve(np.ones(self.n_columns, dtype=bool))

    def eliminate(self, order_seed: int | None = None) -> Weights | None:
        """Backward elimination: drop the smallest weight that can go, until none can.

        A column whose removal loses the game now is needed by every smaller support too, so one
        pass is enough. ``order_seed`` shuffles the order for a second opinion.
        """
        weights = self.lightest()
        random = np.random.default_rng(order_seed) if order_seed is not None else None
        return None if weights is None else self._descend(weights, random)

    def shake(self, support: Support, seed: int) -> Support | None:
        """Another set nearby: a few columns join a set, then what can go goes, in random order.

        None where the set does not win. No cuts are recorded: there would be many, of little use.
        """
        random = np.random.default_rng(seed)
        grown = support.copy()
        grown[random.permutation(np.flatnonzero(~support))[:_JOINING]] = True
        weights = self.solve(grown, records=False)
        if weights is None:
            return None
        return self._descend(weights, random, records=False).weights > 0

    def _descend(
        self, weights: Weights, random: np.random.Generator | None, *, records: bool = True
    ) -> Weights:
        """Drop columns, light ones first, until each that is left is needed."""
        support = weights.weights > 0
        needed = np.zeros(self.n_columns, dtype=bool)
        while True:
            open_columns = np.flatnonzero(support & ~needed)
            if len(open_columns) == 0:
                return weights
            column = _next_column(weights, open_columns, random)
            trial = support.copy()
            trial[column] = False
            result = self.solve(trial, records=records)
            if result is None:
                needed[column] = True
            else:
                weights, support = result, trial & (result.weights > 0)

    def repair(self, support: Support, n_more: int = 1) -> Support | None:
        """A support plus the column that leaves the game most winnable, and more on request.

        Of an excluded support the columns of its cut join, those of the largest gain first; when
        no single one is enough, elimination tells later which were needed. A support that is not
        excluded gets those that weigh most when all are kept. None when no column is left.
        """
        result = self._solve(support)
        if isinstance(result, Cut):
            self._record(result)
            columns = result.columns[np.argsort(-result.gain, kind="stable")]
            columns = self._best_first(support, columns)
        else:
            everything = self._solve(np.ones(self.n_columns, dtype=bool))
            weight = everything.weights if isinstance(everything, Weights) else result.weights
            columns = np.flatnonzero(~support)
            columns = columns[np.argsort(-weight[columns], kind="stable")]
        if len(columns) == 0:
            return None
        repaired = support.copy()
        repaired[columns[:n_more]] = True
        return repaired

    def _best_first(self, support: Support, columns: IntArray) -> IntArray:
        """The one of the first few columns that helps a support most, then the others."""
        values = []
        for column in columns[:_TRIED]:
            trial = support.copy()
            trial[column] = True
            grown = self._solve(trial)
            values.append(grown.value if isinstance(grown, Weights) else 0.0)
        if not values:
            return columns
        best = columns[np.argmax(values)]
        return np.concatenate([[best], columns[columns != best]])

    def find_essential(self, kept: Support, *, to_the_end: bool = True) -> None:
        """Record every column without which the game is lost; only kept ones can be.

        Where not all are asked for, it ends with the first that can go.
        """
        for column in np.flatnonzero(kept):
            if frozenset([int(column)]) not in self._known:
                support = np.ones(self.n_columns, dtype=bool)
                support[column] = False
                if self.solve(support) is not None and not to_the_end:
                    return

    def strengthen(self, support: Support, seed: int) -> None:
        """Grow an excluded support while it stays excluded: the cuts it leaves are small.

        The dual of an excluded support excludes everything outside its cut at once, so only the
        columns of the cut are tried, in two random orders.
        """
        random = np.random.default_rng(seed)
        first = self._solve(support)
        if isinstance(first, Weights):
            return
        for _ in range(2):
            cut = first
            for column in random.permutation(first.columns):
                if column not in cut.columns:
                    continue
                trial = np.ones(self.n_columns, dtype=bool)
                trial[cut.columns] = False
                trial[column] = True
                grown = self._solve(trial)
                if isinstance(grown, Cut):
                    cut = grown
            self._record(cut)

    def hitting_set(
        self,
        n_columns: int,
        seconds: float,
        effort: float,
        excluded: Sequence[Support] = (),
    ) -> Support | bool | None:
        """A set of at most ``n_columns`` columns that meets every cut and is none of ``excluded``.

        None when there is none (without ``excluded`` a proof that more are needed), False when
        the budget ran out. Smaller and larger sets than an excluded one stay possible.
        """
        model, keep = self._master()
        model.add(sum(keep) <= n_columns)
        for support in excluded:
            pairs = zip(keep, support, strict=True)
            model.add_bool_or([~variable if kept else variable for variable, kept in pairs])
        solver = _master_solver(seconds, effort, len(self.cuts), seed=len(self.cuts))
        status = solve(solver, model)
        if status == cp_model.INFEASIBLE:
            return None
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return False
        return np.array([solver.boolean_value(x) for x in keep])

    def lower_bound(self, seconds: float, effort: float) -> int:
        """The size of a smallest set that meets every cut, or the solver's bound on it."""
        model, keep = self._master()
        model.minimize(sum(keep))
        solver = _master_solver(seconds, effort, len(self.cuts), seed=0)
        if solve(solver, model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return 1
        return max(1, int(np.ceil(solver.best_objective_bound - 1e-6)))

    def _master(self) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
        model = cp_model.CpModel()
        keep = [model.new_bool_var("") for _ in range(self.n_columns)]
        for cut in minimal_cuts(self.cuts):
            model.add_bool_or([keep[column] for column in sorted(cut)])
        return model, keep

    def _record(self, cut: Cut) -> None:
        key = frozenset(int(column) for column in cut.columns)
        if key not in self._known:
            self._known.add(key)
            self.cuts.append(key)


def _go_on() -> None:
    pass


def minimal_cuts(cuts: list[frozenset[int]]) -> list[frozenset[int]]:
    """Cuts that contain no other cut."""
    kept: list[frozenset[int]] = []
    for cut in sorted(cuts, key=lambda c: (len(c), sorted(c))):
        if not any(other <= cut for other in kept):
            kept.append(cut)
    return kept


def _with_one_column(weights: Weights, support: Support) -> Weights:
    """Constants alone win: one column joins, so lightly that every row stays on its side."""
    light = np.zeros(len(support))
    light[np.argmax(support)] = weights.value / 8  # entries of a row are at most 2
    return replace(weights, weights=light)


def _master_solver(seconds: float, effort: float, n_cuts: int, *, seed: int) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    if n_cuts > _MANY_CUTS:
        # clauses join the LP: 641 cuts of FICO 40x3, bound 18 after 0.3 deterministic s, without
        # it 4 of 18 after 2 s
        solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = effort
    solver.parameters.max_time_in_seconds = max(0.01, min(seconds, 1e8))
    return solver


def _next_column(
    weights: Weights, columns: npt.NDArray[np.int64], random: np.random.Generator | None
) -> int:
    weight = weights.weights[columns]
    if random is not None:
        weight = weight * random.uniform(0.2, 1.8, len(weight))
    return int(columns[np.argmin(weight)])
