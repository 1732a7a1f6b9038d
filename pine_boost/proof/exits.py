"""Checks the exits of a proved scorer: recomputes in integers what the remaining trees can add.

The builder of the exits is not believed. Every stored exit must be no tighter than the bound that
is computed here from the forest alone; then no completion changes the class of an input that exits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from pine_boost.kernels.flat_forest import ExitPlan, NativeSum
from pine_boost.model.exact import UNIT_ROUNDOFF, certain_distance, integer_scale, largest_leaf
from pine_boost.model.forest import Forest, IntArray
from pine_boost.model.reach import find_live
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import forest_subtrees

# Integers that bound what a tree can add, times 2**scale, add up to less than this in int64.
_LIMIT = 2**60


def faults_of(forest: Forest, plan: ExitPlan) -> list[str]:
    """What is wrong with a plan; empty exactly where its exits are proved.

    Let P be the float64 sum of the trees seen and R what the others add, in exact arithmetic. The
    native margin lies within the rounding of P + R (`certain_distance`, the guard of the decision
    included), and R lies between the sums of the least and largest leaves of the trees not seen,
    over the leaves that some input reaches. So P > high implies a native class above the cut if
    high >= cut + rounding - least R; the other exits are alike.
    """
    faults = list(_shape_faults(forest, plan))
    if faults:
        return faults
    if not _same_bits(plan.value[:, 0, :], forest.value[forest_subtrees(forest).leaf_node]):
        faults.append("a stage value is not the leaf value of the model")
    if not _same_bits(plan.intercept[0], forest.intercept):
        faults.append("the intercept is not the model's")
    scale, lowest, highest = _integer_ranges(forest)
    if forest.n_outputs == 1:
        faults += _cut_faults(forest, plan, scale, lowest, highest)
    else:
        faults += _gap_faults(forest, plan, scale, lowest, highest)
    return faults


def truncation_faults(forest: Forest, kept: IntArray, native: NativeSum, tolerance: float) -> list[str]:
    """What is wrong with a scorer that evaluates only some trees of a value model; empty exactly where it is proved.

    The scorer adds the leaves ``native.value`` of the trees ``kept`` to ``native.intercept``. Let R be what the other
    trees add, over the leaves that some input reaches: in exact arithmetic the model's sum minus the scorer's is
    (model's intercept - scorer's intercept) + R, up to the difference of the leaf values themselves. Both sums are
    rounded (`truncation_rounding`), and divided by ``native.divisor`` to give the raw value.
    """
    if forest.n_outputs != 1 or forest.decides:
        return ["only the trees of a single value can be left out"]
    if len(kept) == 0 or np.any(np.diff(kept) <= 0) or kept[0] < 0 or kept[-1] >= forest.n_trees:
        return ["the trees that are kept are not ascending trees of the model"]
    subtrees = forest_subtrees(forest)
    leaves = np.flatnonzero(np.isin(subtrees.leaf_tree, kept))
    if native.value.shape != (len(leaves), 1) or native.intercept.shape != (1,) or not np.isfinite(native.intercept[0]):
        return ["the leaf values are not those of the trees that are kept"]
    scale, lowest, highest = _integer_ranges(forest)
    unit = Fraction(2) ** scale
    rest = np.setdiff1d(np.arange(forest.n_trees), kept)
    shift = Fraction(float(forest.intercept[0])) - Fraction(float(native.intercept[0]))
    ends = [shift + int(bound[rest].sum()) / unit for bound in (lowest, highest)]
    apart = np.abs(native.value[:, 0].astype(np.float64) - forest.value[subtrees.leaf_node[leaves], 0])
    rounding = truncation_rounding(forest, float(native.intercept[0]), native.divisor) + 2 * float(apart.sum())
    if max(map(abs, ends)) + Fraction(rounding) > Fraction(tolerance) * Fraction(native.divisor):
        return [f"the trees that are left out can move the raw value by more than {tolerance!r}"]
    return []


def truncation_rounding(forest: Forest, intercept: float, divisor: float) -> float:
    """Bound on the rounding of a model's sum and of a sum of some of its trees from another intercept.

    n additions in any order err by at most n u / (1 - n u) times the sum of the magnitudes, and each quotient by u
    times itself; both sums are bounded by the larger intercept plus the largest leaf of every tree. The factor
    1 + 2**-10 covers leaf values that the library rounds to its own type, and the rounding of this computation.
    """
    unit = UNIT_ROUNDOFF[forest.arithmetic]
    n_roundings = (forest.n_trees + 1 + (divisor != 1.0)) * unit
    total = max(abs(float(forest.intercept[0])), abs(intercept)) + float(largest_leaf(forest).sum())
    return 2 * n_roundings / (1 - n_roundings) * total * (1 + 2.0**-10) + forest.slack


def _same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.shape == expected.shape and found.astype(np.float64).tobytes() == expected.astype(np.float64).tobytes()


def _shape_faults(forest: Forest, plan: ExitPlan) -> Iterator[str]:
    n_trees, n_cuts = forest.n_trees, len(forest.decision.cuts)
    if not np.array_equal(np.sort(plan.order), np.arange(n_trees)):
        yield "the order does not visit every tree once"
    if plan.n_stages == 0 or np.any(np.diff(plan.stage) <= 0) or plan.stage[0] < 1 or plan.stage[-1] != n_trees:
        yield "the stages do not ascend to the number of trees"
    if plan.n_sets != 1 or np.any(plan.stage_set != 0) or plan.intercept.shape != (1, forest.n_outputs):
        yield "a proved scorer has one set of leaf values"
    several = forest.n_outputs if forest.n_outputs > 1 else 0
    shapes = {
        "low": (plan.low.shape, (plan.n_stages, n_cuts)),
        "high": (plan.high.shape, (plan.n_stages, n_cuts)),
        "gap": (plan.gap.shape, (plan.n_stages if several else 0, forest.n_outputs, forest.n_outputs)),
    }
    for name, (found, expected) in shapes.items():
        if found != expected:
            yield f"{name} has the shape {found}, expected {expected}"


def _integer_ranges(forest: Forest) -> tuple[int, IntArray, IntArray]:
    """Exponent s, and per tree integers below and above 2**s times what it can add.

    One output: (n_trees,). Several: (n_trees, leader, rival), to the rival's sum minus the leader's.
    """
    scale = integer_scale(2 * float(largest_leaf(forest).sum()) + 1.0, _LIMIT // 4) - 1
    nodes = np.flatnonzero(find_live(forest) & (forest.kind == SplitKind.LEAF))
    first = np.searchsorted(nodes, forest.tree_offset[:-1])
    # multiplying by a power of two is exact, floor and ceil bound from both sides
    scaled = np.ldexp(forest.leaf_vectors()[nodes], scale)
    below, above = np.floor(scaled).astype(np.int64), np.ceil(scaled).astype(np.int64)
    n = forest.n_outputs
    if n == 1:
        return scale, np.minimum.reduceat(below[:, 0], first), np.maximum.reduceat(above[:, 0], first)
    lowest = np.zeros((forest.n_trees, n, n), dtype=np.int64)
    highest = np.zeros((forest.n_trees, n, n), dtype=np.int64)
    for leader in range(n):
        lowest[:, leader] = np.minimum.reduceat(below - above[:, leader : leader + 1], first, axis=0)
        highest[:, leader] = np.maximum.reduceat(above - below[:, leader : leader + 1], first, axis=0)
    return scale, lowest, highest


def _rest(added: IntArray, plan: ExitPlan) -> IntArray:
    """Sums over the trees that a stage has not seen."""
    total = np.zeros((len(added) + 1, *added.shape[1:]), dtype=np.int64)
    total[:-1] = np.cumsum(added[plan.order][::-1], axis=0)[::-1]
    return np.asarray(total[plan.stage])


def _cut_faults(forest: Forest, plan: ExitPlan, scale: int, lowest: IntArray, highest: IntArray) -> Iterator[str]:
    rounding, unit = Fraction(certain_distance(forest)), Fraction(2) ** scale
    least, most = _rest(lowest, plan), _rest(highest, plan)
    for stage in range(plan.n_stages):
        for c, cut in enumerate(forest.decision.cuts):
            low, high = float(plan.low[stage, c]), float(plan.high[stage, c])
            where = f"after {plan.stage[stage]} trees"
            if math.isnan(low) or math.isnan(high):
                yield f"an exit {where} is not a number"
                continue
            if high == -math.inf or low == math.inf:
                yield f"an exit {where} lets every input go"
                continue
            if high != math.inf and Fraction(high) < Fraction(cut) + rounding - int(least[stage]) / unit:
                yield f"the upper exit {where} is too tight"
            if low != -math.inf and Fraction(low) > Fraction(cut) - rounding - int(most[stage]) / unit:
                yield f"the lower exit {where} is too tight"


def _gap_faults(forest: Forest, plan: ExitPlan, scale: int, lowest: IntArray, highest: IntArray) -> Iterator[str]:
    if np.isnan(plan.gap).any():
        yield "a gap is not a number"
        return
    rounding = math.ceil(Fraction(certain_distance(forest)) * Fraction(2) ** scale)
    needed = _rest(highest, plan) + rounding
    stored = np.floor(np.ldexp(np.clip(plan.gap, -(2.0**900), 2.0**900), scale))
    stored = np.clip(stored, -(2.0**62), 2.0**62).astype(np.int64)
    off_diagonal = ~np.eye(forest.n_outputs, dtype=bool)
    for stage in np.flatnonzero(((stored < needed) & off_diagonal).any(axis=(1, 2))):
        yield f"a gap after {plan.stage[stage]} trees is too tight"
