"""Proof that no smaller model exists: cuts from Farkas multipliers in exact integers, and a hitting set.

A pruned model ``sum_m w_m f_m(x) + b`` with ``w >= 0`` keeps point i of question q iff ``a_i . w + s_i . b > 0``
(``>= 0`` if a tie is faithful). Add these rows with integers p_i >= 0, at least one of a strict row positive:
``(pA) . w + (pS) . b > 0``. The constants b are free in sign and cost nothing, so the sum constrains w only if
``pS = 0`` exactly; then some unit with ``(pA)_m > 0`` has ``w_m > 0`` and is kept. That is a cut, valid for any p: who
proposed the multipliers need not be trusted. (With several cuts, the distance between them scales with w; that constant
is positive, and ``pS <= 0`` is enough for it.)

If leaf values are free, a column is a leaf: its entry is 1 or -1 for points that reach it, and its weight has either
sign. A column then matters if ``(pA) != 0``, and some unit with such a leaf is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, Int32Array, IntArray
from pine_boost.proof.cpsat.solver import SolverSetting, answer_of, configured, solve
from pine_boost.proof.problem import Answer, Problem

Units = frozenset[int]
_MANY_CUTS = 200  # with fewer, the LP over all cuts costs more than it saves


@dataclass(frozen=True)
class Cut:
    """Every model that keeps ``rows`` keeps at least one of ``units``.

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
    states: Int32Array
    questions: IntArray
    cuts: tuple[Cut, ...]


@dataclass(frozen=True, eq=False)
class ExactRows:
    """The rows ``a_i . w + s_i . b`` as exact integers.

    Attributes
    ----------
    entries : Python integers (n_rows, n_columns)
        What one unit of weight adds to the side of each row, times a common power of two.
    unit : int64 (n_columns,)
        The unit of each column: the column itself, or the unit of a leaf.
    signed : bool
        Whether weights may have either sign (leaves).
    constants : Python integers (n_rows, n_free)
        Entries of the constants, which are free in sign.
    distance : Fractions (n_rows,) or None
        Entries of the distance between several cuts, which is positive.
    strict : bool (n_rows,)
        Whether a tie violates the row.
    """

    entries: npt.NDArray[Any]
    unit: IntArray
    signed: bool
    constants: npt.NDArray[Any]
    distance: npt.NDArray[Any] | None
    strict: BoolArray

    def units(self, multipliers: Sequence[int]) -> Units | None:
        """The units of the cut that these multipliers prove; None if they prove none.

        ``multipliers`` are integers, one per row; a negative one proves nothing.
        """
        weight = np.array([int(p) for p in multipliers], dtype=object)
        if any(p < 0 for p in weight) or not any(p > 0 for p in weight[self.strict]):
            return None
        if any(entry != 0 for entry in weight @ self.constants):
            return None
        if self.distance is not None and weight @ self.distance > 0:
            return None
        total = weight @ self.entries
        matters = np.array([entry > 0 or (self.signed and entry < 0) for entry in total], bool)
        return frozenset(int(unit) for unit in self.unit[matters])


def exact_rows(
    problem: Problem, unit: IntArray, leaves: npt.NDArray[Any], questions: IntArray, *, by_leaf: bool = False
) -> ExactRows:
    """The rows of points, each for one question.

    Parameters
    ----------
    unit : int64 (n_trees,)
        The unit (a tree or a round) of each tree.
    leaves : (n_rows, n_trees)
    questions : (n_rows,)
        Index of each row's question.
    by_leaf : bool
        Leaf values are free: one column per leaf, for trees with one output each.
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
    """Whether the original certainly decides for the question's side on every row."""
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    return bool(decided[np.arange(len(states)), questions].all())


def check_bound(
    problem: Problem, unit: IntArray, bound: Bound, budget: Budget, *, by_leaf: bool = False
) -> bool | None:
    """Check a bound: derive every cut from its rows, then prove that fewer units cannot meet all cuts.

    False if a row, a cut or the number is wrong; None if the budget ran out. ``by_leaf`` is for models whose
    leaf values are free.
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
    cuts: Sequence[Units], n_units: int, most: int, budget: Budget, excluded: Sequence[BoolArray] = ()
) -> BoolArray | bool | None:
    """A set of at most ``most`` units that meets every cut and is not one of ``excluded``.

    None if there is none (without ``excluded`` this proves that more units are needed), False if the budget ran
    out. Subsets and supersets of an excluded set stay possible.
    """
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


def fewest_units(cuts: Sequence[Units], n_units: int, budget: Budget) -> int:
    """The size of a smallest set that meets every cut, or a lower bound on it; at least 1."""
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
        if not any(map(cut.issuperset, kept)):
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
    # at level 2 clauses join the LP: 641 cuts of FICO 40x3 have bound 18 after 0.3 deterministic s, without
    # the LP 4 of 18 after 2 s
    return SolverSetting("hitting-set", seed, 2 if n_cuts > _MANY_CUTS else 1)
