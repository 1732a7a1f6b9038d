"""The Pruner: which units to keep, given the rows known so far.

It proposes small sets of units on which all rows can be kept, and cuts that exclude others. Cuts
hold for the whole run, since rows only ever grow.
"""

from __future__ import annotations

import numpy as np

from pine_boost.budget import Budget
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.proof.bound import Cut, Units
from pine_boost.search.constraints import Constraints
from pine_boost.search.lp import Exclusion, Weights
from pine_boost.search.lp_columns import Support

_JOINING = 6  # units that a perturbation adds
_TRIED = 8  # units of the largest gain that a repair tries


class Pruner:
    """Proposes supports; holds the cuts.

    Attributes
    ----------
    cuts : mapping of frozenset of int to rows
        At least one unit of each is kept by every pruned model that keeps all rows, as far as
        floats can tell, because of some rows of the linear program; `lower_bound` proves those
        that a bound rests on.
    proved : tuple of Cut
        The cuts of the last bound, in exact integers; their rows are those of the linear program.
    """

    def __init__(self, constraints: Constraints, budget: Budget, earlier: Pruner | None = None) -> None:
        self.constraints, self.budget = constraints, budget
        self.n_units = constraints.columns.n_units
        # No native library predicts without a tree, even where a constant would do.
        everything = frozenset(range(self.n_units))
        self.cuts: dict[Units, IntArray] = {everything: np.zeros(0, dtype=np.int64)}
        self.proved: tuple[Cut, ...] = ()
        if earlier is not None:  # of a search of the same model in a smaller region
            self.cuts.update(earlier.cuts)
            self.proved = earlier.proved
        self._last: tuple[bytes, int, Weights | Exclusion] | None = None
        self._eliminated = -1  # rows of the program at the last elimination

    def solve(self, support: Support, *, records: bool = True) -> Weights | None:
        """Weights on a support, or None after recording the cut that excludes it."""
        if not support.any():
            return None
        result = self._solve(support)
        if isinstance(result, Weights):
            return result
        if records:
            self._record(result)
        return None

    def _solve(self, support: Support) -> Weights | Exclusion:
        program = self.constraints.program
        key = support.tobytes()
        if self._last is not None and self._last[:2] == (key, len(program.rows)):
            return self._last[2]
        result = program.solve(support, self.budget)
        self._last = key, len(program.rows), result
        return result

    def misses_a_cut(self, support: Support) -> bool:
        """Whether a cut excludes a support."""
        kept = set(np.flatnonzero(support).tolist())
        return any(map(kept.isdisjoint, self.cuts))

    def exclusion(self, support: Support) -> IntArray:
        """The rows that exclude a support; none if it is enough."""
        result = self._solve(support)
        return result.rows if isinstance(result, Exclusion) else np.zeros(0, dtype=np.int64)

    def support_of(self, weights: Weights) -> Support:
        """The units that weights keep."""
        return self.constraints.columns.units_of(weights.weights)

    def lightest(self) -> Weights | None:
        """The L1 answer: the sparse vertex of the linear program over all units."""
        return self.solve(np.ones(self.n_units, dtype=bool))

    def eliminate(self, order_seed: int | None = None) -> Weights | None:
        """Backward elimination: drop the smallest weight that can go, until none can.

        A unit that is needed now is needed by every smaller support too, so one pass is enough.
        ``order_seed`` shuffles the order.
        """
        if order_seed is None:
            self._eliminated = len(self.constraints.program.rows)
        weights = self.lightest()
        random = np.random.default_rng(order_seed) if order_seed is not None else None
        return None if weights is None else self._descend(weights, random)

    @property
    def is_eliminated(self) -> bool:
        """Whether `eliminate` has already run in its default order on the current rows."""
        return self._eliminated == len(self.constraints.program.rows)

    def perturb(self, support: Support, seed: int) -> Support | None:
        """Perturb a set: a few units join, then those that can go are dropped in random order.

        None if the grown set is not enough. No cuts are recorded: there would be many, of little
        use.
        """
        random = np.random.default_rng(seed)
        grown = support.copy()
        grown[random.permutation(np.flatnonzero(~support))[:_JOINING]] = True
        weights = self.solve(grown, records=False)
        if weights is None:
            return None
        return self.support_of(self._descend(weights, random, records=False))

    def _descend(self, weights: Weights, random: np.random.Generator | None, *, records: bool = True) -> Weights:
        """Drop units, light ones first, until every remaining one is needed."""
        support = self.support_of(weights)
        needed = np.zeros(self.n_units, dtype=bool)
        while True:
            open_units = np.flatnonzero(support & ~needed)
            if len(open_units) == 0:
                return weights
            weight = self._unit_weight(weights)[open_units]
            if random is not None:
                weight = weight * random.uniform(0.2, 1.8, len(weight))
            unit = int(open_units[np.argmin(weight)])
            trial = support.copy()
            trial[unit] = False
            result = None if self.misses_a_cut(trial) else self.solve(trial, records=records)
            if result is None:
                needed[unit] = True
            else:
                weights, support = result, trial & self.support_of(result)

    def light_first(self, support: Support, units: IntArray) -> IntArray:
        """Units in ascending order of their weight on a support."""
        weights = self.solve(support, records=False)
        if weights is None:
            return units
        return units[np.argsort(self._unit_weight(weights)[units], kind="stable")]

    def _unit_weight(self, weights: Weights) -> FloatArray:
        """The total weight of each unit's columns."""
        heavy = np.zeros(self.n_units)
        np.add.at(heavy, self.constraints.columns.column_unit, np.abs(weights.weights))
        return heavy

    def repair(self, support: Support, n_more: int = 1) -> Support | None:
        """A support plus the ``n_more`` units that help it most.

        If the support is excluded, units of its cut join, those of the largest gain first; if no
        single one is enough, a later elimination shows which were needed. Otherwise those join
        that weigh most when all units are kept. None if no unit is left.
        """
        result = self._solve(support)
        if isinstance(result, Exclusion):
            self._record(result)
            units = result.units[np.argsort(-result.gain, kind="stable")]
            units = self._best_first(support, units)
        else:
            everything = self._solve(np.ones(self.n_units, dtype=bool))
            weight = self._unit_weight(everything if isinstance(everything, Weights) else result)
            units = np.flatnonzero(~support)
            units = units[np.argsort(-weight[units], kind="stable")]
        if len(units) == 0:
            return None
        repaired = support.copy()
        repaired[units[:n_more]] = True
        return repaired

    def _best_first(self, support: Support, units: IntArray) -> IntArray:
        """Of the first few units the one that helps a support most, then the others."""
        values = []
        for unit in units[:_TRIED]:
            trial = support.copy()
            trial[unit] = True
            grown = self._solve(trial)
            values.append(grown.value if isinstance(grown, Weights) else 0.0)
        if not values:
            return units
        best = units[np.argmax(values)]
        return np.concatenate([[best], units[units != best]])

    def find_essential(self, kept: Support, *, to_the_end: bool = True) -> None:
        """Record every unit that cannot be dropped, as a cut of its own; only kept ones are tried.

        Without ``to_the_end`` it stops at the first that can be dropped.
        """
        for unit in np.flatnonzero(kept):
            if frozenset([int(unit)]) not in self.cuts:
                support = np.ones(self.n_units, dtype=bool)
                support[unit] = False
                if self.solve(support) is not None and not to_the_end:
                    return

    def strengthen(self, support: Support, seed: int) -> None:
        """Grow an excluded support while it stays excluded, so that its cut becomes small.

        The dual of an excluded support excludes everything outside its cut at once, so only the
        units of the cut are tried, in random order.
        """
        random = np.random.default_rng(seed)
        cut = self._solve(support)
        if isinstance(cut, Weights):
            return
        for unit in random.permutation(cut.units):
            if unit not in cut.units:
                continue
            trial = np.ones(self.n_units, dtype=bool)
            trial[cut.units] = False
            trial[unit] = True
            grown = self._solve(trial)
            if isinstance(grown, Exclusion):
                cut = grown
        self._record(cut)

    def _record(self, excluded: Exclusion) -> None:
        key = frozenset(int(unit) for unit in excluded.units)
        self.cuts.setdefault(key, excluded.rows)
