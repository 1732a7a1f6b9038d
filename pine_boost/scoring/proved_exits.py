"""Builds the exits of a proved scorer: what the remaining trees can add, and the order of the trees; or fewer trees.

What is built here is only proposed; `proof.exits` checks it against the forest before it becomes part of a scorer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.errors import InvalidInputError, PineBoostError
from pine_boost.kernels import leaves
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum
from pine_boost.model.exact import certain_distance
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model
from pine_boost.model.reach import find_live
from pine_boost.model.rules import SplitKind
from pine_boost.model.synthetic_rows import synthetic_rows
from pine_boost.model.trimming import forest_subtrees, trim, trimmed_forest
from pine_boost.proof.exits import faults_of, truncation_faults, truncation_rounding
from pine_boost.scoring.fast_scorer import ScorerParts
from pine_boost.scoring.native_sum import leaf_nodes, native_sum, probability_rule
from pine_boost.tables.schema import schema_of

SAMPLE_ROWS, _SAMPLE_CELLS = 2000, 1_000_000
# Of the sum of all magnitudes: far above the rounding of the sums here, far below what an exit is worth
_SAFETY = 2.0**-44
_LOOK = 0.2  # what looking for an exit costs, in trees
_RIVALS = 3  # classes behind the leader that the order is chosen for
_LARGEST_TABLE = 2_000_000  # entries of the table of gaps


def build_exits(
    forest: Forest, flat: FlatForest, sample: FloatArray, *, is_fitted: bool = False, budget: Budget | None = None
) -> ExitPlan:
    """Exits with the original's leaf values that no completion by the remaining trees contradicts.

    ``sample`` are rows (see `tables.to_matrix`), synthetic ones or the user's, for which the stages
    are chosen, and with ``is_fitted`` the order: without, the trees that can add most come first.
    When the time of ``budget`` is over, the rest of the order is not fitted.
    """
    lowest, highest = rises(forest)
    order = widest_first(lowest, highest)
    if not forest.decides:
        return exits_at(forest, order, np.array([forest.n_trees]))
    values = forest.leaf_vectors()[leaf_nodes(forest)][leaves(flat, sample)]
    gains, needs = _gains(forest, values, lowest, highest)
    if is_fitted:
        order = earliest_exits(gains, needs, order, budget or Budget())
    exited = share_exited(gains, needs, order, len(gains) // len(sample))
    return exits_at(forest, order, choose_stages(exited, forest.n_outputs))


def exits_at(forest: Forest, order: IntArray, stage: IntArray) -> ExitPlan:
    """The exits after each of these numbers of trees in an order."""
    lowest, highest = rises(forest)
    cuts = np.array(forest.decision.cuts)
    low = high = np.zeros((len(stage), 0))
    gap = np.zeros((0, forest.n_outputs, forest.n_outputs))
    largest = np.maximum(np.abs(lowest), np.abs(highest)).sum()
    scale = float(np.abs(forest.intercept).max() + largest + np.abs(cuts).max(initial=0.0))
    band = certain_distance(forest) + _SAFETY * scale
    if len(cuts):
        low = cuts - _rest(highest[order], stage)[:, None] - band
        high = cuts - _rest(lowest[order], stage)[:, None] + band
    elif forest.n_outputs > 1:
        # what the rest can add to a rival's lead over the leader: gap[stage, leader, rival]
        gap = _rest(highest[order], stage) + band
    return ExitPlan(
        order=order.astype(np.int32),
        stage=stage.astype(np.int32),
        stage_set=np.zeros(len(stage), dtype=np.int32),
        value=forest.value[leaf_nodes(forest)].astype(np.float64)[:, None, :],
        intercept=forest.intercept[None, :].astype(np.float64),
        low=low,
        high=high,
        gap=gap,
    )


def rises(forest: Forest) -> tuple[FloatArray, FloatArray]:
    """Least and largest addition of each tree, over the leaves that some input reaches.

    One output: (n_trees,), to the margin. Several: (n_trees, leader, rival), to the sum of
    the rival minus that of the leader.
    """
    nodes = np.flatnonzero(find_live(forest) & (forest.kind == SplitKind.LEAF))
    first = np.searchsorted(nodes, forest.tree_offset[:-1])  # every tree has a live leaf
    value, n = forest.value[nodes], forest.n_outputs
    if n == 1:
        return np.minimum.reduceat(value[:, 0], first), np.maximum.reduceat(value[:, 0], first)
    lowest, highest = np.zeros((2, forest.n_trees, n, n))
    if value.shape[1] == 1:  # to one output; there may be too many leaves to write out the zeros of the others
        tree, output = np.arange(forest.n_trees), forest.tree_output
        low, high = (f.reduceat(value, first) for f in (np.minimum, np.maximum))
        lowest[tree, :, output], highest[tree, :, output] = low, high
        lowest[tree, output, :], highest[tree, output, :] = -high, -low
        lowest[tree, output, output] = highest[tree, output, output] = 0.0
        return lowest, highest
    for leader in range(n):
        lead = value - value[:, leader : leader + 1]
        lowest[:, leader], highest[:, leader] = (f.reduceat(lead, first) for f in (np.minimum, np.maximum))
    return lowest, highest


def widest_first(lowest: FloatArray, highest: FloatArray) -> IntArray:
    """Trees by the width of what they can add, the widest first."""
    width = (highest - lowest).reshape(len(lowest), -1).sum(axis=1)
    return np.argsort(-width, kind="stable")


def earliest_exits(gains: FloatArray, needs: FloatArray, by_width: IntArray, budget: Budget) -> IntArray:
    """Order of trees that lets sample rows exit early, greedily.

    An exit is a sum of gains that must exceed a need: with the leaf v of a row and the least leaf l
    of a tree, seeing the tree brings the row v - l nearer to the exit above a cut, h - v to the one
    below; all gains are >= 0 and the need does not depend on the order. Each step takes the tree
    with the largest sum of gains, each capped at and divided by what its row still needs.
    """
    wants = gains.sum(axis=1) > needs  # the others never exit
    gains, left = gains[wants].astype(np.float32), needs[wants].astype(np.float32)
    order, rest = [], np.ones(len(by_width), dtype=bool)
    while rest.any() and len(left) and not budget.is_over:
        trees = np.flatnonzero(rest)
        best = int(trees[np.argmax((1 / left) @ np.minimum(gains[:, trees], left[:, None]))])
        order.append(best)
        rest[best] = False
        left = left - gains[:, best]
        open_ = left > 0
        if np.count_nonzero(open_) < 0.8 * len(left):
            gains, left = gains[open_], left[open_]
        else:
            left[~open_] = np.inf
    return np.concatenate([order, by_width[rest[by_width]]]).astype(np.int64)


def _gains(
    forest: Forest, values: FloatArray, lowest: FloatArray, highest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Per row and decision what each tree brings it nearer to its exit, and what it needs."""
    gains, needs = [], []
    if forest.n_outputs == 1:
        values = values[:, :, 0]
        margin = forest.intercept[0] + values.sum(axis=1)
        for cut in forest.decision.cuts:
            above = (margin > cut)[:, None]
            gains.append(np.where(above, values - lowest, highest - values))
            needed = cut - forest.intercept[0]
            needs.append(np.where(above[:, 0], needed - lowest.sum(), highest.sum() - needed))
        return np.concatenate(gains), np.concatenate(needs)
    margins = forest.intercept + values.sum(axis=1)
    ranking = np.argsort(-margins, axis=1, kind="stable")
    rows, leader = np.arange(len(values)), ranking[:, 0]
    for place in range(1, min(forest.n_outputs, _RIVALS + 1)):
        rival = ranking[:, place]
        lead = values[rows, :, leader] - values[rows, :, rival]
        most = highest[:, leader, rival].T  # of the rival's sum minus the leader's
        gains.append(lead + most)
        needs.append(most.sum(axis=1) - (forest.intercept[leader] - forest.intercept[rival]))
    return np.concatenate(gains), np.concatenate(needs)


