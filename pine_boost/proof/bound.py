"""Proof of "the fewest": rows of the game, integer multipliers, and a hitting set.

In come points that every pruned model must keep and non-negative integers; out go cuts, computed
in exact integers, and the fewest units that meet all of them. A cut is valid for any multipliers
p >= 0, so nothing here trusts who proposed them.

A pruned model of the form ``sum_m w_m f_m(x) + b`` with ``w >= 0`` keeps point i of question q iff
``a_i . w + s_i . b > 0`` (``>= 0`` where a tie is faithful). Add up rows with integers p_i >= 0, at
least one of a strict row: ``(pA) . w + (pS) . b > 0``. The constants b are free of cost and of
sign, so the sum says something about w only where ``pS = 0`` exactly; then some unit with
``(pA)_m > 0`` has ``w_m > 0``: it is kept. (With several cuts the distance of the cuts scales with
w: that constant is positive, and ``pS <= 0`` is enough for it.)

Where leaf values are free, a column is a leaf: 1 (or -1) where the point reaches it, its weight of
either sign. Then a column speaks only where ``(pA) != 0``, and some unit with such a leaf is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import IntArray
from pine_boost.proof.cpsat.solver import SolverSetting, answer_of, configured, solve
from pine_boost.proof.problem import Problem
from pine_boost.proof.question import Answer

Units = frozenset[int]
_COUNTING_STEPS = 100  # of a proof by counting, before the solver is asked: as long as it takes
_MANY_CUTS = 200  # fewer are soon covered, and the LP of all cuts would take longer


@dataclass(frozen=True)
class Cut:
    """At least one of ``units`` is kept by every model that keeps ``rows``.

    Attributes
    ----------
    units : frozenset of int
    rows : tuple of int
        Positions in the rows of a `Bound`.
    multipliers : tuple of int
        One positive integer per row.
    """

    units: Units
    rows: tuple[int, ...]
    multipliers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Bound:
    """Why no pruned model of this form has fewer than ``units`` units.

    Attributes
    ----------
    units : int
    states : int32 (n_rows, n_features)
        The point of each row.
    questions : int64 (n_rows,)
        The question of each row.
    cuts : tuple of Cut
    """

    units: int
    states: npt.NDArray[np.int32]
    questions: IntArray
    cuts: tuple[Cut, ...]


@dataclass(frozen=True, eq=False)
class ExactRows:
    """Rows of the game as integers, exactly.

    Attributes
    ----------
    entries : Python integers (n_rows, n_columns)
        What one unit of weight adds to each row's side, times a common power of two.
    unit : int64 (n_columns,)
        The unit of each column: itself, or that of a leaf.
    signed : bool
        Whether weights may have either sign: those of leaves.
    constants : Python integers (n_rows, n_free)
        The same for the constants of free sign.
    distance : Fractions (n_rows,) or None
        The same for the distance of several cuts, which is positive.
    strict : bool (n_rows,)
        Whether a tie loses the row.
    """

    entries: npt.NDArray[Any]
    unit: IntArray
    signed: bool
    constants: npt.NDArray[Any]
    distance: npt.NDArray[Any] | None
    strict: npt.NDArray[np.bool_]

    def units(self, multipliers: Sequence[int]) -> Units | None:
        """The units with a positive entry in the sum of rows; None where it says nothing of them.

        ``multipliers`` are whole numbers, one per row; a negative one proves nothing.
        """
        weight = np.array([int(p) for p in multipliers], dtype=object)
        if any(p < 0 for p in weight) or not any(p > 0 for p in weight[self.strict]):
            return None
        if any(entry != 0 for entry in weight @ self.constants):
            return None
        if self.distance is not None and weight @ self.distance > 0:
            return None
        total = weight @ self.entries
        speaks = np.array([entry > 0 or (self.signed and entry < 0) for entry in total], bool)
        return frozenset(int(unit) for unit in self.unit[speaks])


def exact_rows(
    problem: Problem, unit: IntArray, leaves: npt.NDArray[Any], questions: IntArray, *, by_leaf: bool = False
) -> ExactRows:
    """The rows of some points, each for one question.

    Parameters
    ----------
    unit : int64 (n_trees,)
        The unit of each tree: what one weight belongs to.
    leaves : (n_rows, n_trees)
    questions : (n_rows,)
        Index of each row's question.
    by_leaf : bool
        Leaf values are free: one column for every leaf, of trees with one output each.
    """
    forest = problem.forest
    n_rows, n_outputs = len(leaves), forest.n_outputs
    if by_leaf:
        whole = (forest.tree_output[:, None] == np.arange(n_outputs)).astype(np.int64)
        whole = np.broadcast_to(whole, (n_rows, *whole.shape)).astype(object)
    else:
        whole = problem.whole_leaves[leaves]
    of_trees: npt.NDArray[Any] = np.zeros(leaves.shape, dtype=object)
    entries: npt.NDArray[Any]
    constants = np.zeros((n_rows, n_outputs if forest.free_intercept else 0), dtype=object)
    cuts = [Fraction(cut) for cut in forest.decision.cuts]
    has_distance = len(cuts) > 1 and forest.free_intercept
    distance = np.zeros(n_rows, dtype=object) if has_distance else None
    one = np.array([[int(a == b) for b in range(n_outputs)] for a in range(n_outputs)], object)
    for index in np.unique(questions):
        question, own = problem.questions[index], questions == index
        of_trees[own] = question.side(whole[own])
        if forest.free_intercept:
            constants[own] = question.side(one)
        if distance is not None:
            distance[own] = -question.beyond_first(cuts)
    strict = problem.strict[questions]
    if by_leaf:
        entries = np.zeros((n_rows, problem.trees.n_leaves), dtype=object)
        entries[np.arange(n_rows)[:, None], leaves] = of_trees
        of_leaf = unit[problem.trees.leaf_tree]
        return ExactRows(entries, of_leaf, True, constants, distance, strict)
    entries = of_trees
    if not np.array_equal(unit, np.arange(len(unit))):
        entries = np.zeros((n_rows, int(unit.max()) + 1), dtype=object)
        for tree, own_unit in enumerate(unit):
            entries[:, own_unit] += of_trees[:, tree]
    return ExactRows(entries, np.arange(entries.shape[1]), False, constants, distance, strict)


def is_obliged(problem: Problem, states: npt.NDArray[Any], questions: IntArray) -> bool:
    """Whether the original decides the question of every row for certain."""
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    return bool(decided[np.arange(len(states)), questions].all())


def check_bound(
    problem: Problem, unit: IntArray, bound: Bound, budget: Budget, *, by_leaf: bool = False
) -> bool | None:
    """Prove a bound anew: every cut from its rows, then that fewer units do not meet them all.

    ``by_leaf``: of models whose leaf values are free. False where a row, a cut or the number is
    wrong; None where the budget ran out.
    """
    n_units = int(unit.max()) + 1
    if bound.units <= 1:
        return True  # no native library predicts without a tree
    if not is_obliged(problem, bound.states, bound.questions):
        return False
    leaves = problem.trees.leaves(bound.states)
    for cut in bound.cuts:
        if budget.is_over:
            return None
        rows = list(cut.rows)
        added = exact_rows(problem, unit, leaves[rows], bound.questions[rows], by_leaf=by_leaf)
        found = added.units(cut.multipliers)
        if found is None or not found <= cut.units:
            return False
    smaller = hitting_set([cut.units for cut in bound.cuts], n_units, bound.units - 1, budget)
    if smaller is None:
        return True
    return False if isinstance(smaller, np.ndarray) else None


def hitting_set(
    cuts: Sequence[Units], n_units: int, most: int, budget: Budget, excluded: Sequence[npt.NDArray[np.bool_]] = ()
) -> npt.NDArray[np.bool_] | bool | None:
    """A set of at most ``most`` units that meets every cut and is none of ``excluded``.

    None when there is none (without ``excluded`` a proof that more are needed), False when the
    budget ran out. Smaller and larger sets than an excluded one stay possible. Where a few steps
    of counting show that there is none, no solver is asked.
    """
    as_bits = [sum(1 << unit for unit in cut) for cut in minimal_cuts(cuts)]
    if _need_more(as_bits, most, iter(range(_COUNTING_STEPS))):
        return None
    model, keep = _cover(cuts, n_units)
    model.add(sum(keep) <= most)
    for support in excluded:
        pairs = zip(keep, support, strict=True)
        model.add_bool_or([~variable if kept else variable for variable, kept in pairs])
    solver = configured(_setting(len(cuts), len(cuts)), budget, budget.effort.master_effort)
    answer = answer_of(solve(solver, model))
    if answer is Answer.PROVED:
        return None
    if answer is Answer.UNKNOWN:
        return False
    return np.array([solver.boolean_value(x) for x in keep])


def _need_more(cuts: list[int], most: int, steps: Iterator[int]) -> bool:
    """Whether cuts (sets of units as bits, small ones first) surely need more than ``most`` units.

    So many that have no unit in common need one each; else whichever unit of the first cut is
    kept, the cuts without it must need more than the rest. False after so many steps: not known.
    """
    met = n_apart = 0
    for cut in cuts:
        if not cut & met:
            met |= cut
            n_apart += 1
    if n_apart > most:
        return True
    if not cuts or next(steps, None) is None:
        return False
    left = cuts[0]
    while left:
        unit = left & -left
        left ^= unit
        if not _need_more([cut for cut in cuts if not cut & unit], most - 1, steps):
            return False
    return True


def fewest_units(cuts: Sequence[Units], n_units: int, budget: Budget) -> int:
    """The size of a smallest set that meets every cut, or the solver's bound on it; at least 1."""
    model, keep = _cover(cuts, n_units)
    model.minimize(sum(keep))
    solver = configured(_setting(len(cuts), 0), budget, budget.effort.master_effort)
    if answer_of(solve(solver, model)) is not Answer.FOUND:
        return 1
    return max(1, int(np.ceil(solver.best_objective_bound - exact.WHOLE_NUMBER_NOISE)))


def minimal_cuts(cuts: Sequence[Units]) -> list[Units]:
    """Cuts that contain no other cut."""
    kept: list[Units] = []
    for cut in sorted(cuts, key=lambda c: (len(c), sorted(c))):
        if not any(other <= cut for other in kept):
            kept.append(cut)
    return kept


def _cover(cuts: Sequence[Units], n_units: int) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    model = cp_model.CpModel()
    keep = [model.new_bool_var("") for _ in range(n_units)]
    model.add_bool_or(keep)  # no native library predicts without a tree
    for cut in minimal_cuts(cuts):
        model.add_bool_or([keep[unit] for unit in sorted(cut)])
    return model, keep


def _setting(n_cuts: int, seed: int) -> SolverSetting:
    # clauses join the LP: 641 cuts of FICO 40x3, bound 18 after 0.3 deterministic s, without it
    # 4 of 18 after 2 s
    return SolverSetting("hitting-set", seed, 2 if n_cuts > _MANY_CUTS else 1)
