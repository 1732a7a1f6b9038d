"""Prove a lower bound on the number of units with cuts in exact integers.

Cuts that only floats support are never part of a bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from pine_boost.budget import SECONDS, Budget, OutOfEffort, OutOfTime
from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.proof.bound import Bound, Cut, ExactRows, Units, exact_rows, fewest_units, hitting_set, minimal_cuts
from pine_boost.search.constraints import Constraints
from pine_boost.search.lp import LinearProgram, RowPool, Solver, UnsolvedProgramError, Weights
from pine_boost.search.lp_columns import Support
from pine_boost.search.pruner import Pruner

_PER_ROUND = 6  # cuts that are proved before the next hitting set
_MOST_ATTEMPTS = 5  # at excluding one set


def prove_bound(
    pruner: Pruner, target: int, known: Bound | None, budget: Budget, most_rounds: int | None = None
) -> Bound | None:
    """The largest bound up to ``target`` that exact cuts give; None if it is 1.

    Finds a set of fewer than ``target`` units that meets all cuts proved so far, proves a few of the
    believed cuts that it misses, and so on until there is no such set.
    """
    if target <= 1:
        return known
    n_units = pruner.n_units
    proved = _Proved(pruner.constraints, list(pruner.proved))
    smaller: Support | bool | None = False
    try:
        for cut in [cut for cut in pruner.cuts if len(cut) == 1]:
            proved.prove(cut, pruner.cuts[cut], budget)
        for round_number in itertools.islice(itertools.count(), most_rounds):
            budget.check()
            smaller = small_cover(proved.units, n_units, target - 1, round_number)
            if smaller is None:  # only the solver can say that there is none
                smaller = hitting_set(proved.units, n_units, target - 1, budget)
            if not isinstance(smaller, np.ndarray):
                break
            if not _exclude(pruner, proved, smaller, round_number, budget):
                break
    except (OutOfTime, OutOfEffort, UnsolvedProgramError):
        smaller = False
    units = target if smaller is None else min(target, _fewest(proved.units, n_units, budget))
    if known is not None and units <= known.units:
        return known
    if units <= 1:
        return None
    bound = proved.bound(units)
    pruner.proved = tuple(proved.cuts)
    return bound


def _exclude(pruner: Pruner, proved: _Proved, support: Support, seed: int, budget: Budget) -> bool:
    """Prove cuts that a set misses: believed ones, then its own, then stronger ones."""
    kept = frozenset(np.flatnonzero(support).tolist())
    for attempt in range(_MOST_ATTEMPTS):
        missed = sorted((c for c in pruner.cuts if not c & kept and c not in proved.tried), key=len)
        for cut in missed[:_PER_ROUND]:
            proved.prove(cut, pruner.cuts[cut], budget)
        if any(not units & kept for units in proved.units):
            return True
        if missed:
            continue
        if pruner.solve(support) is not None:
            return False  # the set is enough after all
        against = frozenset(range(pruner.n_units)) - kept
        if against not in proved.tried and against not in pruner.cuts:
            believed = pruner.exclusion(support)
            proved.prove(against, believed, budget)
        else:
            pruner.strengthen(support, seed + attempt)
    return False


def _fewest(cuts: Sequence[Units], n_units: int, budget: Budget) -> int:
    """The bound that the proved cuts give; it may take a moment after the deadline."""
    moment = SECONDS["bound after deadline"]
    budget = budget if budget.remaining > moment else Budget.of(moment, budget.effort)
    return fewest_units(cuts, n_units, budget)


@dataclass(eq=False)
class _Proved:
    """Exact cuts; their rows are those of the linear program until a bound numbers them."""

    constraints: Constraints
    cuts: list[Cut]
    tried: set[Units] = field(default_factory=set)

    @property
    def units(self) -> list[Units]:
        return [cut.units for cut in self.cuts]

    def prove(self, cut: Units, speaking: IntArray, budget: Budget) -> None:
        """Try to prove a believed cut from the rows that support it."""
        self.tried.add(cut)
        support = np.ones(self.constraints.columns.n_units, dtype=bool)
        support[sorted(cut)] = False
        found = exclude(self.constraints, support, speaking, budget)
        if found is not None and len(found.units) < len(support):
            self.cuts.append(found)

    def bound(self, units: int) -> Bound:
        """The bound with the cuts that it needs: none that contains another."""
        first = {cut.units: cut for cut in reversed(self.cuts)}  # the first proof of each
        self.cuts = [first[needed] for needed in minimal_cuts(list(first))]
        rows = list(dict.fromkeys(row for cut in self.cuts for row in cut.rows))
        position = {row: number for number, row in enumerate(rows)}
        numbered = [replace(cut, rows=tuple(position[row] for row in cut.rows)) for cut in self.cuts]
        of = self.constraints
        return Bound(units, of.states[of.point_of[rows]], of.question_of[rows], tuple(numbered))


# Integer Farkas multipliers: rows added up so that they exclude a set of units. A linear program proposes multipliers
# that leave every excluded column some slack, so that rounding to integers does no harm. If a column can have none,
# the multipliers of a few rows are computed exactly from the others. `proof.bound` decides what they prove.
_ROWS_PER_PASS = 10
_MOST_PASSES = 5
_ITERATIONS = 2000  # of GLOP


def exclude(constraints: Constraints, support: Support, first: IntArray, budget: Budget) -> Cut | None:
    """The best exact cut against a support, or None; its rows are those of the linear program.

    ``first`` are the rows of the linear program that exclude the support. Others join as long as
    the cut still contains units of the support.
    """
    best: Cut | None = None
    active = np.unique(first)
    for _ in range(_MOST_PASSES):
        budget.check()
        solved = _solve(constraints, support, active, budget)
        if solved is None:
            return best
        dual, weights = solved
        chosen = np.flatnonzero(dual > 0)
        found = _exact_cut(constraints, support, active[chosen], dual[chosen], budget)
        if found is not None and (best is None or len(found.units) < len(best.units)):
            best = found
        if best is not None and not any(support[unit] for unit in best.units):
            return best
        missing = _violated(constraints, weights, active)
        if len(missing) == 0:
            return best
        active = np.union1d(active, missing)
    return best


def _solve(
    constraints: Constraints, support: Support, active: IntArray, budget: Budget
) -> tuple[FloatArray, Weights] | None:
    """Multipliers of the active rows, and weights of all columns that show which other rows may help.

    ``max slack : p A + slack <= 0 on the support, p B = 0, sum p = 1, p >= 0`` is solved through
    its dual, ``max t - d * sum u : A w + B f >= t, w + u >= 1``, whose violated rows are those to
    add. ``d`` is the slack that every column gets if it can have it (`exact.CUT_SLACK`).
    """
    program, columns = constraints.program, constraints.columns
    kept = np.flatnonzero(support[columns.column_unit])
    # the distance of several cuts is positive: it is excluded like a column
    n_distances = 1 if len(constraints.problem.forest.decision.cuts) > 1 and columns.n_free else 0
    n_constants = columns.n_free - n_distances
    free = program.free_rows[active]
    of_kept = program.rows.take(active, axis=0).take(kept, axis=1)
    entries = np.hstack([of_kept, free[:, n_constants:], free[:, :n_constants]]) / program.magnified[active, None]
    n_entries, n_weights = entries.shape[1], len(kept) + n_distances
    # leaves (``signed``) cancel exactly, without slack
    slack_columns = np.arange(len(kept) if program.signed else 0, n_weights)
    cost = np.concatenate([np.zeros(n_entries), [1.0], np.full(len(slack_columns), -exact.CUT_SLACK)])
    lower, upper = np.full(len(cost), -np.inf), np.full(len(cost), np.inf)
    lower[slack_columns], lower[n_entries + 1 :] = 0.0, 0.0
    upper[n_entries:] = 1.0
    pool = RowPool(np.hstack([entries, -program.strict[active, None].astype(np.float64)]), np.zeros(len(active)))
    farkas = LinearProgram(
        cost, lower, upper, pool, maximize=True, solver=Solver.GLOP, most_iterations=_ITERATIONS, most_passes=1
    )
    for number, column in enumerate(slack_columns.tolist()):
        farkas.add_row([column, n_entries + 1 + number], [1.0, 1.0], 1.0)
    farkas.join(np.arange(len(active)))
    solution = farkas.solve(budget)
    if solution is None or solution.x[n_entries] > exact.PROGRAM_NOISE:
        return None
    of_columns = np.zeros(program.n_columns)
    of_columns[kept] = solution.x[: len(kept)]
    distances, constants = np.split(solution.x[len(kept) : n_entries], [n_distances])
    weights = Weights(of_columns, np.concatenate([constants, distances]), float(solution.x[n_entries]))
    return np.abs(solution.dual), weights


def _violated(constraints: Constraints, found: Weights, active: IntArray) -> IntArray:
    """The rows that weights violate most: with them the cut may become smaller."""
    program = constraints.program
    slack = program.sides(found.weights, found.free) / program.magnified - found.value * program.strict
    slack[active] = 0.0
    largest = max(1.0, *np.abs(found.weights), *np.abs(found.free))
    violated = np.flatnonzero(slack < -exact.PROGRAM_NOISE * largest)
    return violated[np.argsort(slack[violated], kind="stable")[:_ROWS_PER_PASS]]


def _exact_cut(
    constraints: Constraints, support: Support, chosen: IntArray, dual: FloatArray, budget: Budget
) -> Cut | None:
    """What the multipliers prove after rounding to integers."""
    if len(chosen) == 0:
        return None
    points, questions = constraints.point_of[chosen], constraints.question_of[chosen]
    whole = exact_rows(
        constraints.problem,
        constraints.columns.tree_unit,
        constraints.leaves[points],
        questions,
        by_leaf=constraints.program.signed,
    )
    scaled = np.rint(np.ldexp(dual / dual.max(), exact.MULTIPLIER_BITS))
    best: Cut | None = None
    for vanishing in _nearly_zero(whole, scaled, support):
        multipliers = _cancel(whole, [int(p) for p in scaled], vanishing, budget)
        units = None if multipliers is None else whole.units(multipliers)
        if multipliers is None or units is None:
            continue
        if best is None or len(units) < len(best.units):
            used = [k for k, multiplier in enumerate(multipliers) if multiplier]
            best = Cut(units, tuple(chosen[used].tolist()), tuple(multipliers[k] for k in used))
        if not any(support[unit] for unit in units):
            break
    return best


def _nearly_zero(whole: ExactRows, scaled: FloatArray, support: Support) -> list[list[int]]:
    """Columns of the support whose sum must be made exactly zero: none, those above zero, all near zero.

    Rounding alone is tried first: often no sum over the support is above zero. For leaves, all that
    the rows reach must vanish.
    """
    if whole.signed:
        reached = (whole.entries != 0).any(axis=0)
        return [[int(k) for k in np.flatnonzero(support[whole.unit] & reached)]]
    gain = scaled.astype(object) @ whole.entries
    limit = exact.CUT_SLACK / 4 * float(scaled.sum())
    largest = np.abs(whole.entries).max(axis=0)
    near = [int(m) for m in np.flatnonzero(support) if abs(gain[m]) <= limit * largest[m]]
    return [[], [m for m in near if gain[m] > 0], near]


def _cancel(whole: ExactRows, rounded: list[int], vanishing: list[int], budget: Budget) -> list[int] | None:
    """Multipliers near the rounded ones for which the free columns and ``vanishing`` sum to exactly zero.

    The multipliers of as many rows are computed from those of the others; None if one of them would
    be negative.
    """
    weight = np.array(rounded, dtype=object)
    columns = np.hstack([whole.constants, whole.entries[:, vanishing]])
    if columns.shape[1] == 0 or not any(weight @ columns):
        return rounded
    basis, independent = _basis(columns, weight)
    rest = [k for k in range(len(weight)) if k not in set(basis)]
    missing = -(weight[rest] @ columns[np.ix_(rest, independent)])
    solved = _solve_exactly(columns[np.ix_(basis, independent)].T, missing, budget)
    if solved is None or any(p < 0 for p in solved):
        return None
    common = math.lcm(*(p.denominator for p in solved))
    multipliers = [int(p) * common for p in weight]
    for row, p in zip(basis, solved, strict=True):
        multipliers[row] = int(p * common)
    divisor = math.gcd(*multipliers)
    multipliers = [p // divisor for p in multipliers] if divisor else multipliers
    too_long = max(multipliers).bit_length() > exact.LONGEST_MULTIPLIER
    return None if too_long else multipliers


def _basis(columns: npt.NDArray[Any], weight: npt.NDArray[Any]) -> tuple[list[int], list[int]]:
    """Rows with large multipliers, and columns, that form a regular square matrix."""
    scale = np.maximum(np.abs(columns).max(axis=0), 1)
    real = (columns / scale).astype(np.float64)
    weighted = real * (weight / max(weight)).astype(np.float64)[:, None]
    triangle, order = qr(weighted.T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.count_nonzero(diagonal > exact.PROGRAM_NOISE * diagonal.max(initial=0.0)))
    basis = [int(row) for row in order[:rank]]
    _, order = qr(real[basis], mode="r", pivoting=True)
    return basis, [int(column) for column in order[:rank]]


def _solve_exactly(matrix: npt.NDArray[Any], right: npt.NDArray[Any], budget: Budget) -> list[Fraction] | None:
    """Fraction-free elimination (Bareiss) on integers; None if the matrix is singular.

    Every division below is exact.
    """
    n, before = len(right), 1
    table = np.array([[*map(int, row), int(y)] for row, y in zip(matrix, right, strict=True)], dtype=object).reshape(
        n, n + 1
    )
    for column in range(n):
        pivot = next((k for k in range(column, n) if table[k, column]), None)
        if pivot is None:
            return None
        table[[column, pivot]] = table[[pivot, column]]
        own, diagonal = table[column].copy(), table[column, column]
        for row in range(n):
            budget.check()
            if row != column:
                table[row] = (table[row] * diagonal - own * table[row, column]) // before
        before = diagonal
    return [Fraction(int(table[row, n]), int(before)) for row in range(n)]


_ATTEMPTS = 4


def small_cover(
    cuts: Iterable[Units], n_units: int, most: int, seed: int, excluded: Sequence[Support] = ()
) -> Support | None:
    """A set of ``most`` units that meets all cuts and is not in ``excluded``, or None.

    Greedily adds the unit that meets most of the remaining cuts, short cuts counting more; then
    removes superfluous units and fills up with units that meet many cuts.
    """
    member: FloatArray = np.zeros((0, n_units))
    rows = [cut for cut in cuts if len(cut) < n_units]
    if rows:
        member = np.zeros((len(rows), n_units))
        lengths = [len(row) for row in rows]
        units = np.fromiter(itertools.chain.from_iterable(rows), np.int64, sum(lengths))
        member[np.repeat(np.arange(len(rows)), lengths), units] = 1.0
    random = np.random.default_rng(seed)
    weight = 1.0 / np.maximum(member.sum(axis=1), 1.0) ** 2
    for attempt in range(_ATTEMPTS):
        liking = random.uniform(1.0, 1.0 + 0.3 * attempt, n_units)
        cover = _greedy(member, weight, liking, most)
        if cover is None:
            continue
        popular = np.argsort(-(weight @ member) * liking, kind="stable")
        cover[popular[~cover[popular]][: most - np.count_nonzero(cover)]] = True
        if cover.any() and not any((cover == other).all() for other in excluded):
            return cover
    return None


def _greedy(member: FloatArray, weight: FloatArray, liking: FloatArray, most: int) -> Support | None:
    cover = np.zeros(member.shape[1], dtype=bool)
    left = weight.copy()
    met = np.zeros(len(member))
    order: list[int] = []
    while left.any():
        if len(order) > most + 2:
            return None
        unit = int(np.argmax((left @ member) * liking))
        order.append(unit)
        cover[unit] = True
        met += member[:, unit]
        left[member[:, unit] > 0] = 0.0
    for unit in order:  # early choices are often superfluous in the end
        without = met - member[:, unit]
        if (without > 0).all():
            cover[unit], met = False, without
    return cover if np.count_nonzero(cover) <= most else None