def choose_stages(exited: FloatArray, n_outputs: int) -> IntArray:
    """After how many trees to look for exits: the least expected cost of trees and looks.

    ``exited[k]`` is the share of inputs whose class is certain after k trees. A look costs a part
    of a tree, for every input that is still there.
    """
    n_trees = len(exited) - 1
    look = _LOOK * (1 if n_outputs == 1 else n_outputs)
    places = np.arange(n_trees + 1)
    # cost[k]: the least that an input which has seen k trees and stays is going to cost, times its share
    cost, following = np.zeros(n_trees + 1), np.zeros(n_trees + 1, dtype=np.int64)
    for k in range(n_trees - 1, -1, -1):
        options = (1 - exited[k]) * (places[k + 1 :] - k + look) + cost[k + 1 :]
        following[k] = k + 1 + int(np.argmin(options))
        cost[k] = options.min()
    stages = [int(following[0])]
    while stages[-1] < n_trees:
        stages.append(int(following[stages[-1]]))
    most = max(1, _LARGEST_TABLE // (n_outputs**2 if n_outputs > 1 else 1))
    return np.array(stages if len(stages) <= most else [*stages[:: -(-len(stages) // most)], n_trees])


def share_exited(gains: FloatArray, needs: FloatArray, order: IntArray, n_decisions: int) -> FloatArray:
    """Share of the sample rows whose class is certain after each number of trees.

    Rows of ``gains`` are repeated for every decision; a row exits at its last one.
    """
    n_trees = len(order)
    sums = np.cumsum(gains[:, order], axis=1)
    seen = np.sum(sums <= needs[:, None], axis=1) + 1  # trees until the need is exceeded
    last = np.minimum(seen.reshape(n_decisions, -1).max(axis=0), n_trees)
    found = np.cumsum(np.bincount(last, minlength=n_trees + 1)) / max(len(last), 1)
    # other inputs than these rows exit elsewhere
    return np.asarray(0.8 * found + 0.2 * np.linspace(0, 1, n_trees + 1))


def _rest(added: FloatArray, stage: IntArray) -> FloatArray:
    """Sums over the trees after each stage; trees along the first axis, in the order of visits."""
    total = np.zeros((len(added) + 1, *added.shape[1:]))
    total[:-1] = np.cumsum(added[::-1], axis=0)[::-1]
    return total[stage]


def proved_plan(
    forest: Forest, flat: FlatForest, sample: FloatArray, *, is_fitted: bool = False, budget: Budget | None = None
) -> ExitPlan:
    """Exits for sample rows that are proved for every input; see `build_exits`.

    Raises
    ------
    PineBoostError
        The check found a fault in what was built.
    """
    few = max(100, min(SAMPLE_ROWS, _SAMPLE_CELLS // (forest.n_trees * forest.n_outputs)))
    plan = build_exits(forest, flat, sample[:few], is_fitted=is_fitted, budget=budget)
    _require_proof(faults_of(forest, plan))
    return plan


def _require_proof(faults: Sequence[str]) -> None:
    """Raise if the check found a fault: the builder is not believed."""
    if faults:
        raise PineBoostError(f"Internal error: the exits could not be proved ({faults[0]}); please report this.")


def proved_parts(model: Model) -> ScorerParts:
    """A scorer with the classes of the native ``predict`` on every input, from the model alone."""
    flat = flatten(model.forest)
    plan = proved_plan(model.forest, flat, synthetic_rows(model.forest, SAMPLE_ROWS))
    return parts_of_model(model, flat, native_sum(model), plan)


def parts_of_model(model: Model, flat: FlatForest, native: NativeSum, plan: ExitPlan, **layers: Any) -> ScorerParts:
    """A scorer that reads and answers as a model does; ``layers`` are what a Pipeline or calibrator does around it."""
    forest = model.forest
    return ScorerParts(flat, native, plan, schema_of(forest), forest.classes, probability_rule(model), **layers)


def truncate(forest: Forest, native: NativeSum, tolerance: float) -> tuple[IntArray, NativeSum]:
    """The fewest trees whose sum is within a tolerance of a value model's, and how a scorer adds them.

    What the remaining trees can add does not depend on the input, so every input stops after the same trees. The
    widest trees are kept, and the midpoint of what the others can add is part of the intercept. All trees are kept
    where the tolerance is too small to leave one out.

    Raises
    ------
    InvalidInputError
        The model decides a class.
    PineBoostError
        The check found a fault in what was built.
    """
    if forest.decides:
        raise InvalidInputError(
            f"tolerance={tolerance!r} was given for a model that decides a class, whose classes and probabilities are "
            "the model's own with fidelity=1. Leave it out, or pass fidelity below 1; at fidelity=1 it is accepted for "
            "regressors and rankers without a threshold.",
            option="tolerance",
        )
    lowest, highest = rises(forest)
    order = widest_first(lowest, highest)[::-1]
    apart = np.abs(native.value.astype(np.float64) - forest.value[leaf_nodes(forest)]).sum()
    # twice a bound on the rounding, whichever trees are kept: room for that of the intercept and of the sums here
    largest = float(np.abs(forest.intercept[0]) + np.maximum(np.abs(lowest), np.abs(highest)).sum())
    spare = 2 * (truncation_rounding(forest, largest, native.divisor) + 2 * float(apart))
    half_width = np.cumsum((highest - lowest)[order]) / 2
    n_dropped = int(np.count_nonzero(half_width + spare <= tolerance * native.divisor))
    kept = np.sort(order[min(n_dropped, forest.n_trees - 1) :])
    if len(kept) == forest.n_trees:
        return kept, native
    rest = np.setdiff1d(order, kept)
    middle = forest.intercept + (lowest[rest] + highest[rest]).sum() / 2
    shorter = restrict(forest, native, kept, middle.astype(native.intercept.dtype))
    _require_proof(truncation_faults(forest, kept, shorter, tolerance))
    return kept, shorter


def restrict(forest: Forest, native: NativeSum, kept: IntArray, intercept: FloatArray) -> NativeSum:
    """The library's sum over some of the trees, from another intercept."""
    is_kept = np.isin(forest_subtrees(forest).leaf_tree, kept)
    return replace(native, value=native.value[is_kept].copy(), intercept=intercept)


def keep_trees(forest: Forest, kept: IntArray, intercept: FloatArray) -> Forest:
    """A forest of some of the trees, in the same order, with another intercept."""
    return replace(trimmed_forest(forest, trim(forest, kept)), intercept=intercept.astype(np.float64))
